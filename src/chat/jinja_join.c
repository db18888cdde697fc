/* jinja_join.c - one text behind the other.
 *
 * Templates build long texts piece by piece, at either end: a piece must not cost
 * a copy of all that is there. A text at the end of its pool grows where it is; one
 * that something came after moves to a place with as much room again. */
#include "chat/jinja_value.h"

/* The marks of text, to out. */
static void put_marks(uint8_t *out, const struct jinja_string *text)
{
    if (text->marks)
        memcpy(out, text->marks, text->len);
    else if (text->len)
        memset(out, text->marked, text->len);
}

static bool alike(const struct jinja_string *x, const struct jinja_string *y)
{
    return !x->marks && !y->marks && x->marked == y->marked;
}

/* The marks of x followed by y, where they are not alike. */
static uint8_t *join_marks(struct jinja_run *run, const struct jinja_string *x,
                           const struct jinja_string *y)
{
    uint8_t *marks = (uint8_t *)x->marks;
    if (!marks || !jinja_extend(&run->marks, marks, x->len, x->len + y->len)) {
        marks = jinja_alloc_marks(run, x->len + y->len);
        if (!marks)
            return NULL;
        put_marks(marks, x);
    }
    put_marks(marks + x->len, y);
    return marks;
}

/* ---- Places to grow in --------------------------------------------------- */

/* The bytes [begin, end) of a place, with their marks. */
static struct jinja_string part_of(const struct jinja_growing *g, size_t begin, size_t end)
{
    return (struct jinja_string){g->data + begin, end - begin, g->marks ? g->marks + begin : NULL,
                                 g->marked};
}

/* Note that text came to stand at a place's offset at. */
static bool mark(struct jinja_run *run, struct jinja_growing *g, size_t at,
                 const struct jinja_string *text)
{
    struct jinja_string there = {.marked = g->marked};
    if (!g->marks && alike(&there, text))
        return true;
    if (!g->marks) {
        g->marks = jinja_alloc_marks(run, g->capacity);
        if (!g->marks)
            return false;
        memset(g->marks + g->begin, g->marked, g->end - g->begin);
    }
    put_marks(g->marks + at, text);
    return true;
}

/* Where x ends, or y begins, at the edge of a place with room for the other. */
static bool grow_there(struct jinja_run *run, struct jinja_growing *g, const struct jinja_string *x,
                       const struct jinja_string *y, struct jinja_string *out)
{
    if (x->data + x->len == g->data + g->end && x->data >= g->data + g->begin &&
        y->len <= g->capacity - g->end) {
        memcpy(g->data + g->end, y->data, y->len);
        if (!mark(run, g, g->end, y))
            return false;
        g->end += y->len;
        *out = part_of(g, g->end - y->len - x->len, g->end);
        return true;
    }
    if (y->data == g->data + g->begin && y->len <= g->end - g->begin && x->len <= g->begin) {
        memcpy(g->data + g->begin - x->len, x->data, x->len);
        if (!mark(run, g, g->begin - x->len, x))
            return false;
        g->begin -= x->len;
        *out = part_of(g, g->begin, g->begin + x->len + y->len);
        return true;
    }
    return false;
}

/* A new place, with room at the end where the shorter text was added. */
static bool grow_anew(struct jinja_run *run, const struct jinja_string *x,
                      const struct jinja_string *y, struct jinja_string *out)
{
    struct jinja_growing *g = &run->growing[run->next_growing++ % JINJA_GROWING];
    size_t len = x->len + y->len;
    *g = (struct jinja_growing){.marked = x->marked};
    char *data = len > SIZE_MAX / 4 ? NULL : jinja_alloc_bytes(run, 2 * len);
    if (!data)
        return jinja_fail(run, "the text is too long") != NULL;
    g->data = data;
    g->capacity = 2 * len;
    g->begin = g->end = y->len > x->len ? len : 0;
    memcpy(g->data + g->begin, x->data, x->len);
    memcpy(g->data + g->begin + x->len, y->data, y->len);
    if (!mark(run, g, g->begin, x))
        return false;
    g->end = g->begin + x->len;
    if (!mark(run, g, g->end, y))
        return false;
    g->end += y->len;
    *out = part_of(g, g->begin, g->end);
    return true;
}

struct jinja_value *jinja_join(struct jinja_run *run, struct jinja_value *a, struct jinja_value *b)
{
    const struct jinja_string *x = &a->as.string, *y = &b->as.string;
    if (y->len == 0)
        return a;
    if (x->len == 0)
        return b;
    struct jinja_value *v = jinja_new(run, JINJA_STRING);
    if (!v)
        return NULL;
    struct jinja_string *out = &v->as.string;
    for (unsigned i = 0; i < JINJA_GROWING; i++)
        if (run->growing[i].data && grow_there(run, &run->growing[i], x, y, out))
            return v;
    char *data = (char *)x->data;
    if (!run->failed && !jinja_extend(&run->bytes, data, x->len, x->len + y->len)) {
        if (x->len >= JINJA_GROWING_MIN || y->len >= JINJA_GROWING_MIN)
            return grow_anew(run, x, y, out) ? v : NULL;
        data = jinja_alloc_bytes(run, x->len + y->len);
        if (data)
            memcpy(data, x->data, x->len);
    }
    if (run->failed)
        return NULL;
    memcpy(data + x->len, y->data, y->len);
    *out = (struct jinja_string){data, x->len + y->len, NULL, x->marked};
    if (!alike(x, y))
        out->marks = join_marks(run, x, y);
    return run->failed ? NULL : v;
}
