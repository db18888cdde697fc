/* helpers.h - what the chat tests share. */
#ifndef MLXCEL_TESTS_CHAT_HELPERS_H
#define MLXCEL_TESTS_CHAT_HELPERS_H

#include "unit/unit.h"

#include "chat/chat.h"
#include "sample/sample.h"

/* The path of a file among the shared templates. */
const char *shared_template(char out[1024], const char *folder, const char *name);
/* A template of the shared ones, with <s> and </s>; NULL when it fails, said. */
struct chat_templates *load_template(const char *folder, const char *name);
/* The same from source. */
struct chat_templates *load_source(const char *source);

/* Call visit for each of the small templates of family_templates.h, for "chatml",
 * and for all shared ones where those are (else that is said). Returns how many. */
size_t for_each_template(void (*visit)(const struct chat_templates *, const char *name, void *arg),
                         void *arg);

/* A request body as a running server would take it; false with *err. *prompt
 * starts zeroed. */
bool apply_body(const struct chat_templates *templates, const json_t *body,
                struct chat_prompt *prompt, struct error *err);

/* A vocabulary of single bytes and an end. */
enum { END_TOKEN = 256 };
struct vocab *byte_vocab(void);

/* A grammar read byte by byte. */
struct machine;
/* NULL when the grammar does not parse, said. */
struct machine *machine_open(const struct vocab *vocab, struct slice grammar);
void machine_close(struct machine *m);
/* Go on with text; how many of its bytes the grammar takes. */
size_t machine_feed(struct machine *m, struct slice text);
/* The text may end here. */
bool machine_complete(const struct machine *m);
/* Append a short text with which it may end; false when there is none. */
bool machine_finish(struct machine *m, struct str *out);

#endif
