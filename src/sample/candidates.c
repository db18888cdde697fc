/* candidates.c - sorting, selecting and normalizing the candidates. */
#include "sample/candidates.h"

#include <stdlib.h>

enum {
    INSERTION_MAX = 48, /* below it insertion beats counting */
    HEAP_MAX = 1024,    /* up to it a heap beats sorting everything */
    RADIX_BITS = 11,
    RADIX_SIZE = 1 << RADIX_BITS
};

bool candidates_init(struct candidates *c, size_t capacity)
{
    *c = (struct candidates){.capacity = capacity, .selected = CANDIDATE_NONE};
    if (capacity > SIZE_MAX / sizeof *c->buffer - 1)
        return false;
    size_t bytes = (capacity + 1) * sizeof *c->buffer;
    c->buffer = calloc(capacity + 1, sizeof *c->buffer);
    c->scratch = malloc(bytes);
    c->spare = malloc(bytes);
    c->data = c->buffer;
    return c->buffer && c->scratch && c->spare;
}

void candidates_free(struct candidates *c)
{
    free(c->buffer);
    free(c->scratch);
    free(c->spare);
    *c = (struct candidates){0};
}

static void begin(struct candidates *c)
{
    c->data = c->buffer;
    c->n = c->capacity;
    c->selected = CANDIDATE_NONE;
    c->sorted = false;
}

/* Logits that need no taming are the rule; looking for others first keeps the
 * loop that copies them short. */
static bool all_tame(const float *logits, size_t n)
{
    int wild = 0;
    for (size_t i = 0; i < n; i++)
        wild |= !(logits[i] <= FLT_MAX);
    return !wild;
}

void candidates_fill(struct candidates *c, const float *logits)
{
    begin(c);
    struct candidate *data = c->data;
    if (all_tame(logits, c->n)) {
        for (size_t i = 0; i < c->n; i++) {
            data[i].token = (int32_t)i;
            data[i].logit = logits[i];
        }
    } else {
        for (size_t i = 0; i < c->n; i++) {
            data[i].token = (int32_t)i;
            data[i].logit = logit_tamed(logits[i]);
        }
    }
}

void candidates_fill_admitted(struct candidates *c, const float *logits, const uint64_t *admitted)
{
    begin(c);
    struct candidate *data = c->data;
    for (size_t first = 0; first < c->n; first += 64) {
        uint64_t bits = admitted[first / 64];
        size_t n = c->n - first < 64 ? c->n - first : 64;
        for (size_t i = 0; i < n; i++) {
            data[first + i].token = (int32_t)(first + i);
            data[first + i].logit = -INFINITY;
        }
        for (; bits; bits &= bits - 1) {
            size_t i = first + (size_t)__builtin_ctzll(bits);
            data[i].logit = logit_tamed(logits[i]);
        }
    }
}

static inline bool better(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->token < b->token);
}

/* A key that grows as the logit falls, +0 and -0 alike. */
static inline uint32_t falling_key(float logit)
{
    uint32_t bits;
    logit += 0.0f;
    memcpy(&bits, &logit, sizeof bits);
    uint32_t rising = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~rising;
}

static inline uint32_t key_of(const struct candidate *c, bool by_token)
{
    return by_token ? (uint32_t)c->token : falling_key(c->logit);
}

/* One stable counting pass over RADIX_BITS of the key. */
static void radix_pass(const struct candidate *from, struct candidate *to, size_t n, int shift,
                       bool by_token)
{
    size_t begin[RADIX_SIZE] = {0};
    for (size_t i = 0; i < n; i++)
        begin[key_of(&from[i], by_token) >> shift & (RADIX_SIZE - 1)]++;
    size_t sum = 0;
    for (size_t i = 0; i < RADIX_SIZE; i++) {
        size_t count = begin[i];
        begin[i] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[begin[key_of(&from[i], by_token) >> shift & (RADIX_SIZE - 1)]++] = from[i];
}

static void insertion_sort(struct candidate *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct candidate item = items[i];
        size_t j = i;
        for (; j > 0 && better(&item, &items[j - 1]); j--)
            items[j] = items[j - 1];
        items[j] = item;
    }
}

