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
                             "a context of %d for each of %d sequences is too "
                             "large",
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

static bool floats(float **out, size_t rows, size_t width)
{
    size_t n;
    if (__builtin_mul_overflow(rows, width ? width : 1, &n) || n > SIZE_MAX / sizeof **out)
        return false;
    /* Not zeroed: pages that no batch needs are never touched. */
    *out = aligned_alloc(64, (n * sizeof **out + 63) / 64 * 64);
    return *out != NULL;
}

static bool ints(int32_t **out, size_t n)
{
    *out = calloc(n ? n : 1, sizeof **out);
    return *out != NULL;
}

static bool alloc_scratch(struct model_context *ctx)
{
    const struct hparams *h = &ctx->model->h;
    struct scratch *s = &ctx->s;
    size_t n = (size_t)ctx->settings.n_ubatch, n_embd = (size_t)h->n_embd;
    size_t n_rot = (size_t)h->n_rot, used = (size_t)h->n_experts_used;
    measure(ctx->model, s);
    size_t rows = FFN_SCRATCH_BYTES / sizeof(float) / (s->n_ffn ? s->n_ffn : 1);
    rows = rows < 32 ? 32 : rows;
    rows = rows > n ? n : rows;
    s->n_ffn_rows = (int32_t)rows;
    return floats(&s->x, n, n_embd) && floats(&s->h, n, n_embd) && floats(&s->y, n, n_embd) &&
           floats(&s->qkv, n, s->n_qkv) && floats(&s->attn, n, s->n_attn) &&
           floats(&s->ffn, rows, s->n_ffn) && floats(&s->cos_sin, n, n_rot) &&
           floats(&s->cos_sin_swa, n, h->n_swa ? n_rot : 0) &&
           floats(&s->router, rows, (size_t)h->n_experts) &&
           floats(&s->expert_weight, rows, used) && ints(&s->expert, rows * used) &&
           ints(&s->expert_row, rows * used) && floats(&s->gathered, rows, s->n_gathered);
}

static bool alloc_lists(struct model_context *ctx)
{
    size_t n = (size_t)ctx->settings.n_batch, seqs = (size_t)ctx->settings.n_seq_max;
    ctx->runs = calloc(n, sizeof *ctx->runs);
    bool ok = ctx->runs && ints(&ctx->out_of_row, n) && ints(&ctx->cell, n) &&
              ints(&ctx->cell_window, (size_t)ctx->settings.n_ubatch) && ints(&ctx->out_rows, n) &&
              ints(&ctx->order, n) && ints(&ctx->pooled_count, seqs);
    for (size_t i = 0; ok && i < n; i++) {
        ctx->order[i] = (int32_t)i;
        ctx->out_of_row[i] = -1;
    }
    if (ok && ctx->settings.embeddings && ctx->pooling != POOLING_NONE)
        ok = floats(&ctx->pooled, seqs, (size_t)ctx->model->h.n_embd);
    if (ok && is_bound(&ctx->model->w.dense[0]))
        ok = floats(&ctx->dense, 1, (size_t)ctx->model->w.dense[0].matrix.n_rows);
    return ok;
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

bool context_create(const struct model *model, const struct context_settings *settings,
                    struct model_context **out, struct error *err)
{
    *out = NULL;
    struct model_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return error_memory(err);
    ctx->model = model;
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
    if (!alloc_scratch(ctx) || !alloc_lists(ctx)) {
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
    bool causal = ctx->settings.causal && h->causal && !(h->arch->traits & ARCH_SWA_SYMMETRIC);
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
