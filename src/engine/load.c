/* load.c - opening the model, and its weights and context, which sleep frees. */
#include "engine/fit.h"
#include "engine/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>

/* The model's description outlives the model: it is asked for while asleep. */
static bool keep_info(struct engine *engine, struct error *err)
{
    if (engine->info.arch)
        return true;
    struct model_info info = *model_info(engine->model);
    const char **texts[] = {&info.arch, &info.name, &info.size_label, &info.ftype,
                            &info.description};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = arena_duplicate(&engine->info_arena, slice_of(*texts[i] ? *texts[i] : ""));
        if (!*texts[i])
            return error_memory(err);
    }
    const char **labels =
        arena_alloc_array(&engine->info_arena, (size_t)info.n_labels, sizeof *labels);
    if (!labels)
        return error_memory(err);
    for (int32_t i = 0; i < info.n_labels && info.labels; i++)
        if (info.labels[i])
            labels[i] = arena_duplicate(&engine->info_arena, slice_of(info.labels[i]));
    info.labels = labels;
    int32_t *dims = arena_alloc_array(&engine->info_arena, info.n_dims, sizeof *dims);
    if (!dims)
        return error_memory(err);
    if (info.n_dims)
        memcpy(dims, info.dims, info.n_dims * sizeof *dims);
    info.dims = dims;
    engine->info = info;
    return true;
}

bool engine_open(struct engine *engine, struct error *err)
{
    struct engine_settings *settings = &engine->settings;
    if (!model_file_open(settings->model_path, &settings->file, &engine->file, err) ||
        !tokenizer_load(engine->file, &engine->tokenizer, err))
        return false;
    engine->vocab = vocab_from_tokenizer(engine->tokenizer, err);
    if (!engine->vocab)
        return false;
    engine->pool = worker_pool_create(&settings->pool, err);
    if (!engine->pool)
        return false;
    /* Equal settings need no second set of threads. */
    if (memcmp(&settings->pool, &settings->pool_batch, sizeof settings->pool) == 0)
        return true;
    engine->pool_batch = worker_pool_create(&settings->pool_batch, err);
    return engine->pool_batch != NULL;
}

/* True when nobody waits for the batch being computed any more. */
static bool nobody_waits(void *arg)
{
    struct engine *engine = arg;
    return atomic_load(&engine->abort_step) || engine_step_is_cancelled(engine);
}

/* The model's own context where it was not asked for: smaller when its cache
 * has no room beside the weights. */
static bool fit_context(struct engine *engine, struct context_settings *context,
                        struct context_needs *needs, struct error *err)
{
    const struct engine_settings *settings = &engine->settings;
    if (!context_measure(engine->model, context, needs, err))
        return false;
    if (!settings->fit || settings->context.n_ctx != 0)
        return true;
    /* Mapped weights count as available memory, yet are needed all the time. */
    int64_t room = memory_available() - ((int64_t)settings->fit_margin_mib << 20);
    if (settings->file.loading == FILE_MMAP)
        room -= (int64_t)engine->info.n_bytes;
    int32_t fitting = fit_n_ctx(needs->n_ctx, needs->kv_bytes, room, settings->fit_n_ctx);
    if (fitting == needs->n_ctx || fitting == context->n_ctx)
        return true;
    log_warn("the cache of %d tokens does not fit into free memory: using %d (-c 0 insists)",
             (int)needs->n_ctx, (int)fitting);
    context->n_ctx = fitting;
    /* Sliding windows are no smaller in a smaller context: look again. */
    return fit_context(engine, context, needs, err);
}

#define LOWER                                                                                      \
    "use a smaller context (-c), fewer slots (-np), a smaller cache type (-ctk q8_0 -ctv q8_0) "   \
    "or "                                                                                          \
    "batch (-b, -ub)"

/* Refused before any of it is reserved: what memory has no room for now, and with --fit
 * off, where somebody insists, what the machine can never have. */
static bool check_needs(const struct engine *engine, const struct context_needs *needs,
                        struct error *err)
{
    uint64_t total = memory_total(), want;
    int64_t available = memory_available();
    bool known = !__builtin_add_overflow(needs->kv_bytes, needs->work_bytes, &want);
    if (!known || want > total)
        return error_set(err, ERR_MEMORY,
                         "a context of %d tokens takes %" PRIu64 " MiB for its cache and %" PRIu64
                         " MiB to compute, and there are %" PRIu64 " MiB of memory in all; " LOWER,
                         (int)needs->n_ctx, needs->kv_bytes >> 20, needs->work_bytes >> 20,
                         total >> 20);
    if (!engine->settings.fit || want <= (uint64_t)available)
        return true;
    return error_set(err, ERR_MEMORY,
                     "a context of %d tokens takes %" PRIu64 " MiB for its cache and %" PRIu64
                     " MiB to compute, and %" PRId64 " MiB of memory are available beside the "
                     "weights; " LOWER ", or --fit off to insist",
                     (int)needs->n_ctx, needs->kv_bytes >> 20, needs->work_bytes >> 20,
                     available >> 20);
}

