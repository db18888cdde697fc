/* attention.c - attention of some queries over the cells of a cache.
 *
 * An item of work is one KV head of one sequence for a block of its queries.
 * All query heads that share the KV head go together, so that a block of the
 * cache is read (and decoded from its format) once for all of them: generation
 * at depth is bound by exactly that traffic. The softmax runs online over
 * blocks of cells that start at the list's beginning, so the order of every sum
 * depends on the list alone.
 *
 * Queries are rounded as the products with the cache's keys want them (half
 * precision, or 8 bits per 32), and values in half precision are summed in half
 * precision within a stretch of cells: models amplify such differences (a small
 * one says another word within a hundred tokens), and the results that models
 * are known by were computed so. Stretches are joined in F32, so that a long
 * context does not lose its small weights.
 *
 * The queries of long prompts ("wide" sequences) are multiplied and summed in F32: a
 * block's keys are laid out by dimension, so that both products are those of two
 * matrices, whose sums stay in registers. */
#include "kernels/pool.h"
#include "kernels/table.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK_CELLS = 64,    /* keys decoded at a time */
    STRETCH_CELLS = 512, /* cells whose values are summed in half precision; whole blocks */
    DIRECT_ROWS = 8,     /* so few make no use of a block decoded for all of them */
    MAX_ROWS = 64        /* query rows (queries times heads of a group) of an item */
};

struct call {
    struct worker_pool *pool;
    const struct kernel_table *k;
    const struct attention *a;
    const struct attention_sequence *sequences;
    size_t n_sequences;
    const float *q;
    size_t q_stride;
    const int32_t *q_pos;
    float *out;
    size_t out_stride;
    size_t n_items;
    uint8_t *own;
    size_t own_bytes;
    size_t k_bytes, v_bytes; /* of one head of one cell */
};

/* A thread's own memory, carved from the scratch. */
struct item {
    const struct attention_sequence *sequence;
    int32_t kv_head;
    int32_t first_query, n_queries; /* rows of q */
    size_t n_rows;                  /* n_queries * heads of the group */
    float *keys, *values;           /* [BLOCK_CELLS][head_dim] */
    float *keys_by_dim;             /* [head_dim_k][BLOCK_CELLS], wide only */
    float *scores;                  /* [n_rows][BLOCK_CELLS] */
    float *queries;                 /* [n_rows][head_dim_k], rounded and scaled */
    float *acc;                     /* [n_rows][head_dim_v], values in half precision: */
    float *shrink;                  /* [n_rows][BLOCK_CELLS] */
    bool shrinks[MAX_ROWS];         /* whose row of shrink is not 1 all over */
    const float *q[MAX_ROWS];
    float *score_rows[MAX_ROWS];
    float *out[MAX_ROWS];
    float max[MAX_ROWS], sum[MAX_ROWS];
    float part_max[MAX_ROWS], part_sum[MAX_ROWS]; /* of the stretch in acc */
};

static size_t round_up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static size_t group_of(const struct attention *a)
{
    return (size_t)(a->n_heads / a->n_kv_heads);
}

/* Queries of an item: as many as keep its rows within MAX_ROWS. */
static int32_t queries_per_item(const struct attention *a)
{
    size_t n = MAX_ROWS / group_of(a);
    return n > 0 ? (int32_t)n : 1;
}

/* Heads of a group that go together; a group larger than MAX_ROWS is cut. */
static size_t heads_per_item(const struct attention *a)
{
    size_t group = group_of(a);
    return group < MAX_ROWS ? group : MAX_ROWS;
}

static size_t own_bytes(const struct attention *a)
{
    size_t dk = (size_t)a->head_dim_k, dv = (size_t)a->head_dim_v;
    return 2 * round_up(BLOCK_CELLS * dk * sizeof(float)) +
           round_up(BLOCK_CELLS * dv * sizeof(float)) +
           2 * round_up(MAX_ROWS * BLOCK_CELLS * sizeof(float)) +
           round_up(MAX_ROWS * dk * sizeof(float)) + round_up(MAX_ROWS * dv * sizeof(float));
}

