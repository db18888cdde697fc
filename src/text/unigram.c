/* unigram.c - the unigram language model: of all ways to cut a text into
 * tokens the one with the greatest sum of scores (Viterbi).
 * Source: Kudo 2018, "Subword Regularization". */
#include "base/utf8.h"
#include "text/tokenizer.h"

#include <float.h>

/* How far below the worst token an unknown character scores. */
static const float unknown_penalty = 10.0f;

bool unigram_finish(struct tokenizer *tok, struct error *err)
{
    struct unigram *u = &tok->unigram;
    size_t n = 0, n_user = 0;
    struct trie_key *keys = calloc((size_t)tok->n_vocab + 1, sizeof *keys);
    struct trie_key *user = calloc((size_t)tok->n_vocab + 1, sizeof *user);
    if (!keys || !user) {
        free(keys);
        free(user);
        return error_memory(err);
    }
    float worst = FLT_MAX;
    for (int32_t i = 0; i < tok->n_vocab; i++) {
        const struct token *t = &tok->tokens[i];
        struct trie_key key = {tokenizer_text(tok, i), i};
        if ((t->attr & TOKEN_NORMAL) && t->score < worst)
            worst = t->score;
        if (t->attr & (TOKEN_NORMAL | TOKEN_USER_DEFINED | TOKEN_UNUSED))
            keys[n++] = key;
        if (t->attr & TOKEN_USER_DEFINED)
            user[n_user++] = key;
    }
    u->unk_score = (worst == FLT_MAX ? 0 : worst) - unknown_penalty;
    bool ok = trie_build(&u->trie, keys, n) && trie_build(&u->user_defined, user, n_user);
    free(keys);
    free(user);
    return ok || error_memory(err);
}

/* The best way to reach an offset: by this token from there. */
struct best {
    double score;
    int32_t id;
    uint32_t from;
};

static void offer(struct best *at, double score, int32_t id, size_t from)
{
    if (score > at->score)
        *at = (struct best){score, id, (uint32_t)from};
}

/* Characters that make a step of a budget. */
enum { CHARACTERS_PER_STEP = 16 };

static bool search(struct encoder *e, struct slice text, struct best *best)
{
    const struct tokenizer *tok = e->tok;
    size_t n_looked = 0;
    const struct unigram *u = &tok->unigram;
    for (size_t i = 0; i <= text.len; i++)
        best[i] = (struct best){i ? -DBL_MAX : 0, tok->special.unk, 0};
    for (size_t at = 0; at < text.len;) {
        if (++n_looked % CHARACTERS_PER_STEP == 0 && !budget_step(e->budget, 1, e->err))
            return false;
        uint32_t codepoint;
        size_t char_len = utf8_decode(text.data + at, text.len - at, &codepoint, NULL);
        bool found_char = false;
        int64_t node = 0;
        for (size_t end = at; end < text.len;) {
            node = trie_step(&u->trie, node, (unsigned char)text.data[end++]);
            if (node < 0)
                break;
            int32_t id = u->trie.nodes[node].value;
            if (id < 0)
                continue;
            found_char |= end - at == char_len;
            /* A token the user defined always wins against normal ones, whose
             * scores are logarithms of probabilities. */
            bool user = tok->tokens[id].attr & TOKEN_USER_DEFINED;
            double score = user && !tok->from_json ? 0.0 : (double)tok->tokens[id].score;
            offer(&best[end], best[at].score + score, id, at);
        }
        if (!found_char)
            offer(&best[at + char_len], best[at].score + (double)u->unk_score, tok->special.unk,
                  at);
        at += char_len;
    }
    return true;
}

/* A token of the best way. */
struct hop {
    int32_t id;
    uint32_t begin, len;
};

static bool emit_unknown(struct encoder *e, struct slice text)
{
    const struct tokenizer *tok = e->tok;
    if (tok->unigram.byte_tokens) {
        bool all = true;
        for (size_t i = 0; i < text.len; i++)
            all = all && tok->byte_ids[(unsigned char)text.data[i]] >= 0;
        for (size_t i = 0; all && i < text.len; i++)
            if (!emit(e, tok->byte_ids[(unsigned char)text.data[i]]))
                return false;
        if (all)
            return true;
    }
    return tok->special.unk < 0 || emit(e, tok->special.unk);
}

bool unigram_encode(struct encoder *e, struct slice text)
{
    const struct tokenizer *tok = e->tok;
    if (!text.len)
        return true;
    struct best *best = malloc((text.len + 1) * sizeof *best);
    if (!best)
        return error_memory(e->err);
    bool ok = search(e, text, best);
    /* The way back from the end, then read in the order of the text. */
    VEC(struct hop) hops = {0};
    for (size_t end = text.len; ok && end > 0; end = best[end].from) {
        uint32_t from = best[end].from;
        struct hop hop = {best[end].id, from, (uint32_t)end - from};
        ok = VEC_PUSH(&hops, hop) || error_memory(e->err);
    }
    for (size_t i = hops.n; ok && i > 0;) {
        struct hop hop = hops.data[--i];
        if (hop.id != tok->special.unk) {
            ok = emit(e, hop.id);
            continue;
        }
        while (tok->unigram.fuse_unk && i > 0 && hops.data[i - 1].id == hop.id)
            hop.len += hops.data[--i].len;
        ok = emit_unknown(e, (struct slice){text.data + hop.begin, hop.len});
    }
    VEC_FREE(&hops);
    free(best);
    return ok;
}

/* ---- Normalizing a GGUF file's text ---- */

/* How far text follows some token that the user defined: such text is left as
 * it is. */
static size_t follows_user_defined(const struct trie *trie, struct slice text)
{
    int64_t node = 0;
    size_t n = 0;
    while (n < text.len) {
        node = trie_step(trie, node, (unsigned char)text.data[n]);
        if (node < 0)
            break;
        n++;
    }
    return n;
}

bool unigram_normalize(const struct tokenizer *tok, struct slice text, size_t limit,
                       struct str *out)
{
    const struct unigram *u = &tok->unigram;
    struct slice map = str_slice(&u->charsmap), space = SLICE(METASPACE);
    bool prefix = tok->special.add_space_prefix, in_word = false, prefixed = false;
    while (text.len && out->len <= limit) {
        struct slice part = {text.data, follows_user_defined(&u->user_defined, text)};
        size_t consumed = part.len;
        if (!consumed)
            consumed = charsmap_match(map, text, &part);
        if (!consumed) {
            uint32_t codepoint;
            part.data = text.data;
            consumed = part.len = utf8_decode(text.data, text.len, &codepoint, NULL);
        }
        for (size_t i = 0; i < part.len; i++) {
            if (part.data[i] == ' ') {
                in_word = false;
                if (!u->merge_spaces)
                    str_append_slice(out, space);
                continue;
            }
            if (!in_word && ((prefix && !prefixed) || u->merge_spaces)) {
                str_append_slice(out, space);
                prefixed = true;
            }
            in_word = true;
            str_append_char(out, part.data[i]);
        }
        text = slice_from(text, consumed);
    }
    return !out->failed;
}
