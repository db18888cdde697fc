/* automaton_mask.c - all tokens that may come next, through the trie of the
 * vocabulary.
 *
 * Inside a string or a list of words most of the vocabulary may follow, and
 * what may follow depends only on the upper part of the stack until that part
 * is used up. So each stack is cut below UPPER elements, the tokens of the cut
 * stack are found once and kept, with the nodes of the trie at which its end
 * was reached; only below those few nodes the real rest of the stack is
 * followed each time. (Dong et al. 2024, XGrammar, has this idea.) */
#include "sample/automaton_tables.h"

#include <stdlib.h>

enum {
    UPPER = 4,        /* a character in a repetition in a string in its parent */
    MASKS_MAX = 1024, /* 19 KiB each for 152k tokens */
    DEPTH_MAX = 4096, /* bytes of a token */
    APART_MAX = 24,   /* stacks that are looked at one by one */
};

typedef VEC(uint32_t) node_vec;

static void admit(uint64_t *bits, const int32_t *tokens, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        bits[tokens[i] / 64] |= (uint64_t)1 << tokens[i] % 64;
}

/* Follow the subtree below a node of the trie from a state; exits may be NULL
 * where nothing is open. */
static bool walk(struct automaton *a, uint32_t state, uint32_t from, uint64_t *bits,
                 node_vec *exits)
{
    const struct vocab *v = a->vocab;
    uint32_t path[DEPTH_MAX + 1]; /* the state at each depth */
    path[v->nodes[from].depth] = state;
    uint32_t end = v->nodes[from].next;
    for (uint32_t i = from + 1; i < end;) {
        const struct trie_node *node = &v->nodes[i];
        if (!work_left(a, WORK_NODE))
            return false;
        uint32_t before = path[node->depth - 1];
        const uint32_t *row = a->states.data[before].row;
        uint32_t next = row ? row[node->byte] : ROW_UNKNOWN;
        if (next == ROW_UNKNOWN && !automaton_step(a, before, node->byte, &next))
            return false;
        if (next == STATE_DEAD) {
            i = node->next;
            continue;
        }
        const struct machine_state *s = &a->states.data[next];
        if (node->n_tokens && s->may_pause)
            admit(bits, v->trie_tokens + node->first_token, node->n_tokens);
        if (s->open && node->next > i + 1 && exits && !VEC_PUSH(exits, i))
            return false;
        path[node->depth] = next;
        i = s->only_open ? node->next : i + 1;
    }
    return true;
}

static bool state_of_stack(struct automaton *a, uint32_t node, uint32_t *state)
{
    uint32_t set;
    closure_begin(a);
    return closure_add(a, node) && closure_finish(a, &set) && state_intern(a, set, 0, 0, state);
}

/* Cut a stack: its upper elements over NODE_OPEN, and the rest. A stack that
 * is no longer than that stays whole. */
static bool cut(struct automaton *a, uint32_t node, uint32_t *upper, uint32_t *rest)
{
    uint32_t elements[UPPER];
    int n = 0;
    for (*rest = node; *rest > NODE_OPEN && n < UPPER; *rest = a->nodes.data[*rest].parent)
        elements[n++] = a->nodes.data[*rest].element;
    *upper = *rest == NODE_END ? NODE_END : NODE_OPEN;
    while (n > 0)
        if (!node_intern(a, elements[--n], *upper, upper))
            return false;
    return true;
}

static uint64_t hash_mask(const struct automaton *a, uint32_t i)
{
    return index_mix(a->masks.data[i].node);
}

/* The mask of a cut stack, made when it is new. */
static bool local_mask(struct automaton *a, uint32_t node, size_t *index)
{
    if (!index_grow(a, &a->mask_index, hash_mask))
        return false;
    uint64_t hash = index_mix(node);
    const struct index_table *t = &a->mask_index;
    for (size_t at = hash & (t->capacity - 1); t->slots[at]; at = (at + 1) & (t->capacity - 1)) {
        if (a->masks.data[t->slots[at] - 1].node == node) {
            *index = t->slots[at] - 1;
            return true;
        }
    }
    if (a->masks.n >= MASKS_MAX)
        return false;
    struct local_mask mask = {.node = node, .admitted = calloc(a->mask_words, sizeof(uint64_t))};
    node_vec exits = {0};
    uint32_t state;
    if (!mask.admitted || !state_of_stack(a, node, &state) ||
        !walk(a, state, 0, mask.admitted, &exits))
        goto fail;
    mask.exits = exits.data;
    mask.n_exits = (uint32_t)exits.n;
    *index = a->masks.n;
    if (!VEC_PUSH(&a->masks, mask))
        goto fail;
    index_put(&a->mask_index, hash, (uint32_t)*index);
    return true;
fail:
    free(mask.admitted);
    VEC_FREE(&exits);
    return false;
}

static bool mask_stack(struct automaton *a, uint32_t node, uint64_t *bits)
{
    uint32_t upper, rest, state;
    size_t index;
    if (!cut(a, node, &upper, &rest) || !local_mask(a, upper, &index))
        return false;
    const uint64_t *admitted = a->masks.data[index].admitted;
    for (size_t i = 0; i < a->mask_words; i++)
        bits[i] |= admitted[i];
    uint32_t n_exits = a->masks.data[index].n_exits;
    if (n_exits == 0 || rest == NODE_END)
        return true;
    if (!state_of_stack(a, rest, &state))
        return false;
    for (uint32_t i = 0; i < n_exits; i++)
        if (!walk(a, state, a->masks.data[index].exits[i], bits, NULL))
            return false;
    return true;
}

static void mask_token(const struct automaton *a, const struct element *e, uint64_t *bits)
{
    const struct vocab *v = a->vocab;
    bool in_range = e->value < (uint32_t)v->n_tokens;
    int32_t token = (int32_t)e->value;
    if (e->type == ELEMENT_TOKEN) {
        if (in_range && v->pieces[token].len)
            admit(bits, &token, 1);
        return;
    }
    bool had = in_range && (bits[token / 64] >> token % 64 & 1);
    admit(bits, v->trie_tokens, v->n_in_trie);
    if (in_range && !had)
        bits[token / 64] &= ~((uint64_t)1 << token % 64);
}

bool automaton_mask(struct automaton *a, uint32_t state, uint64_t *bits)
{
    struct machine_state s = a->states.data[state];
    if (state == STATE_DEAD)
        return true;
    work_begin(a);
    /* In the rest of a character, which is rare and soon over, and with so many
     * stacks that together they are followed sooner, nothing is kept. */
    bool together = s.n_missing || a->sets.data[s.set].n > APART_MAX;
    if (together && !walk(a, state, 0, bits, NULL))
        return false;
    if (s.n_missing)
        return true;
    /* Tokens first: a token that one element excludes may come by another. */
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < a->sets.data[s.set].n; i++) {
            uint32_t node = a->set_nodes.data[a->sets.data[s.set].first + i];
            if (node <= NODE_OPEN)
                continue;
            const struct element *e = &a->grammar->elements[a->nodes.data[node].element];
            bool by_token = e->type >= ELEMENT_TOKEN;
            if (by_token && pass == 0)
                mask_token(a, e, bits);
            else if (!by_token && !together && pass == 1 && !mask_stack(a, node, bits))
                return false;
        }
    }
    return true;
}
