/* plamo2.c - PLaMo 2's tokenizer: of all ways to cut a text into tokens the
 * one that costs least, found from the end of the text; what no token covers
 * is written byte by byte, at a high price. */
#include "base/utf8.h"
#include "text/tokenizer.h"

#include <math.h>

/* Costs are ten-thousandths of a score, negated; a token that would cost this
 * much is never used. */
enum { COST_SCALE = 10000, COST_UNKNOWN = 10000000, COST_INVALID = 20000000 };

bool plamo2_finish(struct tokenizer *tok, struct error *err)
{
    for (int byte = 0; byte < 256; byte++)
        if (tok->byte_ids[byte] < 0)
            return error_set(err, ERR_FORMAT, "the vocabulary has no token for the byte 0x%02X",
                             (unsigned)byte);
    struct trie_key *keys = calloc((size_t)tok->n_vocab + 1, sizeof *keys);
    if (!keys)
        return error_memory(err);
    size_t n = 0;
    for (int32_t i = 0; i < tok->n_vocab; i++)
        if (!(tok->tokens[i].attr & TOKEN_BYTE) && isfinite(tok->tokens[i].score) &&
            tok->tokens[i].score > -(float)COST_INVALID / COST_SCALE)
            keys[n++] = (struct trie_key){tokenizer_text(tok, i), i};
    bool ok = trie_build(&tok->trie, keys, n);
    free(keys);
    return ok || error_memory(err);
}

/* The cheapest way from an offset to the end: by this token, or -1 for the
 * bytes of one character. */
struct way {
    int64_t cost;
    int32_t id;
    uint32_t len;
};

static struct way cheapest(const struct tokenizer *tok, struct slice text, const struct way *ways,
                           size_t at, size_t char_len)
{
    struct way best = {ways[at + char_len].cost + COST_UNKNOWN, -1, (uint32_t)char_len};
    int64_t node = 0;
    for (size_t end = at; end < text.len;) {
        node = trie_step(&tok->trie, node, (unsigned char)text.data[end++]);
        if (node < 0)
            break;
        int32_t id = tok->trie.nodes[node].value;
        if (id < 0)
            continue;
        int64_t cost = ways[end].cost - llround((double)tok->tokens[id].score * COST_SCALE);
        /* The longest of equals. */
        if (cost <= best.cost)
            best = (struct way){cost, id, (uint32_t)(end - at)};
    }
    return best;
}

bool plamo2_encode(struct encoder *e, struct slice text)
{
    const struct tokenizer *tok = e->tok;
    if (slice_starts_with(text, SLICE("\xEF\xBB\xBF")))
        text = slice_from(text, 3);
    struct way *ways = malloc((text.len + 1) * sizeof *ways);
    if (!ways)
        return error_memory(e->err);
    ways[text.len] = (struct way){0, -1, 0};
    for (size_t end = text.len; end > 0;) {
        size_t at = end - 1;
        while (at > 0 && ((unsigned char)text.data[at] & 0xC0) == 0x80)
            at--;
        ways[at] = cheapest(tok, text, ways, at, end - at);
        end = at;
    }
    bool ok = true;
    for (size_t at = 0; ok && at < text.len; at += ways[at].len) {
        if (ways[at].id >= 0)
            ok = emit(e, ways[at].id);
        for (size_t i = 0; ok && ways[at].id < 0 && i < ways[at].len; i++)
            ok = emit(e, tok->byte_ids[(unsigned char)text.data[at + i]]);
    }
    free(ways);
    return ok;
}
