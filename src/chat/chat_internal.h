/* chat_internal.h - what the files of this room share. */
#ifndef MLXCEL_CHAT_CHAT_INTERNAL_H
#define MLXCEL_CHAT_CHAT_INTERNAL_H

#include "chat/chat.h"
#include "chat/jinja.h"

/* One template with what is known of it. */
struct chat_template {
    struct jinja_template *jinja;
    struct str bos, eos;
    bool add_bos, add_eos;
    struct chat_caps caps;
    struct chat_analysis *analysis; /* how it writes calls; NULL when a family of
                                       its own reads it */
    struct error analysis_error;    /* why analysis is NULL, when it should not be */
};

struct chat_templates {
    struct str source, tool_use_source; /* as given or chosen */
    struct chat_template *main, *tool_use;
    bool use_jinja;
    bool supports_thinking;
};

/* A request made ready for one template: the workarounds are applied, the last
 * message taken off when it is to be continued. */
struct chat_inputs {
    const struct chat_template *t;
    const struct chat_request *request;
    json_t *messages, *context; /* owned */
    const json_t *tools;        /* NULL when there are none */
    const json_t *schema;       /* what the content must fit, or NULL */
    enum chat_tool_choice tool_choice;
    enum chat_reasoning_format reasoning_format;
    enum chat_continuation continuation;
    bool has_continuation;                           /* and the message is not empty */
    struct str continue_content, continue_reasoning; /* of the last message */
    bool add_generation_prompt, parallel_tool_calls, enable_thinking;
    bool keep_ends; /* leave the bos and eos that the tokenizer would add */
    int64_t now;
    struct budget *budget; /* of the renderings; may be NULL */
};

/* Does the template's text hold this? */
bool chat_template_has(const struct chat_template *t, const char *text);

/* Render with the inputs' variables. messages, tools and more (extra variables)
 * replace the inputs' own when not NULL. */
bool chat_render(const struct chat_inputs *in, const json_t *messages, const json_t *tools,
                 const json_t *more, bool add_generation_prompt, struct jinja_output *out,
                 struct error *err);

/* Render into the prompt, and find the generation prompt: what
 * add_generation_prompt adds. */
bool chat_render_prompt(const struct chat_inputs *in, const json_t *messages, const json_t *tools,
                        const json_t *more, struct chat_prompt *out, struct error *err);

/* What the renderings that find out about a template may cost, all together. */
struct chat_probing {
    struct budget budget;
    struct error limit; /* that it was not enough: nothing more is rendered */
};

bool chat_probing_goes_on(const struct chat_probing *probing);
/* Note what became of a rendering; gives ok. */
bool chat_probing_note(struct chat_probing *probing, bool ok, const struct error *why);

/* Probe a template. False only when out of memory; what the budget ends counts as
 * not rendered. */
bool chat_probe(const struct jinja_template *t, struct chat_probing *probing,
                struct chat_caps *caps, struct error *err);

/* Adding to a prompt's lists; false when out of memory. */
bool chat_texts_add(struct chat_texts *texts, const char *text);
bool chat_prompt_add_trigger(struct chat_prompt *prompt, enum chat_trigger_kind kind,
                             const char *value);
bool chat_prompt_add_delimiter(struct chat_prompt *prompt, const char *role, const char *text);

/* Letters, digits, '_' and '-' alone. Templates make markers of roles,
 * "<|user|>", and such a role cannot close one. */
bool chat_role_is_word(struct slice role);
/* A conversation for a template. What the assistant said before is the model's
 * own text, where special tokens may stand; all other messages are marked as a
 * user's, but for roles that are plain words. */
struct jinja_value *chat_messages_value(struct jinja_run *run, const json_t *messages);
/* Set the prompt's user ranges from its rendering; false when out of memory. */
bool chat_prompt_add_user(struct chat_prompt *prompt, const struct jinja_output *rendered);

/* Builtin renderers for --no-jinja (chat_legacy.c): the index of the renderer
 * for a name or a template's text, or -1. */
int chat_legacy_find(struct slice source);
bool chat_legacy_render(int which, const json_t *messages, bool add_generation_prompt,
                        struct budget *budget, struct chat_prompt *out, struct error *err);

/* The text of a message's content: a string, or its text parts joined. */
bool chat_content_text(const json_t *message, const char *separator, struct str *out);

/* JSON text of any value, compact; appends. */
bool chat_json_append(struct str *out, const json_t *value);

/* Content as the template takes it: as text or as typed parts. */
bool chat_shape_content(const struct chat_caps *caps, json_t *messages);

/* text without blanks at its ends. */
struct slice chat_trim(struct slice text);
bool chat_has_role(const json_t *message, const char *role);

#endif
