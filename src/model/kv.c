/* kv.c - the KV cache: cells, and the sequences that hold them. */
#include "model/kv.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory ---------------------------------------------------------------- */

static bool layer_bytes(const struct kv_cache *kv, const struct kv_layer *l, size_t *k, size_t *v)
{
    size_t rows;
    return !__builtin_mul_overflow((size_t)kv->n_cells[l->kind], (size_t)l->n_kv_heads, &rows) &&
           !__builtin_mul_overflow(rows, kv->k_row_bytes, k) &&
           !__builtin_mul_overflow(rows, kv->v_row_bytes, v);
}

enum { LAYER_ALIGN = 64 };

static size_t aligned(size_t n)
{
    return (n + LAYER_ALIGN - 1) / LAYER_ALIGN * LAYER_ALIGN;
}

/* One mapping, untouched: the system gives pages as cells fill. */
static bool map_layers(struct kv_cache *kv, struct error *err)
{
    size_t total = 0, k = 0, v = 0;
    for (int32_t i = 0; i < kv->n_layers; i++) {
        if (!layer_bytes(kv, &kv->layers[i], &k, &v) || k > SIZE_MAX / 4 || v > SIZE_MAX / 4 ||
            __builtin_add_overflow(total, aligned(k) + aligned(v), &total))
            return error_set(err, ERR_LIMIT,
                             "a KV cache of %d cells does not fit the address space",
                             kv->size.n_cells);
    }
    kv->memory = mmap(NULL, total, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (kv->memory == MAP_FAILED) {
        kv->memory = NULL;
        return error_set(err, ERR_MEMORY,
                         "no memory for a KV cache of %zu MiB (%d cells); use a smaller context "
                         "(-c) or a smaller cache type (-ctk, -ctv)",
                         total >> 20, kv->size.n_cells);
    }
    kv->n_bytes = total;
    unsigned char *at = kv->memory;
    for (int32_t i = 0; i < kv->n_layers; i++) {
        struct kv_layer *l = &kv->layers[i];
        layer_bytes(kv, l, &k, &v);
        l->k = at;
        l->v = at + aligned(k);
        /* Each head's cells lie together: attention reads them as one stream. */
        l->k_head_bytes = kv->k_row_bytes * (size_t)kv->n_cells[l->kind];
        l->v_head_bytes = kv->v_row_bytes * (size_t)kv->n_cells[l->kind];
        at += aligned(k) + aligned(v);
    }
    return true;
}

static bool refuse_type(enum dtype dtype, const char *what, struct error *err)
{
    struct str names = {0};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_info((enum dtype)i);
        if (info->is_cache)
            str_append_format(&names, "%s%s", names.len ? ", " : "", info->name);
    }
    error_set(err, ERR_INVALID, "%s is not a type for the %s cache; these are: %s",
              dtype_info(dtype)->name, what, str_text(&names));
    str_free(&names);
    return false;
}

static bool row_bytes(enum dtype dtype, int32_t head_dim, const char *what, size_t *bytes,
                      struct error *err)
{
    if (!dtype_info(dtype)->is_cache)
        return refuse_type(dtype, what, err);
    if (!dtype_bytes(dtype, (uint64_t)head_dim, bytes))
        return error_set(err, ERR_INVALID,
                         "the model's heads are %d wide, no multiple of the %d that a %s cache of "
                         "type %s needs; use f16",
                         head_dim, dtype_info(dtype)->block_len, what, dtype_info(dtype)->name);
    return true;
}

static bool ints(int32_t **out, int32_t n)
{
    *out = calloc(n > 0 ? (size_t)n : 1, sizeof **out);
    return *out != NULL;
}

/* The cell that was freed last, else the lowest that was never taken: so that no list
 * of all cells has to be filled, of which most may never be used. */
static int32_t take_free_cell(struct kv_cache *kv)
{
    kv->n_free--;
    return kv->n_freed > 0 ? kv->free_cells[--kv->n_freed] : kv->n_fresh++;
}

static void put_free_cell(struct kv_cache *kv, int32_t cell)
{
    kv->free_cells[kv->n_freed++] = cell;
    kv->n_free++;
}

