/* partition.c - cutting a text at its special tokens.
 *
 * GGUF vocabularies: the longest token is sought in the whole text first, then
 * the next longest in what is left, and so on. tokenizer.json: from left to
 * right, the longest that begins there. Either way each start is looked at
 * once per token it loses to, not once per token of the vocabulary. */
#include "base/utf8.h"
#include "text/tokenizer.h"

#include <utf8proc.h>

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- Seeking at one place ---- */

/* What is sought. */
struct sought {
    const struct tokenizer *tok;
    const struct trie *all, *always; /* with control tokens; without */
    const struct ranges *plain;      /* where the control tokens are not read */
};

/* The longest token of at most limit bytes that is read at a place, or -1. */
static int32_t longest_at(const struct sought *s, struct slice text, size_t at, size_t limit,
                          size_t *len)
{
    struct slice rest = slice_from(text, at);
    int32_t id = trie_longest(s->all, rest, limit, len);
    if (id < 0 || !s->plain->n || s->all == s->always)
        return id;
    size_t next = ranges_seek(s->plain, at);
    if (next == s->plain->n || s->plain->data[next].begin >= at + *len)
        return id;
    size_t begin = s->plain->data[next].begin, gap = begin > at ? begin - at : 0, other_len = 0;
    int32_t other = trie_longest(s->always, rest, limit, &other_len);
    id = trie_longest(s->all, rest, gap < limit ? gap : limit, len);
    if (id >= 0 && (other < 0 || *len >= other_len))
        return id;
    *len = other_len;
    return other;
}

/* ---- The longest first ---- */

/* A token found at a place, waiting for its turn. */
struct found {
    uint32_t at;
    uint32_t len;
    int32_t id;
};

struct turn {
    VEC(struct found) waiting; /* a heap: the longest first, then the leftmost */
    VEC(struct found) taken;
    unsigned char *gone; /* per byte: in a token, or stripped by one */
};

static bool goes_before(struct found a, struct found b)
{
    return a.len != b.len ? a.len > b.len : a.at < b.at;
}

