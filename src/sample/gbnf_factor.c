/* gbnf_factor.c - alternatives that are literals, as a trie. */
#include "sample/gbnf_parser.h"

#include <stdlib.h>

enum {
    FACTOR_MIN = 32,  /* literals; a shorter list stays one */
    NESTED_MAX = 200, /* rules in one another; below that what is left stays a list */
};

struct factoring {
    struct parser *p;
    const uint32_t *chars;
    struct literal *literals, *other;
    size_t n;
};

/* ---- in order ---- */

static int compare(const struct factoring *f, struct literal a, struct literal b, uint64_t *steps)
{
    const uint32_t *x = f->chars + a.first, *y = f->chars + b.first;
    uint32_t n = a.n < b.n ? a.n : b.n, i = 0;
    while (i < n && x[i] == y[i])
        i++;
    *steps += i / 16 + 1;
    if (i < n)
        return x[i] < y[i] ? -1 : 1;
    return a.n < b.n ? -1 : a.n > b.n;
}

/* Merge the sorted runs [begin, middle) and [middle, end) into the other array. */
static bool merge_runs(struct factoring *f, size_t begin, size_t middle, size_t end)
{
    size_t a = begin, b = middle;
    uint64_t steps = 0;
    for (size_t i = begin; i < end; i++) {
        bool first =
            b >= end || (a < middle && compare(f, f->literals[a], f->literals[b], &steps) <= 0);
        f->other[i] = first ? f->literals[a++] : f->literals[b++];
    }
    return budget_step(f->p->budget, steps, f->p->err);
}

static bool sort(struct factoring *f)
{
    for (size_t width = 1; width < f->n; width *= 2) {
        for (size_t begin = 0; begin < f->n; begin += 2 * width) {
            size_t middle = begin + width < f->n ? begin + width : f->n;
            size_t end = begin + 2 * width < f->n ? begin + 2 * width : f->n;
            if (!merge_runs(f, begin, middle, end))
                return false;
        }
        struct literal *swap = f->literals;
        f->literals = f->other;
        f->other = swap;
    }
    return true;
}

/* ---- the trie ---- */

static uint32_t char_at(const struct factoring *f, size_t i, uint32_t at)
{
    return f->chars[f->literals[i].first + at];
}

static bool add_chars(struct factoring *f, struct rule_body *out, size_t i, uint32_t from,
                      uint32_t to)
{
    for (; from < to; from++)
        if (!parser_add(f->p, out, ELEMENT_CHAR, char_at(f, i, from)))
            return false;
    return true;
}

/* A new alternative, unless it is the first. */
static bool next_alternative(struct factoring *f, struct rule_body *out, bool *first)
{
    bool ok = *first || parser_add(f->p, out, ELEMENT_ALT, 0);
    *first = false;
    return ok;
}

static bool add_branches(struct factoring *f, struct rule_body *out, bool first, size_t begin,
                         size_t end, uint32_t at, int depth);

/* What the literals from begin on have in common, then a rule for the rest. */
static bool add_branch(struct factoring *f, struct rule_body *out, size_t begin, size_t end,
                       uint32_t at, int depth)
{
    struct literal low = f->literals[begin], high = f->literals[end - 1];
    uint32_t common = at, n = low.n < high.n ? low.n : high.n;
    while (common < n && char_at(f, begin, common) == char_at(f, end - 1, common))
        common++;
    if (!add_chars(f, out, begin, at, common))
        return false;
    if (common == high.n) /* all are equal */
        return true;
    uint32_t rule;
    struct rule_body rest = {0};
    if (!parser_new_rule(f->p, (struct slice){0}, &rule))
        return false;
    f->p->n_factored++;
    if (!add_branches(f, &rest, true, begin, end, common, depth + 1) ||
        !parser_add(f->p, &rest, ELEMENT_END, 0)) {
        VEC_FREE(&rest);
        return false;
    }
    f->p->rules.data[rule] = rest;
    return parser_add(f->p, out, ELEMENT_RULE, rule);
}

/* The literals begin .. end, which are alike before at. */
static bool add_branches(struct factoring *f, struct rule_body *out, bool first, size_t begin,
                         size_t end, uint32_t at, int depth)
{
    if (f->literals[begin].n == at) { /* the shortest stand first: these end here */
        if (!next_alternative(f, out, &first))
            return false;
        while (begin < end && f->literals[begin].n == at)
            begin++;
    }
    while (begin < end) {
        size_t next = begin + 1;
        while (next < end && depth < NESTED_MAX && char_at(f, next, at) == char_at(f, begin, at))
            next++;
        if (!budget_step(f->p->budget, next - begin, f->p->err) ||
            !next_alternative(f, out, &first) || !add_branch(f, out, begin, next, at, depth))
            return false;
        begin = next;
    }
    return true;
}

/* ---- the list ---- */

bool literals_take(struct parser *p, struct literals *from, struct rule_body *alternative,
                   bool *taken)
{
    size_t n = alternative->n;
    *taken = n > 0;
    for (size_t i = 0; i < n && *taken; i++)
        *taken = alternative->data[i].type == ELEMENT_CHAR;
    if (!*taken)
        return true;
    struct literal made = {(uint32_t)from->chars.n, (uint32_t)n};
    if (!budget_bytes(p->budget, sizeof made + n * sizeof *from->chars.data, p->err))
        return false;
    if (from->chars.n + n > INT32_MAX || !VEC_RESERVE(&from->chars, n) ||
        !VEC_PUSH(&from->list, made))
        return error_memory(p->err);
    for (size_t i = 0; i < n; i++)
        from->chars.data[from->chars.n++] = alternative->data[i].value;
    p->n_elements -= n; /* for the next ones */
    alternative->n = 0;
    return true;
}

static bool append(struct parser *p, struct literals *from, struct rule_body *body, bool any)
{
    struct factoring f = {
        .p = p, .chars = from->chars.data, .literals = from->list.data, .n = from->list.n};
    if (f.n == 0)
        return true;
    if (f.n < FACTOR_MIN)
        return add_branches(&f, body, !any, 0, f.n, 0, NESTED_MAX);
    if (!budget_bytes(p->budget, f.n * sizeof *f.other, p->err))
        return false;
    struct literal *other = f.other = calloc(f.n, sizeof *f.other);
    if (!other)
        return error_memory(p->err);
    bool ok = sort(&f) && add_branches(&f, body, !any, 0, f.n, 0, 0);
    free(other);
    if (ok)
        budget_return(p->budget, f.n * sizeof *f.other);
    return ok;
}

bool literals_append(struct parser *p, struct literals *from, struct rule_body *body, bool any)
{
    bool ok = append(p, from, body, any);
    if (ok)
        budget_return(p->budget, from->list.n * sizeof *from->list.data +
                                     from->chars.n * sizeof *from->chars.data);
    from->list.n = from->chars.n = 0;
    return ok;
}

void literals_free(struct literals *from)
{
    VEC_FREE(&from->list);
    VEC_FREE(&from->chars);
}
