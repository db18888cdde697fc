/* internal.h - what the files of this room share. */
#ifndef MLXCEL_API_INTERNAL_H
#define MLXCEL_API_INTERNAL_H

#include "api/api.h"
#include "base/arena.h"
#include "base/budget.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "chat/chat.h"

#include <pthread.h>
#include <stdatomic.h>

struct streams;

struct api {
    const struct options *options;
    struct engine *engine;
    struct arena arena;
    const char *model_name;    /* the first alias, else the file's name */
    struct http_route *routes; /* n_routes; malloc'd */
    size_t n_routes;
    struct streams *streams;

    /* From api_model_loaded on. */
    struct chat_templates *templates;
    struct chat_defaults chat_defaults;
    struct sampler_settings sampling; /* what a request that says nothing gets */
    bool ignore_eos;
    struct logit_bias *eog_bias; /* n_eog_bias: bans every end of generation */
    size_t n_eog_bias;
    const char *bos, *eos;
    struct slice rerank_template;                 /* of a model that has one; empty */
    uint64_t metrics_prompt_us, metrics_prompt_n; /* at the last scrape, under metrics_lock */
    uint64_t metrics_generation_us, metrics_generation_n; /* n: steps */
    pthread_mutex_t metrics_lock;
    int64_t started_at; /* unix seconds */
};

/* ---- reply.c: answers and errors ------------------------------------------------ */

/* The status and "type" of an error envelope. */
enum failure {
    FAIL_INVALID,       /* 400 invalid_request_error */
    FAIL_NOT_FOUND,     /* 404 not_found_error */
    FAIL_SERVER,        /* 500 server_error */
    FAIL_NOT_SUPPORTED, /* 501 not_supported_error */
    FAIL_UNAVAILABLE    /* 503 unavailable_error */
};

void reply_failure(struct http_exchange *x, enum failure failure, const char *message);
/* By the error's code; ERR_CANCELLED, which a budget gives, ends the exchange as
 * request_end_unwanted. */
void reply_error(struct http_exchange *x, const struct error *err);
/* {"code","message","type"}: the inside of an envelope. */
json_t *failure_to_json(enum failure failure, const char *message);
json_t *error_to_json(const struct error *err);
/* The same; of a prompt that exceeds a context (ERR_LIMIT, n_ctx > 0) with both
 * numbers. */
json_t *size_error_to_json(const struct error *err, size_t n_prompt, int32_t n_ctx);
json_t *event_error_to_json(const struct engine_event *event);
enum failure failure_of(enum error_code code);
/* 200 with the value, whose reference is taken; 500 where it is NULL or some of it
 * found no memory (memory_failed). */
void reply_json(struct http_exchange *x, json_t *value);

/* ---- request.c: limits of a request ------------------------------------------------ */

/* Nobody waits for the answer: the client is gone and what it asked for is not kept
 * for it, or the server stops. */
bool request_is_unwanted(struct http_exchange *x);
/* End such an exchange: closed, or 503 where a client may still read it. */
void request_end_unwanted(struct http_exchange *x);
/* What the request may cause in its handler: templates, schemas, grammars, tokens.
 * It asks whether anybody still waits. */
struct budget request_budget(struct http_exchange *x, const json_t *body);

/* ---- body.c: reading JSON -------------------------------------------------------- */

/* The body as an object (a form's text fields become one). NULL with the
 * exchange answered 400. The caller owns it. */
json_t *body_object(struct http_exchange *x);
/* Any JSON value. */
json_t *body_json(struct http_exchange *x);
/* What a body may hold: body_limits.c. */
extern const struct json_limits body_limits;
/* A member that is there and not null; NULL otherwise. Borrowed. */
json_t *member(const json_t *object, const char *name);
/* A member of the right type, else the fallback. */
struct slice member_text(const json_t *object, const char *name);
bool member_bool(const json_t *object, const char *name, bool fallback);
int64_t member_integer(const json_t *object, const char *name, int64_t fallback);
/* "string", "number", ...: the type's name in messages. */
const char *json_type_name(const json_t *value);
/* value moves into the object; false when one of them is NULL or memory is out. */
bool put(json_t *object, const char *name, json_t *value);
bool push(json_t *array, json_t *value);

/* ---- fields.c: the request fields ------------------------------------------------- */

struct lora_scale {
    int32_t id;
    float scale;
};

/* What a completion asks for, after defaults. Shared by the request's jobs and
 * its exchange; immutable once parsed. */
struct generation {
    atomic_int references;
    struct arena arena; /* owns every array below */
    json_t *source;     /* of the body, what texts below are borrowed from */

    bool verbose, timings_per_token, stream, include_usage, cache_prompt, return_tokens;
    bool return_progress, post_sampling_probs, backend_sampling, ignore_eos;
    int32_t sse_ping_interval, n_predict, n_indent, n_keep, n_discard, n_cmpl, n_cache_reuse;
    int64_t t_max_predict_ms;
    struct slice *response_fields;
    size_t n_response_fields;
    struct slice *stop;
    size_t n_stop;
    struct sampler_settings sampling;
    bool has_grammar; /* the grammar was set by the request or the chat room */
    struct lora_scale *lora;
    size_t n_lora;
    int32_t *preserved_tokens; /* ascending, each once */
    size_t n_preserved_tokens;

