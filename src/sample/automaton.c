/* automaton.c - stacks, sets and states, and what a byte or a token does. */
#include "sample/automaton_tables.h"

#include <stdlib.h>

enum {
    NODES_MAX = 1 << 20,
    SET_NODES_MAX = 1 << 20,
    STATES_MAX = 1 << 18,
    ROWS_MAX = 1 << 14, /* 16 MiB */
    SET_MAX = 1 << 14,  /* stacks at once: more is no useful grammar */
};

/* ---- hash tables ---- */

uint64_t index_mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xFF51AFD7ED558CCDu;
    x ^= x >> 33;
    return x;
}

/* Put index at its slot in a table with room. */
void index_put(struct index_table *t, uint64_t hash, uint32_t index)
{
    size_t at = hash & (t->capacity - 1);
    while (t->slots[at])
        at = (at + 1) & (t->capacity - 1);
    t->slots[at] = index + 1;
    t->n++;
}

static uint64_t hash_node(const struct automaton *a, uint32_t i)
{
    return index_mix((uint64_t)a->nodes.data[i].element << 32 | a->nodes.data[i].parent);
}

static uint64_t hash_nodes(const uint32_t *nodes, size_t n)
{
    uint64_t hash = n;
    for (size_t i = 0; i < n; i++)
        hash = index_mix(hash * 31 + nodes[i]);
    return hash;
}

static uint64_t hash_set(const struct automaton *a, uint32_t i)
{
    return hash_nodes(a->set_nodes.data + a->sets.data[i].first, a->sets.data[i].n);
}

static uint64_t hash_state(const struct automaton *a, uint32_t i)
{
    const struct machine_state *s = &a->states.data[i];
    return index_mix(index_mix((uint64_t)s->set << 32 | s->partial) + s->n_missing);
}

bool index_grow(const struct automaton *a, struct index_table *t,
                uint64_t (*hash)(const struct automaton *, uint32_t))
{
    if (t->n * 2 < t->capacity)
        return true;
    struct index_table grown = {.capacity = t->capacity ? t->capacity * 2 : 256};
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < t->capacity; i++)
        if (t->slots[i])
            index_put(&grown, hash(a, t->slots[i] - 1), t->slots[i] - 1);
    free(t->slots);
    *t = grown;
    return true;
}

/* ---- stacks ---- */

bool node_intern(struct automaton *a, uint32_t element, uint32_t parent, uint32_t *node)
{
    if (!index_grow(a, &a->node_index, hash_node))
        return false;
    uint64_t hash = index_mix((uint64_t)element << 32 | parent);
    const struct index_table *t = &a->node_index;
    for (size_t at = hash & (t->capacity - 1); t->slots[at]; at = (at + 1) & (t->capacity - 1)) {
        const struct stack_node *known = &a->nodes.data[t->slots[at] - 1];
        if (known->element == element && known->parent == parent) {
            *node = t->slots[at] - 1;
            return true;
        }
    }
    if (a->nodes.n >= NODES_MAX)
        return false;
    *node = (uint32_t)a->nodes.n;
    if (!VEC_RESERVE(&a->seen, 1) || !VEC_PUSH(&a->nodes, (struct stack_node){element, parent}))
        return false;
    a->seen.data[a->seen.n++] = 0;
    index_put(&a->node_index, hash, *node);
    return true;
}

bool node_after(struct automaton *a, uint32_t node, uint32_t *after)
{
    struct stack_node top = a->nodes.data[node];
    if (element_ends(a->grammar, top.element + 1)) {
        *after = top.parent;
        return true;
    }
    return node_intern(a, top.element + 1, top.parent, after);
}

/* ---- sets ---- */

void closure_begin(struct automaton *a)
{
    a->found.n = 0;
    a->todo.n = 0;
    if (++a->closure == 0) {
        memset(a->seen.data, 0, a->seen.n * sizeof *a->seen.data);
        a->closure = 1;
    }
}

static bool is_rule(const struct grammar *g, uint32_t at)
{
    return g->elements[at].type == ELEMENT_RULE || g->elements[at].type == ELEMENT_MEMBERS;
}

/* A stack whose top is a rule stands for one stack for each alternative. */
static bool expand(struct automaton *a, uint32_t node)
{
    const struct grammar *g = a->grammar;
    struct element top = g->elements[a->nodes.data[node].element];
    uint32_t rest, first = top.type == ELEMENT_RULE ? g->rules[top.value] : 0;
    if (!node_after(a, node, &rest) ||
        (top.type == ELEMENT_MEMBERS && !members_rule(a, top.value, &first)))
        return false;
    for (uint32_t at = first;; at++) {
        uint32_t way = rest;
        if (!element_ends(g, at) && !node_intern(a, at, rest, &way))
            return false;
        if (!VEC_PUSH(&a->todo, way))
            return false;
        while (!element_ends(g, at))
            at++;
        if (g->elements[at].type == ELEMENT_END)
            return true;
    }
}

