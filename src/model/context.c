/* context.c - making a context: settings, sizes, memory; and its KV door. */
#include "model/context.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS_PAD = 256, FFN_SCRATCH_BYTES = 16 << 20 };

struct context_settings context_settings_default(void)
{
    return (struct context_settings){.n_seq_max = 1,
                                     .n_batch = 2048,
                                     .n_ubatch = 512,
                                     .type_k = DTYPE_F16,
                                     .type_v = DTYPE_F16,
                                     .causal = true,
                                     .pooling = POOLING_UNSPECIFIED,
                                     .rope_scaling = ROPE_SCALING_UNSPECIFIED,
                                     .yarn_ext_factor = -1.0f,
                                     .yarn_attn_factor = -1.0f,
                                     .yarn_beta_fast = -1.0f,
                                     .yarn_beta_slow = -1.0f};
}

/* ---- settings ------------------------------------------------------------------- */

static int32_t padded(int32_t n)
{
    return n > INT32_MAX - CELLS_PAD ? INT32_MAX / CELLS_PAD * CELLS_PAD
                                     : (n + CELLS_PAD - 1) / CELLS_PAD * CELLS_PAD;
}

/* Layers with a sliding window get rings where that saves cells. Without a causal
 * mask a token sees what comes after it, and embedding puts more sequences into a
 * context than share it: there every cell is kept. */
static void settle_window(const struct model_context *ctx, struct kv_sizes *sizes)
{
    const struct context_settings *s = &ctx->settings;
    bool unified = s->kv_unified;
    int32_t window = context_n_swa(ctx), most = unified ? sizes->n_cells : sizes->n_cells_seq;
    int64_t cells = (int64_t)window * (unified ? s->n_seq_max : 1) + s->n_ubatch;
    if (window == 0 || s->embeddings || cells >= most || padded((int32_t)cells) >= most)
        return;
    sizes->n_window = window;
    sizes->ring_cells = padded((int32_t)cells);
    sizes->n_rings = unified ? 1 : s->n_seq_max;
}

static bool settle(struct model_context *ctx, struct kv_sizes *sizes, struct error *err)
{
    struct context_settings *s = &ctx->settings;
    const struct hparams *h = &ctx->model->h;
    if (s->n_ctx < 0 || s->n_batch < 0 || s->n_ubatch < 0)
        return error_set(err, ERR_INVALID, "context and batch sizes must not be negative");
    s->n_seq_max = s->n_seq_max > 0 ? s->n_seq_max : 1;
    if (s->n_seq_max > MODEL_SEQ_MAX)
        return error_set(err, ERR_INVALID, "%d sequences; at most %d are possible", s->n_seq_max,
                         MODEL_SEQ_MAX);
    if (s->n_shares < 1)
        s->n_shares = s->n_seq_max;
    int32_t n_ctx = padded(s->n_ctx ? s->n_ctx : h->n_ctx_train);
    int32_t n_cells_seq = n_ctx;
    if (!s->kv_unified) {
        n_cells_seq = padded(n_ctx / s->n_shares);
        if (n_cells_seq < CELLS_PAD)
            n_cells_seq = CELLS_PAD;
        if (n_cells_seq > INT32_MAX / s->n_shares)
            return error_set(err, ERR_INVALID,
                             "a context of %d for each of %d sequences is too large; use a "
                             "smaller context (-c) or fewer slots (-np)",
                             n_cells_seq, s->n_shares);
        n_ctx = n_cells_seq * s->n_shares;
    }
    *sizes =
        (struct kv_sizes){.n_cells = n_ctx, .n_cells_seq = n_cells_seq, .n_seqs = s->n_seq_max};
    s->n_ctx = n_ctx;
    s->n_batch = s->n_batch ? s->n_batch : 2048;
    s->n_ubatch = s->n_ubatch ? s->n_ubatch : 512;
    /* A batch larger than the context could not be kept. */
    if (s->causal && h->causal && s->n_batch > n_ctx)
        s->n_batch = n_ctx;
    if (s->n_ubatch > s->n_batch)
        s->n_ubatch = s->n_batch;
    ctx->pooling = s->pooling != POOLING_UNSPECIFIED            ? s->pooling
                   : h->pooling != (int32_t)POOLING_UNSPECIFIED ? (enum pooling)h->pooling
                                                                : POOLING_NONE;
    if (ctx->pooling < POOLING_NONE || ctx->pooling > POOLING_RANK)
        return error_set(err, ERR_INVALID, "pooling %d is not known", (int)ctx->pooling);
    if (s->embeddings && ctx->pooling == POOLING_RANK && !is_bound(&ctx->model->w.cls_out) &&
        !is_bound(&ctx->model->w.cls))
        return error_set(err, ERR_INVALID, "the model has no classification head to rank with");
    if (is_encoder(ctx->model) && !s->embeddings)
        s->embeddings = true;
    settle_window(ctx, sizes);
    return true;
}

