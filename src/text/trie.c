/* trie.c - building a trie level by level from ordered keys. */
#include "text/trie.h"

#include "base/vec.h"

#include <stdlib.h>

static int compare_keys(const void *a, const void *b)
{
    const struct trie_key *x = a, *y = b;
    size_t n = x->text.len < y->text.len ? x->text.len : y->text.len;
    int order = n ? memcmp(x->text.data, y->text.data, n) : 0;
    if (order)
        return order;
    if (x->text.len != y->text.len)
        return x->text.len < y->text.len ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

void trie_sort_keys(struct trie_key *keys, size_t n)
{
    qsort(keys, n, sizeof *keys, compare_keys);
}

/* The keys below a node: those in [begin, end) agree in their first depth
 * bytes. */
struct range {
    size_t begin, end, depth;
};

bool trie_build(struct trie *trie, struct trie_key *keys, size_t n)
{
    *trie = (struct trie){0};
    VEC(struct trie_node) nodes = {0};
    VEC(struct range) ranges = {0};
    trie_sort_keys(keys, n);
    if (!VEC_PUSH(&nodes, (struct trie_node){.value = -1}) ||
        !VEC_PUSH(&ranges, (struct range){0, n, 0}))
        goto failed;
    for (size_t i = 0; i < nodes.n; i++) {
        struct range r = ranges.data[i];
        while (r.begin < r.end && keys[r.begin].text.len == r.depth) {
            if (r.depth)
                nodes.data[i].value = keys[r.begin].value;
            r.begin++;
        }
        if (nodes.n > UINT32_MAX - 256)
            goto failed;
        nodes.data[i].first_child = (uint32_t)nodes.n;
        while (r.begin < r.end) {
            unsigned char byte = (unsigned char)keys[r.begin].text.data[r.depth];
            size_t end = r.begin + 1;
            while (end < r.end && (unsigned char)keys[end].text.data[r.depth] == byte)
                end++;
            if (!VEC_PUSH(&nodes, (struct trie_node){.byte = byte, .value = -1}) ||
                !VEC_PUSH(&ranges, (struct range){r.begin, end, r.depth + 1}))
                goto failed;
            nodes.data[i].n_children++;
            r.begin = end;
        }
    }
    VEC_FREE(&ranges);
    trie->nodes = nodes.data;
    trie->n_nodes = nodes.n;
    return true;
failed:
    VEC_FREE(&nodes);
    VEC_FREE(&ranges);
    return false;
}

void trie_free(struct trie *trie)
{
    free(trie->nodes);
    *trie = (struct trie){0};
}

int32_t trie_longest(const struct trie *trie, struct slice text, size_t limit, size_t *len)
{
    int32_t best = -1;
    if (!trie->nodes)
        return best;
    int64_t node = 0;
    size_t end = text.len < limit ? text.len : limit;
    for (size_t i = 0; i < end; i++) {
        node = trie_step(trie, node, (unsigned char)text.data[i]);
        if (node < 0)
            break;
        if (trie->nodes[node].value >= 0) {
            best = trie->nodes[node].value;
            *len = i + 1;
        }
    }
    return best;
}
