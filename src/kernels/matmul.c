/* matmul.c - multiplying activations with weights, on all threads.
 *
 * A call becomes a list of groups (a matrix and the rows of activations it
 * applies to) that are cut into items of some rows of weights; each thread has a
 * stretch of items, then helps the others. Within an item the columns go by chunks
 * that, with the activations of a tile, stay in the first-level cache, and every
 * chunk of weights is unpacked once for all activations. One row of activations and
 * packed weights need no chunks: they are multiplied as they are unpacked. */
#include "kernels/matrix.h"
#include "kernels/pool.h"
#include "kernels/table.h"

#include <string.h>

enum {
    CHUNK_COLS = 512,             /* columns unpacked at a time; a multiple of every block */
    MAX_PREPARED = 4,             /* formats of one call that want different sums */
    FLOAT_ITEM_ROWS = PANEL_ROWS, /* rows of a plain-format item */
    FLOAT_TOKENS = 48,            /* activations whose partial sums are kept at once */
    CHUNK_SUBS = CHUNK_COLS / 16,
    CACHE_LINE = 64
};

struct group {
    const struct matrix *w;
    const float *bias; /* [n_rows] or NULL */
    float *y;
    const int32_t *x_index, *y_index; /* [n_tokens] rows of x and y; NULL: 0, 1, 2... */
    size_t y_stride, n_tokens;
    size_t first_item, n_items, item_rows;
    int32_t expert;
    bool add, through_ints;
    struct panel_format format;
    struct packing packing;
    const void *prepared; /* what the format wants of the activations' sums, or NULL */
};

/* Sums of each sub_len activations as a format wants them: [n_x][n_cols/sub_len],
 * either -offset * sum (int32_t) or scale * sum (float). */
struct prepared {
    uint8_t sub_len, offset;
    bool has_min;
    union {
        int32_t *bias;
        float *sum;
        void *data;
    };
};

struct call {
    struct worker_pool *pool;
    const struct kernel_table *k;
    const float *x;
    size_t x_stride, n_x, n_cols;
    struct group *groups;
    size_t n_groups, n_items;
    bool any_ints, wide; /* wide: activations in blocks of 256 */
    /* activations in 8 bits: [n_x][n_cols], [n_x][n_cols/32], [n_x][n_cols/16] */
    int8_t *q;
    float *scale;
    int32_t *sum16;
    struct prepared prepared[MAX_PREPARED];
    size_t n_prepared;
    uint8_t *own; /* of thread t at t * own_bytes */
    size_t own_bytes;
};

/* What a thread has to itself while it multiplies with a block format. */
struct int_scratch {
    _Alignas(64) uint8_t q[TILE_PANELS][CHUNK_COLS * PANEL_ROWS];
    _Alignas(64) float scale[TILE_PANELS][CHUNK_SUBS * PANEL_ROWS];
    _Alignas(64) float min[TILE_PANELS][CHUNK_SUBS * PANEL_ROWS];
    _Alignas(64) float edge[TILE_PANELS][TILE_TOKENS][PANEL_ROWS];
};

/* ... and with a plain one; rows of formats without a kernel of their own are
 * decoded into the floats that follow. */
struct float_scratch {
    _Alignas(64) float acc[FLOAT_ITEM_ROWS * FLOAT_TOKENS * DOT_LANES];
    _Alignas(64) float rows[];
};

static size_t round_up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static size_t own_bytes(size_t n_cols)
{
    size_t floats = sizeof(struct float_scratch) + FLOAT_ITEM_ROWS * n_cols * sizeof(float);
    return round_up(floats > sizeof(struct int_scratch) ? floats : sizeof(struct int_scratch));
}

static size_t sums_bytes(size_t n_x, size_t n_cols)
{
    return round_up(n_x * (n_cols / 16) * sizeof(int32_t));
}

static size_t act_bytes(size_t n_x, size_t n_cols)
{
    return round_up(n_x * n_cols) + round_up(n_x * (n_cols / BLOCK_COLS) * sizeof(float)) +
           (1 + MAX_PREPARED) * sums_bytes(n_x, n_cols);
}

size_t matmul_scratch(const struct worker_pool *pool, size_t n_x, size_t n_cols)
{
    return act_bytes(n_x, n_cols) + round_up(n_x * 4 * sizeof(int32_t)) +
           1024 * sizeof(struct group) + (size_t)worker_pool_n_threads(pool) * own_bytes(n_cols);
}

/* ---- block formats ---- */