    int32_t chat_format; /* enum chat_format */
    enum chat_reasoning_format reasoning_format;
    bool reasoning_in_content, parse_tool_calls, is_continuation, echo;
    struct slice generation_prompt;
};

/* Evaluate the table over a body. Fails with ERR_INVALID "Field 'x': ...", or with
 * ERR_CANCELLED when the budget says that nobody waits. */
struct generation *generation_parse(const struct api *api, const json_t *body,
                                    struct budget *budget, struct error *err);
struct generation *generation_hold(struct generation *g);
void generation_drop(void *g);
/* "generation_settings", or the "params" of /props and /slots (brief). */
json_t *generation_to_json(const struct generation *g, bool brief);
/* The settings of a request that says nothing, with n_predict and the like at
 * the schema's own defaults: /props. */
json_t *generation_defaults_to_json(const struct api *api);
/* The table for the manifest. */
json_t *fields_surface(void);

/* ---- prompt.c ------------------------------------------------------------------------ */

struct prompts {
    struct token_vec *data; /* n of them */
    size_t n;
};

/* Where a budget is taken, here and below, it says how much work this may be and
 * whether anybody still waits for it. */
bool prompts_read(const struct api *api, const json_t *value, bool add_special, bool parse_special,
                  struct budget *budget, struct prompts *out, struct error *err);
void prompts_free(struct prompts *prompts);
/* A string, or a list of strings and tokens. */
bool tokenize_mixed(const struct tokenizer *tok, const json_t *value, bool add_special,
                    bool parse_special, struct budget *budget, struct token_vec *out,
                    struct error *err);
/* The pieces of the tokens, special ones written out. */
bool tokens_to_text(const struct tokenizer *tok, const int32_t *tokens, size_t n, struct str *out);
/* The infill prompt of a body's input_prefix, input_suffix, input_extra, prompt. */
bool infill_prompt(const struct api *api, const json_t *body, struct budget *budget,
                   struct token_vec *out, struct error *err);

/* ---- gather.c: many inputs at once, one answer when all are back ----------------------- */

/* Shape the answer from what came back, by index. */
typedef void gathered(struct http_exchange *x, const struct api *api,
                      const struct engine_event *const *events, size_t n, void *arg);
/* Submit the inputs, whose tokens are taken; they share batches with each other
 * and with everybody else's. The work ends when the client leaves. release is
 * called once, whatever becomes of it. */
void gather(struct http_exchange *x, const struct api *api, enum engine_task task,
            struct prompts *inputs, gathered *answer, void *arg, void (*release)(void *arg));

/* ---- generate.c: from a parsed request to its answer -------------------------------------- */

enum surface {
    SURFACE_NATIVE,
    SURFACE_COMPLETIONS,
    SURFACE_CHAT,
    SURFACE_RESPONSES,
    SURFACE_ANTHROPIC
};

/* Whether the server computes embeddings or scores: asked to, or the model does nothing
 * else. */
bool api_embeds(const struct api *api);
bool api_ranks(const struct api *api);
/* Answer a completion. body: the native fields (borrowed); prompts: taken over;
 * chat: what a conversation became (borrowed), NULL elsewhere. */
void generate(struct http_exchange *x, struct api *api, enum surface surface, const json_t *body,
              struct budget *budget, struct prompts *prompts, const struct chat_prompt *chat);
/* A chat body in OpenAI's shape (borrowed), answered in a surface's shape. */
void generate_chat(struct http_exchange *x, struct api *api, enum surface surface,
                   const json_t *body);

/* One completion of a request, as its answer grows. */
struct result {
    struct generation *g;
    const struct api *api;
    enum surface surface;
    const char *completion_id;
    const struct engine_event *event; /* the event being shaped */
    int32_t index;
    int32_t n_generated;
    struct slice prompt_text; /* SURFACE_NATIVE, verbose */
    struct chat_stream *stream;
    struct chat_deltas deltas; /* of this event */
    bool thinking_started, text_started, created;
    /* Responses */
    char response_id[48], reasoning_id[48], message_id[48];
    struct str call_id;
};

/* Each appends one or more events, {"event"?, "data"}, to the array, or returns
 * the whole answer. NULL or false: out of memory. */
json_t *native_whole(struct result *r);
bool native_partial(struct result *r, json_t *events);
json_t *native_part(struct result *r); /* the data of native_partial's event */
bool native_final(struct result *r, json_t *events);
json_t *completions_whole(struct result *r);
bool completions_partial(struct result *r, json_t *events);
bool completions_final(struct result *r, json_t *events);
json_t *chat_whole(struct result *r);
bool chat_partial(struct result *r, json_t *events);
bool chat_final(struct result *r, json_t *events);
json_t *responses_whole(struct result *r);
bool responses_partial(struct result *r, json_t *events);
bool responses_final(struct result *r, json_t *events);
json_t *anthropic_whole(struct result *r);
bool anthropic_partial(struct result *r, json_t *events);
bool anthropic_final(struct result *r, json_t *events);

