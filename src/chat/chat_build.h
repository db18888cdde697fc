/* chat_build.h - putting a request's parser together: what the analyzed
 * templates and the families with a parser of their own have in common. */
#ifndef MLXCEL_CHAT_CHAT_BUILD_H
#define MLXCEL_CHAT_CHAT_BUILD_H

#include "base/vec.h"
#include "chat/chat_family.h"
#include "chat/peg.h"

struct peg_ids {
    peg_id *data;
    size_t n, capacity;
};

struct chat_build {
    struct peg *g;
    const struct chat_inputs *in;
    struct chat_prompt *out;
    struct error *err;
    bool with_tools; /* there are tools, and the model may call them */
    bool required;   /* it must */
    bool extract;    /* reasoning is taken out of the content */
};

/* Render the prompt and start a parser. messages, more: see chat_render. */
bool chat_build_begin(struct chat_build *b, const struct chat_inputs *in, const json_t *messages,
                      const json_t *more, struct chat_prompt *out, struct error *err);
/* The same with messages made for it, which are freed; NULL: out of memory. */
bool chat_build_begin_own(struct chat_build *b, const struct chat_inputs *in, json_t *messages,
                          struct chat_prompt *out, struct error *err);
/* Finish with root: the parser, and with grammar the grammar. Frees what begin
 * made; a begin that failed left nothing to finish. */
bool chat_build_end(struct chat_build *b, peg_id root, bool grammar, bool lazy);

/* The generation prompt of a message to be continued: opening, think_start and
 * the reasoning; then, where the content goes on, think_end and the content.
 * Appends it to the prompt. Nothing when there is none to continue. */
void chat_build_continue(struct chat_build *b, const char *opening, const char *think_start,
                         const char *think_end);

/* Thoughts are read apart from content: where reasoning is extracted, and where the
 * content must fit a format, which must not be looked for in a thought. */
bool chat_build_reads_thoughts(const struct chat_build *b);
/* The text of a thought, tagged as reasoning where that is extracted; and all of it
 * with its markers, else tagged as content. */
peg_id chat_thought_text(struct chat_build *b, peg_id text);
peg_id chat_thought_whole(struct chat_build *b, peg_id thought);
/* A thought between two markers, or none. */
peg_id chat_thought_between(struct chat_build *b, const char *start, const char *end);
/* The generation prompt opens a thought with start and does not close it. */
bool chat_build_in_thought(const struct chat_build *b, struct slice start, struct slice end);
/* A thought that is optional, but not where a call is required and the prompt has
 * opened one: a grammar that could skip it would take its text for content, in
 * which the call may begin, and the parser would not. */
peg_id chat_build_thought(struct chat_build *b, peg_id thought, struct slice start,
                          struct slice end);
/* Content up to the first of the texts; where a call is required, a thought that
 * begins with think is none. */
peg_id chat_content_before(struct chat_build *b, const struct slice *texts, size_t n,
                           struct slice think);

/* Texts for chat_build_thinking and chat_build_preserve. */
#define TOKENS(...) ((const char *const[]){__VA_ARGS__, NULL})

void chat_build_thinking(struct chat_build *b, const char *start, const char *const *ends);
void chat_build_preserve(struct chat_build *b, const char *const *tokens);
void chat_build_trigger(struct chat_build *b, enum chat_trigger_kind kind, const char *value);
void chat_build_delimiter(struct chat_build *b, const char *role, const char *text);

/* A tool the model may call. */
struct chat_tool {
    struct slice name;
    const json_t *parameters; /* an object; {} when it has none */
};

/* The i-th; false behind the last. */
bool chat_build_tool(const struct chat_build *b, size_t i, struct chat_tool *tool);

/* Text made for the parser; lives as long as it. */
struct slice chat_build_text(struct chat_build *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A choice of the tools' rules, each made by one; context is one's. */
peg_id chat_tool_choice(struct chat_build *b,
                        peg_id (*one)(struct chat_build *, const struct chat_tool *, const void *),
                        const void *context);

/* Pieces with a tag. */
peg_id chat_content_until(struct peg *g, const char *text);
peg_id chat_content_rest(struct peg *g);
peg_id chat_tool_name(struct peg *g, const struct chat_tool *tool);
peg_id chat_tool_open(struct peg *g, peg_id inner);

/* a, blanks, b */
peg_id chat_spaced(struct chat_build *b, peg_id first, peg_id second);
/* JSON tagged as the arguments of a tool, for which the schema is its. */
peg_id chat_json_args(struct chat_build *b, const struct chat_tool *tool);
/* JSON that fits the request's schema, tagged as content. */
peg_id chat_response(struct chat_build *b, const char *name);
/* The same in a block of Markdown. A message to be continued may begin without. */
peg_id chat_response_block(struct chat_build *b, const char *name);
peg_id chat_choice_of(struct chat_build *b, struct peg_ids *ids); /* frees ids */
bool chat_ids_add(struct chat_build *b, struct peg_ids *ids, peg_id id);

/* ---- Arguments in tags ---- */

/* Does the schema allow a string? Then the value stands there as it is. */
bool chat_schema_is_text(const json_t *schema, const json_t *root);
/* The schema with the definitions of root that its references need; a new
 * reference, NULL when out of memory. */
json_t *chat_schema_part(const json_t *schema, const json_t *root);
bool chat_schema_requires(const json_t *root, const char *key);
/* JSON tagged as the value of one argument. */
peg_id chat_json_arg(struct chat_build *b, const struct chat_tool *tool, const char *key,
                     const json_t *schema);
/* Text up to close, tagged as a string value, and close tagged as the end. */
peg_id chat_text_arg(struct chat_build *b, const char *close, bool grammar_through);

struct chat_arg_style {
    /* The parser of one argument; context is the family's. */
    peg_id (*argument)(struct chat_build *b, const struct chat_tool *tool, const char *key,
                       const json_t *schema, const void *context);
    const void *context;
    bool tight; /* no blanks between arguments */
};

/* The required members once each and the others in any number, all in any order; blanks
 * between them unless tight. name: for rules. */
peg_id chat_members(struct chat_build *b, struct slice name, const struct peg_ids *required,
                    const struct peg_ids *optional, bool tight);
/* The arguments of a call, as members. */
peg_id chat_arguments(struct chat_build *b, const struct chat_tool *tool,
                      const struct chat_arg_style *style, bool *has_required);

/* ---- Calls as JSON ---- */

struct chat_json_style {
    struct slice section_start, section_end;
    struct slice name_key, args_key, id_key, made_id_key; /* "a.b": nested */
    const struct slice *order;                            /* of the keys */
    size_t n_order;
    bool in_array, name_is_key, wrapper_may_lead, forced;
};

peg_id chat_json_calls(struct chat_build *b, const struct chat_json_style *style);

#endif
