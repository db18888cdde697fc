/* vocab.c - building the vocabulary and its trie. */
#include "sample/vocab.h"

#include <stdlib.h>

enum { PIECE_MAX = 4096 }; /* longer pieces stay out of the trie: no grammar admits them */

struct order {
    const struct vocab *vocab;
    int32_t token;
};

static int compare_pieces(const void *pa, const void *pb)
{
    const struct order *a = pa, *b = pb;
    struct slice x = a->vocab->pieces[a->token], y = b->vocab->pieces[b->token];
    size_t shorter = x.len < y.len ? x.len : y.len;
    int by_bytes = memcmp(x.data, y.data, shorter);
    if (by_bytes)
        return by_bytes;
    if (x.len != y.len)
        return x.len < y.len ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

static size_t common_prefix(struct slice a, struct slice b)
{
    size_t n = a.len < b.len ? a.len : b.len, i = 0;
    while (i < n && a.data[i] == b.data[i])
        i++;
    return i;
}

/* Tokens sorted by their bytes visit the trie depth first: each adds the nodes
 * its prefix with the one before does not have. */
static bool build_trie(struct vocab *v, const struct order *order, size_t n)
{
    size_t n_nodes = 1;
    for (size_t i = 0; i < n; i++) {
        struct slice piece = v->pieces[order[i].token];
        struct slice before = i ? v->pieces[order[i - 1].token] : (struct slice){"", 0};
        n_nodes += piece.len - common_prefix(before, piece);
    }
    if (n_nodes > UINT32_MAX / 2)
        return false;
    v->nodes = calloc(n_nodes, sizeof *v->nodes);
    v->trie_tokens = calloc(n ? n : 1, sizeof *v->trie_tokens);
    uint32_t *path = calloc(PIECE_MAX + 1, sizeof *path);
    if (!v->nodes || !v->trie_tokens || !path) {
        free(path);
        return false;
    }
    uint32_t at = 1;
    size_t depth = 0; /* path[0..depth] is the way to the node last added */
    for (size_t i = 0; i < n; i++) {
        struct slice piece = v->pieces[order[i].token];
        struct slice before = i ? v->pieces[order[i - 1].token] : (struct slice){"", 0};
        size_t shared = common_prefix(before, piece);
        for (; depth > shared; depth--)
            v->nodes[path[depth]].next = at;
        for (size_t j = shared; j < piece.len; j++) {
            v->nodes[at].byte = (uint8_t)piece.data[j];
            v->nodes[at].depth = (uint16_t)(j + 1);
            v->nodes[at].first_token = (uint32_t)i;
            path[++depth] = at++;
        }
        v->nodes[path[depth]].n_tokens++;
        v->trie_tokens[i] = order[i].token;
    }
    for (; depth > 0; depth--)
        v->nodes[path[depth]].next = at;
    v->nodes[0].next = at;
    v->n_nodes = at;
    v->n_in_trie = (uint32_t)n;
    free(path);
    return true;
}

static bool copy_pieces(struct vocab *v)
{
    size_t total = 1;
    size_t n = (size_t)v->n_tokens;
    for (size_t i = 0; i < n; i++)
        total += v->source.piece(v->source.context, (int32_t)i).len;
    v->bytes = malloc(total);
    v->pieces = calloc(n + 1, sizeof *v->pieces);
    v->flags = calloc(n + 1, 1);
    if (!v->bytes || !v->pieces || !v->flags)
        return false;
    char *at = v->bytes;
    for (size_t i = 0; i < n; i++) {
        struct slice piece = v->source.piece(v->source.context, (int32_t)i);
        if (piece.len)
            memcpy(at, piece.data, piece.len);
        v->pieces[i] = (struct slice){at, piece.len};
        at += piece.len;
        if (v->source.is_eog && v->source.is_eog(v->source.context, (int32_t)i)) {
            v->flags[i] |= VOCAB_EOG;
            v->n_eog++;
        }
        if (v->source.is_hidden && v->source.is_hidden(v->source.context, (int32_t)i))
            v->flags[i] |= VOCAB_HIDDEN;
    }
    v->eog = calloc(v->n_eog + 1, sizeof *v->eog);
    if (!v->eog)
        return false;
    v->n_eog = 0;
    for (size_t i = 0; i < n; i++)
        if (v->flags[i] & VOCAB_EOG)
            v->eog[v->n_eog++] = (int32_t)i;
    v->fallback = v->eog[0]; /* 0 where there is none */
    return true;
}

struct vocab *vocab_create(const struct vocab_source *source, struct error *err)
{
    struct vocab *v = calloc(1, sizeof *v);
    struct order *order = NULL;
    if (!v)
        goto memory;
    v->source = *source;
    v->n_tokens = source->n_tokens > 0 ? source->n_tokens : 0;
    v->eot = source->eot;
    v->eos = source->eos;
    v->suppressed = calloc(source->n_suppressed + 1, sizeof *v->suppressed);
    if (!v->suppressed || !copy_pieces(v))
        goto memory;
    for (size_t i = 0; i < source->n_suppressed; i++)
        v->suppressed[i] = source->suppressed[i];
    v->n_suppressed = source->n_suppressed;
    v->source.suppressed = NULL;

    order = malloc(((size_t)v->n_tokens + 1) * sizeof *order);
    if (!order)
        goto memory;
    size_t n = 0;
    for (int32_t i = 0; i < v->n_tokens; i++) {
        struct slice piece = v->pieces[i];
        /* A NUL is no character of any grammar, and an end of generation is
         * judged by whether the grammar is complete, not by its text. */
        if (piece.len == 0 || piece.len > PIECE_MAX || (v->flags[i] & VOCAB_EOG) ||
            memchr(piece.data, 0, piece.len))
            continue;
        order[n++] = (struct order){v, i};
    }
    qsort(order, n, sizeof *order, compare_pieces);
    if (!build_trie(v, order, n))
        goto memory;
    free(order);
    return v;
memory:
    free(order);
    vocab_free(v);
    error_memory(err);
    return NULL;
}

void vocab_free(struct vocab *v)
{
    if (!v)
        return;
    free(v->pieces);
    free(v->flags);
    free(v->bytes);
    free(v->suppressed);
    free(v->eog);
    free(v->nodes);
    free(v->trie_tokens);
    free(v);
}

bool vocab_encode(const struct vocab *v, struct slice text, bool parse_special,
                  struct token_vec *out)
{
    if (v->source.encode)
        return v->source.encode(v->source.context, text, parse_special, out);
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (slice_equal(v->pieces[i], text))
            return VEC_PUSH(out, i);
    return false;
}

bool vocab_text_alone(const struct vocab *v, int32_t token, struct str *out)
{
    if (v->source.text_alone)
        return v->source.text_alone(v->source.context, token, out);
    return str_append_slice(out, vocab_piece(v, token));
}
