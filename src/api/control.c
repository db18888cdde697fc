/* control.c - steering a completion that runs. */
#include "api/internal.h"

static void control_step(struct http_exchange *x, void *state)
{
    struct engine_mailbox *mailbox = state;
    if (http_client_gone(x)) {
        http_abandon(x);
        return;
    }
    struct engine_event *e = engine_mailbox_take(mailbox, 0);
    if (!e) {
        if (http_is_stopping(x))
            reply_failure(x, FAIL_UNAVAILABLE, "the server is shutting down");
        return;
    }
    if (e->kind == ENGINE_EVENT_CONTROL) {
        json_t *o = json_pack("{s:b}", "success", e->success);
        if (!e->success)
            put(o, "message", json_string_from(slice_of(e->error.message)));
        reply_json(x, o);
    } else {
        reply_error(x, &e->error);
    }
    engine_event_free(e);
}

static void control_release(void *state)
{
    engine_mailbox_free(state);
}

void handle_control(struct http_exchange *x, void *context)
{
    struct api *api = context;
    struct error err;
    json_t *body = body_object(x);
    if (!body)
        return;
    struct slice id = member_text(body, "id");
    if (id.len == 0) {
        reply_failure(x, FAIL_INVALID, "missing completion id");
    } else if (!slice_equal_text(member_text(body, "action"), "reasoning_end")) {
        reply_failure(x, FAIL_INVALID, "unknown control action");
    } else {
        struct engine_mailbox *mailbox = engine_mailbox_create(http_wake, x);
        if (!mailbox) {
            reply_failure(x, FAIL_SERVER, "out of memory");
        } else {
            http_continue(x, control_step, mailbox, control_release);
            if (!engine_submit_reasoning_end(api->engine, id.data, mailbox, &err))
                reply_error(x, &err);
        }
    }
    json_decref(body);
}