static void make_source(const struct group *g, size_t first_row, struct panel_source *s)
{
    size_t left = (size_t)g->w->n_rows - first_row;
    s->w = g->w;
    s->format = g->format;
    s->expert = g->expert;
    s->first_row = (int32_t)first_row;
    s->n_rows = left < PANEL_ROWS ? (int32_t)left : PANEL_ROWS;
    s->packing = g->packing;
    s->packed = matrix_packed(g->w, &g->packing, g->expert, s->first_row);
    for (int32_t i = 0; !s->packed && i < PANEL_ROWS; i++) {
        int32_t row = s->first_row + (i < s->n_rows ? i : s->n_rows - 1);
        s->row[i] = matrix_row_data(g->w, g->expert, row);
    }
}

static size_t x_row(const struct group *g, size_t t)
{
    return g->x_index ? (size_t)g->x_index[t] : t;
}

static float *y_row(const struct group *g, size_t t)
{
    return g->y + (g->y_index ? (size_t)g->y_index[t] : t) * g->y_stride;
}

/* Point the tile at n_tokens rows from column `begin` on. */
static void make_tile(const struct call *c, const struct group *g, size_t first, size_t n_tokens,
                      size_t begin, struct act_tile *tile)
{
    size_t sub = g->format.sub_len, n_subs = c->n_cols / sub;
    for (size_t t = 0; t < n_tokens; t++) {
        size_t row = x_row(g, first + t);
        tile->q[t] = c->q + row * c->n_cols + begin;
        tile->scale[t] = c->scale + row * (c->n_cols / BLOCK_COLS) + begin / BLOCK_COLS;
        if (g->format.has_min)
            tile->sum[t] = (const float *)g->prepared + row * n_subs + begin / sub;
        else if (g->format.offset)
            tile->bias[t] = (const int32_t *)g->prepared + row * n_subs + begin / sub;
    }
}

/* Ask for the activations and sums of the tile that comes next. */
static void prefetch_tile(const struct call *c, const struct group *g, size_t first, size_t begin,
                          size_t n, size_t first_row)
{
    size_t end = g->n_tokens - first < TILE_TOKENS ? g->n_tokens : first + TILE_TOKENS;
    for (size_t t = first; t < end; t++) {
        const int8_t *q = c->q + x_row(g, t) * c->n_cols + begin;
        for (size_t i = 0; i < n; i += CACHE_LINE)
            __builtin_prefetch(q + i);
        const float *y = y_row(g, t) + first_row;
        __builtin_prefetch(y, 1);
        __builtin_prefetch(y + PANEL_ROWS, 1);
    }
}

/* Where sums begin: zero or what is there, and the bias. */
static void start_sums(const struct group *g, float *y, size_t first_row, size_t n_rows)
{
    if (!g->add)
        memset(y, 0, n_rows * sizeof *y);
    if (g->bias) {
        for (size_t i = 0; i < n_rows; i++)
            y[i] += g->bias[first_row + i];
    }
}

/* Multiply n_panels panels from first_row on with a tile, adding to y: unpacked ones,
 * or (`one`) one that is packed. A panel that hangs over the matrix's end works in the
 * scratch. */
static void dot_panels(const struct call *c, const struct group *g, const struct panel_source *one,
                       const struct panel *panels, size_t n_panels, const struct act_tile *tile,
                       size_t n, size_t first_token, size_t n_tokens, size_t first_row,
                       bool is_first, struct int_scratch *own)
{
    float *acc[TILE_PANELS * TILE_TOKENS];
    size_t left = (size_t)g->w->n_rows - first_row;
    for (size_t p = 0; p < n_panels; p++) {
        size_t n_rows = left - p * PANEL_ROWS < PANEL_ROWS ? left - p * PANEL_ROWS : PANEL_ROWS;
        for (size_t t = 0; t < n_tokens; t++) {
            float *y = y_row(g, first_token + t) + first_row + p * PANEL_ROWS;
            if (is_first)
                start_sums(g, y, first_row + p * PANEL_ROWS, n_rows);
            acc[p * n_tokens + t] = y;
            if (n_rows < PANEL_ROWS) {
                memset(own->edge[p][t], 0, sizeof own->edge[p][t]);
                memcpy(own->edge[p][t], y, n_rows * sizeof *y);
                acc[p * n_tokens + t] = own->edge[p][t];
            }
        }
    }
    if (one)
        c->k->panel_one(one, tile, n, acc[0]);
    else
        c->k->panel_dot(panels, n_panels, tile, n, n_tokens, acc);
    size_t edge_rows = left % PANEL_ROWS, p = n_panels - 1;
    if (left < n_panels * PANEL_ROWS) {
        for (size_t t = 0; t < n_tokens; t++)
            memcpy(y_row(g, first_token + t) + first_row + p * PANEL_ROWS, own->edge[p][t],
                   edge_rows * sizeof(float));
    }
}

