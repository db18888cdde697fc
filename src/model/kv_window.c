/* kv_window.c - the cells of layers with a sliding window: rings, in which a new
 * position takes the place of one that nobody can see any more.
 *
 * Which cell is taken decides how much of a sequence is still there when its
 * next prompt comes, and clients are told how much was reused; so the search
 * goes through a ring in the same order as the reference's does. */
#include "model/kv.h"

static bool holds(const struct kv_seq *s, int32_t cell, int32_t pos, int32_t *index)
{
    *index = kv_find(s, pos);
    return *index >= s->first && *index < s->placed && s->pos[*index] == pos &&
           s->cells[KV_WINDOW][*index] == cell;
}

static struct kv_ring *ring_of(const struct kv_cache *kv, int32_t cell)
{
    return &kv->rings[cell / kv->size.ring_cells];
}

/* The ring in which a sequence's positions are placed. */
static int32_t ring_number(const struct kv_cache *kv, int32_t seq)
{
    return kv->size.n_rings == 1 ? 0 : seq;
}

static void drop(struct kv_cache *kv, int32_t cell)
{
    if (--kv->n_holders[KV_WINDOW][cell] == 0)
        ring_of(kv, cell)->n_used--;
}

/* Give up the windowed cells before index `end`. */
static void drop_front(struct kv_cache *kv, struct kv_seq *s, int32_t end)
{
    for (; s->first < end; s->first++)
        drop(kv, s->cells[KV_WINDOW][s->first]);
}

/* Take the cell from all that hold it, with what stands before it. False with
 * nothing changed when one of them will still look at it. */
static bool evict(struct kv_cache *kv, int32_t cell)
{
    int32_t pos = kv->cell_pos[cell], n = kv->size.n_seqs, index;
    for (int pass = 0; pass < 2; pass++) {
        int32_t left = kv->n_holders[KV_WINDOW][cell];
        for (int32_t i = 0; left > 0 && i < n; i++) {
            int32_t seq = (kv->cell_seq[cell] + i) % n;
            struct kv_seq *s = &kv->seqs[seq];
            if (!holds(s, cell, pos, &index))
                continue;
            left--;
            if (pass == 0 && kv->next_pos[seq] - pos < kv->size.n_window)
                return false;
            if (pass == 1)
                drop_front(kv, s, index + 1);
        }
    }
    return true;
}

/* The next cell of a ring from its head on that is free, or that nobody sees;
 * -1 when there is none. */
static int32_t take(struct kv_cache *kv, int32_t number)
{
    struct kv_ring *ring = &kv->rings[number];
    int32_t size = kv->size.ring_cells;
    for (int32_t tested = 0; tested < size; tested++) {
        if (ring->head >= size)
            ring->head = 0;
        int32_t cell = number * size + ring->head++;
        if (kv->n_holders[KV_WINDOW][cell] == 0 || evict(kv, cell)) {
            kv->n_holders[KV_WINDOW][cell] = 1;
            ring->n_used++;
            return cell;
        }
    }
    return -1;
}

/* Before n positions are placed in a ring. */
static void start_ring(struct kv_ring *ring, int32_t n)
{
    /* Much is free before the head: use that first. */
    if (ring->head > (int64_t)ring->n_used + 2 * (int64_t)n)
        ring->head = 0;
}

/* What a ubatch's own rows see must stay, so the positions before it decide. */
static void note_next(struct kv_cache *kv)
{
    for (int32_t i = 0; i < kv->size.n_seqs; i++) {
        const struct kv_seq *s = &kv->seqs[i];
        kv->next_pos[i] = s->placed ? (int64_t)s->pos[s->placed - 1] + 1 : 0;
    }
}

/* The cell of a sequence's next position; -1: none. */
static int32_t place_next(struct kv_cache *kv, int32_t seq)
{
    struct kv_seq *s = &kv->seqs[seq];
    int32_t cell = take(kv, ring_number(kv, seq));
    if (cell < 0)
        return -1;
    kv->cell_pos[cell] = s->pos[s->placed];
    kv->cell_seq[cell] = seq;
    s->cells[KV_WINDOW][s->placed++] = cell;
    return cell;
}

bool kv_place(struct kv_cache *kv, const int32_t *seq, int32_t n, int32_t *cells)
{
    note_next(kv);
    for (int32_t begin = 0, end; begin < n; begin = end) {
        int32_t number = ring_number(kv, seq[begin]);
        for (end = begin + 1; end < n && ring_number(kv, seq[end]) == number;)
            end++;
        start_ring(&kv->rings[number], end - begin);
        for (int32_t i = begin; i < end; i++) {
            cells[i] = place_next(kv, seq[i]);
            if (cells[i] < 0)
                return false;
        }
    }
    return true;
}