/* The weights, as read or packed, are memory of this process: what has no room is not
 * begun. Mapped and not packed they are the file's pages, which come and go. */
static bool check_weights(struct engine *engine, struct model_settings *model, struct error *err)
{
    const struct engine_settings *settings = &engine->settings;
    bool mapped = settings->file.loading == FILE_MMAP;
    uint64_t bytes = model_file_n_bytes(engine->file), total = memory_total();
    int64_t available = memory_available();
    uint64_t want = mapped ? (model->repack ? bytes : 0) : bytes;
    if (want <= (uint64_t)available)
        return true;
    if (mapped && settings->fit) {
        log_warn("repacked weights take %" PRIu64 " MiB, and %" PRId64 " MiB of memory are "
                 "available: they are used as they are in the file (--no-repack)",
                 bytes >> 20, available >> 20);
        model->repack = false;
        return true;
    }
    if (!settings->fit && want <= total)
        return true;
    return error_set(err, ERR_MEMORY,
                     "the weights take %" PRIu64 " MiB%s, and %" PRId64 " MiB of %" PRIu64
                     " MiB are available; %s, or a smaller quantization of the model",
                     bytes >> 20, mapped ? " once repacked" : "", available >> 20, total >> 20,
                     mapped ? "use --no-repack" : "use --load-mode mmap --no-repack");
}

/* A server for embeddings has slots behind those it shows: a batch then takes
 * as many texts as have room in it. */
static void count_slots(struct engine *engine)
{
    if (engine->n_slots > 0)
        return; /* the same after a sleep */
    engine->n_slots = engine->settings.n_parallel;
    if (engine_embeds(engine) && engine->n_slots < MODEL_SEQ_MAX)
        engine->n_slots = MODEL_SEQ_MAX;
}

/* Vectors that do not fit the model are left out with a warning, as clients of the
 * reference know it; only memory ends the loading. */
static bool set_control(struct engine *engine, struct error *err)
{
    const struct engine_settings *s = &engine->settings;
    struct error reason = {0};
    if (s->n_controls == 0 || context_set_control(engine->context, s->controls, s->n_controls,
                                                  s->control_first, s->control_last, &reason))
        return true;
    if (reason.code == ERR_MEMORY) {
        *err = reason;
        return false;
    }
    log_warn("%s; the model answers without control vectors", reason.message);
    return true;
}

/* What others read without a lock: set by the first load and the same ever after,
 * whatever memory is free when the engine wakes up. */
static void keep_sizes(struct engine *engine)
{
    int32_t n_ctx = context_n_ctx_seq(engine->context);
    if (n_ctx > engine->info.n_ctx_train && engine->info.n_ctx_train > 0) {
        log_warn("a slot's context (%d) exceeds what the model was trained with (%d): using %d",
                 (int)n_ctx, (int)engine->info.n_ctx_train, (int)engine->info.n_ctx_train);
        n_ctx = engine->info.n_ctx_train;
    }
    engine->n_ctx = context_n_ctx(engine->context);
    engine->n_ctx_slot = n_ctx;
    engine->n_swa = context_n_swa(engine->context);
    if (engine->settings.context_shift && !kv_can_shift(engine->context)) {
        log_warn("contexts are not shifted: sliding windows keep too little (--swa-full helps)");
        engine->settings.context_shift = false;
    }
    engine->n_ubatch = context_n_ubatch(engine->context);
    engine->pooling = context_pooling(engine->context);
    slot_file_limits(engine, &engine->file_limits);
}

static bool make_context(struct engine *engine, struct error *err)
{
    struct context_settings context = engine->settings.context;
    bool is_first = engine->n_ctx == 0;
    context.n_seq_max = engine->n_slots;
    context.n_shares = engine->settings.n_parallel;
    if (!is_first)
        context.n_ctx = engine->n_ctx;
    else if (context.n_ctx == 0)
        context.n_ctx = engine->info.n_ctx_train;
    context.pool = engine->pool;
    context.pool_batch = engine->pool_batch;
    if (context.n_batch > 0 && context.n_batch < context.n_shares)
        context.n_batch = context.n_shares;
    struct context_needs needs;
    if ((is_first &&
         (!fit_context(engine, &context, &needs, err) || !check_needs(engine, &needs, err))) ||
        !context_create(engine->model, &context, &engine->context, err) ||
        !set_control(engine, err))
        return false;
    context_set_abort(engine->context, nobody_waits, engine);
    if (is_first)
        keep_sizes(engine);
    return !engine->settings.warmup || model_warmup(engine->context, err);
}