/* Panels side by side, at most TILE_PANELS. A chunk of them is unpacked into
 * the first-level cache and stays there for all activations. */
static void int_panels(const struct call *c, const struct group *g, size_t first_row,
                       size_t n_panels, struct int_scratch *own)
{
    struct panel panels[TILE_PANELS];
    struct panel_source source[TILE_PANELS];
    for (size_t p = 0; p < n_panels; p++) {
        panels[p] = (struct panel){g->format, own->q[p], own->scale[p], own->min[p]};
        make_source(g, first_row + p * PANEL_ROWS, &source[p]);
    }
    for (size_t begin = 0; begin < c->n_cols; begin += CHUNK_COLS) {
        size_t n = c->n_cols - begin < CHUNK_COLS ? c->n_cols - begin : CHUNK_COLS;
        for (size_t p = 0; p < n_panels; p++)
            c->k->unpack(&source[p], begin, n, &panels[p]);
        for (size_t t = 0; t < g->n_tokens; t += TILE_TOKENS) {
            size_t n_tokens = g->n_tokens - t < TILE_TOKENS ? g->n_tokens - t : TILE_TOKENS;
            struct act_tile tile;
            make_tile(c, g, t, n_tokens, begin, &tile);
            if (t + TILE_TOKENS < g->n_tokens)
                prefetch_tile(c, g, t + TILE_TOKENS, begin, n, first_row);
            dot_panels(c, g, NULL, panels, n_panels, &tile, n, t, n_tokens, first_row, begin == 0,
                       own);
        }
    }
}

/* One activation and a packed panel: nothing to unpack for others. */
static bool one_panel(const struct call *c, const struct group *g, size_t first_row,
                      struct int_scratch *own)
{
    if (g->n_tokens != 1 || !c->k->panel_one || !g->w->packed)
        return false;
    struct panel_source source;
    struct act_tile tile;
    make_source(g, first_row, &source);
    make_tile(c, g, 0, 1, 0, &tile);
    dot_panels(c, g, &source, NULL, 1, &tile, c->n_cols, 0, 1, first_row, true, own);
    return true;
}

/* Few activations leave a chunk at once: then one panel after another, so that
 * the rows of one are read to their end. */
