/* bpe.c - byte-pair encoding with ranked merges.
 *
 * Merges are kept as pairs of numbers: a text that is no token (a merge list
 * may speak of such) gets a number past the vocabulary. */
#include "base/utf8.h"
#include "text/tokenizer.h"

#define FREE_PAIR UINT64_MAX

static size_t slot_of(const struct bpe *bpe, uint64_t pair)
{
    size_t mask = bpe->n_slots - 1;
    uint64_t h = pair * 0x9E3779B97F4A7C15u;
    size_t at = (size_t)(h ^ h >> 32) & mask;
    while (bpe->merges[at].pair != pair && bpe->merges[at].pair != FREE_PAIR)
        at = (at + 1) & mask;
    return at;
}

static bool grow(struct bpe *bpe)
{
    struct bpe old = *bpe;
    size_t n = old.n_slots ? old.n_slots * 2 : 1024;
    bpe->merges = malloc(n * sizeof *bpe->merges);
    if (!bpe->merges) {
        bpe->merges = old.merges;
        return false;
    }
    bpe->n_slots = n;
    for (size_t i = 0; i < n; i++)
        bpe->merges[i].pair = FREE_PAIR;
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.merges[i].pair != FREE_PAIR)
            bpe->merges[slot_of(bpe, old.merges[i].pair)] = old.merges[i];
    free(old.merges);
    return true;
}

bool bpe_add_merge(struct tokenizer *tok, struct slice left, struct slice right, struct error *err)
{
    struct bpe *bpe = &tok->bpe;
    if (bpe->n_merges >= INT32_MAX / 4)
        return error_set(err, ERR_LIMIT, "the tokenizer has too many merges");
    int32_t l = text_table_intern(&tok->table, left);
    int32_t r = text_table_intern(&tok->table, right);
    struct str *joined = &bpe->joined;
    str_clear(joined);
    str_append_slice(joined, left);
    /* "hug" and "##ging" make "hugging". */
    bool inner = bpe->inner_prefix.len && slice_starts_with(right, str_slice(&bpe->inner_prefix));
    str_append_slice(joined, slice_from(right, inner ? bpe->inner_prefix.len : 0));
    int32_t id = joined->failed ? -1 : text_table_intern(&tok->table, str_slice(joined));
    if (l < 0 || r < 0 || id < 0 || (bpe->n_merges * 2 >= bpe->n_slots && !grow(bpe)))
        return error_memory(err);
    uint64_t pair = (uint64_t)(uint32_t)l << 32 | (uint32_t)r;
    struct bpe_merge *slot = &bpe->merges[slot_of(bpe, pair)];
    if (slot->pair == FREE_PAIR)
        *slot = (struct bpe_merge){pair, (uint32_t)bpe->n_merges, id};
    bpe->n_merges++;
    return true;
}

bool bpe_finish(struct tokenizer *tok, struct error *err)
{
    struct bpe *bpe = &tok->bpe;
    str_free(&bpe->joined);
    if (!bpe->n_slots && !grow(bpe))
        return error_memory(err);
    for (uint32_t c = 0; c < sizeof bpe->chars / sizeof *bpe->chars; c++) {
        char text[4];
        bpe->chars[c] = text_table_find(&tok->table, (struct slice){text, utf8_encode(c, text)});
    }
    return true;
}

static bool rule(const void *model, size_t begin, const struct symbol *left,
                 const struct symbol *right, uint32_t *priority, int32_t *id)
{
    const struct bpe *bpe = model;
    (void)begin;
    if (left->id < 0 || right->id < 0)
        return false;
    uint64_t pair = (uint64_t)(uint32_t)left->id << 32 | (uint32_t)right->id;
    const struct bpe_merge *slot = &bpe->merges[slot_of(bpe, pair)];
    if (slot->pair == FREE_PAIR)
        return false;
    *priority = slot->rank;
    *id = slot->id;
    return true;
}

/* The number of a character with what CLIP and its kind write around it. */
static int32_t decorated(struct encoder *e, struct slice c, bool first, bool last)
{
    const struct bpe *bpe = &e->tok->bpe;
    str_clear(&e->other);
    if (!first)
        str_append_slice(&e->other, str_slice(&bpe->inner_prefix));
    str_append_slice(&e->other, c);
    if (last)
        str_append_slice(&e->other, str_slice(&bpe->word_suffix));
    return text_table_find(&e->tok->table, str_slice(&e->other));
}

static bool split_characters(struct encoder *e, struct slice piece)
{
    const struct bpe *bpe = &e->tok->bpe;
    bool plain = !bpe->word_suffix.len && !bpe->inner_prefix.len;
    e->merge.symbols.n = 0;
    for (size_t at = 0; at < piece.len;) {
        uint32_t codepoint;
        size_t len = utf8_decode(piece.data + at, piece.len - at, &codepoint, NULL);
        struct slice c = {piece.data + at, len};
        int32_t id;
        if (!plain)
            id = decorated(e, c, at == 0, at + len == piece.len);
        else if (codepoint < sizeof bpe->chars / sizeof *bpe->chars)
            id = bpe->chars[codepoint];
        else
            id = text_table_find(&e->tok->table, c);
        if (!merge_add(&e->merge, id, len))
            return error_memory(e->err);
        at += len;
    }
    return true;
}

/* A symbol that is no token: its bytes as tokens, or unk, or nothing. *in_unk
 * says that unk came last. */
static bool emit_unknown(struct encoder *e, struct slice text, bool *in_unk)
{
    const struct tokenizer *tok = e->tok;
    bool all = true;
    for (size_t i = 0; i < text.len && all && tok->from_json; i++)
        all = tok->bpe.byte_tokens && tok->byte_ids[(unsigned char)text.data[i]] >= 0;
    if (tok->from_json && !all) {
        bool fused = *in_unk && tok->bpe.fuse_unk;
        *in_unk = tok->bpe.use_unk && tok->special.unk >= 0;
        return fused || !*in_unk || emit(e, tok->special.unk);
    }
    *in_unk = false;
    for (size_t i = 0; i < text.len; i++) {
        int32_t id = tok->byte_ids[(unsigned char)text.data[i]];
        if (id >= 0 && !emit(e, id))
            return false;
    }
    return true;
}

static bool is_newlines(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] != '\n')
            return false;
    return true;
}

bool bpe_encode(struct encoder *e, struct slice piece)
{
    const struct tokenizer *tok = e->tok;
    if (tok->bpe.ignore_merges || (tok->bpe.newline_runs && is_newlines(piece))) {
        int32_t id = text_find(tok, piece);
        if (id >= 0)
            return emit(e, id);
    }
    if (!split_characters(e, piece))
        return false;
    if (!merge_run(&e->merge, rule, &tok->bpe, e->budget, e->err))
        return false;
    bool in_unk = false;
    const struct symbol *symbols = e->merge.symbols.data;
    for (size_t i = 0; i < piece.len; i += symbols[i].len) {
        bool known = symbols[i].id >= 0 && symbols[i].id < tok->n_vocab;
        struct slice text = {piece.data + i, symbols[i].len};
        if (known ? !emit(e, symbols[i].id) : !emit_unknown(e, text, &in_unk))
            return false;
        if (known)
            in_unk = false;
    }
    return true;
}
