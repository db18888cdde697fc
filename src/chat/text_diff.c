/* text_diff.c - what two renderings share and where they differ. */
#include "chat/text_diff.h"

#include "base/str.h"

#include <ctype.h>

size_t chat_count(struct slice text, struct slice what)
{
    size_t n = 0;
    for (size_t at = 0; what.len && (at = slice_find(text, at, what)) != SLICE_NOT_FOUND;
         at += what.len)
        n++;
    return n;
}

static size_t common_prefix(struct slice a, struct slice b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.data[n] == b.data[n])
        n++;
    return n;
}

static size_t common_suffix(struct slice a, struct slice b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.data[a.len - 1 - n] == b.data[b.len - 1 - n])
        n++;
    return n;
}

struct slice chat_until_common_prefix(struct slice text, struct slice a, struct slice b)
{
    size_t n = common_prefix(a, b);
    size_t at = n ? slice_find(text, 0, (struct slice){a.data, n}) : SLICE_NOT_FOUND;
    return at == SLICE_NOT_FOUND ? SLICE("") : (struct slice){text.data, at};
}

static bool is_blank(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!isspace((unsigned char)text.data[i]))
            return false;
    return true;
}

static bool add_piece(struct text_pieces *out, bool is_marker, const char *begin, const char *end,
                      bool skip_blank)
{
    struct text_piece piece = {is_marker, {begin, (size_t)(end - begin)}};
    return begin == end || (skip_blank && is_blank(piece.text)) || VEC_PUSH(out, piece);
}

bool chat_split_markers(struct slice text, bool skip_blank, struct text_pieces *out)
{
    const char *border = text.data, *end = text.data + text.len;
    char closer = '\0';
    for (const char *at = border; at < end; at++) {
        if (!closer && (*at == '<' || *at == '[')) {
            if (!add_piece(out, false, border, at, skip_blank))
                return false;
            border = at;
            closer = *at == '<' ? '>' : ']';
        } else if (closer && *at == closer) {
            if (!add_piece(out, true, border, at + 1, skip_blank))
                return false;
            border = at + 1;
            closer = '\0';
        }
    }
    return add_piece(out, false, border, end, skip_blank);
}

static bool same(const struct text_piece *a, const struct text_piece *b)
{
    return a->is_marker == b->is_marker && slice_equal(a->text, b->text);
}

/* Indices into both lists of pieces: what is not shared yet lies from start to
 * end, both included. done: the piece at end is shared too. */
struct side {
    const struct text_piece *pieces;
    size_t start, end;
    bool done;
};

/* The text of what is left on a side. */
static struct slice remainder_of(const struct side *s, struct slice whole)
{
    size_t stop = s->done ? s->end : s->end + 1;
    if (s->start >= stop)
        return (struct slice){whole.data, 0};
    const char *begin = s->pieces[s->start].text.data;
    const struct slice last = s->pieces[stop - 1].text;
    return (struct slice){begin, (size_t)(last.data + last.len - begin)};
}

static struct slice finish(struct arena *arena, struct str *text, bool *ok)
{
    char *copy = text->failed ? NULL : arena_duplicate(arena, str_slice(text));
    *ok = *ok && copy;
    struct slice out = copy ? (struct slice){copy, text->len} : SLICE("");
    str_free(text);
    return out;
}

static void put_front(struct str *text, struct slice front)
{
    struct str joined = {0};
    str_append_slice(&joined, front);
    str_append_slice(&joined, str_slice(text));
    joined.failed = joined.failed || text->failed;
    str_free(text);
    *text = joined;
}

/* Take equal pieces off both ends, front and back in step. */
static void match_pieces(struct side *l, struct side *r, struct str *prefix, struct str *suffix)
{
    while (l->start != l->end && r->start != r->end) {
        bool advanced = false;
        if (same(&l->pieces[l->start], &r->pieces[r->start])) {
            str_append_slice(prefix, l->pieces[l->start].text);
            l->start++;
            r->start++;
            advanced = true;
        }
        if (same(&l->pieces[l->end], &r->pieces[r->end])) {
            put_front(suffix, l->pieces[l->end].text);
            if (l->start != l->end)
                l->end--;
            else
                l->done = true;
            if (r->start != r->end)
                r->end--;
            else
                r->done = true;
            advanced = true;
        }
        if (!advanced)
            break;
    }
}