static bool make_slots(struct engine *engine, struct error *err)
{
    int32_t n = engine->n_slots;
    int32_t n_rows = context_n_batch(engine->context);
    if (!engine->slots) {
        engine->slots = calloc((size_t)n, sizeof *engine->slots);
        if (!engine->slots)
            return error_memory(err);
        for (int32_t i = 0; i < n; i++)
            engine->slots[i].id = i;
    }
    engine->batch = step_batch_create(n_rows > n ? n_rows : n);
    return engine->batch || error_memory(err);
}

static void set_up_prompt_cache(struct engine *engine)
{
    int64_t limit = engine->settings.cache_ram_mib;
    engine->prompts.enabled = limit != 0;
    engine->prompts.limit_bytes = limit > 0 ? (size_t)limit << 20 : 0;
    engine->prompts.limit_tokens = (size_t)context_n_ctx(engine->context);
}

/* Rows of the weights that no token has are common as padding; many are another model's
 * tokenizer. Tokens that the weights do not have would be read past their end. */
static bool check_vocabulary(const struct engine *engine, struct error *err)
{
    int32_t tokens = tokenizer_n_vocab(engine->tokenizer), rows = engine->info.n_vocab;
    if (tokens > rows)
        return error_set(err, ERR_FORMAT,
                         "%s: the tokenizer has %d tokens and the weights have rows for %d; the "
                         "tokenizer belongs to another model",
                         model_file_path(engine->file), (int)tokens, (int)rows);
    int32_t named = 0; /* a folder's tokenizer is filled up to config.json's vocab_size */
    for (int32_t i = 0; i < tokens; i++)
        named += text_piece(engine->tokenizer, i, true).len > 0;
    if (named < rows - rows / 10)
        log_warn("%s: the tokenizer has %d tokens and the weights have rows for %d; if answers are "
                 "cut short or odd, it belongs to another model",
                 model_file_path(engine->file), (int)named, (int)rows);
    return true;
}

/* What a start is remembered by: what was loaded, how large it is, what computes it. */
static void log_loaded(const struct engine *engine, uint64_t t_begin_us)
{
    const struct model_info *info = &engine->info;
    const struct context_settings *context = &engine->settings.context;
    int n_slots = (int)engine->settings.n_parallel, n_ctx = (int)engine->n_ctx_slot;
    log_info("model loaded in %.2f s: %s, %.2f M parameters, weights %.1f MiB (%s)",
             (double)(clock_monotonic_us() - t_begin_us) / 1e6, info->description,
             (double)info->n_params / 1e6, (double)info->n_bytes / 1048576,
             model_file_kind(engine->file) == MODEL_FILE_GGUF ? "GGUF" : "safetensors");
    log_info("%d slot%s %s %d tokens%s; KV cache %.1f MiB (%s keys, %s values); threads %d, for "
             "prompts %d; %s",
             n_slots, n_slots == 1 ? "" : "s", context->kv_unified && n_slots > 1 ? "share" : "of",
             context->kv_unified ? (int)engine->n_ctx : n_ctx,
             context->kv_unified || n_slots == 1 ? "" : " each",
             (double)context_kv_bytes(engine->context) / 1048576, dtype_info(context->type_k)->name,
             dtype_info(context->type_v)->name, (int)worker_pool_n_threads(engine->pool),
             (int)worker_pool_n_threads(engine->pool_batch ? engine->pool_batch : engine->pool),
             kernels_isa());
}

bool engine_load(struct engine *engine, struct error *err)
{
    uint64_t t_begin_us = clock_monotonic_us();
    struct model_settings model = engine->settings.model;
    model.progress = &engine->load_progress;
    if (!check_weights(engine, &model, err) ||
        !model_load(engine->file, &model, engine->pool, &engine->model, err))
        return false;
    if (!keep_info(engine, err) || !check_vocabulary(engine, err))
        return false;
    count_slots(engine);
    if (!make_context(engine, err) || !make_slots(engine, err))
        return false;
    set_up_prompt_cache(engine);
    log_loaded(engine, t_begin_us);
    return true;
}

void engine_unload(struct engine *engine)
{
    prompt_cache_clear(&engine->prompts);
    for (int32_t i = 0; engine->slots && i < engine->n_slots; i++)
        slot_forget_cache(engine, &engine->slots[i]);
    step_batch_free(engine->batch);
    engine->batch = NULL;
    context_free(engine->context);
    engine->context = NULL;
    model_free(engine->model);
    engine->model = NULL;
}

void engine_close(struct engine *engine)
{
    engine_unload(engine);
    for (int32_t i = 0; engine->slots && i < engine->n_slots; i++)
        slot_free(&engine->slots[i]);
    free(engine->slots);
    worker_pool_free(engine->pool);
    worker_pool_free(engine->pool_batch);
    vocab_free(engine->vocab);
    tokenizer_free(engine->tokenizer);
    model_file_close(engine->file);
    arena_free(&engine->info_arena);
}