/* ---- memory --------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Widths are at most some 2^26 each (hparams_finish), so sums fit. */
static void measure(const struct model *m, struct scratch *s)
{
    const struct hparams *h = &m->h;
    for (int32_t i = 0; i < h->n_layers; i++) {
        const struct layer_hparams *lh = &h->layers[i];
        const struct layer *l = &m->w.layers[i];
        size_t heads = (size_t)lh->n_heads, kv = (size_t)lh->n_kv_heads;
        size_t dim_k = (size_t)h->head_dim_k, dim_v = (size_t)h->head_dim_v;
        s->n_qkv = larger(s->n_qkv, heads * dim_k + kv * (dim_k + dim_v));
        s->n_attn = larger(s->n_attn, heads * dim_v);
        size_t used = (size_t)h->n_experts_used, n_embd = (size_t)h->n_embd;
        size_t dense = 2 * (size_t)l->down.matrix.n_cols;
        size_t shared = 2 * (size_t)l->down_shared.matrix.n_cols + n_embd;
        size_t experts = l->is_moe ? used * (3 * (size_t)h->n_ff_exp + n_embd) : 0;
        s->n_ffn = larger(s->n_ffn, larger(dense, larger(shared, experts)));
        if (l->is_moe && (l->down_exps.each || l->gate_exps.each))
            s->n_gathered = used * (larger(n_embd, (size_t)h->n_ff_exp) +
                                    larger(2 * (size_t)h->n_ff_exp, n_embd));
    }
}

/* An array that a context has; none are zeroed but those that say so: pages that no
 * batch needs are never touched. */
struct array {
    void **place;
    uint64_t n, width; /* elements: n * width, a width of 0 counting as 1 */
    size_t element;
    bool zeroed;
};

enum { N_ARRAYS_MAX = 24 };

#define FLOATS(place, n, width)                                                                    \
    {                                                                                              \
        (void **)&(place), (n), (width), sizeof(float), false                                      \
    }
#define INTS(place, n, width)                                                                      \
    {                                                                                              \
        (void **)&(place), (n), (width), sizeof(int32_t), true                                     \
    }

/* One table for measuring and allocating. Returns how many. */
static size_t list_arrays(struct model_context *ctx, struct array out[N_ARRAYS_MAX])
{
    const struct hparams *h = &ctx->model->h;
    const struct weights *w = &ctx->model->w;
    struct scratch *s = &ctx->s;
    uint64_t n = (uint64_t)ctx->settings.n_ubatch, n_embd = (uint64_t)h->n_embd;
    uint64_t n_rot = (uint64_t)h->n_rot, used = (uint64_t)h->n_experts_used;
    uint64_t rows = (uint64_t)s->n_ffn_rows, n_batch = (uint64_t)ctx->settings.n_batch;
    uint64_t seqs = (uint64_t)ctx->settings.n_seq_max;
    bool pools = ctx->settings.embeddings && ctx->pooling != POOLING_NONE;
    bool dense = is_bound(&w->dense[0]);
    const struct array all[] = {
        FLOATS(s->x, n, n_embd),
        FLOATS(s->h, n, n_embd),
        FLOATS(s->y, n, n_embd),
        FLOATS(s->qkv, n, s->n_qkv),
        FLOATS(s->attn, n, s->n_attn),
        FLOATS(s->ffn, rows, s->n_ffn),
        FLOATS(s->cos_sin, n, n_rot),
        FLOATS(s->cos_sin_swa, n, h->n_swa ? n_rot : 0),
        FLOATS(s->router, rows, (uint64_t)h->n_experts),
        FLOATS(s->expert_weight, rows, used),
        INTS(s->expert, rows, used),
        INTS(s->expert_row, rows, used),
        FLOATS(s->gathered, rows, s->n_gathered),
        {(void **)&ctx->runs, n_batch, 1, sizeof *ctx->runs, true},
        INTS(ctx->out_of_row, n_batch, 1),
        INTS(ctx->cell, n_batch, 1),
        INTS(ctx->cell_window, n, 1),
        INTS(ctx->out_rows, n_batch, 1),
        INTS(ctx->order, n_batch, 1),
        INTS(ctx->pooled_count, seqs, 1),
        FLOATS(ctx->pooled, pools ? seqs : 0, n_embd),
        FLOATS(ctx->dense, dense ? 1 : 0, (uint64_t)w->dense[0].matrix.n_rows),
    };
    _Static_assert(sizeof all / sizeof *all <= N_ARRAYS_MAX, "the table has room for all");
    memcpy(out, all, sizeof all);
    return sizeof all / sizeof *all;
}

