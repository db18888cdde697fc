/* kv.c - the KV cache: cells, and the sequences that hold them. */
#include "model/kv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- memory ---------------------------------------------------------------- */

static bool layer_bytes(const struct kv_cache *kv, int32_t n_kv_heads, size_t *k, size_t *v)
{
    size_t rows;
    return !__builtin_mul_overflow((size_t)kv->n_cells, (size_t)n_kv_heads, &rows) &&
           !__builtin_mul_overflow(rows, kv->k_row_bytes, k) &&
           !__builtin_mul_overflow(rows, kv->v_row_bytes, v);
}

enum { LAYER_ALIGN = 64 };

static size_t aligned(size_t n)
{
    return (n + LAYER_ALIGN - 1) / LAYER_ALIGN * LAYER_ALIGN;
}

/* One mapping, untouched: the system gives pages as cells fill. */
static bool map_layers(struct kv_cache *kv, const struct hparams *h, struct error *err)
{
    size_t total = 0, k = 0, v = 0;
    for (int32_t i = 0; i < kv->n_layers; i++) {
        if (!layer_bytes(kv, h->layers[i].n_kv_heads, &k, &v) || k > SIZE_MAX / 4 ||
            v > SIZE_MAX / 4 || __builtin_add_overflow(total, aligned(k) + aligned(v), &total))
            return error_set(err, ERR_LIMIT,
                             "a KV cache of %d cells does not fit the address space", kv->n_cells);
    }
    kv->memory = mmap(NULL, total, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (kv->memory == MAP_FAILED) {
        kv->memory = NULL;
        return error_set(err, ERR_MEMORY,
                         "no memory for a KV cache of %zu MiB (%d cells); use a smaller context "
                         "(-c) or a smaller cache type (-ctk, -ctv)",
                         total >> 20, kv->n_cells);
    }
    kv->n_bytes = total;
    unsigned char *at = kv->memory;
    for (int32_t i = 0; i < kv->n_layers; i++) {
        struct kv_layer *l = &kv->layers[i];
        l->n_kv_heads = h->layers[i].n_kv_heads;
        layer_bytes(kv, l->n_kv_heads, &k, &v);
        l->k = at;
        l->v = at + aligned(k);
        /* Each head's cells lie together: attention reads them as one stream. */
        l->k_head_bytes = kv->k_row_bytes * (size_t)kv->n_cells;
        l->v_head_bytes = kv->v_row_bytes * (size_t)kv->n_cells;
        at += aligned(k) + aligned(v);
    }
    return true;
}

static bool row_bytes(enum dtype dtype, int32_t head_dim, const char *what, size_t *bytes,
                      struct error *err)
{
    static const enum dtype allowed[] = {DTYPE_F32,    DTYPE_F16,  DTYPE_BF16,
                                         DTYPE_Q8_0,   DTYPE_Q4_0, DTYPE_Q4_1,
                                         DTYPE_IQ4_NL, DTYPE_Q5_0, DTYPE_Q5_1};
    bool known = false;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        known |= allowed[i] == dtype;
    if (!known)
        return error_set(err, ERR_INVALID,
                         "%s is no type for the %s cache; f32, f16, bf16, q8_0, q4_0, q4_1, "
                         "iq4_nl, q5_0 and q5_1 are",
                         dtype_info(dtype)->name, what);
    if (!dtype_bytes(dtype, (uint64_t)head_dim, bytes))
        return error_set(err, ERR_INVALID,
                         "the model's heads are %d wide, no multiple of the %d that a %s cache of "
                         "type %s needs; use f16",
                         head_dim, dtype_info(dtype)->block_len, what, dtype_info(dtype)->name);
    return true;
}

bool kv_create(struct kv_cache *kv, const struct hparams *h, int32_t n_cells, int32_t n_cells_seq,
               int32_t n_seqs, enum dtype type_k, enum dtype type_v, struct error *err)
{
    *kv = (struct kv_cache){.n_cells = n_cells,
                            .n_cells_seq = n_cells_seq,
                            .n_seqs = n_seqs,
                            .type_k = type_k,
                            .type_v = type_v,
                            .head_dim_k = h->head_dim_k,
                            .head_dim_v = h->head_dim_v,
                            .n_layers = h->n_layers};
    if (!row_bytes(type_k, h->head_dim_k, "K", &kv->k_row_bytes, err) ||
        !row_bytes(type_v, h->head_dim_v, "V", &kv->v_row_bytes, err))
        return false;
    kv->layers = calloc((size_t)h->n_layers, sizeof *kv->layers);
    kv->seqs = calloc((size_t)n_seqs, sizeof *kv->seqs);
    kv->n_holders = calloc((size_t)n_cells, sizeof *kv->n_holders);
    kv->free_cells = calloc((size_t)n_cells, sizeof *kv->free_cells);
    if (!kv->layers || !kv->seqs || !kv->n_holders || !kv->free_cells)
        return error_memory(err);
    for (int32_t i = 0; i < n_cells; i++)
        kv->free_cells[i] = n_cells - 1 - i;
    kv->n_free = n_cells;
    return map_layers(kv, h, err);
}

void kv_free(struct kv_cache *kv)
{
    for (int32_t i = 0; kv->seqs && i < kv->n_seqs; i++) {
        free(kv->seqs[i].cells);
        free(kv->seqs[i].pos);
    }
    if (kv->memory)
        munmap(kv->memory, kv->n_bytes);
    free(kv->layers);
    free(kv->seqs);
    free(kv->n_holders);
    free(kv->free_cells);
    *kv = (struct kv_cache){0};
}

/* ---- lists ---------------------------------------------------------------------- */

static bool seq_reserve(struct kv_seq *s, int32_t n)
{
    if (n <= s->capacity)
        return true;
    int32_t grown = s->capacity > INT32_MAX / 2 ? n : s->capacity * 2;
    if (grown < n)
        grown = n < 64 ? 64 : n;
    int32_t *cells = realloc(s->cells, (size_t)grown * sizeof *cells);
    if (cells)
        s->cells = cells;
    int32_t *pos = realloc(s->pos, (size_t)grown * sizeof *pos);
    if (pos)
        s->pos = pos;
    if (!cells || !pos)
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
    if (--kv->n_holders[cell] == 0)
        kv->free_cells[kv->n_free++] = cell;
}

bool kv_fits(const struct kv_cache *kv, int32_t seq, int32_t n)
{
    return n <= kv->n_free && n <= kv->n_cells_seq - kv->seqs[seq].n;
}

int32_t kv_append(struct kv_cache *kv, int32_t seq, int32_t pos)
{
    struct kv_seq *s = &kv->seqs[seq];
    if (!kv_fits(kv, seq, 1) || !seq_reserve(s, s->n + 1))
        return -1;
    int32_t cell = kv->free_cells[--kv->n_free];
    kv->n_holders[cell] = 1;
    s->cells[s->n] = cell;
    s->pos[s->n++] = pos;
    return cell;
}

static void range_indices(const struct kv_seq *s, int32_t p0, int32_t p1, int32_t *begin,
                          int32_t *end)
{
    *begin = p0 < 0 ? 0 : kv_find(s, p0);
    *end = p1 < 0 ? s->n : kv_find(s, p1);
    if (*end < *begin)
        *end = *begin;
}

void kv_remove_range(struct kv_cache *kv, int32_t seq, int32_t p0, int32_t p1)
{
    struct kv_seq *s = &kv->seqs[seq];
    int32_t begin, end;
    range_indices(s, p0, p1, &begin, &end);
    if (begin == end)
        return;
    /* From the back, so that what is freed last is the lowest and used next. */
    for (int32_t i = end; i-- > begin;)
        drop_cell(kv, s->cells[i]);
    size_t n_after = (size_t)(s->n - end);
    memmove(s->cells + begin, s->cells + end, n_after * sizeof *s->cells);
    memmove(s->pos + begin, s->pos + end, n_after * sizeof *s->pos);
    s->n -= end - begin;
}

bool kv_copy_range(struct kv_cache *kv, int32_t src, int32_t dst, int32_t p0, int32_t p1)
{
    if (src == dst)
        return true;
    const struct kv_seq *from = &kv->seqs[src];
    struct kv_seq *to = &kv->seqs[dst];
    int32_t begin, end;
    range_indices(from, p0, p1, &begin, &end);
    int32_t n = end - begin;
    if (n == 0)
        return true;
    kv_remove_range(kv, dst, from->pos[begin], from->pos[end - 1] + 1);
    if (n > kv->n_cells_seq - to->n || !seq_reserve(to, to->n + n))
        return false;
    int32_t at = kv_find(to, from->pos[begin]);
    size_t n_after = (size_t)(to->n - at);
    memmove(to->cells + at + n, to->cells + at, n_after * sizeof *to->cells);
    memmove(to->pos + at + n, to->pos + at, n_after * sizeof *to->pos);
    memcpy(to->cells + at, from->cells + begin, (size_t)n * sizeof *to->cells);
    memcpy(to->pos + at, from->pos + begin, (size_t)n * sizeof *to->pos);
    to->n += n;
    for (int32_t i = 0; i < n; i++)
        kv->n_holders[to->cells[at + i]]++;
    return true;
}

static void copy_cell(struct kv_cache *kv, int32_t from, int32_t to)
{
    for (int32_t i = 0; i < kv->n_layers; i++) {
        struct kv_layer *l = &kv->layers[i];
        for (int32_t h = 0; h < l->n_kv_heads; h++) {
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
    struct kv_seq *s = &kv->seqs[seq];
    int32_t n_shared = 0;
    for (int32_t i = begin; i < end; i++)
        n_shared += kv->n_holders[s->cells[i]] > 1;
    if (n_shared > kv->n_free)
        return false;
    for (int32_t i = begin; n_shared && i < end; i++) {
        int32_t old = s->cells[i];
        if (kv->n_holders[old] == 1)
            continue;
        int32_t cell = kv->free_cells[--kv->n_free];
        copy_cell(kv, old, cell);
        kv->n_holders[old]--;
        kv->n_holders[cell] = 1;
        s->cells[i] = cell;
    }
    return true;
}

/* ---- saving --------------------------------------------------------------------- */

/* What the bytes belong to; all must agree to load them. */
struct kv_header {
    char magic[8];
    int32_t version, type_k, type_v, head_dim_k, head_dim_v, n_layers, n_cells, n_kv_heads_sum;
};

static const char kv_magic[8] = {'m', 'l', 'x', 'c', 'e', 'l', 'K', 'V'};

static struct kv_header header_of(const struct kv_cache *kv, int32_t n)
{
    struct kv_header h = {.version = 1,
                          .type_k = (int32_t)kv->type_k,
                          .type_v = (int32_t)kv->type_v,
                          .head_dim_k = kv->head_dim_k,
                          .head_dim_v = kv->head_dim_v,
                          .n_layers = kv->n_layers,
                          .n_cells = n};
    memcpy(h.magic, kv_magic, sizeof h.magic);
    for (int32_t i = 0; i < kv->n_layers; i++)
        h.n_kv_heads_sum += kv->layers[i].n_kv_heads;
    return h;
}

static size_t cell_bytes(const struct kv_cache *kv, int32_t n_kv_heads_sum)
{
    return sizeof(int32_t) + (size_t)n_kv_heads_sum * (kv->k_row_bytes + kv->v_row_bytes);
}

/* Copy the rows of a sequence to or from a flat buffer, head by head. */
static void move_rows(const struct kv_cache *kv, const struct kv_seq *s, unsigned char *buffer,
                      bool out)
{
    for (int32_t i = 0; i < kv->n_layers; i++) {
        const struct kv_layer *l = &kv->layers[i];
        for (int32_t part = 0; part < 2 * l->n_kv_heads; part++) {
            int32_t h = part / 2;
            bool is_k = part % 2 == 0;
            size_t row = is_k ? kv->k_row_bytes : kv->v_row_bytes;
            unsigned char *base =
                is_k ? l->k + (size_t)h * l->k_head_bytes : l->v + (size_t)h * l->v_head_bytes;
            for (int32_t c = 0; c < s->n; c++, buffer += row) {
                unsigned char *cell = base + (size_t)s->cells[c] * row;
                if (out)
                    memcpy(buffer, cell, row);
                else
                    memcpy(cell, buffer, row);
            }
        }
    }
}

bool kv_save(const struct kv_cache *kv, int32_t seq, struct str *out)
{
    const struct kv_seq *s = &kv->seqs[seq];
    struct kv_header h = header_of(kv, s->n);
    size_t n = cell_bytes(kv, h.n_kv_heads_sum) * (size_t)s->n;
    if (!str_reserve(out, sizeof h + n))
        return false;
    str_append(out, &h, sizeof h);
    str_append(out, s->pos, (size_t)s->n * sizeof *s->pos);
    size_t rows = n - (size_t)s->n * sizeof *s->pos;
    move_rows(kv, s, (unsigned char *)out->data + out->len, true);
    out->len += rows;
    out->data[out->len] = '\0';
    return !out->failed;
}

bool kv_load(struct kv_cache *kv, int32_t seq, struct slice saved, struct error *err)
{
    struct kv_header h, mine = header_of(kv, 0);
    kv_remove_range(kv, seq, -1, -1);
    if (saved.len < sizeof h)
        return error_set(err, ERR_FORMAT, "the saved sequence is cut short");
    memcpy(&h, saved.data, sizeof h);
    mine.n_cells = h.n_cells;
    if (memcmp(&h, &mine, sizeof h) != 0 || h.n_cells < 0)
        return error_set(err, ERR_FORMAT,
                         "the saved sequence is of another model, another KV cache type or no "
                         "saved sequence at all");
    size_t n = (size_t)h.n_cells, want;
    if (__builtin_mul_overflow(n, cell_bytes(kv, h.n_kv_heads_sum), &want) ||
        saved.len - sizeof h != want)
        return error_set(err, ERR_FORMAT, "the saved sequence is cut short");
    if (!kv_fits(kv, seq, h.n_cells))
        return error_set(err, ERR_LIMIT, "no room in the KV cache for a sequence of %d tokens",
                         h.n_cells);
    int32_t last = -1;
    for (size_t i = 0; i < n; i++) {
        int32_t pos;
        memcpy(&pos, saved.data + sizeof h + i * sizeof pos, sizeof pos);
        if (pos <= last || kv_append(kv, seq, pos) < 0) {
            kv_remove_range(kv, seq, -1, -1);
            return pos <= last ? error_set(err, ERR_FORMAT, "the saved sequence is damaged")
                               : error_memory(err);
        }
        last = pos;
    }
    move_rows(kv, &kv->seqs[seq],
              (unsigned char *)(uintptr_t)saved.data + sizeof h + n * sizeof(int32_t), false);
    return true;
}