static void int_item(const struct call *c, const struct group *g, size_t first_row, size_t n_rows,
                     struct int_scratch *own)
{
    size_t n_panels = (n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    size_t step = g->n_tokens < TILE_TOKENS ? 1 : TILE_PANELS;
    for (size_t p = 0; p < n_panels; p += step) {
        if (!one_panel(c, g, first_row + p * PANEL_ROWS, own))
            int_panels(c, g, first_row + p * PANEL_ROWS, n_panels - p < step ? n_panels - p : step,
                       own);
    }
}

/* ---- plain formats ---- */

struct float_rows {
    enum dtype dtype;
    size_t size; /* bytes of an element */
    size_t step; /* float_dots' */
    const uint8_t *row[FLOAT_ITEM_ROWS];
};

static void make_rows(const struct call *c, const struct group *g, size_t first_row, size_t n_rows,
                      struct float_scratch *own, struct float_rows *rows)
{
    bool native = matrix_has_float_kernel(g->w);
    rows->dtype = native ? g->w->dtype : DTYPE_F32;
    rows->size = dtype_info(rows->dtype)->block_bytes;
    const uint8_t *packed = matrix_packed(g->w, &g->packing, g->expert, (int32_t)first_row);
    rows->step = packed ? FLOAT_STEP : DOT_LANES;
    for (size_t i = 0; i < n_rows; i++) {
        int32_t row = (int32_t)(first_row + i);
        if (packed) {
            rows->row[i] = packed + matrix_packed_float_row(g->w, i);
        } else if (native) {
            rows->row[i] = matrix_row_data(g->w, g->expert, row);
        } else {
            float *decoded = own->rows + i * c->n_cols;
            matrix_row(g->w, g->expert, row, decoded);
            rows->row[i] = (const uint8_t *)decoded;
        }
    }
}

/* Columns begin..begin+n of all rows with n_tokens activations, tile by tile;
 * acc holds the tiles' partial sums one after another. */
static void float_chunk(const struct call *c, const struct group *g, const struct float_rows *rows,
                        size_t n_rows, size_t first_token, size_t n_tokens, size_t begin, size_t n,
                        float *acc)
{
    for (size_t t = 0; t < n_tokens; t += DOT_TOKENS) {
        size_t n_x = n_tokens - t < DOT_TOKENS ? n_tokens - t : DOT_TOKENS;
        const float *x[DOT_TOKENS];
        for (size_t i = 0; i < n_x; i++)
            x[i] = c->x + x_row(g, first_token + t + i) * c->x_stride + begin;
        for (size_t r = 0; r < n_rows; r += DOT_WEIGHTS) {
            size_t n_w = n_rows - r < DOT_WEIGHTS ? n_rows - r : DOT_WEIGHTS;
            const void *w[DOT_WEIGHTS];
            for (size_t i = 0; i < n_w; i++)
                w[i] = rows->row[r + i] + begin / DOT_LANES * rows->step * rows->size;
            c->k->float_dots(rows->dtype, w, n_w, rows->step, x, n_x, n,
                             acc + (t * n_rows + r * n_x) * DOT_LANES);
        }
    }
}

static void float_finish(const struct call *c, const struct group *g, size_t first_row,
                         size_t n_rows, size_t first_token, size_t n_tokens, const float *acc)
{
    for (size_t t = 0; t < n_tokens; t++) {
        size_t tile = t / DOT_TOKENS * DOT_TOKENS;
        size_t n_x = n_tokens - tile < DOT_TOKENS ? n_tokens - tile : DOT_TOKENS;
        float *y = y_row(g, first_token + t) + first_row;
        start_sums(g, y, first_row, n_rows);
        for (size_t r = 0; r < n_rows; r++) {
            size_t at = tile * n_rows + r * n_x + (t - tile);
            y[r] += c->k->lanes_sum(acc + at * DOT_LANES);
        }
    }
}

static void float_item(const struct call *c, const struct group *g, size_t first_row, size_t n_rows,
                       struct float_scratch *own)
{
    struct float_rows rows;
    make_rows(c, g, first_row, n_rows, own, &rows);
    /* One tile needs no chunks: its sums stay in registers. */
    size_t chunk = g->n_tokens <= DOT_TOKENS ? c->n_cols : CHUNK_COLS;
    for (size_t t = 0; t < g->n_tokens; t += FLOAT_TOKENS) {
        size_t n_tokens = g->n_tokens - t < FLOAT_TOKENS ? g->n_tokens - t : FLOAT_TOKENS;
        memset(own->acc, 0, n_rows * n_tokens * DOT_LANES * sizeof(float));
        for (size_t begin = 0; begin < c->n_cols; begin += chunk) {
            size_t n = c->n_cols - begin < chunk ? c->n_cols - begin : chunk;
            float_chunk(c, g, &rows, n_rows, t, n_tokens, begin, n, own->acc);
        }
        float_finish(c, g, first_row, n_rows, t, n_tokens, own->acc);
    }
}

/* ---- a call ---- */

static void prepare_row(const struct call *c, const struct prepared *p, size_t row)
{
    size_t n_subs = c->n_cols / p->sub_len, per_scale = BLOCK_COLS / p->sub_len;
    const int32_t *sum16 = c->sum16 + row * (c->n_cols / 16);
    const float *scale = c->scale + row * (c->n_cols / BLOCK_COLS);
    for (size_t s = 0; s < n_subs; s++) {
        int32_t sum = p->sub_len == 16 ? sum16[s] : sum16[2 * s] + sum16[2 * s + 1];
        if (p->has_min)
            p->sum[row * n_subs + s] = (float)sum * scale[s / per_scale];
        else
            p->bias[row * n_subs + s] = -(int32_t)p->offset * sum;
    }
}

static void quantize_rows(const struct call *c, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        struct act_row row = {c->q + i * c->n_cols, c->scale + i * (c->n_cols / BLOCK_COLS),
                              c->sum16 + i * (c->n_cols / 16)};
        (c->wide ? c->k->quantize_wide : c->k->quantize)(c->x + i * c->x_stride, c->n_cols, &row);
        for (size_t p = 0; p < c->n_prepared; p++)
            prepare_row(c, &c->prepared[p], i);
    }
}

