/* gbnf_recursion.c - refusing left recursion.
 *
 * Rule A leads to rule B when B may be entered from A before a character is
 * read. A circle of such steps is harmless only when nothing is left waiting
 * behind each of them (then the position is the same after the round): those
 * circles arise from repetitions of what may be empty, like ("a"? "b"?)*. */
#include "sample/gbnf.h"

#include <stdlib.h>

struct walk {
    const struct grammar *g;
    bool *empty;         /* rules that have an alternative that is written empty */
    bool *nullable;      /* rules that may stand for nothing */
    uint8_t *color;      /* 0 new, 1 on the path, 2 done */
    uint32_t *at;        /* where in its elements the search of a rule stands */
    uint32_t *path;      /* the rules on the way */
    uint32_t *component; /* strongly connected component, for the second check */
};

static bool written_empty(const struct grammar *g, uint32_t rule)
{
    for (uint32_t at = g->rules[rule];; at++) {
        if (element_ends(g, at) && (at == g->rules[rule] || element_ends(g, at - 1)))
            return true;
        if (g->elements[at].type == ELEMENT_END)
            return false;
    }
}

/* Rules that may stand for nothing: an alternative of nothing but rules waits
 * for each of them, and the last to become nullable makes its own rule so. */
static bool find_nullable(struct walk *w)
{
    const struct grammar *g = w->g;
    struct wait {
        uint32_t rule, pending;
    } *waits = calloc((size_t)g->n_elements + 1, sizeof *waits); /* by first element */
    uint32_t *alternative = calloc((size_t)g->n_elements + 1, sizeof *alternative);
    uint32_t *next = calloc((size_t)g->n_elements + 1, sizeof *next);
    uint32_t *uses = calloc((size_t)g->n_rules + 1, sizeof *uses); /* a list of elements */
    uint32_t *todo = calloc((size_t)g->n_rules + 1, sizeof *todo);
    size_t n_todo = 0;
    bool ok = waits && alternative && next && uses && todo;
    for (uint32_t rule = 0; ok && rule < g->n_rules; rule++) {
        uint32_t first = g->rules[rule];
        for (uint32_t at = first;; at++) {
            if (!element_ends(g, at)) {
                alternative[at] = first;
                waits[first].pending++; /* a character waits for ever */
                if (g->elements[at].type == ELEMENT_RULE) {
                    next[at] = uses[g->elements[at].value];
                    uses[g->elements[at].value] = at + 1;
                }
                continue;
            }
            waits[first].rule = rule;
            if (waits[first].pending == 0 && !w->nullable[rule]) {
                w->nullable[rule] = true;
                todo[n_todo++] = rule;
            }
            if (g->elements[at].type == ELEMENT_END)
                break;
            first = at + 1;
        }
    }
    while (ok && n_todo) {
        for (uint32_t use = uses[todo[--n_todo]]; use; use = next[use - 1]) {
            struct wait *wait = &waits[alternative[use - 1]];
            if (--wait->pending == 0 && !w->nullable[wait->rule]) {
                w->nullable[wait->rule] = true;
                todo[n_todo++] = wait->rule;
            }
        }
    }
    free(waits);
    free(alternative);
    free(next);
    free(uses);
    free(todo);
    return ok;
}

/* The next rule that element *at or one after it leads to, passing over rules
 * in skip; *grows says whether something waits behind it. False at the end. */
static bool next_step(const struct walk *w, const bool *skip, uint32_t *at, uint32_t *to,
                      bool *grows)
{
    const struct grammar *g = w->g;
    for (;;) {
        const struct element *e = &g->elements[*at];
        if (e->type == ELEMENT_END)
            return false;
        if (e->type == ELEMENT_RULE) {
            *to = e->value;
            *grows = !element_ends(g, *at + 1);
            (*at)++;
            if (!skip[e->value]) /* nothing behind it is reached unread */
                while (!element_ends(g, *at))
                    (*at)++;
            return true;
        }
        if (e->type == ELEMENT_ALT)
            (*at)++;
        else
            while (!element_ends(g, *at))
                (*at)++;
    }
}

static bool refuse(const struct slice *names, uint32_t rule, struct error *err)
{
    struct slice name = names[rule];
    if (!name.len)
        return error_set(err, ERR_FORMAT,
                         "left recursion: a repeated group begins with itself before it reads a "
                         "character");
    return error_set(err, ERR_FORMAT,
                     "left recursion: the rule '%.*s' comes back to itself before it reads a "
                     "character; put the recursion at the end",
                     (int)(name.len < 64 ? name.len : 64), name.data);
}

