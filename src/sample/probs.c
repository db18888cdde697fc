/* probs.c - the probabilities before sampling. */
#include "sample/candidates.h"

#include <stdlib.h>

/* Whether logit of token comes before the item in the list of the best. */
static bool comes_before(float logit, int32_t token, const struct candidate *item)
{
    return logit > item->logit || (logit == item->logit && token < item->token);
}

size_t logits_top_probs(const float *logits, int32_t n_tokens, int32_t token, float *p,
                        struct candidate *top, size_t n_top)
{
    if (n_tokens <= 0)
        return 0;
    if (n_top > (size_t)n_tokens)
        n_top = (size_t)n_tokens;
    /* A heap with the worst of the best at its root. */
    size_t n = 0;
    float max = -INFINITY;
    for (int32_t i = 0; i < n_tokens; i++) {
        float logit = logit_tamed(logits[i]);
        max = logit > max ? logit : max;
        if (n < n_top) {
            size_t at = n++;
            while (at && comes_before(top[(at - 1) / 2].logit, top[(at - 1) / 2].token,
                                      &(struct candidate){i, logit, 0.0f})) {
                top[at] = top[(at - 1) / 2];
                at = (at - 1) / 2;
            }
            top[at] = (struct candidate){i, logit, 0.0f};
        } else if (n && comes_before(logit, i, &top[0])) {
            candidates_replace_worst(top, n, (struct candidate){i, logit, 0.0f});
        }
    }
    candidates_heap_to_sorted(top, n);

    float sum = 0.0f;
    for (int32_t i = 0; i < n_tokens; i++)
        sum += max == -INFINITY ? 1.0f : expf(logit_tamed(logits[i]) - max);
    for (size_t i = 0; i < n; i++)
        top[i].p = (max == -INFINITY ? 1.0f : expf(top[i].logit - max)) / sum;
    if (p) {
        float logit = token >= 0 && token < n_tokens ? logit_tamed(logits[token]) : -INFINITY;
        *p = (max == -INFINITY ? 1.0f : expf(logit - max)) / sum;
    }
    return n;
}
