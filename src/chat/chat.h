/* chat.h - messages to a prompt, and model text back to messages.
 *
 *   chat_templates   the parsed template(s) of a model; immutable, any thread
 *   chat_request     what a chat request asks of this room, from its JSON
 *   chat_apply       request -> prompt, grammar, stops, and a chat_parser
 *   chat_parse       model text, whole or so far -> one assistant message
 *   chat_stream      the same piece by piece -> deltas
 *
 * Everything a request brings is untrusted: templates run with bounded steps,
 * depth, memory and time. A fault of the request or the template comes back as
 * ERR_INVALID (answer 400). Model text is never an error: what fits no format is
 * content.
 * Depends on: base, files, text, sample. */
#ifndef MLXCEL_CHAT_CHAT_H
#define MLXCEL_CHAT_CHAT_H

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/str.h"
#include "text/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Which template ---------------------------------------------------- */

struct chat_template_settings {
    /* Jinja text, a name of the built-in list ("chatml", "llama3", ...), or
     * empty for ChatML. */
    struct slice source;
    struct slice tool_use_source; /* the variant for requests with tools; may be empty */
    struct slice bos, eos;        /* pieces of these tokens; empty when there is none */
    bool add_bos, add_eos;        /* the tokenizer adds them: a prompt must not repeat them */
    bool use_jinja;               /* false: the built-in renderers only (--no-jinja) */
};

struct chat_templates;

/* Parse and probe. A template that does not parse, or with use_jinja false one
 * that no built-in renderer knows, is an error. The slices are copied. */
bool chat_templates_load(const struct chat_template_settings *settings, struct chat_templates **out,
                         struct error *err);
void chat_templates_free(struct chat_templates *templates);

/* The default template's text (tool_use false), or the tool-use variant's
 * (empty when there is none): "chat_template" and "chat_template_tool_use" of
 * /props. */
struct slice chat_templates_source(const struct chat_templates *templates, bool tool_use);

/* What probing found; the fields of "chat_template_caps" in /props. */
struct chat_caps {
    bool supports_tools, supports_tool_calls, supports_system_role, supports_parallel_tool_calls;
    bool supports_preserve_reasoning, supports_reasoning_effort;
    bool supports_string_content, supports_typed_content, supports_object_arguments;
};

/* The more capable of the two templates. */
struct chat_caps chat_templates_caps(const struct chat_templates *templates);
/* The object of /props, a new reference. NULL when out of memory. */
json_t *chat_caps_to_json(const struct chat_caps *caps);

/* True when the template can think: with --reasoning left on auto, that is what
 * chat_defaults.enable_thinking should be. */
bool chat_templates_support_thinking(const struct chat_templates *templates);

/* The names of the built-in list, in order, NULL at its end. */
const char *const *chat_template_names(void);

/* ---- What a request asks ----------------------------------------------- */

enum chat_reasoning_format {
    CHAT_REASONING_NONE,
    CHAT_REASONING_AUTO,
    CHAT_REASONING_DEEPSEEK,
    CHAT_REASONING_DEEPSEEK_LEGACY
};

/* "none", "auto", "deepseek", "deepseek-legacy". */
const char *chat_reasoning_format_name(enum chat_reasoning_format format);
bool chat_reasoning_format_from_name(struct slice name, enum chat_reasoning_format *out,
                                     struct error *err);

enum chat_tool_choice { CHAT_TOOLS_AUTO, CHAT_TOOLS_REQUIRED, CHAT_TOOLS_NONE };

enum chat_continuation {
    CHAT_CONTINUE_NONE,
    CHAT_CONTINUE_AUTO,
    CHAT_CONTINUE_REASONING,
    CHAT_CONTINUE_CONTENT
};

/* From "continue_final_message": true, "reasoning_content" or "content". */
enum chat_continuation chat_continuation_from_json(const json_t *value);

/* What the server was started with. */
struct chat_defaults {
    enum chat_reasoning_format reasoning_format; /* --reasoning-format */
    bool enable_thinking;                        /* --reasoning, and the template supports it */
    bool prefill_assistant;                      /* --prefill-assistant */
    bool force_pure_content;                     /* --skip-chat-parsing */
    const json_t *kwargs;                        /* --chat-template-kwargs (and reasoning_effort,
                                                    preserve_reasoning); an object or NULL, borrowed */
};

struct chat_request {
    json_t *messages;    /* array; checked, media refused; owned */
    json_t *tools;       /* array of {type:function,...}, or NULL; owned */
    json_t *json_schema; /* what the answer must fit, or NULL; owned */
    json_t *kwargs;      /* object: names for the template; owned */
    char *grammar;       /* GBNF of the request, or NULL; owned */
    char *named_tool;    /* the function tool_choice names, or NULL; owned */
    enum chat_tool_choice tool_choice;
    enum chat_reasoning_format reasoning_format;
    enum chat_continuation continue_final_message;
    bool add_generation_prompt, parallel_tool_calls, enable_thinking, force_pure_content;
    int64_t now; /* seconds since 1970 for strftime_now; 0: the clock */
    /* What chat_apply may cost: rendering, schemas, grammars. Borrowed; NULL: only
     * the limits of one rendering. */
    struct budget *budget;
};

/* Read an OpenAI-style chat body: messages, tools, tool_choice,
 * parallel_tool_calls, json_schema, grammar, response_format,
 * chat_template_kwargs, reasoning_effort, reasoning_format,
 * add_generation_prompt, continue_final_message, and the prefill rule. Other
 * fields are left to the caller. The error texts are those clients know.
 * ERR_INVALID: 400; ERR_UNSUPPORTED: what the reference answers with 500. */
bool chat_request_parse(const json_t *body, const struct chat_templates *templates,
                        const struct chat_defaults *defaults, struct chat_request *out,
                        struct error *err);
