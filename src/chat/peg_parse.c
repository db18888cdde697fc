/* peg_parse.c - reading text with a parser.
 *
 * No memory of earlier tries is kept: the parsers of this room decide by what
 * stands next, so little is read twice. The depth is bounded, so that no text
 * can use up the stack, and so are the pieces tried: a text that makes a parser
 * begin again and again fits none. */
#include "chat/peg_internal.h"

#include "base/utf8.h"

#include <stdlib.h>

enum { PEG_DEPTH = 2000 };

struct reader {
    const struct peg *g;
    struct slice text;
    bool whole, ended;
    struct arena *arena;
    uint32_t depth;
    uint64_t steps; /* pieces that may still be tried */
};

static struct peg_result read_piece(struct reader *r, peg_id id, size_t at);

static struct peg_result result(enum peg_result_kind kind, size_t begin, size_t end)
{
    return (struct peg_result){.kind = kind, .begin = begin, .end = end};
}

/* What the end of the text in the middle of a piece means. */
static struct peg_result cut_short(const struct reader *r, size_t begin, size_t end)
{
    return result(r->ended ? PEG_FAILED : PEG_MORE, begin, end);
}

static void join(struct peg_result *into, const struct peg_result *more)
{
    if (!more->first)
        return;
    if (into->last)
        into->last->next = more->first;
    else
        into->first = more->first;
    into->last = more->last;
}

/* The length of the character at at; 0 when it is not complete yet. Bytes that
 * are no UTF-8 count as characters. */
static size_t character(const struct reader *r, size_t at, uint32_t *codepoint)
{
    bool valid = true;
    struct slice rest = slice_from(r->text, at);
    size_t n = utf8_decode(rest.data, rest.len, codepoint, &valid);
    if (!valid && !r->whole && utf8_incomplete_tail(rest) == rest.len)
        return 0;
    return n;
}

static struct peg_result read_literal(const struct reader *r, const struct peg_piece *p, size_t at)
{
    struct slice rest = slice_from(r->text, at);
    size_t n = rest.len < p->text.len ? rest.len : p->text.len;
    if (n && memcmp(rest.data, p->text.data, n) != 0)
        return result(PEG_FAILED, at, at);
    return n == p->text.len ? result(PEG_MATCHED, at, at + n) : cut_short(r, at, at + n);
}

static struct peg_result read_sequence(struct reader *r, const struct peg_piece *p, size_t at)
{
    struct peg_result all = result(PEG_MATCHED, at, at);
    for (size_t i = 0; i < p->n_children; i++) {
        struct peg_result one = read_piece(r, p->children[i], all.end);
        if (one.kind == PEG_FAILED)
            return result(PEG_FAILED, at, one.end);
        join(&all, &one);
        all.end = one.end;
        if (one.kind == PEG_MORE) {
            all.kind = PEG_MORE;
            break;
        }
    }
    return all;
}

static struct peg_result read_choice(struct reader *r, const struct peg_piece *p, size_t at)
{
    for (size_t i = 0; i < p->n_children; i++) {
        struct peg_result one = read_piece(r, p->children[i], at);
        if (one.kind != PEG_FAILED)
            return one;
    }
    return result(PEG_FAILED, at, at);
}

static struct peg_result read_repeat(struct reader *r, const struct peg_piece *p, size_t at)
{
    struct peg_result all = result(PEG_MATCHED, at, at);
    int count = 0;
    while ((p->most < 0 || count < p->most) && all.end < r->text.len) {
        struct peg_result one = read_piece(r, p->child, all.end);
        if (one.kind == PEG_FAILED || (one.kind == PEG_MATCHED && one.end == all.end))
            break;
        join(&all, &one);
        all.end = one.end;
        if (one.kind == PEG_MORE) {
            all.kind = PEG_MORE;
            return all;
        }
        count++;
    }
    if (count < p->least) {
        if (all.end < r->text.len || r->ended)
            return result(PEG_FAILED, at, all.end);
        all.kind = PEG_MORE;
    }
    return all;
}

