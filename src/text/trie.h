/* trie.h - a fixed set of byte strings, walked one byte at a time.
 *
 * Built once, then read from any thread. */
#ifndef MLXCEL_TEXT_TRIE_H
#define MLXCEL_TEXT_TRIE_H

#include "base/slice.h"

#include <stdint.h>

struct trie_key {
    struct slice text;
    int32_t value; /* 0 or more */
};

struct trie_node {
    uint32_t first_child; /* children stand side by side, ordered by byte */
    uint16_t n_children;
    unsigned char byte; /* on the way here */
    int32_t value;      /* of the text that ends here, or -1 */
};

struct trie {
    struct trie_node *nodes; /* the root first; NULL for no keys */
    size_t n_nodes;
};

/* By the bytes of their texts, equal ones by value. */
void trie_sort_keys(struct trie_key *keys, size_t n);

/* Build from n keys, which are put in order and looked at only here. Empty
 * texts are left out; of equal texts the greatest value wins. False when out
 * of memory. */
bool trie_build(struct trie *trie, struct trie_key *keys, size_t n);
void trie_free(struct trie *trie);

/* The child of a node on a byte, or -1. Start at node 0. */
static inline int64_t trie_step(const struct trie *trie, int64_t node, unsigned char byte)
{
    const struct trie_node *at = &trie->nodes[node];
    uint32_t low = 0, high = at->n_children;
    const struct trie_node *child = &trie->nodes[at->first_child];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (child[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < at->n_children && child[low].byte == byte ? (int64_t)at->first_child + low : -1;
}

/* The longest key of at most limit bytes that text begins with: its value, and
 * its length in *len; -1 when none. */
int32_t trie_longest(const struct trie *trie, struct slice text, size_t limit, size_t *len);

#endif