void chat_request_free(struct chat_request *request);

/* ---- The prompt -------------------------------------------------------- */

/* How the model's text is to be read; its name is "chat_format". */
enum chat_format {
    CHAT_FORMAT_CONTENT_ONLY,  /* "Content-only" */
    CHAT_FORMAT_PEG_SIMPLE,    /* "peg-simple" */
    CHAT_FORMAT_PEG_NATIVE,    /* "peg-native" */
    CHAT_FORMAT_PEG_GEMMA4,    /* "peg-gemma4" */
    CHAT_FORMAT_PEG_MINIMAX_M3 /* "peg-minimax-m3" */
};

const char *chat_format_name(enum chat_format format);

enum chat_trigger_kind {
    CHAT_TRIGGER_WORD,        /* this text */
    CHAT_TRIGGER_PATTERN,     /* a regular expression found anywhere */
    CHAT_TRIGGER_PATTERN_FULL /* one that matches the whole output so far */
};

struct chat_trigger {
    enum chat_trigger_kind kind;
    char *value;
};

/* Where a message starts in the prompt: "message_delimiters". */
struct chat_delimiter {
    const char *role; /* "assistant", "user", "tool" or "system" */
    char *text;
};

struct chat_texts {
    char **data;
    size_t n;
};

struct chat_parser;

struct chat_prompt {
    struct str text; /* the rendered prompt */
    /* The n_user runs that came from the user's messages or tools: no special
     * token may be read there (text_encode_ranges). Ascending, not overlapping. */
    struct text_range *user;
    size_t n_user;
    enum chat_format format;
    struct str generation_prompt; /* the prompt's end that opens the answer */
    struct str grammar;           /* GBNF, or empty */
    struct str grammar_objects;   /* what sampler_settings.grammar_objects is to be */
    bool grammar_lazy;            /* wait for a trigger */
    bool grammar_is_tool_calls;   /* made for tools or a response format here */
    struct chat_trigger *triggers;
    size_t n_triggers;
    struct chat_texts preserved_tokens; /* keep as special when decoding */
    struct chat_texts stops;            /* add to the request's "stop" */
    struct chat_delimiter *delimiters;
    size_t n_delimiters;
    bool supports_thinking;
    struct str thinking_start;      /* "<think>"; may be empty */
    struct chat_texts thinking_end; /* empty: no reasoning budget possible */
    bool parse_tool_calls;
    struct chat_parser *parser; /* owned by the prompt until taken */
};

/* Render. out starts zeroed and is freed by chat_prompt_free, also after a
 * failure. Cost: linear in the messages for the usual templates. */
bool chat_apply(const struct chat_templates *templates, const struct chat_request *request,
                struct chat_prompt *out, struct error *err);
void chat_prompt_free(struct chat_prompt *prompt);

/* ---- From text to messages --------------------------------------------- */

struct chat_tool_call {
    struct str id, name, arguments; /* arguments: JSON text */
};

struct chat_message {
    struct str content, reasoning_content;
    struct chat_tool_call *tool_calls;
    size_t n_tool_calls;
};

void chat_message_free(struct chat_message *message);

/* The parser is immutable and counted: a job may keep it longer than the
 * prompt. */
struct chat_parser *chat_parser_keep(struct chat_parser *parser);
void chat_parser_release(struct chat_parser *parser);
/* One that takes everything as content. */
struct chat_parser *chat_parser_plain(void);

/* Read text (the answer so far, without the prompt). partial: more may come,
 * and what is ambiguous is held back. Of a text that does not fit the format the
 * thought, the content and the whole calls that do are read, and from what goes
 * wrong on all is content, while it grows and at its end. False only when out of memory. *out
 * starts zeroed. Ids that the text lacks stay empty. Cost: linear in the text, for one that does
 * not fit times the logarithm of its length. */
bool chat_parse(const struct chat_parser *parser, struct slice text, bool partial,
                struct chat_message *out, struct error *err);

/* ---- Streams ----------------------------------------------------------- */

enum chat_delta_kind { CHAT_DELTA_REASONING, CHAT_DELTA_CONTENT, CHAT_DELTA_TOOL_CALL };

struct chat_delta {
    enum chat_delta_kind kind;
    struct str text;     /* reasoning, content or arguments, appended */
    size_t tool_index;   /* TOOL_CALL */
    struct str id, name; /* TOOL_CALL: given once, with its first delta */
};

struct chat_deltas {
    struct chat_delta *data;
    size_t n, capacity;
};

void chat_deltas_free(struct chat_deltas *deltas);

/* What changed from one message to the next, whose texts must continue the
 * earlier ones (ERR_INTERNAL when they do not). Appends to *out. */
bool chat_message_diff(const struct chat_message *before, const struct chat_message *after,
                       struct chat_deltas *out, struct error *err);

struct chat_stream; /* one answer being generated; one thread at a time */

struct chat_stream_settings {
    bool is_continuation;    /* continue_final_message was given */
    bool echo;               /* show the prefilled part too */
    bool merge_tool_headers; /* hold back a call's name and id until its first
                                arguments, as the OpenAI stream shows them */
};

struct chat_stream *chat_stream_create(struct chat_parser *parser,
                                       const struct chat_stream_settings *settings);
/* Add generated text and append the deltas it makes to *deltas. last: the
 * answer is complete. Calls without an id get one. */
bool chat_stream_add(struct chat_stream *stream, struct slice text, bool last,
                     struct chat_deltas *deltas, struct error *err);
/* The message as it stands. */
const struct chat_message *chat_stream_message(const struct chat_stream *stream);
void chat_stream_free(struct chat_stream *stream);

/* A random id of a tool call: 32 letters and digits. */
void chat_random_id(char out[33]);

#endif