static bool in_class(const struct peg_piece *p, uint32_t c)
{
    for (size_t i = 0; i < p->n_ranges; i++)
        if (c >= p->ranges[i].low && c <= p->ranges[i].high)
            return !p->negated;
    return p->negated;
}

static struct peg_result read_chars(const struct reader *r, const struct peg_piece *p, size_t at)
{
    size_t end = at;
    int count = 0;
    while ((p->most < 0 || count < p->most) && end < r->text.len) {
        uint32_t c;
        size_t n = character(r, end, &c);
        if (n == 0)
            return count >= p->least ? result(PEG_MATCHED, at, end) : cut_short(r, at, end);
        if (!in_class(p, c))
            break;
        end += n;
        count++;
    }
    if (count >= p->least)
        return result(PEG_MATCHED, at, end);
    return end >= r->text.len ? cut_short(r, at, end) : result(PEG_FAILED, at, end);
}

/* An escape at at (on the backslash): its length, 0 when cut short, -1 when
 * there is none such. */
static int escape_length(const struct reader *r, size_t at, char delimiter)
{
    struct slice rest = slice_from(r->text, at);
    if (rest.len < 2)
        return 0;
    char c = rest.data[1];
    if (c == delimiter || strchr("\\/bfnrt", c))
        return 2;
    if (c != 'u')
        return -1;
    for (size_t i = 2; i < 6; i++) {
        if (i >= rest.len)
            return 0;
        if (!strchr("0123456789abcdefABCDEF", rest.data[i]))
            return -1;
    }
    return 6;
}

static struct peg_result read_string(const struct reader *r, const struct peg_piece *p, size_t at)
{
    size_t end = at;
    while (end < r->text.len) {
        char c = r->text.data[end];
        if (c == p->delimiter)
            return result(PEG_MATCHED, at, end);
        uint32_t codepoint;
        int n =
            c == '\\' ? escape_length(r, end, p->delimiter) : (int)character(r, end, &codepoint);
        if (n < 0)
            return result(PEG_FAILED, at, at);
        if (n == 0)
            break;
        end += (size_t)n;
    }
    return cut_short(r, at, end);
}

/* Does one of the texts stand at at, or begin there where the text ends? */
static bool stops(const struct reader *r, const struct peg_piece *p, size_t at)
{
    struct slice rest = slice_from(r->text, at);
    for (size_t i = 0; i < p->n_texts; i++) {
        size_t n = p->texts[i].len < rest.len ? p->texts[i].len : rest.len;
        if (memcmp(p->texts[i].data, rest.data, n) == 0)
            return true;
    }
    return false;
}

static struct peg_result read_until(const struct reader *r, const struct peg_piece *p, size_t at)
{
    size_t end = at;
    while (end < r->text.len) {
        unsigned char c = (unsigned char)r->text.data[end];
        if (p->firsts[c] && stops(r, p, end))
            return result(PEG_MATCHED, at, end);
        uint32_t codepoint;
        size_t n = c < 0x80 ? 1 : character(r, end, &codepoint);
        if (n == 0)
            return cut_short(r, at, end);
        end += n;
    }
    return result(r->ended ? PEG_MATCHED : PEG_MORE, at, end);
}

static struct peg_result read_space(const struct reader *r, size_t at)
{
    size_t end = at;
    while (end < r->text.len) {
        char c = r->text.data[end];
        if (c != ' ' && (c < '\t' || c > '\r'))
            break;
        end++;
    }
    return result(PEG_MATCHED, at, end);
}

static struct peg_result read_any(const struct reader *r, size_t at)
{
    uint32_t codepoint;
    size_t n = at < r->text.len ? character(r, at, &codepoint) : 0;
    return n ? result(PEG_MATCHED, at, at + n) : cut_short(r, at, at);
}

static struct peg_result read_tag(struct reader *r, const struct peg_piece *p, size_t at)
{
    struct peg_result inner = read_piece(r, p->child, at);
    struct peg_node *node = inner.kind == PEG_FAILED ? NULL : arena_alloc(r->arena, sizeof *node);
    if (!node)
        return result(PEG_FAILED, at, inner.end);
    node->tag = p->tag;
    node->partial = inner.kind == PEG_MORE;
    node->begin = inner.begin;
    node->end = inner.end;
    node->text = (struct slice){r->text.data + inner.begin, inner.end - inner.begin};
    node->first = inner.first;
    node->last = inner.last;
    inner.first = inner.last = node;
    return inner;
}

