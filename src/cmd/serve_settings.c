/* serve_settings.c - what the operator asked for, as the engine's settings. */
#include "cmd/serve.h"

#include "base/log.h"
#include "cmd/numa.h"

#include <stdio.h>
#include <string.h>

enum { AUTO_SLOTS = 4 }; /* slots when --parallel says auto, on a unified cache */

static enum file_loading loading_of(int load_mode)
{
    switch (load_mode) {
    case OPTION_LOAD_NONE:
    case OPTION_LOAD_MLOCK:
        return FILE_READ;
    case OPTION_LOAD_DIRECT_IO:
        return FILE_DIRECT;
    default:
        return FILE_MMAP;
    }
}

/* --override-kv, in the arena of the options. */
static bool set_overrides(struct options *options, struct model_file_settings *file,
                          struct error *err)
{
    size_t n = options->model.kv_overrides.n;
    struct meta_override *overrides = arena_alloc_array(&options->arena, n, sizeof *overrides);
    if (!overrides)
        return error_memory(err);
    for (size_t i = 0; i < n; i++) {
        static const enum meta_override_type types[] = {
            [OPTION_KV_INT] = META_OVERRIDE_INT,
            [OPTION_KV_FLOAT] = META_OVERRIDE_FLOAT,
            [OPTION_KV_BOOL] = META_OVERRIDE_BOOL,
            [OPTION_KV_TEXT] = META_OVERRIDE_TEXT,
        };
        const struct option_kv *from = &options->model.kv_overrides.data[i];
        struct meta_override *to = &overrides[i];
        if (strlen(from->key) >= META_OVERRIDE_MAX ||
            (from->text && strlen(from->text) >= META_OVERRIDE_MAX))
            return error_set(err, ERR_INVALID,
                             "--override-kv %s: at most %d bytes of key and value", from->key,
                             META_OVERRIDE_MAX - 1);
        to->type = types[from->type];
        to->integer = from->i64;
        to->real = from->f64;
        to->boolean = from->i64 != 0;
        snprintf(to->key, sizeof to->key, "%s", from->key);
        snprintf(to->text, sizeof to->text, "%s", from->text ? from->text : "");
    }
    file->overrides = overrides;
    file->n_overrides = n;
    return true;
}

static bool set_controls(struct options *options, struct engine_settings *to, struct error *err)
{
    size_t n = options->model.controls.n;
    struct control_source *sources = arena_alloc_array(&options->arena, n, sizeof *sources);
    if (!sources)
        return error_memory(err);
    for (size_t i = 0; i < n; i++) {
        const struct option_control *from = &options->model.controls.data[i];
        sources[i] = (struct control_source){from->path, from->scale};
    }
    to->controls = sources;
    to->n_controls = n;
    to->control_first = options->model.control_first;
    to->control_last = options->model.control_last;
    return true;
}

static void set_workers(const struct cpu_options *from, struct worker_settings *to)
{
    memset(to, 0, sizeof *to); /* compared bytewise later */
    to->n_threads = from->n_threads > 0 ? from->n_threads : 1;
    if (to->n_threads > WORKER_MAX_THREADS)
        to->n_threads = WORKER_MAX_THREADS;
    if (from->mask_valid)
        memcpy(to->cpu_mask, from->mask, sizeof from->mask);
    to->strict = from->strict;
    to->priority = from->prio;
    to->poll = (int32_t)from->poll;
}

static bool set_cache_types(const struct context_options *from, struct context_settings *to,
                            struct error *err)
{
    if (!dtype_from_name(from->cache_type_k, &to->type_k))
        return error_set(err, ERR_INVALID, "--cache-type-k: '%s' is not a cache type",
                         from->cache_type_k);
    if (!dtype_from_name(from->cache_type_v, &to->type_v))
        return error_set(err, ERR_INVALID, "--cache-type-v: '%s' is not a cache type",
                         from->cache_type_v);
    return true;
}

/* Embeddings need a whole input in one pass over the weights. */
static void fit_batch_to_embeddings(const struct options *options, struct context_settings *context)
{
    if (!options->context.embedding || context->n_batch <= context->n_ubatch)
        return;
    log_warn("embeddings need an input in one physical batch: --batch-size %d is lowered to "
             "--ubatch-size %d",
             (int)context->n_batch, (int)context->n_ubatch);
    context->n_batch = context->n_ubatch;
}

static bool set_context(const struct options *options, struct engine_settings *to,
                        struct error *err)
{
    const struct context_options *from = &options->context;
    struct context_settings *context = &to->context;
    *context = context_settings_default();
    context->n_ctx = from->n_ctx;
    context->n_batch = from->n_batch;
    context->n_ubatch = from->n_ubatch;
    context->kv_unified =
        from->kv_unified == OPTION_ON || (from->kv_unified == OPTION_AUTO && from->n_parallel < 0);
    context->swa_full = from->swa_full;
    context->embeddings = from->embedding;
    context->pooling = (enum pooling)from->pooling;
    context->rope_scaling = (enum rope_scaling)from->rope_scaling;
    context->rope_freq_base = from->rope_freq_base;
    context->rope_freq_scale = from->rope_freq_scale;
    context->yarn_ext_factor = from->yarn_ext_factor;
    context->yarn_attn_factor = from->yarn_attn_factor < 0 ? 0 : from->yarn_attn_factor;
    context->yarn_beta_fast = from->yarn_beta_fast;
    context->yarn_beta_slow = from->yarn_beta_slow;
    context->yarn_orig_ctx = from->yarn_orig_ctx;
    to->n_parallel = from->n_parallel < 0 ? AUTO_SLOTS : from->n_parallel;
    fit_batch_to_embeddings(options, context);
    return set_cache_types(from, context, err);
}

bool serve_engine_settings(struct options *options, struct engine_settings *out, struct error *err)
{
    *out = (struct engine_settings){
        .model_path = options->model.path,
        .file = {.loading = loading_of(options->model.load_mode),
                 .lock = options->model.load_mode == OPTION_LOAD_MLOCK ||
                         options->model.load_mode == OPTION_LOAD_MMAP_MLOCK},
        .model = {.repack = options->model.repack, .check_tensors = options->model.check_tensors},
        .n_predict = options->context.n_predict,
        .context_shift = options->context.context_shift,
        .continuous_batching = options->context.cont_batching,
        .warmup = options->context.warmup,
        .print_special = options->generation.special,
        .slot_prompt_similarity = options->cache.slot_prompt_similarity,
        .cache_ram_mib = options->cache.cache_ram_mib,
        .cache_idle_slots = options->cache.cache_idle_slots,
        .n_checkpoints = options->cache.n_checkpoints,
        .checkpoint_min_step = options->cache.checkpoint_min_step,
        .sleep_idle_seconds = options->http.sleep_idle_seconds,
        .fit = options->context.fit,
        .fit_n_ctx = options->context.fit_ctx,
        .fit_margin_mib = options->context.fit_target_mib,
    };
    set_workers(&options->cpu, &out->pool);
    set_workers(&options->cpu_batch, &out->pool_batch);
    if (options->model.numa != OPTION_NUMA_DISABLED) {
        struct numa_machine machine;
        numa_read_machine(&machine);
        numa_apply(&machine, (enum option_numa)options->model.numa, &out->pool);
        numa_apply(&machine, (enum option_numa)options->model.numa, &out->pool_batch);
    }
    return set_context(options, out, err) && set_overrides(options, &out->file, err) &&
           set_controls(options, out, err);
}
