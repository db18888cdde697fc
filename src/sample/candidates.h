/* candidates.h - the tokens still in the running, with their logits. */
#ifndef MLXCEL_SAMPLE_CANDIDATES_H
#define MLXCEL_SAMPLE_CANDIDATES_H

#include "base/random.h"
#include "sample/sample.h"

#include <float.h>
#include <math.h>

#define CANDIDATE_NONE SIZE_MAX

struct candidates {
    struct candidate *data; /* somewhere in buffer */
    size_t n;
    size_t selected; /* index, or CANDIDATE_NONE */
    bool sorted;     /* by logit, the best first */
    /* Three arrays of capacity; owned. scratch and spare are for the stages. */
    struct candidate *buffer, *scratch, *spare;
    size_t capacity;
};

bool candidates_init(struct candidates *c, size_t capacity);
void candidates_free(struct candidates *c);
/* All tokens in the order of their ids, nothing selected, p not yet set. */
void candidates_fill(struct candidates *c, const float *logits);
/* The same with -INFINITY for those whose bit is not set. */
void candidates_fill_admitted(struct candidates *c, const float *logits, const uint64_t *admitted);

/* Logits stay comparable: no NaN, nothing above the largest float. */
static inline float logit_tamed(float logit)
{
    if (isnan(logit))
        return -INFINITY;
    return logit > FLT_MAX ? FLT_MAX : logit;
}

/* Sort items by logit, the best first, the lowest token on ties; scratch has
 * room for n. */
void candidates_sort_array(struct candidate *items, size_t n, struct candidate *scratch);
void candidates_sort(struct candidates *c);
/* Write the k best (k <= n), sorted, to out; uses no other array. */
void candidates_best(const struct candidate *items, size_t n, size_t k, struct candidate *out);
/* The heap it uses, with the worst at the root, for whoever feeds it himself. */
void candidates_replace_worst(struct candidate *heap, size_t n, struct candidate item);
void candidates_heap_to_sorted(struct candidate *heap, size_t n);
/* Keep the k best, sorted; k <= 0 keeps all as they are. */
void candidates_keep_top(struct candidates *c, int32_t k);
/* Fill in p; sorts first when asked to. */
void candidates_softmax(struct candidates *c, bool sort);
/* The candidate of a token, or NULL; O(1) while the order is that of the ids. */
struct candidate *candidates_find(const struct candidates *c, int32_t token);
/* Draw an index by the p as they stand, as std::discrete_distribution does. */
size_t candidates_draw(const struct candidates *c, struct random *random);

#endif