static size_t head_bytes(enum dtype dtype, int32_t dim)
{
    const struct dtype_info *info = dtype_info(dtype);
    return (size_t)dim / (size_t)info->block_len * (size_t)info->block_bytes;
}

size_t attention_scratch(const struct attention *a, int32_t n_threads)
{
    return (size_t)n_threads * own_bytes(a);
}

static bool visible(const struct attention *a, int32_t pos, int32_t q_pos)
{
    if (a->causal && pos > q_pos)
        return false;
    switch (a->window_kind) {
    case WINDOW_SLIDING:
        return q_pos - pos < a->window;
    case WINDOW_CHUNKED:
        return pos / a->window == q_pos / a->window;
    case WINDOW_SYMMETRIC:
        return q_pos - pos <= a->window / 2 && pos - q_pos <= a->window / 2;
    default:
        return true;
    }
}

/* The positions of a block of cells. */
struct span {
    const int32_t *pos;
    int32_t first, last; /* the smallest and the largest */
};

static struct span span_of(const int32_t *pos, size_t n)
{
    struct span span = {pos, pos[0], pos[0]};
    for (size_t i = 1; i < n; i++) {
        span.first = pos[i] < span.first ? pos[i] : span.first;
        span.last = pos[i] > span.last ? pos[i] : span.last;
    }
    return span;
}

/* What a query sees is a range of positions, so the ends tell. */
static bool all_visible(const struct attention *a, const struct span *span, int32_t q_pos)
{
    return visible(a, span->first, q_pos) && visible(a, span->last, q_pos);
}

/* In lanes, which compilers know how to do side by side; NaN counts for nothing. */
static float largest(const float *s, size_t n)
{
    enum { LANES = 8 };
    float max[LANES];
    for (size_t i = 0; i < LANES; i++)
        max[i] = -INFINITY;
    size_t c = 0;
    for (; c + LANES <= n; c += LANES) {
        for (size_t i = 0; i < LANES; i++)
            max[i] = s[c + i] > max[i] ? s[c + i] : max[i];
    }
    for (; c < n; c++)
        max[0] = s[c] > max[0] ? s[c] : max[0];
    for (size_t i = 1; i < LANES; i++)
        max[0] = max[i] > max[0] ? max[i] : max[0];
    return max[0];
}

/* Turn the raw products of one query row into logits: soft cap, slope, mask.
 * Returns the largest. */
static float make_logits(const struct attention *a, size_t head, int32_t q_pos,
                         const struct span *span, size_t n, float *s)
{
    if (a->soft_cap != 0)
        soft_cap(s, a->soft_cap, n, s);
    for (size_t c = 0; a->slopes && c < n; c++)
        s[c] -= a->slopes[head] * fabsf((float)span->pos[c] - (float)q_pos);
    if (!all_visible(a, span, q_pos)) {
        for (size_t c = 0; c < n; c++)
            if (!visible(a, span->pos[c], q_pos))
                s[c] = -INFINITY;
    }
    return largest(s, n);
}

/* One more block of the online softmax of row i: scores become weights, what is
 * there is rescaled to the new maximum. */
static void absorb_scores(const struct call *c, struct item *it, size_t i, float max, float *s)
{
    if (max > it->max[i]) {
        float shrink = expf(it->max[i] - max); /* 0 at the first block */
        it->sum[i] *= shrink;
        vec_scale(it->out[i], shrink, (size_t)c->a->head_dim_v, it->out[i]);
        it->max[i] = max;
    }
    it->sum[i] += c->k->exp_sum(s, it->max[i], BLOCK_CELLS, s);
}

/* The scores of row i, whose values are summed in half precision, become weights:
 * the running maximum and the sum go cell by cell, on from where the stretch has
 * come. Most blocks do not raise the maximum. */
