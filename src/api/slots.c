/* slots.c - what the slots do, and their files. */
#include "api/internal.h"

#include <stdlib.h>

/* ---- GET /slots --------------------------------------------------------------------- */

static json_t *slot_to_json(const struct engine_slot_status *s)
{
    json_t *o = json_object();
    put(o, "id", json_integer(s->id));
    put(o, "n_ctx", json_integer(s->n_ctx));
    put(o, "speculative", json_false());
    put(o, "is_processing", json_boolean(s->is_processing));
    if (!s->request)
        return o;
    put(o, "id_task", json_integer(s->id_task));
    put(o, "n_prompt_tokens", json_integer(s->n_prompt_tokens));
    /* What an idle slot did last is not shown. */
    bool busy = s->is_processing;
    put(o, "n_prompt_tokens_processed", json_integer(busy ? s->timings.n_prompt_processed : 0));
    put(o, "n_prompt_tokens_cache", json_integer(busy ? s->timings.n_prompt_cached : 0));
    if (s->request->owner_data)
        put(o, "params", generation_to_json(s->request->owner_data, true));
    json_t *next = json_object();
    put(next, "has_next_token", json_boolean(busy && s->has_next_token));
    put(next, "has_new_line", json_boolean(busy && s->has_new_line));
    put(next, "n_remain", json_integer(busy ? s->n_remaining : -1));
    put(next, "n_decoded", json_integer(busy ? s->timings.n_generated : 0));
    put(o, "next_token", json_pack("[o]", next));
    return o;
}

void handle_slots(struct http_exchange *x, void *context)
{
    const struct api *api = context;
    int32_t n = 0, n_idle = 0;
    if (!api->options->http.endpoint_slots) {
        reply_failure(x, FAIL_NOT_SUPPORTED,
                      "This server does not support slots endpoint. Start it with `--slots`");
        return;
    }
    struct engine_slot_status *statuses = engine_slot_statuses(api->engine, &n);
    json_t *list = json_array();
    for (int32_t i = 0; i < n && statuses; i++) {
        n_idle += !statuses[i].is_processing;
        push(list, slot_to_json(&statuses[i]));
    }
    engine_slot_statuses_free(statuses, n);
    if (http_query(x, "fail_on_no_slot").len > 0 && n_idle == 0) {
        json_decref(list);
        reply_failure(x, FAIL_UNAVAILABLE, "no slot available");
        return;
    }
    reply_json(x, list);
}

/* ---- POST /slots/:id_slot --------------------------------------------------------------- */

/* A name of a file in the slots' folder: no separators, no "..", nothing that
 * some file system would take for something else. */
static bool is_file_name(struct slice name)
{
    static const char forbidden[] = "/\\:*?\"<>|";
    if (name.len == 0 || name.len > 255 || name.data[0] == ' ' || name.data[name.len - 1] == ' ' ||
        name.data[name.len - 1] == '.')
        return false;
    for (size_t at = 0; at < name.len;) {
        uint32_t c;
        bool valid = true;
        at += utf8_decode(name.data + at, name.len - at, &c, &valid);
        if (!valid || c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xFF0E || c == 0x2215 ||
            c == 0x2216 || c == 0xFFFD || c == 0xFEFF || (c < 0x80 && strchr(forbidden, (int)c)))
            return false;
    }
    for (size_t i = 0; i + 1 < name.len; i++)
        if (name.data[i] == '.' && name.data[i + 1] == '.')
            return false;
    return true;
}

struct slot_visit {
    enum engine_slot_action action;
    struct engine_mailbox *mailbox;
    struct str filename;
};

static void visit_release(void *state)
{
    struct slot_visit *visit = state;
    if (visit->mailbox)
        engine_mailbox_free(visit->mailbox);
    str_free(&visit->filename);
    free(visit);
}

