/* peg.h - parsers put together from small ones, that read model text as far as
 * it has come and also say which grammar makes a model write such text.
 *
 * Ford 2004, parsing expression grammars, with a third answer besides match and
 * failure: "so far so good, the text ended". Building never fails loudly: after
 * running out of memory the builder gives 0 and peg_failed() says so. A built
 * parser is immutable and may be used by any thread. */
#ifndef MLXCEL_CHAT_PEG_H
#define MLXCEL_CHAT_PEG_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "chat/chat.h"
#include "sample/sample.h"

#include <stdint.h>

/* What a piece of text means. */
enum peg_tag_name {
    TAG_NONE,
    TAG_REASONING,
    TAG_CONTENT,
    TAG_TOOL,
    TAG_TOOL_OPEN,
    TAG_TOOL_CLOSE,
    TAG_TOOL_ID,
    TAG_TOOL_NAME,
    TAG_TOOL_ARGS, /* a JSON object, or the ARG pieces of one */
    TAG_TOOL_ARG,
    TAG_TOOL_ARG_OPEN,
    TAG_TOOL_ARG_CLOSE,
    TAG_TOOL_ARG_NAME,
    TAG_TOOL_ARG_VALUE,
    TAG_TOOL_ARG_STRING_VALUE, /* text as it stands, for the schema's strings */
    TAG_TOOL_ARG_OBJECT,
    TAG_TOOL_ARG_ARRAY,
    TAG_TOOL_ARG_ITEM,
    /* values of families with a notation of their own */
    TAG_GEMMA_NUMBER, /* numbers, booleans, null: as they stand */
    TAG_GEMMA_STRING,
    TAG_GEMMA_STRING_TEXT,
    TAG_GEMMA_ARRAY,
    TAG_GEMMA_DICT,
    TAG_GEMMA_PAIR,
    TAG_GEMMA_KEY,
    TAG_GEMMA_KEY_NAME,
    /* for whoever takes a text apart: peg_extract */
    TAG_PART_1,
    TAG_PART_2,
    TAG_PART_3,
    TAG_PART_4,
    TAG_PART_5,
    TAG_PART_6,
    TAG_PART_7,
    TAG_COUNT
};

struct peg;
typedef uint32_t peg_id; /* 0: nothing, matches the empty text */

struct peg *peg_create(void);
void peg_free(struct peg *g);
bool peg_failed(const struct peg *g);
void peg_set_root(struct peg *g, peg_id root);

/* ---- Pieces ---- */
#define PEG_NOTHING 0u
peg_id peg_end(struct peg *g);
peg_id peg_literal(struct peg *g, struct slice text);
peg_id peg_text(struct peg *g, const char *text);
peg_id peg_sequence(struct peg *g, const peg_id *items, size_t n);
peg_id peg_choice(struct peg *g, const peg_id *items, size_t n);
#define SEQ(g, ...)                                                                                \
    peg_sequence((g), (const peg_id[]){__VA_ARGS__},                                               \
                 sizeof((const peg_id[]){__VA_ARGS__}) / sizeof(peg_id))
#define CHOICE(g, ...)                                                                             \
    peg_choice((g), (const peg_id[]){__VA_ARGS__},                                                 \
               sizeof((const peg_id[]){__VA_ARGS__}) / sizeof(peg_id))
/* most < 0: any number */
peg_id peg_repeat(struct peg *g, peg_id item, int least, int most);
peg_id peg_optional(struct peg *g, peg_id item);
peg_id peg_any_number(struct peg *g, peg_id item);
peg_id peg_some(struct peg *g, peg_id item);
peg_id peg_ahead(struct peg *g, peg_id item);     /* would match; takes nothing */
peg_id peg_not_ahead(struct peg *g, peg_id item); /* would not match */
peg_id peg_any(struct peg *g);                    /* one character */
peg_id peg_space(struct peg *g);                  /* blanks, any number */
/* A character class as GBNF writes it: "[a-z_]". */
peg_id peg_chars(struct peg *g, const char *pattern, int least, int most);
/* The inside of a quoted string, up to the delimiter. */
peg_id peg_string_content(struct peg *g, char delimiter);
/* Everything before the first of the texts. */
peg_id peg_until(struct peg *g, const char *text);
peg_id peg_until_slice(struct peg *g, struct slice text);
peg_id peg_until_any(struct peg *g, const struct slice *texts, size_t n);
peg_id peg_rest(struct peg *g);
/* item, for which the grammar is the schema's. schema is kept (a new
 * reference). */
