/* kv_save.c - a sequence's cells as bytes, and back.
 *
 * A header, the positions, then rows layer by layer and head by head: in layers
 * that keep everything one for each position, in windowed layers one for each of
 * the last n_kept. A window alone has the last positions and no rows but those. */
#include "model/kv.h"

#include <string.h>

/* What the bytes belong to; all must agree to load them. */
struct kv_header {
    char magic[8];
    int32_t version, is_window;
    struct kv_layout layout;
    int32_t n_cells, n_kept;
};

_Static_assert(sizeof(struct kv_header) == KV_SAVED_HEAD_BYTES, "the header has no gaps");
_Static_assert(KV_N_KINDS == 2, "struct kv_layout counts heads of two kinds");

static const char kv_magic[8] = {'m', 'l', 'x', 'c', 'e', 'l', 'K', 'V'};

void kv_layout_of(const struct kv_cache *kv, struct kv_layout *out)
{
    *out = (struct kv_layout){.type_k = (int32_t)kv->type_k,
                              .type_v = (int32_t)kv->type_v,
                              .head_dim_k = kv->head_dim_k,
                              .head_dim_v = kv->head_dim_v,
                              .n_layers = kv->n_layers,
                              .n_window = kv->size.n_window};
    for (int32_t i = 0; i < kv->n_layers; i++)
        out->n_kv_heads[kv->layers[i].kind] += kv->layers[i].n_kv_heads;
}

static struct kv_header header_of(const struct kv_layout *layout, bool is_window, int32_t n,
                                  int32_t n_kept)
{
    struct kv_header h = {
        .version = 2, .is_window = is_window, .layout = *layout, .n_cells = n, .n_kept = n_kept};
    memcpy(h.magic, kv_magic, sizeof h.magic);
    return h;
}

/* Positions that have a row in layers of this kind. */
static int32_t n_rows(const struct kv_header *h, enum kv_kind kind)
{
    return kind == KV_WINDOW ? h->n_kept : h->is_window ? 0 : h->n_cells;
}

/* Bytes of one cell's keys and values in one head. */
static bool head_bytes(const struct kv_layout *l, size_t *bytes)
{
    size_t v;
    return dtype_bytes((enum dtype)l->type_k, (uint64_t)l->head_dim_k, bytes) &&
           dtype_bytes((enum dtype)l->type_v, (uint64_t)l->head_dim_v, &v) &&
           !__builtin_add_overflow(*bytes, v, bytes);
}

/* Bytes behind the header; false when they are too many to count. */
static bool body_bytes(const struct kv_header *h, size_t *bytes)
{
    size_t per_head;
    if (!head_bytes(&h->layout, &per_head))
        return false;
    *bytes = (size_t)h->n_cells * sizeof(int32_t);
    for (int k = 0; k < KV_N_KINDS; k++) {
        size_t n = (size_t)h->layout.n_kv_heads[k];
        if (__builtin_mul_overflow(n, per_head, &n) ||
            __builtin_mul_overflow(n, (size_t)n_rows(h, (enum kv_kind)k), &n) ||
            __builtin_add_overflow(*bytes, n, bytes))
            return false;
    }
    return true;
}

/* Copy the rows of a sequence's last cells to or from a flat buffer, head by head. */
static void move_rows(const struct kv_cache *kv, const struct kv_seq *s, const struct kv_header *h,
                      unsigned char *buffer, bool out)
{
    for (int32_t i = 0; i < kv->n_layers; i++) {
        const struct kv_layer *l = &kv->layers[i];
        const int32_t *cells = s->cells[l->kind];
        int32_t first = s->n - n_rows(h, l->kind);
        for (int32_t part = 0; part < 2 * l->n_kv_heads; part++) {
            int32_t head = part / 2;
            bool is_k = part % 2 == 0;
            size_t row = is_k ? kv->k_row_bytes : kv->v_row_bytes;
            unsigned char *base = is_k ? l->k + (size_t)head * l->k_head_bytes
                                       : l->v + (size_t)head * l->v_head_bytes;
            for (int32_t c = first; c < s->n; c++, buffer += row) {
                unsigned char *cell = base + (size_t)cells[c] * row;
                if (out)
                    memcpy(buffer, cell, row);
                else
                    memcpy(cell, buffer, row);
            }
        }
    }
}

/* How many of the last cells a window of n tokens that ends with the last holds. */
static int32_t n_in_window(const struct kv_seq *s, int32_t n, int32_t first)
{
    int64_t oldest = s->n ? (int64_t)s->pos[s->n - 1] - n + 1 : 0;
    int32_t begin = oldest <= 0 ? 0 : kv_find(s, (int32_t)oldest);
    return s->n - (begin > first ? begin : first);
}

static bool save(const struct kv_cache *kv, int32_t seq, bool is_window, int32_t n, int32_t n_kept,
                 struct str *out)
{
    const struct kv_seq *s = &kv->seqs[seq];
    struct kv_layout layout;
    kv_layout_of(kv, &layout);
    struct kv_header h = header_of(&layout, is_window, n, n_kept);
    size_t bytes;
    if (!body_bytes(&h, &bytes) || bytes > SIZE_MAX - sizeof h ||
        !str_reserve(out, sizeof h + bytes))
        return false;
    str_append(out, &h, sizeof h);
    str_append(out, s->pos + (s->n - n), (size_t)n * sizeof *s->pos);
    size_t rows = bytes - (size_t)n * sizeof *s->pos;
    move_rows(kv, s, &h, (unsigned char *)out->data + out->len, true);
    out->len += rows;
    out->data[out->len] = '\0';
    return !out->failed;
}

