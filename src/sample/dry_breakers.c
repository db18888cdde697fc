/* dry_breakers.c - texts that break repetitions, as the tokens they may come in.
 * Source: pi6am's rules for sequence breakers (LostRuins/koboldcpp pull request 982). */
#include "sample/dry_breakers.h"

#include <stdlib.h>

/* The breakers of a request by their first byte, and what is known about each. */
struct text {
    struct slice bytes;
    int32_t whole_in; /* the last token that holds it */
    /* What is left of it after its first i bytes, once some token ended there. */
    struct {
        uint32_t begin, n;
        bool known;
    } tails[DRY_BREAKER_BYTES_MAX + 1];
};

/* A text that begins at the end of a token. */
struct overlap {
    struct text *text;
    size_t n; /* bytes of it in the token */
};

struct reader {
    const struct vocab *vocab;
    struct budget *budget;
    struct error *err;
    struct dry_breakers *out;
    struct text *texts; /* n, sorted by their first byte */
    size_t n;
    size_t first[257]; /* the texts that begin with a byte: from first[byte] on */
    VEC(struct overlap) overlaps;
};

/* ---- texts ---- */

static int by_first_byte(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    return (unsigned char)x->bytes.data[0] - (unsigned char)y->bytes.data[0];
}

static bool take_texts(struct reader *r, const struct sampler_settings *set)
{
    r->texts = calloc(set->n_dry_sequence_breakers + 1, sizeof *r->texts);
    if (!r->texts)
        return error_memory(r->err);
    for (size_t i = 0; i < set->n_dry_sequence_breakers; i++) {
        struct slice bytes = set->dry_sequence_breakers[i];
        if (bytes.len > DRY_BREAKER_BYTES_MAX)
            bytes.len = DRY_BREAKER_BYTES_MAX;
        if (bytes.len)
            r->texts[r->n++] = (struct text){.bytes = bytes, .whole_in = -1};
    }
    qsort(r->texts, r->n, sizeof *r->texts, by_first_byte);
    size_t at = 0;
    for (size_t byte = 0; byte < 257; byte++) {
        while (at < r->n && (unsigned char)r->texts[at].bytes.data[0] < byte)
            at++;
        r->first[byte] = at;
    }
    return true;
}

/* ---- a token ---- */

static bool know_tail(struct reader *r, struct text *text, size_t n)
{
    struct token_vec tokens = {0};
    vocab_encode(r->vocab, slice_from(text->bytes, n), false, &tokens);
    size_t kept = tokens.n < DRY_TAIL_MAX ? tokens.n : DRY_TAIL_MAX;
    text->tails[n].begin = (uint32_t)r->out->tails.n;
    text->tails[n].n = (uint32_t)kept;
    text->tails[n].known = true;
    bool ok = true;
    for (size_t i = 0; ok && i < kept; i++)
        ok = VEC_PUSH(&r->out->tails, tokens.data[i]);
    VEC_FREE(&tokens);
    return ok || error_memory(r->err);
}

static bool add_breaker(struct reader *r, int32_t head, struct overlap overlap)
{
    struct dry_breakers *out = r->out;
    struct text *text = overlap.text;
    if (!text->tails[overlap.n].known && !know_tail(r, text, overlap.n))
        return false;
    if (text->tails[overlap.n].n == 0) { /* nothing is left to follow */
        out->alone[head / 64] |= (uint64_t)1 << head % 64;
        return true;
    }
    if (out->n == DRY_BREAKER_HEADS_MAX)
        return error_set(r->err, ERR_LIMIT,
                         "dry_sequence_breakers: more than %d tokens begin one of them; name "
                         "fewer",
                         DRY_BREAKER_HEADS_MAX);
    if (!vec_reserve((void **)&out->list, &out->capacity, out->n, 1, sizeof *out->list))
        return error_memory(r->err);
    out->list[out->n++] =
        (struct breaker){head, text->tails[overlap.n].begin, text->tails[overlap.n].n};
    return true;
}

