/* ranges.c - the plain ranges of a text, where no control token is read, and
 * where they lie once the text is changed. */
#include "base/utf8.h"
#include "text/tokenizer.h"

size_t ranges_seek(const struct ranges *ranges, size_t at)
{
    size_t low = 0, high = ranges->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->data[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool add(struct ranges *out, size_t begin, size_t end)
{
    return begin >= end || VEC_PUSH(out, (struct text_range){begin, end});
}

/* A range as far as it lies in the text past done. */
static struct text_range clipped(struct text_range r, size_t done, size_t len)
{
    size_t begin = r.begin > done ? r.begin : done, end = r.end < len ? r.end : len;
    return (struct text_range){begin, end > begin ? end : begin};
}

bool ranges_read(const struct text_range *plain, size_t n, size_t len, struct ranges *out)
{
    size_t done = 0;
    for (size_t i = 0; i < n && done < len; i++) {
        struct text_range r = clipped(plain[i], done, len);
        if (!add(out, r.begin, r.end))
            return false;
        done = r.end;
    }
    return true;
}

bool ranges_sanitize(struct ranges *plain, struct slice text, struct str *clean)
{
    size_t done = 0;
    for (size_t i = 0; i < plain->n; i++) {
        struct text_range r = plain->data[i];
        if (!utf8_append_sanitized(clean, (struct slice){text.data + done, r.begin - done}))
            return false;
        plain->data[i].begin = clean->len;
        if (!utf8_append_sanitized(clean, (struct slice){text.data + r.begin, r.end - r.begin}))
            return false;
        plain->data[i].end = clean->len;
        done = r.end;
    }
    return utf8_append_sanitized(clean, slice_from(text, done));
}

/* Where the normal forms of a fragment's stretches lie in its own. */
struct following {
    struct encoder *e;
    struct slice text;       /* the fragment */
    struct slice normalized; /* its normal form */
    struct str part, other;
    size_t done, at; /* in the one and in the other */
    bool differs;    /* the whole's normal form is not the stretches' in a row */
};

static bool follow(struct following *f, size_t end)
{
    const struct normalizer *normalizer = &f->e->tok->normalizer;
    if (f->differs || end == f->done)
        return true;
    str_clear(&f->part);
    if (!str_append(&f->part, f->text.data + f->done, end - f->done))
        return error_memory(f->e->err);
    /* Together no larger than the whole's normal form, or else they differ. */
    if (!normalizer_run_part(normalizer, f->done == 0, end == f->text.len, text_room(f->text.len),
                             &f->part, &f->other, &f->e->patterns, f->e->err))
        return false;
    f->differs = !slice_starts_with(slice_from(f->normalized, f->at), str_slice(&f->part));
    f->done = end;
    f->at += f->differs ? 0 : f->part.len;
    return true;
}

bool ranges_normalize(struct encoder *e, struct slice text, size_t begin)
{
    struct following f = {.e = e, .text = text, .normalized = str_slice(&e->buffer)};
    bool ok = true;
    e->normalized.n = 0;
    for (size_t i = ranges_seek(&e->plain, begin);
         ok && i < e->plain.n && e->plain.data[i].begin < begin + text.len; i++) {
        struct text_range r = clipped(e->plain.data[i], begin, begin + text.len);
        ok = follow(&f, r.begin - begin);
        size_t from = f.at;
        ok = ok && follow(&f, r.end - begin) &&
             (add(&e->normalized, from, f.at) || error_memory(e->err));
    }
    ok = ok && (e->normalized.n == 0 || follow(&f, text.len));
    if (ok && (f.differs || (e->normalized.n && f.at != f.normalized.len))) {
        /* Characters of both sides became one: no telling whose it is. */
        e->normalized.n = 0;
        ok = add(&e->normalized, 0, f.normalized.len) || error_memory(e->err);
    }
    str_free(&f.part);
    str_free(&f.other);
    return ok;
}