static json_t *action_result(const struct slot_visit *visit, const struct engine_event *e)
{
    if (visit->action == ENGINE_SLOT_ERASE)
        return json_pack("{s:i,s:i}", "id_slot", (int)e->id_slot, "n_erased",
                         (int)e->n_slot_tokens);
    bool saved = visit->action == ENGINE_SLOT_SAVE;
    return json_pack("{s:i,s:o,s:i,s:I,s:{s:f}}", "id_slot", (int)e->id_slot, "filename",
                     json_string_from(str_slice(&visit->filename)),
                     saved ? "n_saved" : "n_restored", (int)e->n_slot_tokens,
                     saved ? "n_written" : "n_read", (json_int_t)e->n_bytes, "timings",
                     saved ? "save_ms" : "restore_ms", e->t_ms);
}

static void visit_step(struct http_exchange *x, void *state)
{
    struct slot_visit *visit = state;
    if (http_client_gone(x)) {
        http_abandon(x);
        return;
    }
    struct engine_event *e = engine_mailbox_take(visit->mailbox, 0);
    if (!e) {
        if (http_is_stopping(x))
            reply_failure(x, FAIL_UNAVAILABLE, "the server is shutting down");
        return;
    }
    engine_slot_save_finish(e); /* on this worker: nobody else waits for the disk */
    if (e->kind == ENGINE_EVENT_SLOT)
        reply_json(x, action_result(visit, e));
    else
        reply_error(x, &e->error);
    engine_event_free(e);
}

static bool action_of(struct slice name, enum engine_slot_action *out)
{
    static const struct {
        const char *name;
        enum engine_slot_action action;
    } actions[] = {
        {"save", ENGINE_SLOT_SAVE}, {"restore", ENGINE_SLOT_RESTORE}, {"erase", ENGINE_SLOT_ERASE}};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (slice_equal_text(name, actions[i].name)) {
            *out = actions[i].action;
            return true;
        }
    }
    return false;
}

/* The body's "filename"; false with the exchange answered. */
static bool read_filename(struct http_exchange *x, struct str *out)
{
    json_t *body = body_object(x);
    if (!body)
        return false;
    const json_t *name = json_object_get(body, "filename");
    bool ok = json_is_string(name) && is_file_name(json_slice(name));
    if (!name)
        reply_failure(x, FAIL_INVALID, "key 'filename' not found");
    else if (!ok)
        reply_failure(x, FAIL_INVALID, "Invalid filename");
    else
        str_append_slice(out, json_slice(name));
    json_decref(body);
    return ok;
}

static void act(struct http_exchange *x, struct api *api, enum engine_slot_action action,
                int32_t id_slot)
{
    struct error err;
    struct str path = {0};
    struct slot_visit *visit = calloc(1, sizeof *visit);
    if (!visit) {
        reply_failure(x, FAIL_SERVER, "out of memory");
        return;
    }
    visit->action = action;
    http_continue(x, visit_step, visit, visit_release);
    if (action != ENGINE_SLOT_ERASE && !read_filename(x, &visit->filename))
        return;
    str_append_text(&path, api->options->cache.slot_save_path);
    str_append_slice(&path, str_slice(&visit->filename));
    visit->mailbox = engine_mailbox_create(http_wake, x);
    if (!visit->mailbox || path.failed)
        reply_failure(x, FAIL_SERVER, "out of memory");
    else if (!engine_submit_slot_action(api->engine, action, id_slot,
                                        action == ENGINE_SLOT_ERASE ? NULL : str_text(&path), 0,
                                        visit->mailbox, &err))
        reply_error(x, &err);
    str_free(&path);
}

void handle_slot_action(struct http_exchange *x, void *context)
{
    struct api *api = context;
    enum engine_slot_action action;
    if (!api->options->cache.slot_save_path || !*api->options->cache.slot_save_path) {
        reply_failure(x, FAIL_NOT_SUPPORTED,
                      "This server does not support slots action. Start it with "
                      "`--slot-save-path`");
        return;
    }
    const char *text = http_param(x, "id_slot").data;
    char *end = NULL;
    long id = text ? strtol(text, &end, 10) : -1;
    if (!text || end == text || id < 0 || id >= engine_n_slots(api->engine))
        reply_failure(x, FAIL_INVALID, "Invalid slot ID");
    else if (!action_of(http_query(x, "action"), &action))
        reply_failure(x, FAIL_INVALID, "Invalid action");
    else
        act(x, api, action, (int32_t)id);
}
