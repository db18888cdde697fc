/* generate.c - a completion's way from the parsed request to its answer: jobs to
 * the engine, events back, shaped for the surface that asked. */
#include "api/internal.h"

#include "base/clock.h"

#include <stdlib.h>

struct shaper {
    json_t *(*whole)(struct result *r);
    bool (*partial)(struct result *r, json_t *events);
    bool (*final)(struct result *r, json_t *events);
    bool is_chat;        /* text is read as a message */
    bool merge_headers;  /* how tool calls begin, see chat.h */
    bool ends_with_done; /* "[DONE]" */
    bool merges_choices; /* several results are one answer */
};

static const struct shaper shapers[] = {
    [SURFACE_NATIVE] = {native_whole, native_partial, native_final, .ends_with_done = false},
    [SURFACE_COMPLETIONS] = {completions_whole, completions_partial, completions_final,
                             .ends_with_done = true, .merges_choices = true},
    [SURFACE_CHAT] = {chat_whole, chat_partial, chat_final, .is_chat = true, .merge_headers = true,
                      .ends_with_done = true, .merges_choices = true},
    [SURFACE_RESPONSES] = {responses_whole, responses_partial, responses_final, .is_chat = true},
    [SURFACE_ANTHROPIC] = {anthropic_whole, anthropic_partial, anthropic_final, .is_chat = true},
};

/* A request in flight; the exchange's state. */
struct flight {
    struct api *api;
    struct http_exchange *x;
    enum surface surface;
    struct generation *g;
    struct engine_mailbox *mailbox;
    struct engine_job **jobs; /* n_jobs, one a prompt */
    size_t n_jobs;
    struct result *results; /* n_results = prompts times completions */
    json_t **answers;       /* of a request without stream, by index */
    size_t n_results, n_done;
    char completion_id[48];
    struct str *prompt_texts; /* n_jobs */
    bool begun;               /* the stream */
    bool over;
    struct stream_session *session; /* NULL: the work ends with the connection */
    uint64_t t_submit_us;
    struct { /* of all results, for the log */
        int64_t n_in, n_cached, n_out;
    } total;
};

static void cancel_jobs(struct flight *f)
{
    for (size_t i = 0; i < f->n_jobs; i++)
        if (f->jobs[i])
            engine_job_cancel(f->jobs[i]);
}

static void flight_release(void *state)
{
    struct flight *f = state;
    if (f->n_done < f->n_results)
        cancel_jobs(f);
    if (f->mailbox)
        engine_mailbox_free(f->mailbox);
    for (size_t i = 0; i < f->n_jobs; i++)
        engine_job_release(f->jobs[i]);
    free(f->jobs);
    for (size_t i = 0; i < f->n_results; i++) {
        if (f->results) {
            chat_stream_free(f->results[i].stream);
            chat_deltas_free(&f->results[i].deltas);
            str_free(&f->results[i].call_id);
        }
        if (f->answers)
            json_decref(f->answers[i]);
    }
    free(f->results);
    free(f->answers);
    for (size_t i = 0; i < f->n_jobs && f->prompt_texts; i++)
        str_free(&f->prompt_texts[i]);
    free(f->prompt_texts);
    if (f->session) {
        stream_session_watch(f->session, NULL);
        stream_session_end(f->api->streams, f->session, !f->begun);
    }
    generation_drop(f->g);
    free(f);
}

/* ---- writing ------------------------------------------------------------------------ */

static void write_stream(struct flight *f, struct slice bytes)
{
    http_write(f->x, bytes);
    if (f->session)
        stream_session_write(f->session, bytes);
}

static void begin_stream(struct flight *f)
{
    if (f->begun)
        return;
    f->begun = true;
    http_stream_begin(f->x, 200, "text/event-stream", f->g->sse_ping_interval);
}

static void append_event(struct str *out, const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "event"));
    if (name)
        str_append_format(out, "event: %s\n", name);
    str_append_text(out, "data: ");
    json_append(out, json_object_get(event, "data"));
    str_append_text(out, "\n\n");
}

