/* vocab.h - the vocabulary as sampling sees it: pieces, flags, and the trie
 * that grammars are matched through. */
#ifndef MLXCEL_SAMPLE_VOCAB_H
#define MLXCEL_SAMPLE_VOCAB_H

#include "sample/sample.h"

enum vocab_flag {
    VOCAB_EOG = 1 << 0,    /* ends the generation */
    VOCAB_HIDDEN = 1 << 1, /* prints as nothing (control tokens) */
};

/* A node of the trie; nodes stand in depth-first order, so the subtree of node
 * i is i .. next - 1, and skipping it is one jump. */
struct trie_node {
    uint32_t next;        /* the first node that is not below this one */
    uint32_t first_token; /* its tokens in trie_tokens */
    uint32_t n_tokens;
    uint16_t depth; /* bytes from the root; the root is 0 */
    uint8_t byte;   /* the last of them */
};

struct vocab {
    int32_t n_tokens;
    int32_t eot, eos;
    int32_t fallback; /* the lowest end-of-generation token, or 0 */
    struct slice *pieces;
    uint8_t *flags;
    char *bytes;  /* what pieces point into */
    int32_t *eog; /* all that end the generation, ascending */
    size_t n_eog;
    int32_t *suppressed;
    size_t n_suppressed;
    struct vocab_source source;

    struct trie_node *nodes;
    uint32_t n_nodes;
    int32_t *trie_tokens; /* all tokens with a piece, in the order of the nodes */
    uint32_t n_in_trie;
};

static inline bool vocab_is_eog(const struct vocab *v, int32_t token)
{
    return token >= 0 && token < v->n_tokens && (v->flags[token] & VOCAB_EOG);
}

static inline struct slice vocab_piece(const struct vocab *v, int32_t token)
{
    return token >= 0 && token < v->n_tokens ? v->pieces[token] : (struct slice){"", 0};
}

/* Text to tokens; false when the source cannot or it fails. */
bool vocab_encode(const struct vocab *v, struct slice text, bool parse_special,
                  struct token_vec *out);

/* What the token reads as when a text consists of it alone, appended to out; its
 * piece where the source does not say. False when out of memory. */
bool vocab_text_alone(const struct vocab *v, int32_t token, struct str *out);

#endif
