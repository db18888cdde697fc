/* gather.c - many inputs to the engine at once, one answer when all are back. */
#include "api/internal.h"

#include <stdlib.h>

struct gathering {
    const struct api *api;
    struct engine_mailbox *mailbox;
    struct engine_job **jobs;     /* n */
    struct engine_event **events; /* n, by index; NULL while one is under way */
    size_t n, n_done;
    bool over;
    gathered *answer;
    void *arg;
    void (*release)(void *arg);
};

static void cancel(struct gathering *g)
{
    for (size_t i = 0; g->jobs && i < g->n; i++)
        if (g->jobs[i])
            engine_job_cancel(g->jobs[i]);
    g->over = true;
}

static void gathering_release(void *state)
{
    struct gathering *g = state;
    if (g->n_done < g->n)
        cancel(g);
    if (g->mailbox)
        engine_mailbox_free(g->mailbox);
    for (size_t i = 0; i < g->n; i++) {
        if (g->jobs)
            engine_job_release(g->jobs[i]);
        if (g->events)
            engine_event_free(g->events[i]);
    }
    free(g->jobs);
    free(g->events);
    g->release(g->arg);
    free(g);
}

/* Keep what came back; answer when it was the last. */
static void take(struct http_exchange *x, struct gathering *g, struct engine_event *e)
{
    size_t i = (size_t)e->index;
    if (e->kind == ENGINE_EVENT_ERROR) {
        reply_error_json(x, event_error_to_json(e), SURFACE_NATIVE);
        cancel(g);
    } else if (i < g->n && !g->events[i] && e->vectors) {
        g->events[i] = e;
        if (++g->n_done == g->n) {
            g->over = true;
            g->answer(x, g->api, (const struct engine_event *const *)g->events, g->n, g->arg);
        }
        return;
    } else {
        reply_failure(x, FAIL_SERVER, "out of memory");
        cancel(g);
    }
    engine_event_free(e);
}

static void gathering_step(struct http_exchange *x, void *state)
{
    struct gathering *g = state;
    struct engine_event *e;
    if (g->over)
        return;
    if (http_client_gone(x)) {
        cancel(g);
        http_abandon(x);
        return;
    }
    while (!g->over && (e = engine_mailbox_take(g->mailbox, 0)))
        take(x, g, e);
    if (!g->over && http_is_stopping(x)) {
        reply_failure(x, FAIL_UNAVAILABLE, "the server is shutting down");
        cancel(g);
    }
}

/* A request for each input, whose tokens it takes. */
static bool make_requests(struct prompts *inputs, enum engine_task task,
                          struct engine_request **requests, struct error *err)
{
    for (size_t i = 0; i < inputs->n; i++) {
        requests[i] = engine_request_create();
        if (!requests[i]) {
            while (i-- > 0)
                engine_request_free(requests[i]);
            return error_memory(err);
        }
        requests[i]->task = task;
        requests[i]->index = (int32_t)i;
        requests[i]->prompt = inputs->data[i];
        inputs->data[i] = (struct token_vec){0};
    }
    return true;
}

static size_t longest(const struct prompts *inputs)
{
    size_t n = 0;
    for (size_t i = 0; i < inputs->n; i++)
        n = inputs->data[i].n > n ? inputs->data[i].n : n;
    return n;
}

static bool start(struct http_exchange *x, struct gathering *g, enum engine_task task,
                  struct prompts *inputs, struct error *err)
{
    size_t n = inputs->n;
    struct engine_request **requests = calloc(n, sizeof(struct engine_request *));
    g->jobs = calloc(n, sizeof(struct engine_job *));
    g->events = calloc(n, sizeof(struct engine_event *));
    g->mailbox = engine_mailbox_create(http_wake, x);
    g->n = n;
    bool ok = (requests && g->jobs && g->events && g->mailbox) || error_memory(err);
    ok = ok && make_requests(inputs, task, requests, err) &&
         engine_submit_all(g->api->engine, requests, n, g->mailbox, g->jobs, err);
    free(requests);
    return ok;
}

void gather(struct http_exchange *x, const struct api *api, enum engine_task task,
            struct prompts *inputs, gathered *answer, void *arg, void (*release)(void *arg))
{
    struct error err;
    struct gathering *g = calloc(1, sizeof *g);
    if (!g) {
        reply_failure(x, FAIL_SERVER, "out of memory");
        release(arg);
        return;
    }
    *g = (struct gathering){.api = api, .answer = answer, .arg = arg, .release = release};
    http_continue(x, gathering_step, g, gathering_release);
    size_t n_longest = longest(inputs);
    if (!start(x, g, task, inputs, &err)) {
        g->over = true;
        reply_error_json(x, size_error_to_json(&err, n_longest, engine_slot_n_ctx(api->engine)),
                         SURFACE_NATIVE);
    }
}