/* The stream ends with what can be said without memory. */
static void end_without_memory(struct flight *f)
{
    struct slice event = SLICE("data: {\"error\":{\"code\":500,\"message\":\"out of memory\","
                               "\"type\":\"server_error\"}}\n\n");
    if (f->surface == SURFACE_ANTHROPIC)
        event = SLICE("event: error\ndata: {\"type\":\"error\",\"error\":"
                      "{\"type\":\"api_error\",\"message\":\"out of memory\"}}\n\n");
    else if (f->surface == SURFACE_RESPONSES)
        event = SLICE("event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":"
                      "{\"object\":\"response\",\"status\":\"failed\",\"error\":{\"code\":"
                      "\"server_error\",\"message\":\"out of memory\"}}}\n\n");
    write_stream(f, event);
    http_stream_end(f->x);
    cancel_jobs(f);
    f->over = true;
}

/* Events to bytes; takes the array. What lacks a part is not sent. */
static void write_events(struct flight *f, json_t *events)
{
    struct str bytes = {0};
    size_t i;
    json_t *event;
    begin_stream(f);
    json_array_foreach(events, i, event) append_event(&bytes, event);
    if (!events || memory_failed() || bytes.failed)
        end_without_memory(f);
    else if (bytes.len > 0)
        write_stream(f, str_slice(&bytes));
    json_decref(events);
    str_free(&bytes);
}

static void end_stream(struct flight *f)
{
    if (shapers[f->surface].ends_with_done)
        write_stream(f, SLICE("data: [DONE]\n\n"));
    http_stream_end(f->x);
    f->over = true;
}

/* The whole request fails: an answer of its own, or the stream's last event.
 * Takes error. */
static void fail(struct flight *f, json_t *error)
{
    cancel_jobs(f);
    if (!f->begun) {
        reply_error_json(f->x, error, f->surface);
    } else if (!error) {
        end_without_memory(f);
    } else {
        json_t *events = json_array();
        http_note_text(f->x, "error", json_slice(json_object_get(error, "message")));
        if (f->surface == SURFACE_ANTHROPIC)
            event_push(events, "error", anthropic_error(error));
        else if (f->surface == SURFACE_RESPONSES)
            responses_failed(&f->results[0], error, events);
        else
            event_push(events, NULL, json_pack("{s:o}", "error", error));
        write_events(f, events);
        if (!f->over)
            http_stream_end(f->x);
    }
    f->over = true;
}

/* Nobody waits for the answer any more. */
static void end_unwanted(struct flight *f)
{
    request_end_unwanted(f->x);
    f->over = true;
}

/* ---- events --------------------------------------------------------------------------- */

/* What the log says of the request; of several results the last one's times. */
static void note_done(struct flight *f, const struct engine_event *e, bool is_last)
{
    static const char *const reasons[] = {[ENGINE_STOP_NONE] = "none",
                                          [ENGINE_STOP_EOS] = "eos",
                                          [ENGINE_STOP_WORD] = "word",
                                          [ENGINE_STOP_LIMIT] = "limit"};
    const struct engine_timings *t = &e->timings;
    f->total.n_in += e->n_prompt;
    f->total.n_cached += t->n_prompt_cached;
    f->total.n_out += t->n_generated;
    if (!is_last)
        return;
    struct http_exchange *x = f->x;
    http_note_text(x, "model", slice_of(f->api->model_name));
    http_note_number(x, "in", (double)f->total.n_in);
    http_note_number(x, "cached", (double)f->total.n_cached);
    http_note_number(x, "out", (double)f->total.n_out);
    if (t->t_start_us > f->t_submit_us)
        http_note_number(x, "queue_ms", (double)(t->t_start_us - f->t_submit_us) / 1000);
    if (t->t_prompt_end_us > t->t_start_us)
        http_note_number(x, "prompt_ms", (double)(t->t_prompt_end_us - t->t_start_us) / 1000);
    if (t->t_last_token_us > t->t_prompt_end_us)
        http_note_number(x, "generation_ms",
                         (double)(t->t_last_token_us - t->t_prompt_end_us) / 1000);
    http_note_number(x, "slot", e->id_slot);
    http_note_text(x, "finish", slice_of(reasons[e->stop]));
}

static struct result *result_of(struct flight *f, const struct engine_event *e)
{
    if (e->index < 0 || (size_t)e->index >= f->n_results)
        return NULL;
    struct result *r = &f->results[e->index];
    r->event = e;
    return r;
}