static void absorb_half(const struct call *c, struct item *it, size_t i, float block_max, size_t n,
                        float *s)
{
    float *shrink = it->shrink + i * BLOCK_CELLS;
    float max = it->part_max[i], sum = it->part_sum[i];
    it->shrinks[i] = block_max > max;
    if (!it->shrinks[i]) {
        if (block_max == -INFINITY) {
            memset(s, 0, n * sizeof *s);
            return;
        }
        /* A whole block always: what it sums does not depend on how many cells stand
         * behind those that the query sees, they weigh nothing. */
        it->part_sum[i] = sum + c->k->exp_sum(s, max, BLOCK_CELLS, s);
        return;
    }
    for (size_t j = 0; j < n; j++) {
        shrink[j] = 1;
        if (s[j] > max) {
            shrink[j] = expf(max - s[j]); /* 0 at the first */
            max = s[j];
        }
        s[j] = s[j] == -INFINITY ? -INFINITY : s[j] - max;
    }
    c->k->exp_sum(s, 0, BLOCK_CELLS, s);
    for (size_t j = 0; j < n; j++) {
        if (shrink[j] != 1)
            sum *= shrink[j];
        sum += s[j];
    }
    it->part_sum[i] = sum;
    it->part_max[i] = max;
}

static void begin_stretch(const struct call *c, struct item *it)
{
    memset(it->acc, 0, it->n_rows * (size_t)c->a->head_dim_v * sizeof(float));
    for (size_t i = 0; i < it->n_rows; i++) {
        it->part_max[i] = -INFINITY;
        it->part_sum[i] = 0;
    }
}

/* What the stretch has summed joins what is there. */
static void end_stretch(const struct call *c, struct item *it)
{
    size_t dv = (size_t)c->a->head_dim_v;
    for (size_t i = 0; i < it->n_rows; i++) {
        if (it->part_max[i] == -INFINITY)
            continue;
        float top = fmaxf(it->max[i], it->part_max[i]);
        float old = expf(it->max[i] - top), new = expf(it->part_max[i] - top);
        vec_scale(it->out[i], old, dv, it->out[i]);
        vec_add_scaled(it->out[i], it->acc + i * dv, new, dv);
        it->sum[i] = it->sum[i] * old + it->part_sum[i] * new;
        it->max[i] = top;
    }
}

static size_t head_of(const struct call *c, const struct item *it, size_t i, size_t first_head)
{
    size_t n_heads = it->n_rows / (size_t)it->n_queries;
    return (size_t)it->kv_head * group_of(c->a) + first_head + i % n_heads;
}

static bool any_visible(const struct call *c, const struct item *it, const struct span *span,
                        size_t n)
{
    for (int32_t i = 0; i < it->n_queries; i++) {
        int32_t q_pos = c->q_pos[it->first_query + i];
        if (all_visible(c->a, span, q_pos))
            return true;
        for (size_t j = 0; j < n; j++) {
            if (visible(c->a, span->pos[j], q_pos))
                return true;
        }
    }
    return false;
}

/* Keys and values are read by turns, a block of each, which is no stream that a
 * processor foresees: ask for the next block's while this one is worked on. (Kernels
 * that read them where they lie do it as they go, and count on cells that follow each
 * other.) */
static void fetch_block(const struct item *it, const uint8_t *data, size_t cell_bytes, size_t bytes,
                        size_t begin)
{
    enum { LINE = 64 };
    size_t n_cells = (size_t)it->sequence->n_cells;
    size_t end = n_cells - begin < BLOCK_CELLS ? n_cells : begin + BLOCK_CELLS;
    for (size_t i = begin; i < end; i++) {
        const uint8_t *cell = data + (size_t)it->sequence->cells[i] * cell_bytes;
        for (size_t at = 0; at < bytes; at += LINE)
            __builtin_prefetch(cell + at);
    }
}

/* Whether the item's queries are multiplied with keys where they lie. */
static bool reads_halves(const struct call *c, const struct item *it)
{
    return c->a->k_dtype == DTYPE_F16 && c->k->scores_half && it->n_rows <= DIRECT_ROWS &&
           !it->sequence->wide;
}