/* Widths, and how many rows the FFN takes at once. */
static void settle_scratch(struct model_context *ctx)
{
    struct scratch *s = &ctx->s;
    size_t n = (size_t)ctx->settings.n_ubatch;
    measure(ctx->model, s);
    size_t rows = FFN_SCRATCH_BYTES / sizeof(float) / (s->n_ffn ? s->n_ffn : 1);
    rows = rows < 32 ? 32 : rows;
    s->n_ffn_rows = (int32_t)(rows > n ? n : rows);
}

/* UINT64_MAX where it is too much to count. */
static uint64_t array_bytes(const struct array *a)
{
    uint64_t n;
    if (__builtin_mul_overflow(a->n, a->width ? a->width : 1, &n) ||
        __builtin_mul_overflow(n, a->element, &n))
        return UINT64_MAX;
    return n;
}

static bool alloc_arrays(struct model_context *ctx)
{
    struct array all[N_ARRAYS_MAX];
    size_t n_arrays = list_arrays(ctx, all);
    for (size_t i = 0; i < n_arrays; i++) {
        uint64_t bytes = array_bytes(&all[i]);
        if (bytes == 0)
            continue; /* not needed: NULL says so */
        if (bytes > SIZE_MAX - 63)
            return false;
        *all[i].place = all[i].zeroed ? calloc(1, (size_t)bytes)
                                      : aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
        if (!*all[i].place)
            return false;
    }
    for (int32_t i = 0; i < ctx->settings.n_batch; i++) {
        ctx->order[i] = i;
        ctx->out_of_row[i] = -1;
    }
    return true;
}

/* A context that needs no growing while requests run. */
static bool reserve_pools(struct model_context *ctx, struct error *err)
{
    const struct hparams *h = &ctx->model->h;
    size_t n = (size_t)ctx->settings.n_ubatch;
    size_t widest = larger(ctx->s.n_ffn, larger(ctx->s.n_attn, (size_t)h->n_embd));
    struct worker_pool *pools[] = {ctx->settings.pool, ctx->settings.pool_batch};
    for (int i = 0; i < 2; i++) {
        size_t wide = matmul_scratch(pools[i], n, larger((size_t)h->n_embd, ctx->s.n_attn));
        size_t ffn = matmul_scratch(pools[i], (size_t)ctx->s.n_ffn_rows, widest);
        if (pools[i] && !worker_pool_reserve(pools[i], larger(wide, ffn), err))
            return false;
    }
    return true;
}

bool context_measure(const struct model *model, const struct context_settings *settings,
                     struct context_needs *out, struct error *err)
{
    struct model_context ctx = {.model = model, .settings = *settings};
    struct array all[N_ARRAYS_MAX];
    struct kv_sizes sizes;
    *out = (struct context_needs){0};
    if (!settle(&ctx, &sizes, err) ||
        (!is_encoder(model) &&
         !kv_measure(&model->h, &sizes, settings->type_k, settings->type_v, &out->kv_bytes, err)))
        return false;
    out->n_ctx = ctx.settings.n_ctx;
    settle_scratch(&ctx);
    size_t n_arrays = list_arrays(&ctx, all);
    for (size_t i = 0; i < n_arrays; i++)
        if (__builtin_add_overflow(out->work_bytes, array_bytes(&all[i]), &out->work_bytes))
            out->work_bytes = UINT64_MAX;
    return true;
}