/* Read new text as a message. What the model wrote is never the client's error:
 * where it does not fit the expected format it is shown as it is. False when out of
 * memory. */
static bool read_message(struct result *r, struct slice text, bool last)
{
    struct error err = {0};
    chat_deltas_free(&r->deltas);
    r->deltas = (struct chat_deltas){0};
    if (!r->stream || chat_stream_add(r->stream, text, last, &r->deltas, &err))
        return true;
    if (err.code == ERR_MEMORY)
        return false;
    if (!last || chat_stream_message(r->stream)->content.len > 0)
        return true;
    const struct chat_stream_settings settings = {0};
    struct chat_parser *plain = chat_parser_plain();
    struct chat_stream *stream = plain ? chat_stream_create(plain, &settings) : NULL;
    chat_parser_release(plain);
    if (!stream)
        return false;
    chat_stream_free(r->stream);
    r->stream = stream;
    chat_deltas_free(&r->deltas);
    r->deltas = (struct chat_deltas){0};
    return chat_stream_add(stream, r->event->whole_text, true, &r->deltas, &err) ||
           err.code != ERR_MEMORY;
}

/* All results of a request without stream, as one answer. */
static void answer_whole(struct flight *f)
{
    json_t *answer = f->answers[0];
    f->answers[0] = NULL;
    if (f->n_results > 1 && shapers[f->surface].merges_choices) {
        json_t *choices = json_object_get(answer, "choices");
        for (size_t i = 1; i < f->n_results; i++)
            json_array_extend(choices, json_object_get(f->answers[i], "choices"));
    } else if (f->n_results > 1) {
        json_t *list = json_array();
        push(list, answer);
        for (size_t i = 1; i < f->n_results; i++)
            json_array_append(list, f->answers[i]);
        answer = list;
    }
    reply_json(f->x, answer);
    f->over = true;
}

static void on_done(struct flight *f, struct result *r)
{
    const struct shaper *shaper = &shapers[f->surface];
    f->n_done++;
    if (!read_message(r, r->event->text, true)) {
        fail(f, NULL);
        return;
    }
    if (f->g->stream) {
        json_t *events = json_array();
        shaper->final(r, events);
        write_events(f, events);
        if (!f->over && f->n_done == f->n_results)
            end_stream(f);
        return;
    }
    f->answers[r->event->index] = shaper->whole(r);
    if (!f->answers[r->event->index] || memory_failed())
        fail(f, NULL);
    else if (f->n_done == f->n_results)
        answer_whole(f);
}

static void on_event(struct flight *f, struct engine_event *e)
{
    if (e->kind == ENGINE_EVENT_ERROR) {
        fail(f, event_error_to_json(e));
        return;
    }
    struct result *r = result_of(f, e);
    if (!r)
        return;
    switch (e->kind) {
    case ENGINE_EVENT_BEGIN:
        if (f->g->stream)
            begin_stream(f);
        break;
    case ENGINE_EVENT_TOKEN:
    case ENGINE_EVENT_PROGRESS: {
        if (!read_message(r, e->kind == ENGINE_EVENT_TOKEN ? e->text : SLICE(""), false)) {
            fail(f, NULL);
            break;
        }
        json_t *events = json_array();
        shapers[f->surface].partial(r, events);
        write_events(f, events);
        break;
    }
    case ENGINE_EVENT_DONE:
        note_done(f, e, f->n_done + 1 == f->n_results);
        on_done(f, r);
        break;
    default:
        break;
    }
}

static bool is_unwanted(const struct flight *f)
{
    return f->session ? stream_session_cancelled(f->session) : http_client_gone(f->x);
}

static void flight_step(struct http_exchange *x, void *state)
{
    struct flight *f = state;
    struct engine_event *e;
    if (f->over)
        return;
    if (is_unwanted(f)) {
        cancel_jobs(f);
        if (f->session) { /* stopped on purpose: the stream ends as it stands, begun or not */
            begin_stream(f);
            http_stream_end(x);
        } else {
            http_abandon(x);
        }
        f->over = true;
        return;
    }
    while (!f->over && (e = engine_mailbox_take(f->mailbox, 0))) {
        on_event(f, e);
        engine_event_free(e);
    }
    if (!f->over && http_is_stopping(x))
        fail(f, failure_to_json(FAIL_UNAVAILABLE, "the server is shutting down"));
}