bool closure_add(struct automaton *a, uint32_t node)
{
    if (!VEC_PUSH(&a->todo, node))
        return false;
    while (a->todo.n) {
        node = a->todo.data[--a->todo.n];
        if (!work_left(a, WORK_STACK))
            return false;
        if (a->seen.data[node] == a->closure)
            continue;
        a->seen.data[node] = a->closure;
        if (node > NODE_OPEN && is_rule(a->grammar, a->nodes.data[node].element)) {
            if (!expand(a, node))
                return false;
        } else if (a->found.n >= SET_MAX || !VEC_PUSH(&a->found, node)) {
            return false;
        }
    }
    return true;
}

static int compare_u32(const void *pa, const void *pb)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    return a < b ? -1 : a > b;
}

bool closure_finish(struct automaton *a, uint32_t *set)
{
    size_t n = a->found.n;
    if (n > 1)
        qsort(a->found.data, n, sizeof *a->found.data, compare_u32);
    if (!index_grow(a, &a->set_index, hash_set))
        return false;
    uint64_t hash = hash_nodes(a->found.data, n);
    const struct index_table *t = &a->set_index;
    for (size_t at = hash & (t->capacity - 1); t->slots[at]; at = (at + 1) & (t->capacity - 1)) {
        const struct stack_set *known = &a->sets.data[t->slots[at] - 1];
        if (known->n == n && (n == 0 || memcmp(a->set_nodes.data + known->first, a->found.data,
                                               n * sizeof *a->found.data) == 0)) {
            *set = t->slots[at] - 1;
            return true;
        }
    }
    if (a->set_nodes.n + n > SET_NODES_MAX || !VEC_RESERVE(&a->set_nodes, n))
        return false;
    *set = (uint32_t)a->sets.n;
    if (!VEC_PUSH(&a->sets, (struct stack_set){(uint32_t)a->set_nodes.n, (uint32_t)n}))
        return false;
    if (n)
        memcpy(a->set_nodes.data + a->set_nodes.n, a->found.data, n * sizeof *a->found.data);
    a->set_nodes.n += n;
    index_put(&a->set_index, hash, *set);
    return true;
}

/* ---- characters ---- */

/* Whether low .. high meets a range that is listed. */
static bool ranges_meet(const struct grammar *g, const struct char_class *class, uint32_t low,
                        uint32_t high)
{
    const struct char_range *ranges = g->ranges + class->first_range;
    uint32_t begin = 0, end = class->n_ranges;
    while (begin < end) { /* the first that ends at low or later */
        uint32_t middle = begin + (end - begin) / 2;
        if (ranges[middle].high < low)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < class->n_ranges && ranges[begin].low <= high;
}

static bool class_holds(const struct grammar *g, const struct char_class *class, uint32_t c)
{
    if (c < 128)
        return class->ascii[c / 32] >> c % 32 & 1;
    return ranges_meet(g, class, c, c) != class->negated;
}

static bool element_matches(const struct grammar *g, const struct element *e, uint32_t c)
{
    switch (e->type) {
    case ELEMENT_CHAR:
        return e->value == c;
    case ELEMENT_CLASS:
        return class_holds(g, &g->classes[e->value], c);
    case ELEMENT_ANY:
        return true;
    default:
        return false;
    }
}

/* Whether a half-read character, which will be one of low .. high, can satisfy
 * an element: strictly is the reference's rule for the end of a token, where a
 * negated class admits none of a block that holds a listed one. */
static bool element_may_match(const struct grammar *g, const struct element *e, uint32_t low,
                              uint32_t high, bool strictly)
{
    switch (e->type) {
    case ELEMENT_CHAR:
        return low <= e->value && e->value <= high;
    case ELEMENT_CLASS: {
        const struct char_class *class = &g->classes[e->value];
        if (class->negated)
            return !strictly || !ranges_meet(g, class, low, high);
        return ranges_meet(g, class, low, high);
    }
    case ELEMENT_ANY:
        return true;
    default:
        return false;
    }
}

static bool set_may_match(const struct automaton *a, uint32_t set, uint32_t partial,
                          uint8_t n_missing, bool strictly)
{
    uint32_t low = partial << (6 * n_missing);
    uint32_t high = low | ((1u << (6 * n_missing)) - 1);
    /* Shorter forms have what lies below. */
    if (low == 0 && n_missing >= 2)
        low = n_missing == 2 ? 0x800 : 0x10000;
    const struct stack_set *s = &a->sets.data[set];
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t node = a->set_nodes.data[s->first + i];
        if (node > NODE_OPEN &&
            element_may_match(a->grammar, &a->grammar->elements[a->nodes.data[node].element], low,
                              high, strictly))
            return true;
    }
    return false;
}

