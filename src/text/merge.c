/* merge.c - merging by a heap of candidate pairs.
 *
 * A candidate is pushed whenever two symbols become neighbours. It is not
 * taken back when one of them changes; it is recognised as stale when popped:
 * symbols only grow, so a pair that begins and ends where the candidate does is
 * the same pair. Each merge adds at most two candidates: O(n log n) in all. */
#include "text/merge.h"

/* The heap has four children per node: half as deep as a binary one, and four
 * candidates fill one cache line. */
enum { CHILDREN = 4 };

static void sift_up(struct merge_candidate *heap, size_t at)
{
    struct merge_candidate moving = heap[at];
    while (at > 0 && heap[(at - 1) / CHILDREN].key > moving.key) {
        heap[at] = heap[(at - 1) / CHILDREN];
        at = (at - 1) / CHILDREN;
    }
    heap[at] = moving;
}

static void sift_down(struct merge_candidate *heap, size_t n, size_t at)
{
    struct merge_candidate moving = heap[at];
    for (;;) {
        size_t child = at * CHILDREN + 1;
        if (child >= n)
            break;
        size_t end = child + CHILDREN < n ? child + CHILDREN : n, least = child;
        while (++child < end)
            if (heap[child].key < heap[least].key)
                least = child;
        if (heap[least].key >= moving.key)
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = moving;
}

bool merge_add(struct merge_scratch *s, int32_t id, size_t len)
{
    size_t at = s->symbols.n, before = at;
    if (!VEC_RESERVE(&s->symbols, len))
        return false;
    struct symbol *symbols = s->symbols.data;
    while (before > 0 && !symbols[before - 1].len)
        before--;
    symbols[at] = (struct symbol){id, (uint32_t)len, before ? (uint32_t)before - 1 : 0};
    for (size_t i = 1; i < len; i++)
        symbols[at + i] = (struct symbol){-1, 0, 0};
    s->symbols.n += len;
    return true;
}

/* Append a candidate for the symbol at place and its right neighbour. */
static bool consider(struct merge_scratch *s, size_t at, merge_rule *rule, const void *model,
                     bool *added)
{
    const struct symbol *left = &s->symbols.data[at], *right = left + left->len;
    uint32_t priority;
    int32_t id;
    *added = at + left->len < s->symbols.n && rule(model, at, left, right, &priority, &id);
    if (!*added)
        return true;
    return VEC_PUSH(&s->heap, (struct merge_candidate){(uint64_t)priority << 32 | at,
                                                       left->len + right->len, id});
}

static bool consider_again(struct merge_scratch *s, size_t at, merge_rule *rule, const void *model)
{
    bool added;
    if (!consider(s, at, rule, model, &added))
        return false;
    if (added)
        sift_up(s->heap.data, s->heap.n - 1);
    return true;
}

/* Symbols that make a step of a budget: the longest text there may be is far
 * within what a request may cost. */
enum { SYMBOLS_PER_STEP = 16 };

bool merge_run(struct merge_scratch *s, merge_rule *rule, const void *model, struct budget *budget,
               struct error *err)
{
    struct symbol *symbols = s->symbols.data;
    size_t n = s->symbols.n, n_looked = 0;
    bool added;
    s->heap.n = 0;
    if (!budget_step(budget, n / SYMBOLS_PER_STEP, err))
        return false;
    for (size_t i = 0; i < n; i += symbols[i].len)
        if (!consider(s, i, rule, model, &added))
            return error_memory(err);
    for (size_t i = s->heap.n / CHILDREN + 1; i-- > 0;)
        if (i < s->heap.n)
            sift_down(s->heap.data, s->heap.n, i);
    while (s->heap.n) {
        if (++n_looked % SYMBOLS_PER_STEP == 0 && !budget_step(budget, 1, err))
            return false;
        struct merge_candidate c = s->heap.data[0];
        s->heap.data[0] = s->heap.data[--s->heap.n];
        if (s->heap.n)
            sift_down(s->heap.data, s->heap.n, 0);
        size_t at = (uint32_t)c.key;
        struct symbol *left = &symbols[at];
        if (!left->len || left->len >= c.len || at + left->len >= n)
            continue;
        struct symbol *right = left + left->len;
        if (left->len + right->len != c.len)
            continue;
        right->len = 0;
        left->len = c.len;
        left->id = c.id;
        if (at + c.len < n)
            left[c.len].prev = (uint32_t)at;
        if ((at > 0 && !consider_again(s, left->prev, rule, model)) ||
            !consider_again(s, at, rule, model))
            return error_memory(err);
    }
    return true;
}

void merge_scratch_free(struct merge_scratch *s)
{
    VEC_FREE(&s->symbols);
    VEC_FREE(&s->heap);
}
