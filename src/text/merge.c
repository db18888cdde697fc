/* merge.c - merging by a heap of candidate pairs.
 *
 * A candidate is pushed whenever two symbols become neighbours. It is not
 * taken back when one of them changes; it is recognised as stale when popped,
 * by the length of the two, which only grows. Each merge adds at most two
 * candidates, so all of it is O(n log n). */
#include "text/merge.h"

/* Binary heap, smallest key on top. */
static bool heap_push(struct merge_scratch *s, struct merge_candidate candidate)
{
    if (!VEC_RESERVE(&s->heap, 1))
        return false;
    struct merge_candidate *heap = s->heap.data;
    size_t at = s->heap.n++;
    while (at > 0 && heap[(at - 1) / 2].key > candidate.key) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = candidate;
    return true;
}

static struct merge_candidate heap_pop(struct merge_scratch *s)
{
    struct merge_candidate *heap = s->heap.data;
    struct merge_candidate top = heap[0], last = heap[--s->heap.n];
    size_t n = s->heap.n, at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= n)
            break;
        if (child + 1 < n && heap[child + 1].key < heap[child].key)
            child++;
        if (heap[child].key >= last.key)
            break;
        heap[at] = heap[child];
        at = child;
    }
    if (n)
        heap[at] = last;
    return top;
}

static bool consider(struct merge_scratch *s, int32_t left, int32_t right, merge_rule *rule,
                     const void *model)
{
    if (left < 0 || right < 0)
        return true;
    const struct symbol *a = &s->symbols.data[left], *b = &s->symbols.data[right];
    uint32_t priority;
    int32_t id;
    if (!rule(model, a, b, &priority, &id))
        return true;
    return heap_push(s, (struct merge_candidate){(uint64_t)priority << 32 | (uint32_t)left, right,
                                                 a->len + b->len, id});
}

bool merge_run(struct merge_scratch *s, merge_rule *rule, const void *model)
{
    struct symbol *symbols = s->symbols.data;
    int32_t n = (int32_t)s->symbols.n;
    s->heap.n = 0;
    for (int32_t i = 0; i < n; i++) {
        symbols[i].prev = i - 1;
        symbols[i].next = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 1; i < n; i++)
        if (!consider(s, i - 1, i, rule, model))
            return false;
    while (s->heap.n) {
        struct merge_candidate c = heap_pop(s);
        int32_t at = (int32_t)(uint32_t)c.key;
        struct symbol *left = &symbols[at], *right = &symbols[c.right];
        if (!left->len || !right->len || left->len + right->len != c.len)
            continue;
        left->len += right->len;
        left->id = c.id;
        left->next = right->next;
        right->len = 0;
        if (right->next >= 0)
            symbols[right->next].prev = at;
        if (!consider(s, left->prev, at, rule, model) || !consider(s, at, left->next, rule, model))
            return false;
    }
    return true;
}

void merge_scratch_free(struct merge_scratch *s)
{
    VEC_FREE(&s->symbols);
    VEC_FREE(&s->heap);
}