/* Whether the item's values are summed in half precision. */
static bool sums_halves(const struct call *c, const struct item *it)
{
    return c->a->v_dtype == DTYPE_F16 && !it->sequence->wide;
}

/* The products with the n keys of a block; those beyond them are zero. */
static void make_scores_wide(const struct call *c, struct item *it, size_t n)
{
    size_t dk = (size_t)c->a->head_dim_k;
    memset(it->keys + n * dk, 0, (BLOCK_CELLS - n) * dk * sizeof(float));
    c->k->transpose(it->keys, BLOCK_CELLS, dk, it->keys_by_dim);
    memset(it->scores, 0, it->n_rows * BLOCK_CELLS * sizeof(float));
    c->k->product(it->queries, it->n_rows, dk, it->keys_by_dim, BLOCK_CELLS, it->score_rows);
}

/* The raw products of the item's queries with the keys of a block. */
static void make_scores(const struct call *c, struct item *it, const uint8_t *k,
                        const int32_t *cells, size_t n)
{
    const struct attention *a = c->a;
    size_t dk = (size_t)a->head_dim_k;
    if (reads_halves(c, it)) {
        const uint16_t *rows[BLOCK_CELLS];
        for (size_t j = 0; j < n; j++)
            rows[j] = (const uint16_t *)(const void *)(k + (size_t)cells[j] * a->k_cell_bytes);
        c->k->scores_half(it->q, it->n_rows, rows, BLOCK_CELLS * a->k_cell_bytes, n, dk, it->scores,
                          BLOCK_CELLS);
        return;
    }
    for (size_t j = 0; j < n; j++)
        c->k->decode(a->k_dtype, k + (size_t)cells[j] * a->k_cell_bytes, it->keys + j * dk, dk);
    if (it->sequence->wide)
        make_scores_wide(c, it, n);
    else
        c->k->scores(it->q, it->n_rows, it->keys, n, dk, it->scores, BLOCK_CELLS);
}

/* The weights of a block's n cells times their values; those beyond weigh nothing. */
static void sum_values_wide(const struct call *c, struct item *it, size_t n)
{
    size_t dv = (size_t)c->a->head_dim_v;
    memset(it->values + n * dv, 0, (BLOCK_CELLS - n) * dv * sizeof(float));
    c->k->product(it->scores, it->n_rows, BLOCK_CELLS, it->values, dv, it->out);
}

static void do_block(const struct call *c, struct item *it, size_t first_head, size_t begin,
                     size_t n)
{
    const struct attention *a = c->a;
    const int32_t *cells = it->sequence->cells + begin;
    struct span span = span_of(it->sequence->pos + begin, n);
    size_t dv = (size_t)a->head_dim_v;
    const uint8_t *k = (const uint8_t *)a->k + (size_t)it->kv_head * a->k_head_bytes;
    const uint8_t *v = (const uint8_t *)a->v + (size_t)it->kv_head * a->v_head_bytes;
    if (!any_visible(c, it, &span, n))
        return;
    if (!reads_halves(c, it))
        fetch_block(it, k, a->k_cell_bytes, c->k_bytes, begin + n);
    make_scores(c, it, k, cells, n);
    bool halves = sums_halves(c, it);
    if (!halves)
        fetch_block(it, v, a->v_cell_bytes, c->v_bytes, begin + n);
    for (size_t j = 0; j < n && !halves; j++)
        c->k->decode(a->v_dtype, v + (size_t)cells[j] * a->v_cell_bytes, it->values + j * dv, dv);
    size_t n_heads = it->n_rows / (size_t)it->n_queries;
    for (size_t i = 0; i < it->n_rows; i++) {
        float *s = it->scores + i * BLOCK_CELLS;
        /* Whole vectors always: an exponential from a vector's lane and one from a row's
         * rest differ, and a result would depend on the cells behind those it sees. */
        for (size_t j = n; j < BLOCK_CELLS; j++)
            s[j] = -INFINITY;
        int32_t q_pos = c->q_pos[it->first_query + (int32_t)(i / n_heads)];
        float max = make_logits(a, head_of(c, it, i, first_head), q_pos, &span, n, s);
        if (halves)
            absorb_half(c, it, i, max, n, s);
        else if (max == -INFINITY)
            memset(s, 0, BLOCK_CELLS * sizeof *s);
        else
            absorb_scores(c, it, i, max, s);
    }
    const uint16_t *rows[BLOCK_CELLS];
    for (size_t j = 0; j < n && halves; j++)
        rows[j] = (const uint16_t *)(const void *)(v + (size_t)cells[j] * a->v_cell_bytes);
    if (halves)
        c->k->values_half(it->scores, it->shrink, it->shrinks, BLOCK_CELLS, it->n_rows, rows,
                          BLOCK_CELLS * a->v_cell_bytes, n, dv, it->acc);
    else if (it->sequence->wide)
        sum_values_wide(c, it, n);
    else
        c->k->values(it->scores, BLOCK_CELLS, it->n_rows, it->values, n, dv, it->out);
}