static bool wait(struct turn *t, struct found f)
{
    if (!VEC_RESERVE(&t->waiting, 1))
        return false;
    size_t i = t->waiting.n++;
    struct found *heap = t->waiting.data;
    for (; i > 0 && goes_before(f, heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = f;
    return true;
}

static struct found next(struct turn *t)
{
    struct found *heap = t->waiting.data, top = heap[0], last = heap[--t->waiting.n];
    size_t n = t->waiting.n, i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && goes_before(heap[child + 1], heap[child]))
            child++;
        if (!goes_before(heap[child], last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    if (n)
        heap[i] = last;
    return top;
}

static void take(struct turn *t, const struct tokenizer *tok, struct slice text, struct found f)
{
    unsigned attr = tok->tokens[f.id].attr;
    memset(t->gone + f.at, 1, f.len);
    if (attr & TOKEN_LSTRIP)
        for (size_t i = f.at; i > 0 && !t->gone[i - 1] && is_space(text.data[i - 1]); i--)
            t->gone[i - 1] = 1;
    if (attr & TOKEN_RSTRIP)
        for (size_t i = f.at + f.len; i < text.len && !t->gone[i] && is_space(text.data[i]); i++)
            t->gone[i] = 1;
}

static int by_place(const void *a, const void *b)
{
    uint32_t x = ((const struct found *)a)->at, y = ((const struct found *)b)->at;
    return (x > y) - (x < y);
}

static bool longest_first(const struct sought *s, struct slice text, struct turn *t)
{
    t->gone = calloc(text.len + 1, 1);
    if (!t->gone)
        return false;
    for (size_t at = 0; at < text.len; at++) {
        size_t len = 0;
        int32_t id = longest_at(s, text, at, SIZE_MAX, &len);
        if (id >= 0 && !wait(t, (struct found){(uint32_t)at, (uint32_t)len, id}))
            return false;
    }
    while (t->waiting.n) {
        struct found f = next(t);
        if (t->gone[f.at])
            continue;
        /* What was taken so far is at least as long as this token, so it shows
         * at one of its ends. */
        if (!t->gone[f.at + f.len - 1]) {
            take(t, s->tok, text, f);
            if (!VEC_PUSH(&t->taken, f))
                return false;
            continue;
        }
        size_t len = 0;
        f.id = longest_at(s, text, f.at, f.len - 1, &len);
        f.len = (uint32_t)len;
        if (f.id >= 0 && !wait(t, f))
            return false;
    }
    if (t->taken.n)
        qsort(t->taken.data, t->taken.n, sizeof *t->taken.data, by_place);
    return true;
}

/* ---- From left to right ---- */

static bool is_word_char(const char *text, size_t len)
{
    uint32_t codepoint;
    utf8_decode(text, len, &codepoint, NULL);
    switch (utf8proc_category((utf8proc_int32_t)codepoint)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}

static bool stands_alone(struct slice text, size_t begin, size_t end)
{
    if (end < text.len && is_word_char(text.data + end, text.len - end))
        return false;
    size_t before = begin;
    while (before > 0 && ((unsigned char)text.data[before - 1] & 0xC0) == 0x80)
        before--;
    return begin == 0 || !is_word_char(text.data + before - 1, begin - before + 1);
}

static size_t strip_forward(struct slice text, size_t at)
{
    while (at < text.len) {
        uint32_t codepoint;
        size_t len = utf8_decode(text.data + at, text.len - at, &codepoint, NULL);
        if (!codepoint_is_space(codepoint))
            break;
        at += len;
    }
    return at;
}

static size_t strip_backward(struct slice text, size_t from, size_t at)
{
    while (at > from) {
        size_t before = at - 1;
        while (before > from && ((unsigned char)text.data[before] & 0xC0) == 0x80)
            before--;
        uint32_t codepoint;
        utf8_decode(text.data + before, at - before, &codepoint, NULL);
        if (!codepoint_is_space(codepoint))
            break;
        at = before;
    }
    return at;
}

static bool push(struct fragments *out, int32_t id, size_t begin, size_t end)
{
    return (id < 0 && begin == end) || VEC_PUSH(out, (struct fragment){id, begin, end});
}

static bool left_to_right(const struct sought *s, struct slice text, struct fragments *out)
{
    size_t done = 0;
    for (size_t at = 0; at < text.len;) {
        size_t len = 0;
        int32_t id = longest_at(s, text, at, SIZE_MAX, &len);
        unsigned attr = id < 0 ? 0 : s->tok->tokens[id].attr;
        if (id < 0 || ((attr & TOKEN_SINGLE_WORD) && !stands_alone(text, at, at + len))) {
            at++;
            continue;
        }
        size_t begin = attr & TOKEN_LSTRIP ? strip_backward(text, done, at) : at;
        at += len;
        if (attr & TOKEN_RSTRIP)
            at = strip_forward(text, at);
        if (!push(out, -1, done, begin) || !push(out, id, begin, at))
            return false;
        done = at;
    }
    return push(out, -1, done, text.len);
}

/* ---- Both ---- */

bool partition_run(const struct tokenizer *tok, struct slice text, bool parse_special,
                   bool normalized, const struct ranges *plain, struct fragments *out,
                   struct error *err)
{
    const struct partition *p = &tok->partition;
    struct sought sought = {tok, &p->with_special, &p->always, plain};
    if (normalized) {
        sought.all = &p->normalized_special;
        sought.always = &p->normalized_always;
    }
    if (!parse_special)
        sought.all = sought.always;
    out->n = 0;
    if (p->leftmost)
        return left_to_right(&sought, text, out) || error_memory(err);
    struct turn turn = {0};
    bool ok = longest_first(&sought, text, &turn);
    size_t done = 0;
    for (size_t i = 0; ok && i <= turn.taken.n; i++) {
        bool last = i == turn.taken.n;
        struct found f = last ? (struct found){(uint32_t)text.len, 0, -1} : turn.taken.data[i];
        size_t begin = done, end = f.at;
        while (begin < end && turn.gone[begin])
            begin++;
        while (end > begin && turn.gone[end - 1])
            end--;
        ok = push(out, -1, begin, end) && (last || push(out, f.id, f.at, f.at + f.len));
        done = (size_t)f.at + f.len;
    }
    VEC_FREE(&turn.waiting);
    VEC_FREE(&turn.taken);
    free(turn.gone);
    return ok || error_memory(err);
}

/* Whether a token is sought in text. */
static bool is_sought(const struct tokenizer *tok, unsigned attr, bool parse_special,
                      bool normalized)
{
    bool control = attr & (TOKEN_CONTROL | TOKEN_UNKNOWN);
    if (tok->from_json) {
        bool in_round = normalized == ((attr & TOKEN_NORMALIZED) != 0);
        return (attr & TOKEN_ADDED) && in_round && (parse_special || !control);
    }
    return parse_special ? control || (attr & TOKEN_USER_DEFINED)
                         : !control && (attr & TOKEN_USER_DEFINED);
}

/* The keys under which tokens are sought, one after the other in texts: for the
 * round over normalized text their own normal forms. texts still moves, so the
 * keys get their place only when all are there. */
static bool collect(struct tokenizer *tok, bool parse_special, bool normalized, struct str *texts,
                    struct trie_key *keys, size_t *n, struct error *err)
{
    struct str text = {0}, other = {0};
    struct pattern_scratch scratch = {0};
    size_t room = text_room(tok->table.bytes.len);
    bool ok = true;
    *n = 0;
    for (int32_t i = 0; ok && i < tok->n_vocab; i++) {
        if (!is_sought(tok, tok->tokens[i].attr, parse_special, normalized))
            continue;
        str_clear(&text);
        ok = str_append_slice(&text, tokenizer_text(tok, i)) || error_memory(err);
        if (ok && normalized)
            ok = normalizer_run(&tok->normalizer, room, &text, &other, &scratch, err);
        room -= ok && text.len < room ? text.len : 0;
        ok = ok && (str_append_slice(texts, str_slice(&text)) || error_memory(err));
        keys[(*n)++] = (struct trie_key){{NULL, text.len}, i};
    }
    str_free(&text);
    str_free(&other);
    pattern_scratch_free(&scratch);
    return ok;
}

static bool build(struct tokenizer *tok, struct trie *trie, bool parse_special, bool normalized,
                  struct error *err)
{
    struct trie_key *keys = calloc((size_t)tok->n_vocab + 1, sizeof *keys);
    struct str texts = {0};
    size_t n = 0, at = 0;
    bool ok =
        keys ? collect(tok, parse_special, normalized, &texts, keys, &n, err) : error_memory(err);
    for (size_t i = 0; ok && i < n; i++) {
        keys[i].text.data = str_text(&texts) + at;
        at += keys[i].text.len;
    }
    if (ok && !trie_build(trie, keys, n))
        ok = error_memory(err);
    free(keys);
    str_free(&texts);
    return ok;
}

bool partition_build(struct tokenizer *tok, struct error *err)
{
    struct partition *p = &tok->partition;
    for (int32_t i = 0; i < tok->n_vocab; i++) {
        unsigned attr = tok->tokens[i].attr;
        if (is_sought(tok, attr, true, true) && !is_sought(tok, attr, false, true))
            p->normalizes_control = true;
    }
    return build(tok, &p->always, false, false, err) &&
           build(tok, &p->with_special, true, false, err) &&
           (!tok->from_json || (build(tok, &p->normalized_always, false, true, err) &&
                                build(tok, &p->normalized_special, true, true, err)));
}

void partition_free(struct partition *p)
{
    trie_free(&p->always);
    trie_free(&p->with_special);
    trie_free(&p->normalized_always);
    trie_free(&p->normalized_special);
}