bool kv_place_rest(struct kv_cache *kv, int32_t seq)
{
    struct kv_seq *s = &kv->seqs[seq];
    note_next(kv);
    start_ring(&kv->rings[ring_number(kv, seq)], s->n - s->placed);
    while (s->placed < s->n)
        if (place_next(kv, seq) < 0)
            return false;
    return true;
}

bool kv_window_is_whole(const struct kv_cache *kv, const struct kv_seq *s, int32_t n)
{
    if (!kv->size.n_window || n == 0)
        return true;
    int64_t oldest = (int64_t)s->pos[n - 1] + 2 - kv->size.n_window;
    return s->first <= (oldest <= 0 ? 0 : oldest > INT32_MAX ? n : kv_find(s, (int32_t)oldest));
}

int32_t kv_first_held(const struct kv_cache *kv, const struct kv_seq *s)
{
    return kv->size.n_window ? s->first : 0;
}

static int32_t at_most(int32_t n, int32_t most)
{
    return n < most ? n : most;
}

/* Indices [begin, end) are forgotten; what has become free is used next. */
static void release(struct kv_cache *kv, struct kv_seq *s, int32_t begin, int32_t end)
{
    int32_t lowest = -1, last = at_most(end, s->placed);
    for (int32_t i = begin > s->first ? begin : s->first; i < last; i++) {
        int32_t cell = s->cells[KV_WINDOW][i];
        drop(kv, cell);
        if (kv->n_holders[KV_WINDOW][cell] == 0 && (lowest < 0 || cell < lowest))
            lowest = cell;
    }
    /* A sequence's cells lie in one ring. */
    if (lowest >= 0 && lowest % kv->size.ring_cells < ring_of(kv, lowest)->head)
        ring_of(kv, lowest)->head = lowest % kv->size.ring_cells;
}

void kv_window_remove(struct kv_cache *kv, struct kv_seq *s, int32_t begin, int32_t end)
{
    if (!kv->size.n_window)
        return;
    release(kv, s, begin, end);
    s->first -= at_most(end, s->first) - at_most(begin, s->first);
    s->placed -= at_most(end, s->placed) - at_most(begin, s->placed);
}

void kv_window_drop(struct kv_cache *kv, struct kv_seq *s, int32_t first)
{
    release(kv, s, 0, s->n);
    s->first = s->placed = first;
}

/* A free cell of a ring that has one. */
static int32_t take_free(struct kv_cache *kv, int32_t number)
{
    struct kv_ring *ring = &kv->rings[number];
    int32_t size = kv->size.ring_cells;
    do {
        if (ring->head >= size)
            ring->head = 0;
    } while (kv->n_holders[KV_WINDOW][number * size + ring->head++] != 0);
    ring->n_used++;
    return number * size + ring->head - 1;
}

void kv_window_copy(struct kv_cache *kv, const struct kv_seq *from, int32_t begin, int32_t dst,
                    int32_t at, int32_t n)
{
    if (!kv->size.n_window)
        return;
    struct kv_seq *to = &kv->seqs[dst];
    bool own_ring = kv->size.n_rings > 1;
    /* What is held is always the list's end, so a gap ends it. */
    int32_t first = to->first, missing = from->first - begin;
    if (to->placed > at && to->first > at)
        first = to->first + n; /* a gap in what stands behind the copy */
    else if (missing > 0)
        first = at + at_most(missing, n);
    if (own_ring && first < to->n - kv->size.ring_cells)
        first = to->n - kv->size.ring_cells;
    for (int32_t i = to->first; i < at && i < first; i++)
        drop(kv, to->cells[KV_WINDOW][i]);
    for (int32_t i = at + n; i < first; i++)
        if (i - n >= to->first)
            drop(kv, to->cells[KV_WINDOW][i]);
    for (int32_t i = first > at ? first : at; i < at + n; i++) {
        int32_t cell = from->cells[KV_WINDOW][begin + i - at];
        if (own_ring) {
            int32_t own = take_free(kv, ring_number(kv, dst));
            kv_copy_cell(kv, KV_WINDOW, cell, own);
            kv->cell_pos[own] = to->pos[i];
            kv->cell_seq[own] = dst;
            cell = own;
        }
        kv->n_holders[KV_WINDOW][cell]++;
        to->cells[KV_WINDOW][i] = cell;
    }
    to->first = first;
    to->placed = to->n;
}