void candidates_sort_array(struct candidate *items, size_t n, struct candidate *scratch)
{
    if (n <= INSERTION_MAX) {
        insertion_sort(items, n);
        return;
    }
    bool ids_rise = true;
    for (size_t i = 1; ids_rise && i < n; i++)
        ids_rise = items[i - 1].token < items[i].token;
    struct candidate *from = items, *to = scratch;
    for (int by_token = ids_rise ? 0 : 1; by_token >= 0; by_token--) {
        for (int shift = 0; shift < 32; shift += RADIX_BITS) {
            radix_pass(from, to, n, shift, by_token);
            struct candidate *swap = from;
            from = to;
            to = swap;
        }
    }
    if (from != items)
        memcpy(items, from, n * sizeof *items);
}

void candidates_sort(struct candidates *c)
{
    if (!c->sorted)
        candidates_sort_array(c->data, c->n, c->scratch);
    c->sorted = true;
}

static void sift_down(struct candidate *heap, size_t n, size_t at)
{
    struct candidate item = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n)
            break;
        if (child + 1 < n && better(&heap[child], &heap[child + 1]))
            child++;
        if (!better(&item, &heap[child]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
}

void candidates_replace_worst(struct candidate *heap, size_t n, struct candidate item)
{
    heap[0] = item;
    sift_down(heap, n, 0);
}

void candidates_heap_to_sorted(struct candidate *heap, size_t n)
{
    for (size_t left = n; left > 1; left--) {
        struct candidate worst = heap[0];
        heap[0] = heap[left - 1];
        sift_down(heap, left - 1, 0);
        heap[left - 1] = worst;
    }
}

void candidates_best(const struct candidate *items, size_t n, size_t k, struct candidate *out)
{
    if (k == 0)
        return;
    memcpy(out, items, k * sizeof *out);
    /* The worst of the k stands at the root: nearly every further item fails
     * one comparison with it. */
    for (size_t i = k / 2; i-- > 0;)
        sift_down(out, k, i);
    for (size_t i = k; i < n; i++) {
        if (items[i].logit < out[0].logit || !better(&items[i], &out[0]))
            continue;
        candidates_replace_worst(out, k, items[i]);
    }
    candidates_heap_to_sorted(out, k);
}

void candidates_keep_top(struct candidates *c, int32_t k)
{
    if (k <= 0)
        return;
    size_t keep = (size_t)k < c->n ? (size_t)k : c->n;
    if (!c->sorted) {
        if (keep <= HEAP_MAX && keep < c->n) {
            candidates_best(c->data, c->n, keep, c->scratch);
            memcpy(c->data, c->scratch, keep * sizeof *c->data);
        } else {
            candidates_sort_array(c->data, c->n, c->scratch);
        }
        c->sorted = true;
    }
    c->n = keep;
}

void candidates_softmax(struct candidates *c, bool sort)
{
    if (c->n == 0)
        return;
    if (sort)
        candidates_sort(c);
    float max = c->data[0].logit;
    if (!c->sorted)
        for (size_t i = 1; i < c->n; i++)
            max = c->data[i].logit > max ? c->data[i].logit : max;
    float sum = 0.0f;
    for (size_t i = 0; i < c->n; i++) {
        /* With everything banned nothing tells the candidates apart. */
        float p = max == -INFINITY ? 1.0f : expf(c->data[i].logit - max);
        c->data[i].p = p;
        sum += p;
    }
    for (size_t i = 0; i < c->n; i++)
        c->data[i].p /= sum;
}

struct candidate *candidates_find(const struct candidates *c, int32_t token)
{
    if (token < 0)
        return NULL;
    if ((size_t)token < c->n && c->data[token].token == token)
        return &c->data[token];
    for (size_t i = 0; i < c->n; i++)
        if (c->data[i].token == token)
            return &c->data[i];
    return NULL;
}

size_t candidates_draw(const struct candidates *c, struct random *random)
{
    if (c->n < 2)
        return 0; /* and draws nothing: the next number stays the next */
    double sum = 0.0;
    for (size_t i = 0; i < c->n; i++)
        sum += (double)c->data[i].p;
    double target = random_double(random), run = 0.0;
    for (size_t i = 0; i + 1 < c->n; i++) {
        run += (double)c->data[i].p / sum;
        if (run >= target)
            return i;
    }
    return c->n - 1;
}