/* ---- states ---- */

/* NODE_END and NODE_OPEN are the lowest numbers: they stand in front. */
static void look_for_open(const struct automaton *a, struct machine_state *s)
{
    const struct stack_set *set = &a->sets.data[s->set];
    for (uint32_t i = 0; i < set->n && i < 2; i++)
        s->open = s->open || a->set_nodes.data[set->first + i] == NODE_OPEN;
    s->only_open = s->open && set->n == 1;
}

bool state_intern(struct automaton *a, uint32_t set, uint32_t partial, uint8_t n_missing,
                  uint32_t *state)
{
    if (a->sets.data[set].n == 0 ||
        (n_missing && !set_may_match(a, set, partial, n_missing, false))) {
        *state = STATE_DEAD;
        return true;
    }
    if (!index_grow(a, &a->state_index, hash_state))
        return false;
    uint64_t hash = index_mix(index_mix((uint64_t)set << 32 | partial) + n_missing);
    const struct index_table *t = &a->state_index;
    for (size_t at = hash & (t->capacity - 1); t->slots[at]; at = (at + 1) & (t->capacity - 1)) {
        const struct machine_state *known = &a->states.data[t->slots[at] - 1];
        if (known->set == set && known->partial == partial && known->n_missing == n_missing) {
            *state = t->slots[at] - 1;
            return true;
        }
    }
    if (a->states.n >= STATES_MAX)
        return false;
    *state = (uint32_t)a->states.n;
    struct machine_state made = {set, partial, n_missing, true, false, false, NULL};
    if (n_missing)
        made.may_pause = set_may_match(a, set, partial, n_missing, true);
    else
        look_for_open(a, &made);
    if (!VEC_PUSH(&a->states, made))
        return false;
    index_put(&a->state_index, hash, *state);
    return true;
}

/* All stacks of a set whose top admits the character, moved past it. */
static bool read_character(struct automaton *a, uint32_t set, uint32_t c, uint32_t *state)
{
    closure_begin(a);
    if (!work_left(a, (uint64_t)a->sets.data[set].n * WORK_NODE))
        return false;
    for (uint32_t i = 0; i < a->sets.data[set].n; i++) {
        uint32_t node = a->set_nodes.data[a->sets.data[set].first + i], after;
        if (node <= NODE_OPEN ||
            !element_matches(a->grammar, &a->grammar->elements[a->nodes.data[node].element], c))
            continue;
        if (!node_after(a, node, &after) || !closure_add(a, after))
            return false;
    }
    uint32_t moved;
    return closure_finish(a, &moved) && state_intern(a, moved, 0, 0, state);
}

/* The Unicode Standard, table 3-7: after some first bytes the second has a
 * narrower range (no overlong forms, no surrogates, nothing past U+10FFFF). */
static bool may_follow(const struct machine_state *s, uint8_t byte)
{
    if (s->n_missing == 2 && s->partial == 0x0)
        return byte >= 0xA0 && byte <= 0xBF;
    if (s->n_missing == 2 && s->partial == 0xD)
        return byte >= 0x80 && byte <= 0x9F;
    if (s->n_missing == 3 && s->partial == 0)
        return byte >= 0x90 && byte <= 0xBF;
    if (s->n_missing == 3 && s->partial == 4)
        return byte >= 0x80 && byte <= 0x8F;
    return byte >= 0x80 && byte <= 0xBF;
}

static bool read_byte(struct automaton *a, uint32_t state, uint8_t byte, uint32_t *next)
{
    struct machine_state s = a->states.data[state];
    *next = STATE_DEAD;
    if (s.n_missing) {
        if (!may_follow(&s, byte))
            return true;
        uint32_t c = s.partial << 6 | (byte & 0x3Fu);
        if (s.n_missing > 1)
            return state_intern(a, s.set, c, (uint8_t)(s.n_missing - 1), next);
        return read_character(a, s.set, c, next);
    }
    if (byte < 0x80)
        return read_character(a, s.set, byte, next);
    if (byte >= 0xC2 && byte <= 0xDF)
        return state_intern(a, s.set, byte & 0x1Fu, 1, next);
    if (byte >= 0xE0 && byte <= 0xEF)
        return state_intern(a, s.set, byte & 0x0Fu, 2, next);
    if (byte >= 0xF0 && byte <= 0xF4)
        return state_intern(a, s.set, byte & 0x07u, 3, next);
    return true;
}