static bool alloc_lists(struct kv_cache *kv)
{
    const struct kv_sizes *z = &kv->size;
    kv->layers = calloc((size_t)kv->n_layers, sizeof *kv->layers);
    kv->seqs = calloc((size_t)z->n_seqs, sizeof *kv->seqs);
    if (!kv->layers || !kv->seqs || !ints(&kv->n_holders[KV_ALL], z->n_cells) ||
        !ints(&kv->free_cells, z->n_cells))
        return false;
    if (!z->n_window)
        return true;
    int32_t n = kv->n_cells[KV_WINDOW];
    kv->rings = calloc((size_t)z->n_rings, sizeof *kv->rings);
    kv->next_pos = calloc((size_t)z->n_seqs, sizeof *kv->next_pos);
    return kv->rings && kv->next_pos && ints(&kv->n_holders[KV_WINDOW], n) &&
           ints(&kv->cell_pos, n) && ints(&kv->cell_seq, n);
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

bool kv_measure(const struct hparams *h, const struct kv_sizes *sizes, enum dtype type_k,
                enum dtype type_v, uint64_t *bytes, struct error *err)
{
    size_t k, v;
    if (!row_bytes(type_k, h->head_dim_k, "K", &k, err) ||
        !row_bytes(type_v, h->head_dim_v, "V", &v, err))
        return false;
    uint64_t cells[KV_N_KINDS] = {
        (uint64_t)sizes->n_cells,
        sizes->n_window ? times((uint64_t)sizes->ring_cells, (uint64_t)sizes->n_rings) : 0};
    /* Lists: two numbers a cell, three in rings; a position and cells in sequences. */
    *bytes = plus(times(cells[KV_ALL], 2 * sizeof(int32_t)),
                  times(cells[KV_WINDOW], 3 * sizeof(int32_t)));
    for (int32_t i = 0; i < h->n_layers; i++) {
        enum kv_kind kind = sizes->n_window && h->layers[i].is_swa ? KV_WINDOW : KV_ALL;
        uint64_t rows = times(cells[kind], (uint64_t)h->layers[i].n_kv_heads);
        *bytes = plus(*bytes, plus(times(rows, k), times(rows, v)));
    }
    return true;
}

bool kv_create(struct kv_cache *kv, const struct hparams *h, const struct kv_sizes *sizes,
               enum dtype type_k, enum dtype type_v, struct error *err)
{
    *kv = (struct kv_cache){.size = *sizes,
                            .type_k = type_k,
                            .type_v = type_v,
                            .head_dim_k = h->head_dim_k,
                            .head_dim_v = h->head_dim_v,
                            .n_layers = h->n_layers};
    if (!row_bytes(type_k, h->head_dim_k, "K", &kv->k_row_bytes, err) ||
        !row_bytes(type_v, h->head_dim_v, "V", &kv->v_row_bytes, err))
        return false;
    kv->n_cells[KV_ALL] = sizes->n_cells;
    if (sizes->n_window &&
        __builtin_mul_overflow(sizes->ring_cells, sizes->n_rings, &kv->n_cells[KV_WINDOW]))
        return error_set(err, ERR_LIMIT,
                         "a sliding window of %d tokens is too large for %d "
                         "sequences",
                         sizes->n_window, sizes->n_seqs);
    if (!alloc_lists(kv))
        return error_memory(err);
    for (int32_t i = 0; i < h->n_layers; i++) {
        kv->layers[i].n_kv_heads = h->layers[i].n_kv_heads;
        kv->layers[i].kind = sizes->n_window && h->layers[i].is_swa ? KV_WINDOW : KV_ALL;
    }
    kv->n_free = sizes->n_cells;
    return map_layers(kv, err);
}

void kv_free(struct kv_cache *kv)
{
    for (int32_t i = 0; kv->seqs && i < kv->size.n_seqs; i++) {
        free(kv->seqs[i].pos);
        for (int k = 0; k < KV_N_KINDS; k++)
            free(kv->seqs[i].cells[k]);
    }
    if (kv->memory)
        munmap(kv->memory, kv->n_bytes);
    for (int k = 0; k < KV_N_KINDS; k++)
        free(kv->n_holders[k]);
    free(kv->layers);
    free(kv->seqs);
    free(kv->free_cells);
    free(kv->rings);
    free(kv->cell_pos);
    free(kv->cell_seq);
    free(kv->next_pos);
    *kv = (struct kv_cache){0};
}

/* ---- lists ---------------------------------------------------------------------- */

static bool grow(int32_t **list, int32_t n)
{
    int32_t *grown = realloc(*list, (size_t)n * sizeof *grown);
    if (grown)
        *list = grown;
    return grown != NULL;
}

static bool seq_reserve(const struct kv_cache *kv, struct kv_seq *s, int32_t n)
{
    if (n <= s->capacity)
        return true;
    int32_t grown = s->capacity > INT32_MAX / 2 ? n : s->capacity * 2;
    if (grown < n)
        grown = n < 64 ? 64 : n;
    if (!grow(&s->pos, grown) || !grow(&s->cells[KV_ALL], grown) ||
        (kv->size.n_window && !grow(&s->cells[KV_WINDOW], grown)))
        return false;
    s->capacity = grown;
    return true;
}

int32_t kv_find(const struct kv_seq *s, int32_t pos)
{
    int32_t low = 0, high = s->n;
    while (low < high) {
        int32_t mid = low + (high - low) / 2;
        if (s->pos[mid] < pos)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void drop_cell(struct kv_cache *kv, int32_t cell)
{
    if (--kv->n_holders[KV_ALL][cell] == 0)
        put_free_cell(kv, cell);
}

bool kv_fits(const struct kv_cache *kv, int32_t seq, int32_t n)
{
    return n <= kv->n_free && n <= kv->size.n_cells_seq - kv->seqs[seq].n;
}

int32_t kv_append(struct kv_cache *kv, int32_t seq, int32_t pos)
{
    struct kv_seq *s = &kv->seqs[seq];
    if (!kv_fits(kv, seq, 1) || !seq_reserve(kv, s, s->n + 1))
        return -1;
    int32_t cell = take_free_cell(kv);
    kv->n_holders[KV_ALL][cell] = 1;
    s->cells[KV_ALL][s->n] = cell;
    s->pos[s->n++] = pos;
    return cell;
}

void kv_range(const struct kv_seq *s, int32_t p0, int32_t p1, int32_t *begin, int32_t *end)
{
    *begin = p0 < 0 ? 0 : kv_find(s, p0);
    *end = p1 < 0 ? s->n : kv_find(s, p1);
    if (*end < *begin)
        *end = *begin;
}

/* Move what stands behind index `from` to index `to`; the list's length is the
 * caller's to change. */
static void move_tail(struct kv_seq *s, int32_t from, int32_t to)
{
    size_t n = (size_t)(s->n - from);
    memmove(s->pos + to, s->pos + from, n * sizeof *s->pos);
    for (int k = 0; k < KV_N_KINDS; k++)
        if (s->cells[k])
            memmove(s->cells[k] + to, s->cells[k] + from, n * sizeof *s->pos);
}

void kv_remove_range(struct kv_cache *kv, int32_t seq, int32_t p0, int32_t p1)
{
    struct kv_seq *s = &kv->seqs[seq];
    int32_t begin, end;
    kv_range(s, p0, p1, &begin, &end);
    if (begin == end)
        return;
    /* From the back, so that what is freed last is the lowest and used next. */
    for (int32_t i = end; i-- > begin;)
        drop_cell(kv, s->cells[KV_ALL][i]);
    kv_window_remove(kv, s, begin, end);
    move_tail(s, end, begin);
    s->n -= end - begin;
}

bool kv_copy_range(struct kv_cache *kv, int32_t src, int32_t dst, int32_t p0, int32_t p1)
{
    if (src == dst)
        return true;
    const struct kv_seq *from = &kv->seqs[src];
    struct kv_seq *to = &kv->seqs[dst];
    int32_t begin, end;
    kv_range(from, p0, p1, &begin, &end);
    int32_t n = end - begin;
    if (n == 0)
        return true;
    kv_remove_range(kv, dst, from->pos[begin], from->pos[end - 1] + 1);
    if (n > kv->size.n_cells_seq - to->n || !seq_reserve(kv, to, to->n + n))
        return false;
    int32_t at = kv_find(to, from->pos[begin]);
    move_tail(to, at, at + n);
    memcpy(to->cells[KV_ALL] + at, from->cells[KV_ALL] + begin, (size_t)n * sizeof *to->pos);
    memcpy(to->pos + at, from->pos + begin, (size_t)n * sizeof *to->pos);
    to->n += n;
    for (int32_t i = 0; i < n; i++)
        kv->n_holders[KV_ALL][to->cells[KV_ALL][at + i]]++;
    kv_window_copy(kv, from, begin, dst, at, n);
    return true;
}

void kv_copy_cell(struct kv_cache *kv, enum kv_kind kind, int32_t from, int32_t to)
{
    for (int32_t i = 0; i < kv->n_layers; i++) {
        struct kv_layer *l = &kv->layers[i];
        for (int32_t h = 0; l->kind == kind && h < l->n_kv_heads; h++) {
            unsigned char *k = l->k + (size_t)h * l->k_head_bytes;
            unsigned char *v = l->v + (size_t)h * l->v_head_bytes;
            memcpy(k + (size_t)to * kv->k_row_bytes, k + (size_t)from * kv->k_row_bytes,
                   kv->k_row_bytes);
            memcpy(v + (size_t)to * kv->v_row_bytes, v + (size_t)from * kv->v_row_bytes,
                   kv->v_row_bytes);
        }
    }
}

bool kv_make_own(struct kv_cache *kv, int32_t seq, int32_t begin, int32_t end)
{
    int32_t *cells = kv->seqs[seq].cells[KV_ALL], *n_holders = kv->n_holders[KV_ALL];
    int32_t n_shared = 0;
    for (int32_t i = begin; i < end; i++)
        n_shared += n_holders[cells[i]] > 1;
    if (n_shared > kv->n_free)
        return false;
    for (int32_t i = begin; n_shared && i < end; i++) {
        int32_t old = cells[i];
        if (n_holders[old] == 1)
            continue;
        int32_t cell = take_free_cell(kv);
        kv_copy_cell(kv, KV_ALL, old, cell);
        n_holders[old]--;
        n_holders[cell] = 1;
        cells[i] = cell;
    }
    return true;
}