/* Compare the texts that begin with the byte at this place of a token. */
static bool look_at(struct reader *r, int32_t token, struct slice piece, size_t at)
{
    size_t byte = (unsigned char)piece.data[at];
    for (size_t i = r->first[byte]; i < r->first[byte + 1]; i++) {
        struct text *text = &r->texts[i];
        size_t left = piece.len - at, n = left < text->bytes.len ? left : text->bytes.len;
        if (memcmp(piece.data + at, text->bytes.data, n) != 0)
            continue;
        if (n == text->bytes.len) {
            text->whole_in = token;
            r->out->alone[token / 64] |= (uint64_t)1 << token % 64;
            continue;
        }
        if (!VEC_PUSH(&r->overlaps, (struct overlap){text, n}))
            return error_memory(r->err);
    }
    return budget_step(r->budget, 1 + r->first[byte + 1] - r->first[byte], r->err);
}

static bool read_token(struct reader *r, int32_t token, struct slice piece)
{
    bool ok = true;
    r->overlaps.n = 0;
    for (size_t at = 0; ok && at < piece.len; at++)
        ok = look_at(r, token, piece, at);
    for (size_t i = 0; ok && i < r->overlaps.n; i++)
        if (r->overlaps.data[i].text->whole_in != token)
            ok = add_breaker(r, token, r->overlaps.data[i]);
    return ok;
}

static bool read_tokens(struct reader *r)
{
    struct str piece = {0};
    bool ok = true;
    for (int32_t token = 0; ok && token < r->vocab->n_tokens; token++) {
        str_clear(&piece);
        ok = vocab_text_alone(r->vocab, token, &piece) ? read_token(r, token, str_slice(&piece))
                                                       : error_memory(r->err);
    }
    str_free(&piece);
    return ok;
}

/* ---- all ---- */

static int by_head(const void *a, const void *b)
{
    const struct breaker *x = a, *y = b;
    return (x->head > y->head) - (x->head < y->head);
}

struct dry_breakers *dry_breakers_create(const struct vocab *vocab,
                                         const struct sampler_settings *set, struct error *err)
{
    struct dry_breakers *b = calloc(1, sizeof *b);
    struct reader r = {.vocab = vocab, .budget = set->budget, .err = err, .out = b};
    if (b) {
        atomic_init(&b->references, 1);
        b->n_tokens = vocab->n_tokens;
        b->alone = calloc((size_t)vocab->n_tokens / 64 + 1, sizeof *b->alone);
    }
    bool ok = b && b->alone ? take_texts(&r, set) && read_tokens(&r) : error_memory(err);
    free(r.texts);
    VEC_FREE(&r.overlaps);
    if (!ok) {
        dry_breakers_drop(b);
        return NULL;
    }
    if (b->n > 1)
        qsort(b->list, b->n, sizeof *b->list, by_head);
    return b;
}

struct dry_breakers *dry_breakers_hold(struct dry_breakers *b)
{
    atomic_fetch_add(&b->references, 1);
    return b;
}

void dry_breakers_drop(struct dry_breakers *b)
{
    if (!b || atomic_fetch_sub(&b->references, 1) != 1)
        return;
    free(b->alone);
    free(b->list);
    VEC_FREE(&b->tails);
    free(b);
}

/* The first of a head's breakers. */
static size_t first_of(const struct dry_breakers *b, int32_t head)
{
    size_t low = 0, high = b->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->list[middle].head < head)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t dry_breaker_at(const struct dry_breakers *b, const struct window *window, size_t i)
{
    int32_t head = window_at(window, i), longest = dry_breaks_alone(b, head) ? 0 : -1;
    for (size_t k = first_of(b, head); k < b->n && b->list[k].head == head; k++) {
        const int32_t *tail = b->tails.data + b->list[k].tail;
        size_t n = b->list[k].n_tail, same = 0;
        if ((int64_t)n <= longest || n > i)
            continue;
        while (same < n && tail[same] == window_at(window, i - same - 1))
            same++;
        if (same == n)
            longest = (int32_t)n;
    }
    return longest;
}
