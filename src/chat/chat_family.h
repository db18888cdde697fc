/* chat_family.h - how a template's model writes its answers.
 *
 * Most templates are read by analysis: rendering small conversations that
 * differ in one thing shows how reasoning, content and calls are written
 * (chat_analyze.c), and a parser is made from that (chat_generate.c). A few
 * families that this cannot see have a parser of their own, recognized by
 * markers in the template (chat_family.c). */
#ifndef MLXCEL_CHAT_CHAT_FAMILY_H
#define MLXCEL_CHAT_CHAT_FAMILY_H

#include "chat/chat_internal.h"

struct chat_analysis;

struct chat_family {
    const char *name;
    /* Each must stand in the template's text; "!text" must not. NULL ends. */
    const char *markers[6];
    /* Fill the prompt: text, format, parser, grammar, tokens. */
    bool (*build)(const struct chat_inputs *in, struct chat_prompt *out, struct error *err);
};

/* The family whose markers stand in the template, or NULL. */
const struct chat_family *chat_family_of(const struct chat_template *t);

/* NULL with *err when the template cannot be rendered at all. */
struct chat_analysis *chat_analyze(const struct chat_template *t, struct chat_probing *probing,
                                   struct error *err);
void chat_analysis_free(struct chat_analysis *analysis);
/* Like a family's build, from the template's analysis. */
bool chat_generate(const struct chat_inputs *in, struct chat_prompt *out, struct error *err);

#endif