static bool make_row(struct automaton *a, uint32_t state)
{
    if (a->n_rows >= ROWS_MAX)
        return false;
    uint32_t *row = malloc(256 * sizeof *row);
    if (!row)
        return false;
    for (size_t i = 0; i < 256; i++)
        row[i] = ROW_UNKNOWN;
    a->states.data[state].row = row;
    a->n_rows++;
    return true;
}

bool automaton_step(struct automaton *a, uint32_t state, uint8_t byte, uint32_t *next)
{
    if (!a->states.data[state].row && !make_row(a, state))
        return false;
    *next = a->states.data[state].row[byte];
    if (*next != ROW_UNKNOWN)
        return true;
    if (!read_byte(a, state, byte, next))
        return false;
    a->states.data[state].row[byte] = *next;
    return true;
}

/* ---- tokens ---- */

/* Whether a set has an element that looks at tokens. */
static bool set_has_tokens(const struct automaton *a, uint32_t set)
{
    const struct stack_set *s = &a->sets.data[set];
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t node = a->set_nodes.data[s->first + i];
        if (node > NODE_OPEN &&
            a->grammar->elements[a->nodes.data[node].element].type >= ELEMENT_TOKEN)
            return true;
    }
    return false;
}

static bool token_matches(const struct element *e, int32_t token)
{
    if (e->type == ELEMENT_TOKEN)
        return e->value == (uint32_t)token;
    return e->type == ELEMENT_TOKEN_NOT && e->value != (uint32_t)token;
}

bool automaton_token(struct automaton *a, uint32_t state, int32_t token, struct slice text,
                     uint32_t *next)
{
    uint32_t at = state;
    work_begin(a);
    for (size_t i = 0; i < text.len && at != STATE_DEAD; i++)
        if (!automaton_step(a, at, (uint8_t)text.data[i], &at))
            return false;
    struct machine_state from = a->states.data[state];
    *next = at;
    if (from.n_missing || !set_has_tokens(a, from.set))
        return true;
    closure_begin(a);
    for (uint32_t i = 0; i < a->sets.data[from.set].n; i++) {
        uint32_t node = a->set_nodes.data[a->sets.data[from.set].first + i], after;
        if (node > NODE_OPEN &&
            token_matches(&a->grammar->elements[a->nodes.data[node].element], token) &&
            (!node_after(a, node, &after) || !closure_add(a, after)))
            return false;
    }
    if (a->found.n == 0)
        return true; /* next is what the characters led to */
    /* Both ways go on, where the token ends with a whole character. */
    if (at != STATE_DEAD && a->states.data[at].n_missing == 0) {
        uint32_t read = a->states.data[at].set;
        for (uint32_t i = 0; i < a->sets.data[read].n; i++)
            if (!closure_add(a, a->set_nodes.data[a->sets.data[read].first + i]))
                return false;
    }
    uint32_t set;
    return closure_finish(a, &set) && state_intern(a, set, 0, 0, next);
}

bool automaton_may_pause(const struct automaton *a, uint32_t state)
{
    return state != STATE_DEAD && a->states.data[state].may_pause;
}

bool automaton_complete(const struct automaton *a, uint32_t state)
{
    if (state == STATE_DEAD || a->states.data[state].n_missing)
        return false;
    const struct stack_set *s = &a->sets.data[a->states.data[state].set];
    return s->n && a->set_nodes.data[s->first] == NODE_END; /* the lowest stands first */
}

bool automaton_only_complete(const struct automaton *a, uint32_t state)
{
    return automaton_complete(a, state) && a->sets.data[a->states.data[state].set].n == 1;
}

bool automaton_start(struct automaton *a, uint32_t *state)
{
    const struct grammar *g = a->grammar;
    work_begin(a);
    closure_begin(a);
    for (uint32_t at = g->rules[g->root];; at++) {
        uint32_t node = NODE_END, set;
        if ((!element_ends(g, at) && !node_intern(a, at, NODE_END, &node)) || !closure_add(a, node))
            return false;
        while (!element_ends(g, at))
            at++;
        if (g->elements[at].type == ELEMENT_END)
            return closure_finish(a, &set) && state_intern(a, set, 0, 0, state);
    }
}

/* ---- saving ---- */

static uint32_t parent_of(const struct automaton *a, uint32_t node)
{
    return a->nodes.data[node].parent;
}

