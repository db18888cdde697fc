/* kv.h - the KV cache: cells, and the sequences that hold them.
 *
 * A cell is room for one token's keys and values in every layer. A sequence is
 * a list of cells ordered by position; several sequences may hold one cell
 * (a shared prefix), and whoever changes it then takes a copy. */
#ifndef MLXCEL_MODEL_KV_H
#define MLXCEL_MODEL_KV_H

#include "model/hparams.h"

struct kv_seq {
    int32_t *cells, *pos; /* [n], by position, ascending */
    int32_t n, capacity;
};

/* Keys and values of one layer: cell c of head h begins at
 * k + c * k_row_bytes + h * k_head_bytes. */
struct kv_layer {
    unsigned char *k, *v;
    size_t k_head_bytes, v_head_bytes;
    int32_t n_kv_heads;
};

struct kv_cache {
    int32_t n_cells, n_seqs;
    int32_t n_cells_seq; /* most cells of one sequence */
    enum dtype type_k, type_v;
    int32_t head_dim_k, head_dim_v;
    size_t k_row_bytes, v_row_bytes; /* one cell of one head */
    struct kv_layer *layers;
    int32_t n_layers;
    int32_t *n_holders;  /* [n_cells] sequences that hold the cell */
    int32_t *free_cells; /* stack: the lowest cell is taken first at the start */
    int32_t n_free;
    struct kv_seq *seqs;
    void *memory; /* one mapping for all layers */
    size_t n_bytes;
};

bool kv_create(struct kv_cache *kv, const struct hparams *h, int32_t n_cells, int32_t n_cells_seq,
               int32_t n_seqs, enum dtype type_k, enum dtype type_v, struct error *err);
void kv_free(struct kv_cache *kv);

/* Append a cell with this position, beyond the sequence's last. Fails (-1) when
 * no cell is free for it. */
int32_t kv_append(struct kv_cache *kv, int32_t seq, int32_t pos);
/* Whether n more cells would fit. */
bool kv_fits(const struct kv_cache *kv, int32_t seq, int32_t n);
/* The first index whose position is at least pos. */
int32_t kv_find(const struct kv_seq *s, int32_t pos);
void kv_remove_range(struct kv_cache *kv, int32_t seq, int32_t p0, int32_t p1);
bool kv_copy_range(struct kv_cache *kv, int32_t src, int32_t dst, int32_t p0, int32_t p1);
/* Give the sequence cells of its own for indices [begin, end); false when none
 * are free. */
bool kv_make_own(struct kv_cache *kv, int32_t seq, int32_t begin, int32_t end);

bool kv_save(const struct kv_cache *kv, int32_t seq, struct str *out);
bool kv_load(struct kv_cache *kv, int32_t seq, struct slice saved, struct error *err);

#endif