peg_id peg_schema(struct peg *g, peg_id item, struct slice name, const json_t *schema,
                  enum schema_mode mode);
/* A rule; the name's odd characters become "-", and a name that is taken gets a
 * number. trigger: a lazy grammar starts here. */
peg_id peg_rule(struct peg *g, struct slice name, peg_id item, bool trigger);
/* The rule of that name, now or later. */
peg_id peg_ref(struct peg *g, const char *name);
bool peg_has_rule(const struct peg *g, const char *name);
/* item, of which nothing shows before it is complete. */
peg_id peg_atomic(struct peg *g, peg_id item);
peg_id peg_tag(struct peg *g, enum peg_tag_name tag, peg_id item);
/* item, for which the grammar is this. */
peg_id peg_grammar(struct peg *g, peg_id item, const char *gbnf);
/* item, for which the grammar is: all up to and with the first of the texts. */
peg_id peg_through(struct peg *g, peg_id item, const struct slice *texts, size_t n);

/* ---- Values ---- */
peg_id peg_json(struct peg *g);
peg_id peg_json_object(struct peg *g);
peg_id peg_json_string(struct peg *g);
peg_id peg_json_number(struct peg *g);
peg_id peg_json_bool(struct peg *g);
peg_id peg_json_null(struct peg *g);
/* "key": item */
peg_id peg_json_member(struct peg *g, const char *key, peg_id item);
/* True, None, 'text' as Python writes them; json_too also true, null. */
peg_id peg_python_value(struct peg *g, bool json_too);
peg_id peg_python_string(struct peg *g);

/* ---- Parsing ---- */
enum peg_result_kind { PEG_FAILED, PEG_MATCHED, PEG_MORE };

/* A tagged piece of the text, with the tagged pieces inside it. */
struct peg_node {
    enum peg_tag_name tag;
    bool partial;
    size_t begin, end;
    struct slice text;
    struct peg_node *first, *last, *next; /* children; the next sibling */
};

struct peg_result {
    enum peg_result_kind kind;
    size_t begin, end;
    struct peg_node *first, *last;
};

/* Read text from offset begin. Nodes lie in arena. whole: no more will come, an
 * unfinished character is taken as it is. ended: an unfinished piece fails
 * instead of asking for more. */
struct peg_result peg_parse(const struct peg *g, struct slice text, size_t begin, bool whole,
                            bool ended, struct arena *arena);

/* Read text and give the (last) piece of each tag; parts has TAG_COUNT places.
 * anywhere: from the first offset that matches. */
bool peg_extract(const struct peg *g, struct slice text, bool anywhere, struct arena *arena,
                 struct slice *parts);

/* ---- Grammars ---- */
/* The GBNF text, and what grammar_builder_objects says of it; lazy: only of the trigger
 * rules. budget may be NULL. */
bool peg_to_grammar(const struct peg *g, bool lazy, struct budget *budget, struct str *out,
                    struct str *objects, struct error *err);

/* ---- Chat parsers ---- */
/* Takes g over, also when it fails. */
struct chat_parser *chat_parser_create(struct peg *g, enum chat_format format,
                                       struct slice generation_prompt, struct error *err);

/* The node's descendants by tag, the first found at most depth levels down. */
const struct peg_node *peg_find(const struct peg_node *node, enum peg_tag_name tag, int depth);

#endif