/* ---- starting ----------------------------------------------------------------------------- */

static bool prepare_results(struct flight *f, struct chat_parser *parser, struct error *err)
{
    const struct shaper *shaper = &shapers[f->surface];
    const struct chat_stream_settings settings = {.is_continuation = f->g->is_continuation,
                                                  .echo = f->g->echo,
                                                  .merge_tool_headers = shaper->merge_headers};
    f->results = calloc(f->n_results, sizeof *f->results);
    f->answers = calloc(f->n_results, sizeof(json_t *));
    if (!f->results || !f->answers)
        return error_memory(err);
    for (size_t i = 0; i < f->n_results; i++) {
        struct result *r = &f->results[i];
        r->g = f->g;
        r->api = f->api;
        r->surface = f->surface;
        r->completion_id = f->completion_id;
        r->index = (int32_t)i;
        r->prompt_text = str_slice(&f->prompt_texts[i / (size_t)f->g->n_cmpl]);
        random_id("resp_", r->response_id, sizeof r->response_id);
        random_id("rs_", r->reasoning_id, sizeof r->reasoning_id);
        random_id("msg_", r->message_id, sizeof r->message_id);
        if (shaper->is_chat && !(r->stream = chat_stream_create(parser, &settings)))
            return error_memory(err);
    }
    return true;
}

/* -1 is any; ids beyond the last slot count on from the first, as clients of the
 * reference know it. */
static int32_t slot_of(const struct api *api, const json_t *body)
{
    int64_t id = member_integer(body, "id_slot", -1);
    return id == -1 ? -1 : (int32_t)((uint64_t)id % (uint64_t)engine_n_slots(api->engine));
}

/* Takes the prompt. NULL: out of memory. */
static struct engine_request *make_request(const struct flight *f, size_t i,
                                           struct token_vec *prompt, const json_t *body,
                                           struct budget *budget)
{
    const struct generation *g = f->g;
    struct engine_request *request = engine_request_create();
    if (!request)
        return NULL;
    request->prompt = *prompt;
    *prompt = (struct token_vec){0};
    request->index = (int32_t)(i * (size_t)g->n_cmpl);
    request->n_completions = g->n_cmpl;
    request->id_slot = slot_of(f->api, body);
    request->sampling = g->sampling;
    request->sampling.budget = budget;
    request->post_sampling_probs = g->post_sampling_probs;
    request->n_predict = g->n_predict;
    request->n_keep = g->n_keep;
    request->n_discard = g->n_discard;
    request->n_indent = g->n_indent;
    request->n_cache_reuse = g->n_cache_reuse;
    request->t_max_predict_ms = g->t_max_predict_ms;
    request->cache_prompt = g->cache_prompt;
    request->stream = g->stream;
    request->return_progress = g->return_progress;
    request->stop = g->stop;
    request->n_stop = g->n_stop;
    request->preserved_tokens = g->preserved_tokens;
    request->n_preserved_tokens = g->n_preserved_tokens;
    request->completion_id = arena_duplicate(&request->arena, slice_of(f->completion_id));
    request->owner_data = generation_hold(f->g);
    request->owner_free = generation_drop;
    if (!request->completion_id) {
        engine_request_free(request);
        return NULL;
    }
    if (engine_model_info(f->api->engine)->n_swa > 0 &&
        !find_user_starts(engine_tokenizer(f->api->engine), member(body, "message_delimiters"),
                          request)) {
        engine_request_free(request);
        return NULL;
    }
    return request;
}

/* All prompts at once: which slots they get must not depend on how soon the first
 * of them is done. */
static bool submit(struct flight *f, struct prompts *prompts, const json_t *body,
                   struct budget *budget, struct error *err)
{
    size_t n = 0;
    struct engine_request **requests = calloc(prompts->n, sizeof(struct engine_request *));
    while (requests && n < prompts->n &&
           (requests[n] = make_request(f, n, &prompts->data[n], body, budget)))
        n++;
    bool ok = requests && n == prompts->n;
    if (ok) {
        ok = engine_submit_all(f->api->engine, requests, n, f->mailbox, f->jobs, err);
    } else {
        error_memory(err);
        for (size_t i = 0; i < n; i++)
            engine_request_free(requests[i]);
    }
    free(requests);
    return ok;
}