static void do_item(const struct call *c, size_t item, void *own)
{
    const struct group *g = c->groups;
    while (item >= g->first_item + g->n_items)
        g++;
    size_t first_row = (item - g->first_item) * g->item_rows;
    size_t left = (size_t)g->w->n_rows - first_row;
    size_t n_rows = left < g->item_rows ? left : g->item_rows;
    if (g->through_ints)
        int_item(c, g, first_row, n_rows, own);
    else
        float_item(c, g, first_row, n_rows, own);
}

static void work(void *arg, int32_t thread, int32_t n_threads)
{
    const struct call *c = arg;
    if (c->any_ints && c->n_x > 1) {
        size_t n = (size_t)n_threads, t = (size_t)thread;
        quantize_rows(c, c->n_x * t / n, c->n_x * (t + 1) / n);
        worker_pool_barrier(c->pool);
    }
    void *own = c->own + (size_t)thread * c->own_bytes;
    size_t item;
    while (pool_items_take(c->pool, thread, &item))
        do_item(c, item, own);
}

/* Enough items that threads end together, but long enough that what lies ahead
 * in memory is mostly the item's own. */
static size_t int_item_rows(const struct call *c, const struct group *g)
{
    size_t n_threads = (size_t)worker_pool_n_threads(c->pool);
    size_t rows = (size_t)g->w->n_rows / (n_threads * 8) / PANEL_ROWS * PANEL_ROWS;
    size_t least = (g->n_tokens < TILE_TOKENS ? 1 : TILE_PANELS) * PANEL_ROWS;
    return rows < least ? least : rows > 8 * PANEL_ROWS ? 8 * PANEL_ROWS : rows;
}

/* The sums that a format wants, from `sums` on, one after another; the same for
 * formats that want the same. */
static const void *prepared_for(struct call *c, const struct panel_format *f, uint8_t *sums)
{
    if (!f->has_min && !f->offset)
        return NULL;
    for (size_t i = 0; i < c->n_prepared; i++) {
        const struct prepared *p = &c->prepared[i];
        if (p->sub_len == f->sub_len && p->offset == f->offset && p->has_min == f->has_min)
            return p->data;
    }
    struct prepared *p = &c->prepared[c->n_prepared];
    *p = (struct prepared){.sub_len = f->sub_len, .offset = f->offset, .has_min = f->has_min};
    p->data = sums + c->n_prepared * sums_bytes(c->n_x, c->n_cols);
    c->n_prepared++;
    return p->data;
}

/* Lay out the scratch and run. The groups are in place, and want at most
 * MAX_PREPARED different sums. */
static void run(struct call *c, uint8_t *scratch)
{
    c->k = kernel_table();
    c->n_items = 0;
    c->any_ints = false;
    c->q = (int8_t *)scratch;
    scratch += round_up(c->n_x * c->n_cols);
    c->scale = (float *)(void *)scratch;
    scratch += round_up(c->n_x * (c->n_cols / BLOCK_COLS) * sizeof(float));
    c->sum16 = (int32_t *)(void *)scratch;
    uint8_t *sums = scratch + sums_bytes(c->n_x, c->n_cols);
    c->own = sums + MAX_PREPARED * sums_bytes(c->n_x, c->n_cols);
    for (size_t i = 0; i < c->n_groups; i++) {
        struct group *g = &c->groups[i];
        g->through_ints = panel_format_of(g->w, &g->format);
        if (g->through_ints || g->w->packed)
            g->packing = matrix_packing(g->w);
        c->any_ints |= g->through_ints;
        g->item_rows = g->through_ints ? int_item_rows(c, g) : FLOAT_ITEM_ROWS;
        if (g->through_ints)
            g->prepared = prepared_for(c, &g->format, sums);
        g->first_item = c->n_items;
        g->n_items = ((size_t)g->w->n_rows + g->item_rows - 1) / g->item_rows;
        c->n_items += g->n_items;
    }
    if (c->any_ints && c->n_x == 1)
        quantize_rows(c, 0, 1);
    pool_items_start(c->pool, c->n_items);
    worker_pool_run(c->pool, work, c);
}

