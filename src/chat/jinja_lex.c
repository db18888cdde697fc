/* jinja_lex.c - template source to tokens.
 *
 * Whitespace control follows Jinja2 with trim_blocks and lstrip_blocks: a line
 * break right after a block or comment goes, and so do blanks between a line's
 * start and a block or comment; "-" strips more, "+" keeps. */
#include "chat/jinja_lex.h"

#include "base/str.h"
#include "base/vec.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>

struct lexer {
    struct slice source;
    size_t pos;
    struct arena *arena;
    struct jinja_tokens *out;
    struct error *err;
};

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The source around pos on one line, and a caret below it. */
static void append_excerpt(struct str *out, struct slice source, size_t pos)
{
    enum { AROUND = 40 };
    size_t begin = pos >= AROUND ? pos - AROUND : 0;
    size_t end = pos + AROUND < source.len ? pos + AROUND : source.len;
    str_append_text(out, "...");
    for (size_t i = begin; i < end; i++)
        if (source.data[i] == '\n')
            str_append_text(out, "\xe2\x86\xb5");
        else
            str_append_char(out, source.data[i]);
    str_append_text(out, "...\n");
    for (size_t i = 0; i < pos - begin + 3; i++)
        str_append_char(out, ' ');
    str_append_char(out, '^');
}

bool jinja_error_at(struct error *err, struct slice source, size_t pos, const char *what,
                    const char *reason)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < pos && i < source.len; i++) {
        column++;
        if (source.data[i] == '\n') {
            line++;
            column = 1;
        }
    }
    struct str excerpt = {0};
    if (pos <= source.len)
        append_excerpt(&excerpt, source, pos);
    error_set(err, ERR_INVALID,
              "\n------------\nWhile %s at line %zu, column %zu in source:\n%s\nError: %s", what,
              line, column, str_text(&excerpt), reason);
    str_free(&excerpt);
    return false;
}

static bool fail(struct lexer *lx, size_t pos, const char *reason)
{
    return jinja_error_at(lx->err, lx->source, pos, "reading the template", reason);
}

static bool push(struct lexer *lx, enum jinja_token_kind kind, struct slice text, size_t pos)
{
    struct jinja_token token = {kind, text, pos};
    return VEC_PUSH(lx->out, token) || error_memory(lx->err);
}

static char at(const struct lexer *lx, size_t pos)
{
    return pos < lx->source.len ? lx->source.data[pos] : '\0';
}

static bool looking_at(const struct lexer *lx, size_t pos, const char *text)
{
    return slice_starts_with(slice_from(lx->source, pos), slice_of(text));
}

/* ---- Text between tags -------------------------------------------------- */

/* The offset of the next tag, or the end. */
static size_t find_tag(const struct lexer *lx, size_t pos)
{
    for (; pos + 1 < lx->source.len; pos++)
        if (lx->source.data[pos] == '{') {
            char c = lx->source.data[pos + 1];
            if (c == '%' || c == '{' || c == '#')
                return pos;
        }
    return lx->source.len;
}

/* after: how the tag before ended: '\0' none yet, '-' stripping, 'n' a block
 * whose line break goes, ' ' otherwise. */
static bool lex_text(struct lexer *lx, char after)
{
    size_t begin = lx->pos, tag = find_tag(lx, begin), end = tag;
    const char *data = lx->source.data;
    if (tag < lx->source.len) {
        char kind = data[tag + 1], mode = at(lx, tag + 2);
        if (mode == '-') {
            while (end > begin && is_space(data[end - 1]))
                end--;
        } else if (kind != '{' && mode != '+') {
            size_t line = end;
            while (line > begin && data[line - 1] != '\n' && is_space(data[line - 1]))
                line--;
            if (line == 0 || data[line - 1] == '\n')
                end = line;
        }
    }
    if (after == '-')
        while (begin < end && is_space(data[begin]))
            begin++;
    else if (after == 'n' && begin < end && data[begin] == '\n')
        begin++;
    lx->pos = tag;
    if (begin >= end)
        return true;
    return push(lx, TOK_TEXT, (struct slice){data + begin, end - begin}, begin);
}