/* What stands in out is what a matcher goes back to: it is whole, the old or the new. */
bool automaton_save(const struct automaton *a, uint32_t state, struct token_vec *out)
{
    const struct machine_state *s = &a->states.data[state];
    const struct stack_set *set = &a->sets.data[s->set];
    uint32_t n_stacks = state != STATE_DEAD ? set->n : 0;
    size_t n = 2 + n_stacks;
    for (uint32_t i = 0; i < n_stacks; i++)
        for (uint32_t node = a->set_nodes.data[set->first + i]; node > NODE_OPEN;
             node = parent_of(a, node))
            n++;
    if (!VEC_RESERVE(out, n))
        return false;
    int32_t *to = out->data;
    *to++ = (int32_t)s->partial;
    *to++ = s->n_missing;
    for (uint32_t i = 0; i < n_stacks; i++) {
        int32_t *count = to++;
        for (uint32_t node = a->set_nodes.data[set->first + i]; node > NODE_OPEN;
             node = parent_of(a, node))
            *to++ = (int32_t)a->nodes.data[node].element;
        *count = (int32_t)(to - count - 1);
    }
    out->n = n;
    return true;
}

bool automaton_load(struct automaton *a, const struct token_vec *saved, uint32_t *state)
{
    work_begin(a);
    closure_begin(a);
    for (size_t at = 2; at < saved->n;) {
        size_t n = (size_t)saved->data[at];
        uint32_t node = NODE_END;
        for (size_t i = n; i > 0; i--)
            if (!node_intern(a, (uint32_t)saved->data[at + i], node, &node))
                return false;
        if (!closure_add(a, node))
            return false;
        at += n + 1;
    }
    uint32_t set;
    return closure_finish(a, &set) &&
           state_intern(a, set, (uint32_t)saved->data[0], (uint8_t)saved->data[1], state);
}

/* ---- life ---- */

/* The two stacks and the state that always exist. */
static bool set_up(struct automaton *a)
{
    for (int i = 0; i < 2; i++)
        if (!VEC_PUSH(&a->nodes, (struct stack_node){UINT32_MAX, UINT32_MAX}) ||
            !VEC_PUSH(&a->seen, 0))
            return false;
    return VEC_PUSH(&a->sets, (struct stack_set){0, 0}) &&
           VEC_PUSH(&a->states, (struct machine_state){0}) && members_begin(a);
}

struct automaton *automaton_create(const struct vocab *vocab, struct grammar *g)
{
    struct automaton *a = calloc(1, sizeof *a);
    if (!a) {
        grammar_free(g);
        return NULL;
    }
    a->vocab = vocab;
    a->grammar = g;
    a->mask_words = ((size_t)vocab->n_tokens + 63) / 64;
    if (!set_up(a)) {
        automaton_free(a);
        return NULL;
    }
    return a;
}

void automaton_empty(struct automaton *a)
{
    for (size_t i = 0; i < a->states.n; i++)
        free(a->states.data[i].row);
    for (size_t i = 0; i < a->masks.n; i++) {
        free(a->masks.data[i].admitted);
        free(a->masks.data[i].exits);
    }
    struct index_table *tables[] = {&a->node_index, &a->set_index, &a->state_index, &a->mask_index};
    for (size_t i = 0; i < 4; i++) {
        free(tables[i]->slots);
        *tables[i] = (struct index_table){0};
    }
    /* The first entries, made by set_up, stay. */
    a->nodes.n = a->seen.n = a->nodes.n < 2 ? a->nodes.n : 2;
    a->sets.n = a->sets.n < 1 ? a->sets.n : 1;
    a->states.n = a->states.n < 1 ? a->states.n : 1;
    if (a->states.n)
        a->states.data[0].row = NULL;
    a->set_nodes.n = a->masks.n = a->n_rows = 0;
    a->generation++;
}

void automaton_free(struct automaton *a)
{
    if (!a)
        return;
    automaton_empty(a);
    VEC_FREE(&a->nodes);
    VEC_FREE(&a->seen);
    VEC_FREE(&a->todo);
    VEC_FREE(&a->found);
    VEC_FREE(&a->sets);
    VEC_FREE(&a->set_nodes);
    VEC_FREE(&a->states);
    VEC_FREE(&a->masks);
    VEC_FREE(&a->member_sets);
    VEC_FREE(&a->member_words);
    free(a->member_index.slots);
    grammar_free(a->grammar);
    free(a);
}

uint64_t automaton_generation(const struct automaton *a)
{
    return a->generation;
}

uint64_t automaton_work(const struct automaton *a)
{
    return a->all_work + a->work;
}