static struct peg_result read_kind(struct reader *r, const struct peg_piece *p, size_t at)
{
    struct peg_result inner;
    switch (p->kind) {
    case PEG_EMPTY:
        return result(PEG_MATCHED, at, at);
    case PEG_END:
        return result(at >= r->text.len ? PEG_MATCHED : PEG_FAILED, at, at);
    case PEG_LITERAL:
        return read_literal(r, p, at);
    case PEG_SEQUENCE:
        return read_sequence(r, p, at);
    case PEG_CHOICE:
        return read_choice(r, p, at);
    case PEG_REPEAT:
        return read_repeat(r, p, at);
    case PEG_AHEAD:
        return result(read_piece(r, p->child, at).kind, at, at);
    case PEG_NOT_AHEAD:
        inner = read_piece(r, p->child, at);
        return result(inner.kind == PEG_FAILED    ? PEG_MATCHED
                      : inner.kind == PEG_MATCHED ? PEG_FAILED
                                                  : PEG_MORE,
                      at, at);
    case PEG_ANY:
        return read_any(r, at);
    case PEG_SPACE:
        return read_space(r, at);
    case PEG_CHARS:
        return read_chars(r, p, at);
    case PEG_STRING:
        return read_string(r, p, at);
    case PEG_UNTIL:
        return read_until(r, p, at);
    case PEG_TAG:
        return read_tag(r, p, at);
    case PEG_REF:
        return p->child ? read_piece(r, p->child, at) : result(PEG_FAILED, at, at);
    case PEG_ATOMIC:
        inner = read_piece(r, p->child, at);
        if (inner.kind == PEG_MORE)
            inner.first = inner.last = NULL;
        return inner;
    case PEG_RULE:
    case PEG_SCHEMA:
    case PEG_GRAMMAR:
    case PEG_THROUGH:
        return read_piece(r, p->child, at);
    }
    return result(PEG_FAILED, at, at);
}

static struct peg_result read_piece(struct reader *r, peg_id id, size_t at)
{
    if (r->depth >= PEG_DEPTH || r->steps == 0)
        return result(PEG_FAILED, at, at);
    r->steps--;
    r->depth++;
    struct peg_result out = read_kind(r, r->g->pieces[id], at);
    r->depth--;
    return out;
}

struct peg_result peg_parse(const struct peg *g, struct slice text, size_t begin, bool whole,
                            bool ended, struct arena *arena)
{
    struct reader r = {.g = g, .text = text, .whole = whole, .ended = ended, .arena = arena};
    r.steps = (uint64_t)(text.len + 64) * (g->n + 64);
    if (!text.data)
        r.text = SLICE("");
    return read_piece(&r, g->root, begin);
}

static void collect(const struct peg_node *node, struct slice *parts)
{
    for (; node; node = node->next) {
        parts[node->tag] = node->text;
        collect(node->first, parts);
    }
}

bool peg_extract(const struct peg *g, struct slice text, bool anywhere, struct arena *arena,
                 struct slice *parts)
{
    for (int i = 0; i < TAG_COUNT; i++)
        parts[i] = SLICE("");
    for (size_t begin = 0; begin <= text.len; begin++) {
        struct peg_result found = peg_parse(g, text, begin, true, true, arena);
        if (found.kind == PEG_MATCHED || !anywhere || begin + 1 >= text.len) {
            collect(found.first, parts);
            return found.kind == PEG_MATCHED;
        }
    }
    return false;
}

const struct peg_node *peg_find(const struct peg_node *node, enum peg_tag_name tag, int depth)
{
    for (const struct peg_node *child = node->first; child; child = child->next) {
        if (child->tag == tag)
            return child;
        const struct peg_node *deeper = depth > 1 ? peg_find(child, tag, depth - 1) : NULL;
        if (deeper)
            return deeper;
    }
    return NULL;
}
