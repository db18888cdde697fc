/* jinja_lex.h - template source to tokens. */
#ifndef MLXCEL_CHAT_JINJA_LEX_H
#define MLXCEL_CHAT_JINJA_LEX_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"

#include <stddef.h>

enum jinja_token_kind {
    TOK_EOF,
    TOK_TEXT, /* between tags */
    TOK_STATEMENT_OPEN,
    TOK_STATEMENT_CLOSE,
    TOK_EXPRESSION_OPEN,
    TOK_EXPRESSION_CLOSE,
    TOK_NAME,
    TOK_INTEGER,
    TOK_FLOAT,
    TOK_STRING, /* text is unescaped */
    TOK_OPERATOR
};

struct jinja_token {
    enum jinja_token_kind kind;
    struct slice text;
    size_t pos; /* byte offset in the normalized source */
};

struct jinja_tokens {
    struct jinja_token *data; /* owned; ends with TOK_EOF */
    size_t n, capacity;
};

/* source has "\n" line ends. Texts lie in source or in arena. */
bool jinja_lex(struct slice source, struct arena *arena, struct jinja_tokens *out,
               struct error *err);

/* ERR_INVALID with the place in source: line, column, and the text around. */
bool jinja_error_at(struct error *err, struct slice source, size_t pos, const char *what,
                    const char *reason);

#endif
