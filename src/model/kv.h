/* kv.h - the KV cache: cells, and the sequences that hold them.
 *
 * A cell is room for one token's keys and values in every layer of a kind. A
 * sequence is a list of positions, each with a cell; several sequences may hold
 * one cell (a shared prefix), and whoever changes it then takes a copy.
 *
 * Layers with a sliding window may be a kind of their own (n_window > 0). Their
 * cells lie in rings: a new position takes a cell that is free or one that no
 * later query of its sequences can see. So in these layers a sequence has cells
 * for its last positions only. All sequences share one ring, or each has its own. */
#ifndef MLXCEL_MODEL_KV_H
#define MLXCEL_MODEL_KV_H

#include "model/hparams.h"

enum kv_kind { KV_ALL, KV_WINDOW, KV_N_KINDS };

struct kv_seq {
    int32_t *pos;               /* [n] ascending */
    int32_t *cells[KV_N_KINDS]; /* [n] in the same order */
    int32_t n, capacity;
    /* Of the windowed kind only [first, placed) are held; placed is n except while a
     * batch runs. */
    int32_t first, placed;
};

/* Keys and values of one layer: cell c of head h begins at
 * k + c * k_row_bytes + h * k_head_bytes. */
struct kv_layer {
    unsigned char *k, *v;
    size_t k_head_bytes, v_head_bytes;
    int32_t n_kv_heads;
    enum kv_kind kind;
};

/* Cells [number * ring_cells, ...) of the windowed kind. */
struct kv_ring {
    int32_t head; /* where the search for the next cell begins, from the ring's first */
    int32_t n_used;
};

struct kv_sizes {
    int32_t n_cells, n_seqs;
    int32_t n_cells_seq;         /* most cells of one sequence */
    int32_t n_window;            /* tokens; 0: all layers keep every cell */
    int32_t ring_cells, n_rings; /* 1, or one for each sequence */
};

struct kv_cache {
    struct kv_sizes size;
    enum dtype type_k, type_v;
    int32_t head_dim_k, head_dim_v;
    size_t k_row_bytes, v_row_bytes; /* one cell of one head */
    struct kv_layer *layers;
    int32_t n_layers;
    int32_t n_cells[KV_N_KINDS];
    int32_t *n_holders[KV_N_KINDS]; /* [n_cells] sequences that hold the cell */
    /* Of KV_ALL: those given back, a stack of n_freed, and behind n_fresh those never
     * taken; n_free in all. */
    int32_t *free_cells;
    int32_t n_freed, n_fresh, n_free;
    struct kv_ring *rings;
    int32_t *cell_pos, *cell_seq; /* [n_cells] of the windowed kind: the position, and a
                                   * sequence that held it first */
    int64_t *next_pos;            /* [n_seqs] behind what is placed, while a ubatch is */
    struct kv_seq *seqs;
    void *memory; /* one mapping for all layers */
    size_t n_bytes;
};

/* What kv_create would reserve in bytes, with nothing reserved; UINT64_MAX where that
 * is too much to count. */
bool kv_measure(const struct hparams *h, const struct kv_sizes *sizes, enum dtype type_k,
                enum dtype type_v, uint64_t *bytes, struct error *err);
bool kv_create(struct kv_cache *kv, const struct hparams *h, const struct kv_sizes *sizes,
               enum dtype type_k, enum dtype type_v, struct error *err);
void kv_free(struct kv_cache *kv);

/* Append a cell with this position, beyond the sequence's last. Fails (-1) when
 * no cell is free for it. Its windowed cell is still to be placed. */
int32_t kv_append(struct kv_cache *kv, int32_t seq, int32_t pos);
/* Whether n more cells would fit. */
bool kv_fits(const struct kv_cache *kv, int32_t seq, int32_t n);
/* The first index whose position is at least pos. */
int32_t kv_find(const struct kv_seq *s, int32_t pos);
void kv_remove_range(struct kv_cache *kv, int32_t seq, int32_t p0, int32_t p1);
bool kv_copy_range(struct kv_cache *kv, int32_t src, int32_t dst, int32_t p0, int32_t p1);
/* Give the sequence cells of its own for indices [begin, end); false when none
 * are free. For caches of one kind. */
bool kv_make_own(struct kv_cache *kv, int32_t seq, int32_t begin, int32_t end);
void kv_copy_cell(struct kv_cache *kv, enum kv_kind kind, int32_t from, int32_t to);
/* The indices that positions [p0, p1) have; p0 < 0 means 0, p1 < 0 to the end. */
void kv_range(const struct kv_seq *s, int32_t p0, int32_t p1, int32_t *begin, int32_t *end);

/* ---- the windowed kind (kv_window.c) ---------------------------------------- */

/* Place the next n appended positions of these sequences, in this order: cells[i]
 * is where row i goes. As long as they are no more than a ubatch there is room. */
bool kv_place(struct kv_cache *kv, const int32_t *seq, int32_t n, int32_t *cells);
/* Place all that is not yet placed of a sequence, no more than a window. */
bool kv_place_rest(struct kv_cache *kv, int32_t seq);
/* Whether the position behind the first n would find all that it sees. */
bool kv_window_is_whole(const struct kv_cache *kv, const struct kv_seq *s, int32_t n);
/* The smallest index from which on all layers hold their cells. */
int32_t kv_first_held(const struct kv_cache *kv, const struct kv_seq *s);
/* Give up all windowed cells; positions from index first on are to be placed anew. */
void kv_window_drop(struct kv_cache *kv, struct kv_seq *s, int32_t first);
/* What the lists of kv.c do, in the windowed kind: forget indices [begin, end),
 * before they are taken out; take n from another sequence's `begin` on, which have
 * just been put in at `at`. */
void kv_window_remove(struct kv_cache *kv, struct kv_seq *s, int32_t begin, int32_t end);
void kv_window_copy(struct kv_cache *kv, const struct kv_seq *from, int32_t begin, int32_t dst,
                    int32_t at, int32_t n);

/* ---- saving (kv_save.c) ------------------------------------------------------ */

void kv_layout_of(const struct kv_cache *kv, struct kv_layout *out);
bool kv_save(const struct kv_cache *kv, int32_t seq, struct str *out);
bool kv_load(struct kv_cache *kv, int32_t seq, struct slice saved, struct error *err);
/* What the position behind the last sees in windowed layers, of n_window tokens. */
bool kv_save_window(const struct kv_cache *kv, int32_t seq, int32_t n_window, struct str *out);
bool kv_load_window(struct kv_cache *kv, int32_t seq, struct slice saved, struct error *err);

#endif
