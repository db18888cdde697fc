/* share.c - a prompt that begins like what another slot holds takes that slot's
 * cells instead of computing them again.
 *
 * The cells are shared until one of the two moves its own, which copies them
 * first. A client sees none of it but the time: what its own slot did not hold
 * counts as processed, as clients of the reference know it. So only cells are
 * taken whose numbers are those that computing would give. */
#include "engine/internal.h"

/* Less is computed as soon as it is looked for. */
enum { SHARE_LEAST = 16 };

/* Behind a sliding window the other slot may have dropped what is needed here. */
static bool can_share(const struct engine *engine, const struct slot *slot, size_t n_past)
{
    return slot->job->request->cache_prompt && n_past <= slot->n_exact && engine->n_swa == 0;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How much of the prompt could be taken from other; its last token never. */
static size_t n_takeable(const struct engine *engine, const struct slot *other,
                         const struct token_vec *prompt)
{
    size_t n = smaller(tokens_common_prefix(&other->cache, prompt), other->n_exact);
    /* The last of its tokens may only be in this step's batch. */
    n = smaller(n, (size_t)(kv_seq_pos_max(engine->context, other->id) + 1));
    return smaller(n, prompt->n - 1);
}

static const struct slot *best_other(const struct engine *engine, const struct slot *slot,
                                     size_t *n_best)
{
    const struct slot *best = NULL;
    *n_best = 0;
    for (int32_t i = 0; i < engine->n_slots; i++) {
        const struct slot *other = &engine->slots[i];
        size_t n = other == slot ? 0 : n_takeable(engine, other, &slot->job->request->prompt);
        if (n <= *n_best)
            continue;
        best = other;
        *n_best = n;
    }
    return best;
}

bool slot_waits_to_share(const struct engine *engine, const struct slot *slot)
{
    const struct token_vec *prompt = &slot->job->request->prompt;
    size_t n_now, n_past = tokens_common_prefix(&slot->cache, prompt);
    if (prompt->n <= SHARE_LEAST || prompt->n >= (size_t)engine->n_ctx_slot ||
        !can_share(engine, slot, n_past))
        return false;
    best_other(engine, slot, &n_now);
    n_now = n_now > n_past ? n_now : n_past;
    for (int32_t i = 0; i < engine->n_slots; i++) {
        const struct slot *other = &engine->slots[i];
        if (other->state != SLOT_PROMPT && other->state != SLOT_DONE_PROMPT)
            continue;
        size_t n = tokens_common_prefix(&other->job->request->prompt, prompt);
        if (smaller(smaller(n, other->n_exact), prompt->n - 1) >= n_now + SHARE_LEAST)
            return true;
    }
    return false;
}

size_t slot_share_prefix(struct engine *engine, struct slot *slot)
{
    const struct token_vec *prompt = &slot->job->request->prompt;
    size_t n_past = slot->cache.n, n;
    if (!can_share(engine, slot, n_past))
        return 0;
    const struct slot *other = best_other(engine, slot, &n);
    if (n < n_past + SHARE_LEAST || !VEC_RESERVE(&slot->cache, n) ||
        !kv_seq_copy(engine->context, other->id, slot->id, (int32_t)n_past, (int32_t)n))
        return 0;
    memcpy(slot->cache.data + n_past, prompt->data + n_past, (n - n_past) * sizeof(int32_t));
    slot->cache.n = n;
    engine->metrics.n_prompt_shared += n - n_past;
    return n - n_past;
}