/* ---- Inside tags --------------------------------------------------------- */

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \xHH, \uHHHH, \UHHHHHHHH: pos stands on the letter. */
static bool append_hex_escape(struct lexer *lx, struct str *out, size_t *pos)
{
    char letter = at(lx, *pos);
    size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    uint32_t value = 0;
    for (size_t i = 1; i <= digits; i++) {
        int digit = hex_value(at(lx, *pos + i));
        if (digit < 0)
            return false;
        value = value << 4 | (uint32_t)digit;
    }
    *pos += digits + 1;
    return str_append_codepoint(out, value);
}

static bool lex_string(struct lexer *lx)
{
    size_t begin = lx->pos;
    char quote = at(lx, begin);
    size_t pos = begin + 1;
    struct str text = {0};
    while (pos < lx->source.len && at(lx, pos) != quote) {
        char c = at(lx, pos);
        if (c != '\\') {
            str_append_char(&text, c);
            pos++;
            continue;
        }
        static const char from[] = "ntrbfva0\\'\"", to[] = "\n\t\r\b\f\v\a\0\\'\"";
        c = at(lx, ++pos);
        const char *found = c ? strchr(from, c) : NULL;
        if (found) {
            str_append_char(&text, to[found - from]);
            pos++;
        } else if ((c == 'x' || c == 'u' || c == 'U') && append_hex_escape(lx, &text, &pos)) {
            continue;
        } else if (c == '\n') {
            pos++;
        } else {
            str_append_char(&text, '\\'); /* as Python keeps it */
        }
    }
    if (pos >= lx->source.len) {
        str_free(&text);
        return fail(lx, begin, "this string has no end");
    }
    size_t len = text.len;
    char *copy = arena_duplicate(lx->arena, str_slice(&text));
    str_free(&text);
    if (!copy)
        return error_memory(lx->err);
    lx->pos = pos + 1;
    return push(lx, TOK_STRING, (struct slice){copy, len}, begin);
}

static bool lex_number(struct lexer *lx)
{
    size_t begin = lx->pos, pos = begin;
    enum jinja_token_kind kind = TOK_INTEGER;
    while (is_digit(at(lx, pos)))
        pos++;
    if (at(lx, pos) == '.' && is_digit(at(lx, pos + 1))) {
        kind = TOK_FLOAT;
        pos++;
        while (is_digit(at(lx, pos)))
            pos++;
    }
    if ((at(lx, pos) | 0x20) == 'e') {
        size_t digits = pos + 1;
        if (at(lx, digits) == '+' || at(lx, digits) == '-')
            digits++;
        if (is_digit(at(lx, digits))) {
            kind = TOK_FLOAT;
            pos = digits;
            while (is_digit(at(lx, pos)))
                pos++;
        }
    }
    lx->pos = pos;
    return push(lx, kind, (struct slice){lx->source.data + begin, pos - begin}, begin);
}

/* The longest first. */
static const char *const operators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                        "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                        "]",  "{",  "}",  ",",  ".",  ":",  "|", ";"};

static bool lex_operator(struct lexer *lx, int *braces)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!looking_at(lx, lx->pos, operators[i]))
            continue;
        struct slice text = slice_of(operators[i]);
        if (text.data[0] == '{')
            ++*braces;
        else if (text.data[0] == '}')
            --*braces;
        size_t pos = lx->pos;
        lx->pos += text.len;
        return push(lx, TOK_OPERATOR, text, pos);
    }
    char reason[64];
    snprintf(reason, sizeof reason, "unexpected character '%c'", at(lx, lx->pos));
    return fail(lx, lx->pos, reason);
}