/* Divide by the sum; a sink takes its share of it. */
static void finish_row(const struct attention *a, struct item *it, size_t i, size_t head)
{
    float max = it->max[i], sum = it->sum[i], scale = 1;
    if (a->sinks) {
        float sink = a->sinks[head];
        float top = fmaxf(max, sink);
        scale = expf(max - top);
        sum = sum * scale + expf(sink - top);
    }
    vec_scale(it->out[i], sum > 0 ? scale / sum : 0, (size_t)a->head_dim_v, it->out[i]);
}

/* A query as it is multiplied with keys of the cache's format: rounded to it, or where that
 * is a block format (heads are then whole blocks of 32), to the activations' 8 bits. */
static void round_query(const struct call *c, bool wide, const float *q, float *out)
{
    enum { STEP = 32 };
    size_t n = (size_t)c->a->head_dim_k;
    enum dtype dtype = wide && c->a->k_dtype == DTYPE_F16 ? DTYPE_F32 : c->a->k_dtype;
    if (!dtype_info(dtype)->is_quantized) {
        for (size_t i = 0; i < n; i += STEP) {
            uint64_t rounded[STEP];
            size_t some = n - i < STEP ? n - i : STEP;
            dtype_encode(dtype, q + i, rounded, some);
            dtype_decode(dtype, rounded, out + i, some);
        }
        return;
    }
    for (size_t i = 0; i < n; i += STEP) {
        int8_t ints[STEP];
        float scale;
        int32_t sums[STEP / 16];
        c->k->quantize(q + i, STEP, &(struct act_row){ints, &scale, sums});
        for (size_t k = 0; k < STEP; k++)
            out[i + k] = (float)ints[k] * scale;
    }
}

/* Some heads of the item's group, all its queries. */
static void do_heads(const struct call *c, struct item *it, size_t first_head, size_t n_heads)
{
    const struct attention *a = c->a;
    size_t dk = (size_t)a->head_dim_k, dv = (size_t)a->head_dim_v;
    it->n_rows = (size_t)it->n_queries * n_heads;
    for (size_t i = 0; i < it->n_rows; i++) {
        size_t query = (size_t)it->first_query + i / n_heads;
        size_t head = head_of(c, it, i, first_head);
        round_query(c, it->sequence->wide, c->q + query * c->q_stride + head * dk,
                    it->queries + i * dk);
        vec_scale(it->queries + i * dk, a->scale, dk, it->queries + i * dk);
        it->q[i] = it->queries + i * dk;
        it->score_rows[i] = it->scores + i * BLOCK_CELLS;
        it->out[i] = c->out + query * c->out_stride + head * dv;
        memset(it->out[i], 0, dv * sizeof(float));
        it->max[i] = -INFINITY;
        it->sum[i] = 0;
    }
    size_t n_cells = (size_t)it->sequence->n_cells;
    for (size_t begin = 0; begin < n_cells; begin += BLOCK_CELLS) {
        size_t n = n_cells - begin < BLOCK_CELLS ? n_cells - begin : BLOCK_CELLS;
        bool halves = sums_halves(c, it);
        if (halves && begin % STRETCH_CELLS == 0)
            begin_stretch(c, it);
        do_block(c, it, first_head, begin, n);
        if (halves && ((begin + n) % STRETCH_CELLS == 0 || begin + n == n_cells))
            end_stretch(c, it);
    }
    for (size_t i = 0; i < it->n_rows; i++)
        finish_row(a, it, i, head_of(c, it, i, first_head));
}

