/* text_table.c - a hash table of numbered texts. */
#include "text/text_table.h"

/* Murmur-like mixing, eight bytes at a time: lookups of short texts dominate
 * encoding. */
static uint32_t hash_of(struct slice text)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ text.len;
    const char *p = text.data;
    size_t n = text.len;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 32;
    }
    uint64_t tail = 0;
    if (n)
        memcpy(&tail, p, n);
    h = (h ^ tail) * 0xC4CEB9FE1A85EC53u;
    h ^= h >> 29;
    return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds text, or the free one where it would go. */
static struct text_slot *slot_of(const struct text_table *t, uint32_t hash, struct slice text)
{
    size_t mask = t->n_slots - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct text_slot *slot = &t->slots[i];
        if (slot->index < 0 ||
            (slot->hash == hash && slice_equal(text_table_at(t, (size_t)slot->index), text)))
            return slot;
    }
}

static bool grow_slots(struct text_table *t)
{
    size_t n = t->n_slots ? t->n_slots * 2 : 256;
    struct text_slot *slots = malloc(n * sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < n; i++)
        slots[i] = (struct text_slot){0, -1};
    for (size_t i = 0; i < t->n_slots; i++) {
        if (t->slots[i].index < 0)
            continue;
        size_t at = t->slots[i].hash & (n - 1);
        while (slots[at].index >= 0)
            at = (at + 1) & (n - 1);
        slots[at] = t->slots[i];
    }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    return true;
}

bool text_table_add(struct text_table *t, struct slice text)
{
    if (t->spans.n >= INT32_MAX / 2)
        return false;
    if (t->spans.n * 2 >= t->n_slots && !grow_slots(t))
        return false;
    struct text_span span = {t->bytes.len, text.len};
    uint32_t hash = hash_of(text);
    struct text_slot *slot = slot_of(t, hash, text);
    if (!VEC_RESERVE(&t->spans, 1) || !str_append_slice(&t->bytes, text))
        return false;
    *slot = (struct text_slot){hash, (int32_t)t->spans.n};
    t->spans.data[t->spans.n++] = span;
    return true;
}

int32_t text_table_find(const struct text_table *t, struct slice text)
{
    return t->n_slots ? slot_of(t, hash_of(text), text)->index : -1;
}

int32_t text_table_intern(struct text_table *t, struct slice text)
{
    int32_t found = text_table_find(t, text);
    if (found >= 0)
        return found;
    return text_table_add(t, text) ? (int32_t)(t->spans.n - 1) : -1;
}

void text_table_free(struct text_table *t)
{
    str_free(&t->bytes);
    VEC_FREE(&t->spans);
    free(t->slots);
    *t = (struct text_table){0};
}