bool context_create(const struct model *model, const struct context_settings *settings,
                    struct model_context **out, struct error *err)
{
    *out = NULL;
    struct model_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return error_memory(err);
    ctx->model = model;
    ctx->ops = &compute_cpu;
    ctx->settings = settings ? *settings : context_settings_default();
    if (!ctx->settings.pool_batch)
        ctx->settings.pool_batch = ctx->settings.pool;
    struct kv_sizes sizes;
    if (!ctx->settings.pool) {
        error_set(err, ERR_INVALID, "a context needs a worker pool");
        goto fail;
    }
    if (!settle(ctx, &sizes, err))
        goto fail;
    ctx->has_kv = !is_encoder(model);
    ctx->kv.size.n_cells_seq = sizes.n_cells_seq;
    if (ctx->has_kv &&
        !kv_create(&ctx->kv, &model->h, &sizes, ctx->settings.type_k, ctx->settings.type_v, err))
        goto fail;
    context_rope(ctx);
    settle_scratch(ctx);
    if (!alloc_arrays(ctx)) {
        error_set(err, ERR_MEMORY, "no memory for batches of %d tokens; use a smaller -ub",
                  ctx->settings.n_ubatch);
        goto fail;
    }
    if (!reserve_pools(ctx, err))
        goto fail;
    *out = ctx;
    return true;
fail:
    context_free(ctx);
    return false;
}

void context_free(struct model_context *ctx)
{
    if (!ctx)
        return;
    kv_free(&ctx->kv);
    struct scratch *s = &ctx->s;
    void *all[] = {s->x,
                   s->h,
                   s->y,
                   s->qkv,
                   s->attn,
                   s->ffn,
                   s->cos_sin,
                   s->cos_sin_swa,
                   s->router,
                   s->expert_weight,
                   s->expert,
                   s->expert_row,
                   s->gathered,
                   ctx->logits,
                   ctx->embd,
                   ctx->out_of_row,
                   ctx->pooled,
                   ctx->pooled_count,
                   ctx->dense,
                   ctx->cell,
                   ctx->out_rows,
                   ctx->order,
                   ctx->runs,
                   ctx->control.rows,
                   ctx->cell_window};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(ctx);
}

/* ---- questions ------------------------------------------------------------------- */

int32_t context_n_ctx(const struct model_context *ctx)
{
    return ctx->settings.n_ctx;
}

int32_t context_n_ctx_seq(const struct model_context *ctx)
{
    return ctx->kv.size.n_cells_seq;
}

int32_t context_n_batch(const struct model_context *ctx)
{
    return ctx->settings.n_batch;
}

int32_t context_n_ubatch(const struct model_context *ctx)
{
    return ctx->settings.n_ubatch;
}

enum pooling context_pooling(const struct model_context *ctx)
{
    return ctx->pooling;
}

int32_t context_n_swa(const struct model_context *ctx)
{
    const struct hparams *h = &ctx->model->h;
    bool causal = ctx->settings.causal && h->causal && !h->swa_symmetric;
    for (int32_t i = 0; causal && !ctx->settings.swa_full && i < h->n_layers; i++)
        if (h->layers[i].is_swa)
            return h->n_swa;
    return 0;
}

size_t context_kv_bytes(const struct model_context *ctx)
{
    return ctx->kv.n_bytes;
}

void context_set_abort(struct model_context *ctx, bool (*should_abort)(void *), void *arg)
{
    ctx->should_abort = should_abort;
    ctx->abort_arg = arg;
}

/* ---- the KV door ------------------------------------------------------------------- */

static bool is_seq(const struct model_context *ctx, int32_t seq)
{
    return ctx->has_kv && seq >= 0 && seq < ctx->kv.size.n_seqs;
}

/* Whether what is left when a range is gone can be continued. */
static bool can_remove(const struct kv_cache *kv, int32_t seq, int32_t p0, int32_t p1)
{
    const struct kv_seq *s = &kv->seqs[seq];
    int32_t begin, end;
    kv_range(s, p0, p1, &begin, &end);
    return begin == end || end < s->n || kv_window_is_whole(kv, s, begin);
}