static size_t query_blocks(const struct call *c, const struct attention_sequence *s)
{
    size_t per_item = (size_t)queries_per_item(c->a);
    return ((size_t)s->n_queries + per_item - 1) / per_item;
}

static void do_item(const struct call *c, size_t number, uint8_t *own)
{
    const struct attention *a = c->a;
    const struct attention_sequence *s = c->sequences;
    size_t n_kv_heads = (size_t)a->n_kv_heads;
    for (; number >= query_blocks(c, s) * n_kv_heads; s++)
        number -= query_blocks(c, s) * n_kv_heads;
    /* The last queries of a prompt see the most cells: begin with them. */
    size_t block = query_blocks(c, s) - 1 - number / n_kv_heads;
    int32_t per_item = queries_per_item(a), first = (int32_t)block * per_item;
    int32_t left = s->n_queries - first;
    size_t dk = (size_t)a->head_dim_k, dv = (size_t)a->head_dim_v;
    struct item it = {.sequence = s,
                      .kv_head = (int32_t)(number % n_kv_heads),
                      .first_query = s->first_query + first,
                      .n_queries = left < per_item ? left : per_item};
    it.keys = (float *)(void *)own;
    own += round_up(BLOCK_CELLS * dk * sizeof(float));
    it.keys_by_dim = (float *)(void *)own;
    own += round_up(BLOCK_CELLS * dk * sizeof(float));
    it.values = (float *)(void *)own;
    own += round_up(BLOCK_CELLS * dv * sizeof(float));
    it.scores = (float *)(void *)own;
    own += round_up(MAX_ROWS * BLOCK_CELLS * sizeof(float));
    it.shrink = (float *)(void *)own;
    own += round_up(MAX_ROWS * BLOCK_CELLS * sizeof(float));
    it.queries = (float *)(void *)own;
    own += round_up(MAX_ROWS * dk * sizeof(float));
    it.acc = (float *)(void *)own;
    size_t group = group_of(a), step = heads_per_item(a);
    for (size_t head = 0; head < group; head += step)
        do_heads(c, &it, head, group - head < step ? group - head : step);
}

static void work(void *arg, int32_t thread, int32_t n_threads)
{
    const struct call *c = arg;
    (void)n_threads;
    size_t item;
    while (pool_items_take(c->pool, thread, &item))
        do_item(c, item, c->own + (size_t)thread * c->own_bytes);
}

bool attention(struct worker_pool *pool, const struct attention *a,
               const struct attention_sequence *sequences, size_t n_sequences, const float *q,
               size_t q_stride, const int32_t *q_pos, float *out, size_t out_stride)
{
    struct call c = {.pool = pool,
                     .k = kernel_table(),
                     .a = a,
                     .sequences = sequences,
                     .n_sequences = n_sequences,
                     .q = q,
                     .q_stride = q_stride,
                     .q_pos = q_pos,
                     .out = out,
                     .out_stride = out_stride,
                     .own_bytes = own_bytes(a),
                     .k_bytes = head_bytes(a->k_dtype, a->head_dim_k),
                     .v_bytes = head_bytes(a->v_dtype, a->head_dim_v)};
    c.own = pool_scratch(pool, attention_scratch(a, worker_pool_n_threads(pool)));
    if (!c.own)
        return false;
    for (size_t i = 0; i < n_sequences; i++)
        c.n_items += query_blocks(&c, &sequences[i]) * (size_t)a->n_kv_heads;
    pool_items_start(pool, c.n_items);
    worker_pool_run(pool, work, &c);
    return true;
}