/* Any circle through rules written empty only: what the reference refuses. */
static bool check_written(struct walk *w, const struct slice *names, struct error *err)
{
    const struct grammar *g = w->g;
    for (uint32_t start = 0; start < g->n_rules; start++) {
        if (w->color[start])
            continue;
        uint32_t depth = 0;
        w->path[0] = start;
        w->at[start] = g->rules[start];
        w->color[start] = 1;
        for (;;) {
            uint32_t rule = w->path[depth], to;
            bool grows;
            if (next_step(w, w->empty, &w->at[rule], &to, &grows)) {
                if (w->color[to] == 1)
                    return refuse(names, to, err);
                if (w->color[to] == 0) {
                    w->color[to] = 1;
                    w->at[to] = g->rules[to];
                    w->path[++depth] = to;
                }
            } else {
                w->color[rule] = 2;
                if (depth-- == 0)
                    break;
            }
        }
    }
    return true;
}

/* Tarjan 1972, without recursion: path is the depth-first path, low the lowest
 * rule reached, open the rules without a component yet. */
static bool find_components(struct walk *w)
{
    const struct grammar *g = w->g;
    uint32_t n = g->n_rules, time = 0, n_open = 0;
    uint32_t *number = calloc(n, sizeof *number), *low = calloc(n, sizeof *low);
    uint32_t *open = calloc(n, sizeof *open);
    bool ok = number && low && open;
    for (uint32_t start = 0; ok && start < n; start++) {
        if (number[start])
            continue;
        uint32_t depth = 0;
        w->path[0] = start;
        w->at[start] = g->rules[start];
        number[start] = low[start] = ++time;
        open[n_open++] = start;
        for (;;) {
            uint32_t rule = w->path[depth], to;
            bool grows;
            if (next_step(w, w->nullable, &w->at[rule], &to, &grows)) {
                if (!number[to]) {
                    number[to] = low[to] = ++time;
                    w->at[to] = g->rules[to];
                    w->path[++depth] = to;
                    open[n_open++] = to;
                } else if (w->component[to] == UINT32_MAX && number[to] < low[rule]) {
                    low[rule] = number[to];
                }
                continue;
            }
            if (low[rule] == number[rule]) {
                uint32_t member;
                do {
                    member = open[--n_open];
                    w->component[member] = rule;
                } while (member != rule);
            }
            if (depth == 0)
                break;
            uint32_t parent = w->path[--depth];
            if (low[rule] < low[parent])
                low[parent] = low[rule];
        }
    }
    free(number);
    free(low);
    free(open);
    return ok;
}

static bool check_growth(struct walk *w, const struct slice *names, struct error *err)
{
    const struct grammar *g = w->g;
    for (uint32_t i = 0; i < g->n_rules; i++)
        w->component[i] = UINT32_MAX;
    if (!find_components(w))
        return error_memory(err);
    for (uint32_t rule = 0; rule < g->n_rules; rule++) {
        uint32_t at = g->rules[rule], to;
        bool grows;
        while (next_step(w, w->nullable, &at, &to, &grows))
            if (grows && w->component[to] == w->component[rule])
                return refuse(names, rule, err);
    }
    return true;
}

bool grammar_check_recursion(const struct grammar *g, const struct slice *names, struct error *err)
{
    size_t n = (size_t)g->n_rules + 1;
    struct walk w = {.g = g,
                     .empty = calloc(n, sizeof(bool)),
                     .nullable = calloc(n, sizeof(bool)),
                     .color = calloc(n, 1),
                     .at = calloc(n, sizeof(uint32_t)),
                     .path = calloc(n, sizeof(uint32_t)),
                     .component = calloc(n, sizeof(uint32_t))};
    bool ok = w.empty && w.nullable && w.color && w.at && w.path && w.component;
    if (!ok) {
        error_memory(err);
    } else {
        for (uint32_t i = 0; i < g->n_rules; i++)
            w.empty[i] = written_empty(g, i);
        ok = find_nullable(&w) || error_memory(err);
        ok = ok && check_written(&w, names, err) && check_growth(&w, names, err);
    }
    free(w.empty);
    free(w.nullable);
    free(w.color);
    free(w.at);
    free(w.path);
    free(w.component);
    return ok;
}
