/* schema_set.c - hash tables.
 *
 * A client can choose values whose hashes are alike; then a look-up takes as
 * many steps of the budget as there are such values. */
#include "sample/schema_set.h"

#include <stdlib.h>

struct hash_slot {
    uint64_t hash;
    uint32_t next; /* index + 1; 0: free */
};

struct value_slot {
    const json_t *value; /* NULL: free */
    uint64_t hash;
    uint32_t weight; /* steps that a comparison may take */
};

bool values_are_equal(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

/* ---- hashes ---- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xFF51AFD7ED558CCDu;
    x ^= x >> 29;
    x *= 0xC4CEB9FE1A85EC53u;
    return x ^ x >> 32;
}

static uint64_t hash_bytes(struct slice bytes, uint64_t seed)
{
    uint64_t hash = seed ^ 14695981039346656037u;
    for (size_t i = 0; i < bytes.len; i++)
        hash = (hash ^ (unsigned char)bytes.data[i]) * 1099511628211u;
    return mix(hash);
}

static uint64_t hash_number(double number)
{
    uint64_t bits;
    number = number == 0 ? 0 : number; /* -0 equals 0 */
    memcpy(&bits, &number, sizeof bits);
    return mix(bits + JSON_INTEGER);
}

/* Equal values have equal hashes; *weight grows by the value's size. */
static uint64_t hash_value(const json_t *value, uint64_t *weight)
{
    uint64_t hash = (uint64_t)json_typeof(value) + 1;
    const char *key;
    json_t *member;
    *weight += 1;
    if (json_is_number(value))
        return hash_number(json_number_value(value));
    if (json_is_string(value)) {
        struct slice text = json_slice(value);
        *weight += text.len / 8;
        return hash_bytes(text, hash);
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        hash = mix(hash * 31 + hash_value(json_array_get(value, i), weight));
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        struct slice name = slice_of(key); /* members in any order: a sum */
        *weight += name.len / 8;
        hash += mix(hash_bytes(name, 0) ^ hash_value(member, weight));
    }
    return mix(hash);
}

uint64_t value_weight(const json_t *value)
{
    uint64_t weight = 0;
    hash_value(value, &weight);
    return weight;
}

uint64_t hash_text(struct slice text)
{
    return hash_bytes(text, 0);
}

/* ---- indices ---- */

static void put(struct hash_index *index, struct hash_slot slot)
{
    size_t at = slot.hash & (index->capacity - 1);
    while (index->slots[at].next)
        at = (at + 1) & (index->capacity - 1);
    index->slots[at] = slot;
}

bool hash_index_add(struct hash_index *index, uint64_t hash, uint32_t at)
{
    if (index->n * 2 >= index->capacity) {
        struct hash_index grown = {.capacity = index->capacity ? index->capacity * 2 : 64};
        grown.slots = calloc(grown.capacity, sizeof *grown.slots);
        if (!grown.slots)
            return false;
        for (size_t i = 0; i < index->capacity; i++)
            if (index->slots[i].next)
                put(&grown, index->slots[i]);
        grown.n = index->n;
        free(index->slots);
        *index = grown;
    }
    put(index, (struct hash_slot){hash, at + 1});
    index->n++;
    return true;
}

uint32_t hash_index_next(const struct hash_index *index, uint64_t hash, size_t *cursor)
{
    while (index->n) {
        const struct hash_slot *slot = &index->slots[(hash + *cursor) & (index->capacity - 1)];
        if (!slot->next)
            break;
        ++*cursor;
        if (slot->hash == hash)
            return slot->next - 1;
    }
    return HASH_INDEX_NONE;
}

void hash_index_free(struct hash_index *index)
{
    free(index->slots);
    *index = (struct hash_index){0};
}

/* ---- sets ---- */

static struct value_slot describe(const struct value_set *set, const json_t *value)
{
    uint64_t weight = 0;
    struct value_slot slot = {value, 0, 1};
    if (set->identity) {
        slot.hash = mix((uint64_t)(uintptr_t)value);
    } else {
        slot.hash = hash_value(value, &weight);
        slot.weight = weight < UINT32_MAX ? (uint32_t)weight : UINT32_MAX;
    }
    return slot;
}

/* The slot of an equal value, or the free one where it belongs; the table has
 * one. NULL when out of budget. */
static struct value_slot *place_of(const struct value_set *set, const struct value_slot *wanted,
                                   struct budget *budget, struct error *err)
{
    for (size_t at = wanted->hash & (set->capacity - 1);; at = (at + 1) & (set->capacity - 1)) {
        struct value_slot *slot = &set->slots[at];
        bool alike = slot->value && slot->hash == wanted->hash;
        if (!budget_step(budget, alike ? wanted->weight : 1, err))
            return NULL;
        if (!slot->value || slot->value == wanted->value ||
            (alike && !set->identity && values_are_equal(slot->value, wanted->value)))
            return slot;
    }
}

static bool grow(struct value_set *set, struct budget *budget, struct error *err)
{
    if (set->n * 2 < set->capacity)
        return true;
    size_t capacity = set->capacity ? set->capacity * 2 : 16;
    if (!budget_step(budget, set->n, err))
        return false;
    struct value_slot *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return error_memory(err);
    for (size_t i = 0; i < set->capacity; i++) {
        if (!set->slots[i].value)
            continue;
        size_t at = set->slots[i].hash & (capacity - 1);
        while (slots[at].value)
            at = (at + 1) & (capacity - 1);
        slots[at] = set->slots[i];
    }
    free(set->slots);
    set->slots = slots;
    set->capacity = capacity;
    return true;
}

bool value_set_add(struct value_set *set, const json_t *value, struct budget *budget, bool *added,
                   struct error *err)
{
    struct value_slot made = describe(set, value);
    if (!budget_step(budget, made.weight, err) || !grow(set, budget, err))
        return false;
    struct value_slot *slot = place_of(set, &made, budget, err);
    if (!slot)
        return false;
    *added = !slot->value;
    if (*added) {
        *slot = made;
        set->n++;
    }
    return true;
}

bool value_set_add_list(struct value_set *set, const json_t *list, struct budget *budget,
                        struct error *err)
{
    bool added;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!value_set_add(set, json_array_get(list, i), budget, &added, err))
            return false;
    return true;
}

bool value_set_find(const struct value_set *set, const json_t *value, struct budget *budget,
                    bool *found, struct error *err)
{
    struct value_slot wanted = describe(set, value);
    *found = false;
    if (set->n == 0)
        return true;
    const struct value_slot *slot =
        budget_step(budget, wanted.weight, err) ? place_of(set, &wanted, budget, err) : NULL;
    *found = slot && slot->value;
    return slot != NULL;
}

void value_set_free(struct value_set *set)
{
    free(set->slots);
    *set = (struct value_set){.identity = set->identity};
}
