/* prompt_cache.c - the prompts of idle slots, kept in memory.
 *
 * Before a slot forgets a conversation its keys and values are copied here, with
 * its context checkpoints;
 * when a later prompt begins like one of them, the copy goes back into a slot
 * instead of being computed again. The oldest entries go first when the limit
 * is reached. */
#include "engine/internal.h"

#include "base/log.h"

#include <stdlib.h>

/* An entry of which less would be used than this is left for a better use. */
#define LEAST_USEFUL_FRACTION 0.25f

static size_t entry_bytes(const struct prompt_entry *entry)
{
    return entry->state.len + entry->tokens.n * sizeof(int32_t) +
           checkpoints_bytes(&entry->checkpoints);
}

static size_t total_bytes(const struct prompt_cache *cache)
{
    size_t total = 0;
    for (size_t i = 0; i < cache->entries.n; i++)
        total += entry_bytes(&cache->entries.data[i]);
    return total;
}

static size_t total_tokens(const struct prompt_cache *cache)
{
    size_t total = 0;
    for (size_t i = 0; i < cache->entries.n; i++)
        total += cache->entries.data[i].tokens.n;
    return total;
}

static void free_entry(struct prompt_entry *entry)
{
    VEC_FREE(&entry->tokens);
    str_free(&entry->state);
    checkpoints_free(&entry->checkpoints);
}

static void remove_entry(struct prompt_cache *cache, size_t at)
{
    free_entry(&cache->entries.data[at]);
    cache->entries.n--;
    memmove(&cache->entries.data[at], &cache->entries.data[at + 1],
            (cache->entries.n - at) * sizeof *cache->entries.data);
}

void prompt_cache_clear(struct prompt_cache *cache)
{
    while (cache->entries.n)
        remove_entry(cache, cache->entries.n - 1);
    VEC_FREE(&cache->entries);
}

/* True when an entry already begins with these tokens. */
static bool is_covered(const struct prompt_cache *cache, const struct token_vec *tokens)
{
    for (size_t i = 0; i < cache->entries.n; i++)
        if (tokens_common_prefix(&cache->entries.data[i].tokens, tokens) == tokens->n)
            return true;
    return false;
}

/* Entries that are beginnings of these tokens have nothing more to give. */
static void drop_prefixes_of(struct prompt_cache *cache, const struct token_vec *tokens)
{
    for (size_t i = cache->entries.n; i-- > 0;) {
        const struct token_vec *entry = &cache->entries.data[i].tokens;
        if (tokens_common_prefix(entry, tokens) == entry->n)
            remove_entry(cache, i);
    }
}

static void evict_oldest(struct prompt_cache *cache)
{
    log_debug(
        "prompt cache: %zu tokens of the oldest entry are dropped for newer ones (--cache-ram)",
        cache->entries.data[0].tokens.n);
    remove_entry(cache, 0);
}

static void limit_bytes(struct prompt_cache *cache)
{
    while (cache->limit_bytes && cache->entries.n && total_bytes(cache) > cache->limit_bytes)
        evict_oldest(cache);
}

void prompt_cache_limit(struct prompt_cache *cache)
{
    limit_bytes(cache);
    size_t n_tokens = total_tokens(cache);
    size_t bytes_per_token = n_tokens ? total_bytes(cache) / n_tokens : 0;
    size_t limit = cache->limit_tokens;
    if (cache->limit_bytes && bytes_per_token && cache->limit_bytes / bytes_per_token > limit)
        limit = cache->limit_bytes / bytes_per_token;
    while (limit && cache->entries.n && total_tokens(cache) > limit)
        evict_oldest(cache);
}

bool prompt_cache_save(struct engine *engine, const struct slot *slot)
{
    struct prompt_cache *cache = &engine->prompts;
    if (!cache->enabled || slot->cache.n == 0 || is_covered(cache, &slot->cache))
        return false;
    struct prompt_entry entry = {.n_exact = slot->n_exact};
    if (!VEC_RESERVE(&entry.tokens, slot->cache.n) ||
        !kv_seq_save(engine->context, slot->id, &entry.state) ||
        !checkpoints_share(&entry.checkpoints, &slot->checkpoints))
        goto fail;
    memcpy(entry.tokens.data, slot->cache.data, slot->cache.n * sizeof(int32_t));
    entry.tokens.n = slot->cache.n;
    if (cache->limit_bytes && entry_bytes(&entry) > cache->limit_bytes)
        goto fail;
    drop_prefixes_of(cache, &slot->cache);
    if (!VEC_PUSH(&cache->entries, entry))
        goto fail;
    limit_bytes(cache);
    return true;
fail:
    free_entry(&entry);
    return false;
}

void prompt_cache_keep(struct engine *engine, const struct slot *slot)
{
    if (prompt_cache_save(engine, slot))
        prompt_cache_limit(&engine->prompts);
}

void prompt_cache_load(struct engine *engine, struct slot *slot, const struct token_vec *tokens)
{
    struct prompt_cache *cache = &engine->prompts;
    if (!cache->enabled || tokens->n == 0)
        return;
    size_t common = tokens_common_prefix(&slot->cache, tokens);
    float best_kept = slot->cache.n ? (float)common / (float)slot->cache.n : -1.0f;
    float best_similarity = (float)common / (float)tokens->n;
    size_t best = cache->entries.n;
    for (size_t i = 0; i < cache->entries.n; i++) {
        const struct token_vec *entry = &cache->entries.data[i].tokens;
        common = tokens_common_prefix(entry, tokens);
        float kept = (float)common / (float)entry->n;
        float similarity = (float)common / (float)tokens->n;
        if (kept < LEAST_USEFUL_FRACTION || kept <= best_kept || similarity <= best_similarity)
            continue;
        best = i;
        best_kept = kept;
        best_similarity = similarity;
    }
    if (best == cache->entries.n)
        return;
    struct prompt_entry *entry = &cache->entries.data[best];
    struct error err;
    slot_forget_cache(engine, slot);
    if (kv_seq_load(engine->context, slot->id, str_slice(&entry->state), &err)) {
        VEC_FREE(&slot->cache);
        slot->cache = entry->tokens;
        entry->tokens = (struct token_vec){0};
        slot->n_exact = entry->n_exact;
        slot->checkpoints = entry->checkpoints;
        entry->checkpoints = (struct checkpoint_vec){0};
    } else {
        log_warn("slot %d: a cached prompt could not be restored: %s", slot->id, err.message);
    }
    remove_entry(cache, best);
}