/* Beside the grammar's text, which the body has: what must not come from a client. */
static bool take_objects(struct generation *g, const struct chat_prompt *chat, struct error *err)
{
    struct slice objects = str_slice(&chat->grammar_objects);
    const char *copy = arena_duplicate(&g->arena, objects);
    g->sampling.grammar_objects = (struct slice){copy, copy ? objects.len : 0};
    return copy || error_memory(err);
}

/* Everything up to the last job's submission. */
static bool start(struct flight *f, const json_t *body, struct budget *budget,
                  struct prompts *prompts, const struct chat_prompt *chat, struct error *err)
{
    const struct tokenizer *tok = engine_tokenizer(f->api->engine);
    f->g = generation_parse(f->api, body, budget, err);
    if (!f->g || (chat && !take_objects(f->g, chat, err)))
        return false;
    f->jobs = calloc(prompts->n, sizeof(struct engine_job *));
    f->prompt_texts = calloc(prompts->n, sizeof *f->prompt_texts);
    f->mailbox = engine_mailbox_create(http_wake, f->x);
    if (!f->jobs || !f->prompt_texts || !f->mailbox)
        return error_memory(err);
    f->n_jobs = prompts->n;
    f->t_submit_us = clock_monotonic_us();
    f->n_results = prompts->n * (size_t)f->g->n_cmpl;
    if (f->surface == SURFACE_NATIVE || f->g->verbose)
        for (size_t i = 0; i < prompts->n; i++)
            if (!text_decode(tok, prompts->data[i].data, prompts->data[i].n, TEXT_SHOW_SPECIAL,
                             &f->prompt_texts[i], err))
                return false;
    if (!prepare_results(f, chat ? chat->parser : NULL, err))
        return false;
    struct slice conversation = http_header(f->x, "X-Conversation-Id");
    if (conversation.len > 0 && f->g->stream) {
        f->session = streams_begin(f->api->streams, conversation);
        if (!f->session)
            return error_memory(err);
        stream_session_watch(f->session, f->x);
    }
    return submit(f, prompts, body, budget, err);
}

void generate(struct http_exchange *x, struct api *api, enum surface surface, const json_t *body,
              struct budget *budget, struct prompts *prompts, const struct chat_prompt *chat)
{
    struct error err = {0};
    struct flight *f = calloc(1, sizeof *f);
    if (!f) {
        reply_failure(x, FAIL_SERVER, "out of memory");
        prompts_free(prompts);
        return;
    }
    f->api = api;
    f->x = x;
    f->surface = surface;
    random_id("chatcmpl-", f->completion_id, sizeof f->completion_id);
    http_continue(x, flight_step, f, flight_release);
    if (!start(f, body, budget, prompts, chat, &err)) {
        /* One prompt refused refuses the request. */
        if (err.code == ERR_CANCELLED)
            end_unwanted(f);
        else
            fail(f, error_to_json(&err));
    }
    prompts_free(prompts);
}

void generate_chat(struct http_exchange *x, struct api *api, enum surface surface,
                   const json_t *body)
{
    struct error err;
    struct chat_body chat;
    struct prompts prompts = {0};
    struct budget budget = request_budget(x, body);
    if (!chat_body_read(api, body, &budget, &chat, &err)) {
        reply_error(x, &err);
        return;
    }
    json_t *text = json_string_from(str_slice(&chat.prompt.text));
    prompt_log_write(api, text);
    json_decref(text);
    prompts.n = 1;
    prompts.data = calloc(1, sizeof *prompts.data);
    if ((prompts.data || error_memory(&err)) &&
        chat_body_tokens(api, &chat, &budget, &prompts.data[0], &err)) {
        generate(x, api, surface, chat.fields, &budget, &prompts, &chat.prompt);
    } else {
        reply_error(x, &err);
        if (prompts.data)
            prompts_free(&prompts);
    }
    chat_body_free(&chat);
}