/* A tag from its opening to its end. *after as lex_text wants it. */
static bool lex_tag(struct lexer *lx, char *after)
{
    bool statement = at(lx, lx->pos + 1) == '%';
    const char *close = statement ? "%}" : "}}";
    size_t open = lx->pos;
    if (!push(lx, statement ? TOK_STATEMENT_OPEN : TOK_EXPRESSION_OPEN,
              (struct slice){lx->source.data + open, 2}, open))
        return false;
    lx->pos += 2;
    if (at(lx, lx->pos) == '-' || at(lx, lx->pos) == '+')
        lx->pos++;
    int braces = 0; /* "}}" may close two mappings */
    for (;;) {
        while (lx->pos < lx->source.len && is_space(at(lx, lx->pos)))
            lx->pos++;
        if (lx->pos >= lx->source.len)
            return fail(lx, open, "this tag has no end");
        char c = at(lx, lx->pos);
        bool modified = (c == '-' || c == '+') && looking_at(lx, lx->pos + 1, close);
        if (modified || (looking_at(lx, lx->pos, close) && (statement || braces <= 0))) {
            size_t pos = lx->pos;
            lx->pos += modified ? 3 : 2;
            *after = modified ? c : statement ? 'n' : ' ';
            return push(lx, statement ? TOK_STATEMENT_CLOSE : TOK_EXPRESSION_CLOSE, slice_of(close),
                        pos);
        }
        bool ok;
        if (c == '\'' || c == '"') {
            ok = lex_string(lx);
        } else if (is_digit(c)) {
            ok = lex_number(lx);
        } else if (is_word(c)) {
            size_t begin = lx->pos;
            while (lx->pos < lx->source.len && is_word(at(lx, lx->pos)))
                lx->pos++;
            ok =
                push(lx, TOK_NAME, (struct slice){lx->source.data + begin, lx->pos - begin}, begin);
        } else {
            ok = lex_operator(lx, &braces);
        }
        if (!ok)
            return false;
    }
}

static bool lex_comment(struct lexer *lx, char *after)
{
    size_t open = lx->pos;
    for (size_t pos = open + 2; pos + 1 < lx->source.len; pos++)
        if (looking_at(lx, pos, "#}")) {
            *after = pos > open + 2 && at(lx, pos - 1) == '-' ? '-' : 'n';
            lx->pos = pos + 2;
            return true;
        }
    return fail(lx, open, "this comment has no end");
}

/* Was the statement just read "raw"? Then everything up to "endraw" is text. */
static bool lex_raw(struct lexer *lx, char *after)
{
    struct jinja_tokens *out = lx->out;
    if (out->n < 3 || out->data[out->n - 1].kind != TOK_STATEMENT_CLOSE ||
        !slice_equal_text(out->data[out->n - 2].text, "raw") ||
        out->data[out->n - 3].kind != TOK_STATEMENT_OPEN)
        return true;
    size_t open = out->data[out->n - 3].pos;
    out->n -= 3;
    size_t begin = lx->pos;
    if (*after == '-')
        while (is_space(at(lx, begin)))
            begin++;
    else if (*after == 'n' && at(lx, begin) == '\n')
        begin++;
    for (size_t tag = lx->pos; tag + 1 < lx->source.len; tag++) {
        if (!looking_at(lx, tag, "{%"))
            continue;
        size_t pos = tag + 2;
        bool strip = at(lx, pos) == '-';
        if (strip || at(lx, pos) == '+')
            pos++;
        while (is_space(at(lx, pos)))
            pos++;
        if (!looking_at(lx, pos, "endraw"))
            continue;
        pos += 6;
        while (is_space(at(lx, pos)))
            pos++;
        *after = 'n';
        if (at(lx, pos) == '-' || at(lx, pos) == '+')
            *after = at(lx, pos++);
        if (!looking_at(lx, pos, "%}"))
            continue;
        lx->pos = pos + 2;
        size_t end = tag;
        if (strip)
            while (end > begin && is_space(at(lx, end - 1)))
                end--;
        if (begin >= end)
            return true;
        return push(lx, TOK_TEXT, (struct slice){lx->source.data + begin, end - begin}, begin);
    }
    return fail(lx, open, "'raw' without 'endraw'");
}

bool jinja_lex(struct slice source, struct arena *arena, struct jinja_tokens *out,
               struct error *err)
{
    struct lexer lx = {.source = source, .arena = arena, .out = out, .err = err};
    char after = '\0';
    while (lx.pos < source.len) {
        if (!lex_text(&lx, after))
            return false;
        if (lx.pos >= source.len)
            break;
        bool comment = at(&lx, lx.pos + 1) == '#';
        if (comment ? !lex_comment(&lx, &after) : !(lex_tag(&lx, &after) && lex_raw(&lx, &after)))
            return false;
    }
    return push(&lx, TOK_EOF, (struct slice){"", 0}, source.len);
}