/* Shared by them. */
/* The content of the whole message. What was generated as it stands where the
 * format found nothing in it: an answer cut off within its leading white space,
 * say. */
struct slice answer_content(const struct result *r);
bool event_push(json_t *events, const char *name, json_t *data); /* takes data */
/* The same with the event's name as "type" at the head of its data. */
bool event_push_typed(json_t *events, const char *name, json_t *data);
json_t *timings_to_json(const struct engine_timings *t);
json_t *progress_to_json(const struct engine_event *event);
/* What n_probs asked for, of the event's tokens. */
json_t *probs_to_json(const struct result *r);
/* Does the event carry what n_probs asked for? */
bool event_has_probs(const struct result *r);
bool finished_by_itself(const struct engine_event *event); /* eos or a stop string */
/* Timings (timings_per_token) and progress, where they belong, into an object. */
bool put_extras(struct result *r, json_t *object);
/* The body's "model" where that is a name, else the server's own. */
json_t *model_name_to_json(const struct api *api, const json_t *body);
/* The inside of an error as the whole answer, as the surface has it; takes it. */
void reply_error_json(struct http_exchange *x, json_t *error, enum surface surface);
/* The error of a failure as /v1/messages has it, {"type":"error","error":{"type",
 * "message",...},"request_id"}; takes error, {"code","message","type",...}. */
json_t *anthropic_error(json_t *error);
/* What http_settings.shape_error wants. */
bool shape_error(struct slice path, int status, const char *message, struct str *body);
/* The last event of a stream of /v1/responses that failed; takes error. */
bool responses_failed(struct result *r, json_t *error, json_t *events);
void random_id(const char *prefix, char *out, size_t size); /* prefix and 32 letters */

/* ---- chat_body.c ----------------------------------------------------------------------- */

/* What the chat room makes of an OpenAI chat body, as native fields. */
struct chat_body {
    json_t *fields; /* owned */
    struct chat_prompt prompt;
};
bool chat_body_read(const struct api *api, const json_t *body, struct budget *budget,
                    struct chat_body *out, struct error *err);
/* Append the prompt's tokens: the template's markers are special tokens, what
 * users wrote is text. */
bool chat_body_tokens(const struct api *api, const struct chat_body *chat, struct budget *budget,
                      struct token_vec *out, struct error *err);
void chat_body_free(struct chat_body *chat);

/* Note in the request where its prompt has users' messages. delimiters: what the
 * body calls message_delimiters, a list of {role, delimiter}; anything else there
 * notes nothing. False when out of memory. */
bool find_user_starts(const struct tokenizer *tok, const json_t *delimiters,
                      struct engine_request *request);

/* Other surfaces' bodies to OpenAI chat bodies; NULL with *err. Owned. */
json_t *convert_responses(const json_t *body, struct error *err);
json_t *convert_anthropic(const json_t *body, struct error *err);

/* ---- streams.c, stream_routes.c: resumable streams
 * ---------------------------------------------------------- */

struct stream_session;
struct streams *streams_create(void);
void streams_free(struct streams *streams);
/* A fresh session under the id; one that had it is cancelled. Counted; NULL: out
 * of memory. */
struct stream_session *streams_begin(struct streams *streams, struct slice id);
void stream_session_write(struct stream_session *session, struct slice bytes);
/* No more will come. evict: forget it at once (it never began). */
void stream_session_end(struct streams *streams, struct stream_session *session, bool evict);
bool stream_session_cancelled(struct stream_session *session);
/* Wake x when the session is cancelled; NULL: no more. */
void stream_session_watch(struct stream_session *session, struct http_exchange *x);

/* ---- the handlers ------------------------------------------------------------------------------
 */

http_handler handle_front_page, handle_health, handle_models, handle_props, handle_set_props,
    handle_metrics;
http_handler handle_slots, handle_slot_action;
http_handler handle_completion, handle_completions, handle_chat, handle_responses;
http_handler handle_anthropic, handle_infill;
http_handler handle_tokenize, handle_detokenize, handle_apply_template;
http_handler handle_count_chat, handle_count_responses, handle_count_anthropic;
http_handler handle_embeddings, handle_embeddings_openai, handle_rerank, handle_transcriptions;
http_handler handle_lora_list, handle_lora_set;
http_handler handle_stream_read, handle_stream_delete, handle_streams_lookup;
http_handler handle_control, handle_disabled, handle_predict;

/* routes.c: the table as it stands for these options. */
bool routes_build(struct api *api, struct error *err);
json_t *routes_surface(void);
/* The route an "@requestFormat" of the predict adapter names; NULL: none. */
const char *route_of_format(const struct api *api, struct slice format, enum http_method *method);

/* ---- prompt_log.c: --log-prompts-dir ------------------------------------------------ */

/* Make the folder, mode 0700, where one is wanted. */
bool prompt_log_open(const struct options *options, struct error *err);
/* Write a request's prompt (text, or JSON as it came) to a file there. */
void prompt_log_write(const struct api *api, const json_t *prompt);

#endif