bool kv_save(const struct kv_cache *kv, int32_t seq, struct str *out)
{
    const struct kv_seq *s = &kv->seqs[seq];
    int32_t window = kv->size.n_window;
    return save(kv, seq, false, s->n, window ? n_in_window(s, window, s->first) : 0, out);
}

bool kv_save_window(const struct kv_cache *kv, int32_t seq, int32_t n_window, struct str *out)
{
    const struct kv_seq *s = &kv->seqs[seq];
    int32_t n = n_in_window(s, n_window, kv_first_held(kv, s));
    return save(kv, seq, true, n, kv->size.n_window ? n : 0, out);
}

/* The header, and how many bytes follow it. */
static bool read_header(const struct kv_layout *layout, const void *head, bool is_window,
                        struct kv_header *h, size_t *n_body, struct error *err)
{
    memcpy(h, head, sizeof *h);
    struct kv_header mine = header_of(layout, is_window, h->n_cells, h->n_kept);
    bool sane = h->n_cells >= 0 && h->n_kept >= 0 && h->n_kept <= h->n_cells &&
                (layout->n_window || h->n_kept == 0);
    if (memcmp(h, &mine, sizeof *h) != 0 || !sane)
        return error_set(err, ERR_FORMAT,
                         "the saved sequence is of another model, another KV cache type or size "
                         "of windows, or no saved sequence at all");
    return body_bytes(h, n_body) ||
           error_set(err, ERR_FORMAT, "the saved sequence is larger than memory can be");
}

/* The header, and that the bytes are as many as it says. */
static bool read_whole_header(const struct kv_cache *kv, struct slice saved, bool is_window,
                              struct kv_header *h, struct error *err)
{
    struct kv_layout layout;
    size_t want;
    kv_layout_of(kv, &layout);
    if (saved.len < sizeof *h)
        return error_set(err, ERR_FORMAT, "the saved sequence is cut short");
    if (!read_header(&layout, saved.data, is_window, h, &want, err))
        return false;
    return saved.len - sizeof *h == want ||
           error_set(err, ERR_FORMAT, "the saved sequence is cut short");
}

static int32_t position(struct slice saved, int32_t i)
{
    int32_t pos;
    memcpy(&pos, saved.data + sizeof(struct kv_header) + (size_t)i * sizeof pos, sizeof pos);
    return pos;
}

bool kv_saved_bytes(const struct kv_layout *layout, const void *head, int32_t n_tokens,
                    uint64_t *bytes, struct error *err)
{
    struct kv_header h;
    size_t body;
    if (!read_header(layout, head, false, &h, &body, err))
        return false;
    if (h.n_cells != n_tokens || (layout->n_window && h.n_kept > layout->n_window))
        return error_set(err, ERR_FORMAT,
                         "the saved sequence has %d cells, %d of them in windows, for %d tokens",
                         h.n_cells, h.n_kept, n_tokens);
    *bytes = (uint64_t)body + sizeof h;
    return true;
}

bool kv_saved_is_dense(struct slice saved, int32_t n_tokens)
{
    for (int32_t i = 0; i < n_tokens; i++)
        if (position(saved, i) != i)
            return false;
    return true;
}

/* Give the last n_kept positions windowed cells, and all their rows back. */
static bool fill(struct kv_cache *kv, int32_t seq, const struct kv_header *h, struct slice saved,
                 struct error *err)
{
    struct kv_seq *s = &kv->seqs[seq];
    if (kv->size.n_window) {
        kv_window_drop(kv, s, s->n - h->n_kept);
        if (!kv_place_rest(kv, seq))
            return error_set(err, ERR_LIMIT,
                             "no room in the KV cache for a sliding window of %d tokens",
                             h->n_kept);
    }
    const char *rows = saved.data + sizeof *h + (size_t)h->n_cells * sizeof(int32_t);
    move_rows(kv, s, h, (unsigned char *)(uintptr_t)rows, false);
    return true;
}

bool kv_load(struct kv_cache *kv, int32_t seq, struct slice saved, struct error *err)
{
    struct kv_header h;
    kv_remove_range(kv, seq, -1, -1);
    if (!read_whole_header(kv, saved, false, &h, err))
        return false;
    if (!kv_fits(kv, seq, h.n_cells))
        return error_set(err, ERR_LIMIT, "no room in the KV cache for a sequence of %d tokens",
                         h.n_cells);
    int32_t last = -1;
    for (int32_t i = 0; i < h.n_cells; i++) {
        int32_t pos = position(saved, i);
        bool sane = pos > last && pos < INT32_MAX; /* another one must fit behind it */
        if (!sane || kv_append(kv, seq, pos) < 0) {
            kv_remove_range(kv, seq, -1, -1);
            return sane ? error_memory(err)
                        : error_set(err, ERR_FORMAT, "the saved sequence is damaged");
        }
        last = pos;
    }
    if (fill(kv, seq, &h, saved, err))
        return true;
    kv_remove_range(kv, seq, -1, -1);
    return false;
}

bool kv_load_window(struct kv_cache *kv, int32_t seq, struct slice saved, struct error *err)
{
    struct kv_seq *s = &kv->seqs[seq];
    struct kv_header h;
    if (!read_whole_header(kv, saved, true, &h, err))
        return false;
    int32_t begin = h.n_cells ? kv_find(s, position(saved, 0)) : s->n;
    bool same = h.n_cells > 0 && h.n_cells <= s->n - begin;
    for (int32_t i = 0; same && i < h.n_cells; i++)
        same = s->pos[begin + i] == position(saved, i);
    if (!same)
        return error_set(err, ERR_FORMAT, "the saved window is of another sequence");
    int32_t last = s->pos[begin + h.n_cells - 1];
    if (last < INT32_MAX)
        kv_remove_range(kv, seq, last + 1, -1);
    return fill(kv, seq, &h, saved, err);
}