bool kv_seq_remove(struct model_context *ctx, int32_t seq, int32_t p0, int32_t p1)
{
    if (!ctx->has_kv)
        return true;
    int32_t begin = seq < 0 ? 0 : seq, end = seq < 0 ? ctx->kv.size.n_seqs : seq + 1;
    for (int32_t i = begin; i < end && i < ctx->kv.size.n_seqs; i++)
        if (!can_remove(&ctx->kv, i, p0, p1))
            return false;
    for (int32_t i = begin; i < end && i < ctx->kv.size.n_seqs; i++)
        kv_remove_range(&ctx->kv, i, p0, p1);
    return true;
}

bool kv_seq_copy(struct model_context *ctx, int32_t src, int32_t dst, int32_t p0, int32_t p1)
{
    return !is_seq(ctx, src) || !is_seq(ctx, dst) || kv_copy_range(&ctx->kv, src, dst, p0, p1);
}

bool kv_can_shift(const struct model_context *ctx)
{
    return ctx->has_kv && !ctx->kv.size.n_window;
}

bool kv_seq_shift(struct model_context *ctx, int32_t seq, int32_t p0, int32_t p1, int32_t delta)
{
    if (!is_seq(ctx, seq) || !kv_can_shift(ctx))
        return false;
    struct kv_seq *s = &ctx->kv.seqs[seq];
    int32_t begin = p0 < 0 ? 0 : kv_find(s, p0), end = p1 < 0 ? s->n : kv_find(s, p1);
    if (begin >= end || delta == 0)
        return true;
    int64_t first = (int64_t)s->pos[begin] + delta, last = (int64_t)s->pos[end - 1] + delta;
    bool ordered = (begin == 0 || s->pos[begin - 1] < first) && (end == s->n || last < s->pos[end]);
    if (first < 0 || last > INT32_MAX || !ordered || !kv_make_own(&ctx->kv, seq, begin, end) ||
        !kv_rotate(ctx, seq, begin, end, delta))
        return false;
    for (int32_t i = begin; i < end; i++)
        s->pos[i] += delta;
    return true;
}

int32_t kv_seq_pos_min(const struct model_context *ctx, int32_t seq)
{
    if (!is_seq(ctx, seq) || ctx->kv.seqs[seq].n == 0)
        return -1;
    const struct kv_seq *s = &ctx->kv.seqs[seq];
    int32_t first = kv_first_held(&ctx->kv, s);
    if (first < s->n)
        return s->pos[first];
    return s->pos[s->n - 1] < INT32_MAX ? s->pos[s->n - 1] + 1 : INT32_MAX;
}

int32_t kv_seq_pos_max(const struct model_context *ctx, int32_t seq)
{
    if (!is_seq(ctx, seq) || ctx->kv.seqs[seq].n == 0)
        return -1;
    return ctx->kv.seqs[seq].pos[ctx->kv.seqs[seq].n - 1];
}

int32_t kv_cells_used(const struct model_context *ctx)
{
    return ctx->has_kv ? ctx->kv.size.n_cells - ctx->kv.n_free : 0;
}

void context_kv_layout(const struct model_context *ctx, struct kv_layout *out)
{
    *out = (struct kv_layout){0};
    if (ctx->has_kv)
        kv_layout_of(&ctx->kv, out);
}

bool kv_seq_save(const struct model_context *ctx, int32_t seq, struct str *out)
{
    return is_seq(ctx, seq) && kv_save(&ctx->kv, seq, out);
}

bool kv_seq_load(struct model_context *ctx, int32_t seq, struct slice saved, struct error *err)
{
    if (!is_seq(ctx, seq))
        return error_set(err, ERR_INVALID, "there is no sequence %d", seq);
    return kv_load(&ctx->kv, seq, saved, err);
}

bool kv_seq_save_window(const struct model_context *ctx, int32_t seq, struct str *out)
{
    return is_seq(ctx, seq) && kv_save_window(&ctx->kv, seq, context_n_swa(ctx), out);
}

bool kv_seq_load_window(struct model_context *ctx, int32_t seq, struct slice saved,
                        struct error *err)
{
    if (!is_seq(ctx, seq))
        return error_set(err, ERR_INVALID, "there is no sequence %d", seq);
    return kv_load_window(&ctx->kv, seq, saved, err);
}
