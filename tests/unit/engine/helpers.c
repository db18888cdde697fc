/* helpers.c - an engine on a small synthetic model, and its answers. */
#include "unit/engine/helpers.h"

#include <math.h>
#include <unistd.h>

#define TEST_MODEL_SPEC "llama:10m:f32:layers=2:embd=64:heads=4:kv_heads=2:ff=128:vocab=320"

static char model_path[64];

static void remove_model(void)
{
    unlink(model_path);
}

const char *test_model_path(void)
{
    if (model_path[0])
        return model_path;
    struct error err;
    snprintf(model_path, sizeof model_path, "/tmp/mlxcel-engine-test-%ld.gguf", (long)getpid());
    if (!model_synthetic_write(TEST_MODEL_SPEC, model_path, &err))
        fail_msg("%s", err.message);
    atexit(remove_model);
    return model_path;
}

struct engine_settings test_settings(void)
{
    struct engine_settings settings = {
        .model_path = test_model_path(),
        .context = context_settings_default(),
        .pool = {.n_threads = 2},
        .pool_batch = {.n_threads = 2},
        .n_parallel = TEST_N_SLOTS,
        .n_predict = -1,
        .continuous_batching = true,
        .slot_prompt_similarity = 0.1f,
        .cache_ram_mib = 64,
        .sleep_idle_seconds = -1,
    };
    settings.context.n_ctx = TEST_N_CTX * TEST_N_SLOTS;
    settings.context.n_batch = 64;
    settings.context.n_ubatch = 32;
    return settings;
}

struct engine *test_engine_start(const struct engine_settings *settings)
{
    struct engine *engine = NULL;
    struct error err;
    if (!engine_create(settings, &engine, &err))
        fail_msg("%s", err.message);
    enum engine_state state = engine_wait_loaded(engine);
    if (state != ENGINE_READY && state != ENGINE_SLEEPING) { /* it may not wait to sleep */
        engine_load_error(engine, &err);
        fail_msg("%s", err.message);
    }
    return engine;
}

int test_start(void **state)
{
    struct engine_settings settings = test_settings();
    *state = test_engine_start(&settings);
    return 0;
}

int test_stop(void **state)
{
    engine_free(*state);
    return 0;
}

struct engine_request *test_request(int32_t first, int32_t n_prompt, int32_t n_predict)
{
    struct engine_request *request = engine_request_create();
    assert_non_null(request);
    for (int32_t i = 0; i < n_prompt; i++)
        assert_true(VEC_PUSH(&request->prompt, first + i));
    request->n_predict = n_predict;
    request->sampling.temperature = 0;
    /* The placeholder vocabulary begins with <unk>, <s> and </s>: never those,
     * so that only limits end an answer. */
    enum { N_BANNED = 3 };
    struct logit_bias *banned = arena_alloc_array(&request->arena, N_BANNED, sizeof *banned);
    assert_non_null(banned);
    for (int32_t i = 0; i < N_BANNED; i++)
        banned[i] = (struct logit_bias){i, -INFINITY};
    request->sampling.logit_bias = banned;
    request->sampling.n_logit_bias = N_BANNED;
    return request;
}

struct engine_event *test_wait(struct engine_mailbox *mailbox)
{
    for (;;) {
        struct engine_event *event = engine_mailbox_take(mailbox, 30000);
        if (!event)
            fail_msg("no event within 30 s");
        if (event->kind >= ENGINE_EVENT_DONE)
            return event;
        engine_event_free(event);
    }
}

struct engine_event *test_run(struct engine *engine, struct engine_request *request)
{
    struct engine_mailbox *mailbox = engine_mailbox_create(NULL, NULL);
    struct error err;
    if (!engine_submit(engine, request, mailbox, NULL, &err))
        fail_msg("%s", err.message);
    struct engine_event *event = test_wait(mailbox);
    engine_mailbox_free(mailbox);
    return event;
}