/* Scratch for a call with n_lists lists of n_x indices and n_groups groups. */
static uint8_t *take_scratch(struct call *c, size_t n_groups, size_t n_indices, int32_t **indices)
{
    c->own_bytes = own_bytes(c->n_cols);
    size_t head = round_up(n_groups * sizeof(struct group)) + round_up(n_indices * sizeof(int32_t));
    size_t total =
        head + act_bytes(c->n_x, c->n_cols) + (size_t)worker_pool_n_threads(c->pool) * c->own_bytes;
    uint8_t *scratch = pool_scratch(c->pool, total);
    if (!scratch)
        return NULL;
    c->groups = (struct group *)(void *)scratch;
    *indices = (int32_t *)(void *)(scratch + round_up(n_groups * sizeof(struct group)));
    return scratch + head;
}

/* Formats in blocks of 256 take activations in such blocks: what everybody
 * computes with these files, and so what their recorded results hold. */
static bool is_wide(const struct matrix *w)
{
    return dtype_info(w->dtype)->block_len == WIDE_COLS;
}

/* At most MAX_PREPARED terms that take their activations the same way. */
static bool multiply(struct worker_pool *pool, const struct matmul_term *terms, size_t n_terms,
                     const float *x, size_t x_stride, size_t n_x)
{
    struct call c = {.pool = pool,
                     .x = x,
                     .x_stride = x_stride,
                     .n_x = n_x,
                     .n_cols = (size_t)terms[0].w->n_cols,
                     .wide = is_wide(terms[0].w),
                     .n_groups = n_terms};
    int32_t *none;
    uint8_t *scratch = take_scratch(&c, n_terms, 0, &none);
    if (!scratch)
        return false;
    for (size_t i = 0; i < n_terms; i++) {
        const struct matmul_term *t = &terms[i];
        c.groups[i] = (struct group){.w = t->w,
                                     .bias = t->bias,
                                     .y = t->y,
                                     .y_stride = t->y_stride,
                                     .n_tokens = n_x,
                                     .add = t->add};
    }
    run(&c, scratch);
    return true;
}

bool matmul_many(struct worker_pool *pool, const struct matmul_term *terms, size_t n_terms,
                 const float *x, size_t x_stride, size_t n_x)
{
    for (size_t i = 0, end; n_x > 0 && i < n_terms; i = end) {
        for (end = i + 1; end < n_terms && end - i < MAX_PREPARED &&
                          is_wide(terms[end].w) == is_wide(terms[i].w);)
            end++;
        if (!multiply(pool, terms + i, end - i, x, x_stride, n_x))
            return false;
    }
    return true;
}

bool matmul(struct worker_pool *pool, const struct matrix *w, const float *x, size_t x_stride,
            size_t n_x, float *y, size_t y_stride)
{
    struct matmul_term term = {.w = w, .y = y, .y_stride = y_stride};
    return matmul_many(pool, &term, 1, x, x_stride, n_x);
}

bool matmul_gathered(struct worker_pool *pool, const struct matrix *w, const float *bias,
                     const int32_t *expert, const int32_t *x_rows, size_t n, const float *x,
                     size_t x_stride, size_t n_x, float *y, size_t y_stride)
{
    if (n == 0)
        return true;
    size_t n_experts = (size_t)w->n_experts;
    struct call c = {.pool = pool,
                     .x = x,
                     .x_stride = x_stride,
                     .n_x = n_x,
                     .n_cols = (size_t)w->n_cols,
                     .wide = is_wide(w)};
    int32_t *indices;
    uint8_t *scratch = take_scratch(&c, n_experts, 2 * n + n_experts + 1, &indices);
    if (!scratch)
        return false;
    /* Counting sort by expert: begin[e] is where its rows start. */
    int32_t *x_index = indices, *y_index = indices + n, *begin = indices + 2 * n;
    memset(begin, 0, (n_experts + 1) * sizeof *begin);
    for (size_t j = 0; j < n; j++)
        begin[expert[j] + 1]++;
    for (size_t e = 0; e < n_experts; e++)
        begin[e + 1] += begin[e];
    for (size_t j = 0; j < n; j++) {
        int32_t at = begin[expert[j]]++;
        x_index[at] = x_rows[j];
        y_index[at] = (int32_t)j;
    }
    int32_t first = 0;
    for (size_t e = 0; e < n_experts; e++) {
        int32_t end = begin[e];
        if (end > first)
            c.groups[c.n_groups++] =
                (struct group){.w = w,
                               .expert = (int32_t)e,
                               .bias = bias ? bias + e * (size_t)w->n_rows : NULL,
                               .y = y,
                               .y_stride = y_stride,
                               .x_index = x_index + first,
                               .y_index = y_index + first,
                               .n_tokens = (size_t)(end - first)};
        first = end;
    }
    run(&c, scratch);
    return true;
}