/* One side has a single piece left: does the other end or start with it? */
static void match_single(struct side *one, struct side *many, struct str *prefix,
                         struct str *suffix)
{
    if (same(&one->pieces[one->start], &many->pieces[many->end])) {
        put_front(suffix, many->pieces[many->end].text);
        many->end--;
        one->done = true;
    } else if (same(&one->pieces[one->start], &many->pieces[many->start])) {
        str_append_slice(prefix, many->pieces[many->start].text);
        many->start++;
        one->done = true;
    }
}

static bool diff_pieces(struct slice a, struct slice b, const struct text_pieces *left,
                        const struct text_pieces *right, struct arena *arena, struct text_diff *out)
{
    struct side l = {left->data, 0, left->n - 1, false}, r = {right->data, 0, right->n - 1, false};
    struct str prefix = {0}, suffix = {0};
    bool ok = true;
    match_pieces(&l, &r, &prefix, &suffix);
    if (l.start == l.end && r.start != r.end) {
        match_single(&l, &r, &prefix, &suffix);
    } else if (r.start == r.end && l.start != l.end) {
        match_single(&r, &l, &prefix, &suffix);
    } else if (l.start == l.end && r.start == r.end &&
               same(&l.pieces[l.start], &r.pieces[r.start]) && l.pieces[l.start].is_marker) {
        str_append_slice(&prefix, r.pieces[r.start].text);
        l.done = r.done = true;
    }
    /* what is left may still share letters, where it is no marker */
    bool text_end = !l.pieces[l.end].is_marker && !r.pieces[r.end].is_marker;
    bool text_start = !l.pieces[l.start].is_marker && !r.pieces[r.start].is_marker;
    struct slice rest_l = remainder_of(&l, a), rest_r = remainder_of(&r, b);
    size_t n_suffix = text_end ? common_suffix(rest_l, rest_r) : 0;
    struct slice head_l = {rest_l.data, rest_l.len - n_suffix},
                 head_r = {rest_r.data, rest_r.len - n_suffix};
    size_t n_prefix = text_start ? common_prefix(head_l, head_r) : 0;
    str_append(&prefix, rest_l.data, n_prefix);
    put_front(&suffix, slice_from(rest_l, rest_l.len - n_suffix));
    out->left = slice_from(head_l, n_prefix);
    out->right = slice_from(head_r, n_prefix);
    out->prefix = finish(arena, &prefix, &ok);
    out->suffix = finish(arena, &suffix, &ok);
    return ok;
}

bool chat_text_diff(struct slice a, struct slice b, struct arena *arena, struct text_diff *out)
{
    struct text_pieces left = {0}, right = {0};
    *out = (struct text_diff){SLICE(""), SLICE(""), SLICE(""), SLICE("")};
    bool ok = chat_split_markers(a, false, &left) && chat_split_markers(b, false, &right);
    if (ok && left.n == 0)
        out->right = b;
    else if (ok && right.n == 0)
        out->left = a;
    else if (ok)
        ok = diff_pieces(a, b, &left, &right, arena, out);
    bool empty = left.n == 0 || right.n == 0;
    VEC_FREE(&left);
    VEC_FREE(&right);
    if (!ok || empty)
        return ok;
    if (out->left.len == 0 && out->right.len == 0) { /* no difference: all is prefix */
        out->prefix = a;
        out->suffix = SLICE("");
    }
    /* Where the second only goes on, nothing of the first is suffix, even if
     * both end alike. */
    if (out->left.len == 0 && out->right.len && slice_starts_with(b, a)) {
        out->prefix = a;
        out->suffix = SLICE("");
        out->right = slice_from(b, a.len);
    }
    return true;
}
