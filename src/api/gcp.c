/* gcp.c - Vertex AI's predict adapter: several requests of any route in one. */
#include "api/internal.h"

#include <stdlib.h>

enum { MAX_INSTANCES = 128 };

struct predict {
    struct http_exchange *x;
    pthread_mutex_t lock;
    json_t **predictions; /* n; NULL while one is under way */
    size_t n, n_done;
};

struct instance {
    struct predict *predict;
    size_t index;
};

static void predict_release(void *state)
{
    struct predict *p = state;
    for (size_t i = 0; i < p->n; i++)
        json_decref(p->predictions[i]);
    free(p->predictions);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static json_t *wrapped_failure(enum failure failure, const char *message)
{
    return json_pack("{s:o}", "error", failure_to_json(failure, message));
}

static void settle(struct predict *p, size_t index, json_t *value)
{
    pthread_mutex_lock(&p->lock);
    struct http_exchange *x = p->x; /* after the unlock the last one may free p */
    p->predictions[index] = value;
    p->n_done++;
    pthread_mutex_unlock(&p->lock);
    http_wake(x);
}

/* An instance that is not started. Without memory for what to say: NULL. */
static void refuse(struct predict *p, size_t index, enum failure failure, const char *message)
{
    json_t *value = wrapped_failure(failure, message);
    if (memory_failed()) {
        json_decref(value);
        value = NULL;
    }
    settle(p, index, value);
}

static void instance_done(void *arg, int status, bool streamed, struct slice body)
{
    struct instance *instance = arg;
    json_t *value;
    (void)status;
    if (streamed)
        value = wrapped_failure(FAIL_INVALID, "predict route does not support streaming responses");
    else if (body.len == 0)
        value = json_null();
    else if (!(value = json_parse(body, NULL)) && !memory_failed())
        value = json_string_from(body);
    settle(instance->predict, instance->index, value);
    free(instance);
}

static void start_instance(struct predict *p, size_t index, const struct api *api,
                           const json_t *given)
{
    enum http_method method;
    const json_t *format = json_object_get(given, "@requestFormat");
    if (!json_is_object(given)) {
        refuse(p, index, FAIL_INVALID, "each instance must be a JSON object");
        return;
    }
    if (!json_is_string(format)) {
        refuse(p, index, FAIL_INVALID, "each instance must include a string @requestFormat");
        return;
    }
    const char *path = route_of_format(api, json_slice(format), &method);
    if (!path) {
        struct str message = {0};
        str_append_text(&message, "no handler registered for @requestFormat: ");
        str_append_slice(&message, json_slice(format));
        refuse(p, index, FAIL_INVALID, str_text(&message));
        str_free(&message);
        return;
    }
    json_t *payload = json_copy((json_t *)given);
    json_object_del(payload, "@requestFormat");
    if (json_object_get(payload, "stream"))
        put(payload, "stream", json_false());
    struct str body = {0};
    struct instance *instance = malloc(sizeof *instance);
    /* A copy that finds no memory for a member lacks it, and says nothing. */
    bool ok = instance && json_append(&body, payload) && !memory_failed();
    json_decref(payload);
    if (ok) {
        *instance = (struct instance){p, index};
        ok = http_inner(p->x, method, path, str_slice(&body), instance_done, instance);
    }
    str_free(&body);
    if (!ok) {
        free(instance);
        refuse(p, index, FAIL_SERVER, "the instance could not be started: out of memory");
    }
}

static void predict_step(struct http_exchange *x, void *state)
{
    struct predict *p = state;
    pthread_mutex_lock(&p->lock);
    bool over = p->n_done == p->n;
    pthread_mutex_unlock(&p->lock);
    if (!over)
        return; /* the instances see the client go, and end */
    json_t *list = json_array();
    bool ok = true;
    for (size_t i = 0; i < p->n; i++) /* NULL: no memory for one, on another thread */
        ok = json_array_append(list, p->predictions[i]) == 0 && ok;
    json_t *answer = json_pack("{s:o}", "predictions", list);
    if (!ok) {
        json_decref(answer);
        answer = NULL;
    }
    reply_json(x, answer);
}

void handle_predict(struct http_exchange *x, void *context)
{
    struct api *api = context;
    json_t *body = body_json(x), *instances, *instance;
    size_t i;
    if (!body)
        return;
    instances = json_object_get(body, "instances");
    struct predict *p = calloc(1, sizeof *p);
    if (!json_is_object(body)) {
        reply_failure(x, FAIL_INVALID, "request body must be a JSON object");
    } else if (!json_is_array(instances)) {
        reply_failure(x, FAIL_INVALID, "request body must include an array field named instances");
    } else if (json_array_size(instances) > MAX_INSTANCES) {
        reply_failure(x, FAIL_INVALID, "instances array exceeds maximum size of 128");
    } else if (!p || !(p->predictions = calloc(json_array_size(instances) + 1, sizeof(json_t *)))) {
        reply_failure(x, FAIL_SERVER, "out of memory");
    } else {
        p->x = x;
        p->n = json_array_size(instances);
        pthread_mutex_init(&p->lock, NULL);
        http_continue(x, predict_step, p, predict_release);
        json_array_foreach(instances, i, instance) start_instance(p, i, api, instance);
        p = NULL;
    }
    free(p);
    json_decref(body);
}
