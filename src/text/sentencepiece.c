/* sentencepiece.c - SentencePiece BPE: the neighbours that make the token with
 * the best score are joined first. */
#include "base/utf8.h"
#include "text/tokenizer.h"

struct context {
    const struct tokenizer *tok;
    const char *text;
};

/* Scores in the order of their descent, as the unsigned numbers a heap
 * compares. */
static uint32_t descending(float score)
{
    float value = score + 0.0f; /* -0 and 0 are one */
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

static bool rule(const void *model, size_t begin, const struct symbol *left,
                 const struct symbol *right, uint32_t *priority, int32_t *id)
{
    const struct context *c = model;
    size_t len = (size_t)left->len + right->len;
    if (len > c->tok->max_token_len)
        return false;
    *id = text_find(c->tok, (struct slice){c->text + begin, len});
    if (*id < 0)
        return false;
    *priority = descending(c->tok->tokens[*id].score);
    return true;
}

bool sentencepiece_encode(struct encoder *e, struct slice piece)
{
    const struct tokenizer *tok = e->tok;
    e->merge.symbols.n = 0;
    for (size_t at = 0; at < piece.len;) {
        uint32_t codepoint;
        size_t len = utf8_decode(piece.data + at, piece.len - at, &codepoint, NULL);
        if (!merge_add(&e->merge, -1, len))
            return error_memory(e->err);
        at += len;
    }
    struct context context = {tok, piece.data};
    if (!merge_run(&e->merge, rule, &context, e->budget, e->err))
        return false;
    const struct symbol *symbols = e->merge.symbols.data;
    for (size_t i = 0; i < piece.len; i += symbols[i].len) {
        struct slice text = {piece.data + i, symbols[i].len};
        int32_t id = symbols[i].id >= 0 ? symbols[i].id : text_find(tok, text);
        if (id >= 0) {
            if (!emit(e, id))
                return false;
            continue;
        }
        for (size_t k = 0; k < text.len; k++) {
            id = tok->byte_ids[(unsigned char)text.data[k]];
            if (id < 0)
                id = tok->special.unk;
            if (id >= 0 && !emit(e, id))
                return false;
        }
    }
    return true;
}
