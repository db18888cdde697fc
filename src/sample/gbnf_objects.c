/* gbnf_objects.c - rules of JSON objects whose members may stand in any order.
 *
 * The text of a grammar made from a schema has an object's members in the schema's order,
 * because GBNF could say any order only by a rule for each set of members, and because
 * responses show the text. What the text means is said beside it, a line for each object:
 * RULE N_REQUIRED MORE MEMBER..., where all but the number are names of rules and MORE is
 * "." where the object has no members that are not named. Such a rule becomes
 * "{" space MEMBERS space "}", and the automaton makes the rules of the sets of members
 * that it meets. */
#include "sample/gbnf_parser.h"

#include <stdlib.h>

struct line {
    struct slice rest;
};

static struct slice next_word(struct line *line)
{
    size_t n = 0;
    while (n < line->rest.len && line->rest.data[n] != ' ')
        n++;
    struct slice word = {line->rest.data, n};
    line->rest = slice_from(line->rest, n < line->rest.len ? n + 1 : n);
    return word;
}

static bool to_number(struct slice word, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < word.len; i++) {
        if (word.data[i] < '0' || word.data[i] > '9' || *out > 1 << 20)
            return false;
        *out = *out * 10 + (uint32_t)(word.data[i] - '0');
    }
    return word.len > 0;
}

/* What a line says; members go behind those there are. *known: the grammar has all its
 * rules. False when out of memory. */
static bool read_line(struct parser *p, struct line line, uint32_t space, struct grammar *g,
                      uint32_t *n_members, uint32_t *rule, bool *known)
{
    struct grammar_object object = {*n_members, 0, 0, GRAMMAR_NONE, space};
    *known = parser_find_rule(p, next_word(&line), rule) &&
             to_number(next_word(&line), &object.n_required);
    struct slice more = next_word(&line);
    *known = *known && (slice_equal_text(more, ".") || parser_find_rule(p, more, &object.more));
    while (*known && line.rest.len) {
        if (!budget_step(p->budget, 4, p->err))
            return false;
        *known = parser_find_rule(p, next_word(&line), &g->members[*n_members]);
        *n_members += 1;
        object.n_members++;
    }
    *known = *known && object.n_required <= object.n_members;
    if (*known)
        g->objects[g->n_objects++] = object;
    else
        *n_members = object.first_member;
    return true;
}

/* "{" space MEMBERS space "}" in place of a rule's elements. */
static void write_rule(struct grammar *g, uint32_t rule, uint32_t object, uint32_t space)
{
    const struct element body[] = {{ELEMENT_CHAR, '{'},       {ELEMENT_RULE, space},
                                   {ELEMENT_MEMBERS, object}, {ELEMENT_RULE, space},
                                   {ELEMENT_CHAR, '}'},       {ELEMENT_END, 0}};
    g->rules[rule] = g->n_elements;
    memcpy(g->elements + g->n_elements, body, sizeof body);
    g->n_elements += sizeof body / sizeof *body;
}

enum { ELEMENTS_OF_OBJECT = 6 };

/* Room for what the text can say at most. */
static bool reserve(struct parser *p, struct slice text, struct grammar *g)
{
    size_t n_lines = 0, n_words = 0;
    for (size_t i = 0; i < text.len; i++) {
        n_lines += text.data[i] == '\n';
        n_words += text.data[i] == ' ' || text.data[i] == '\n';
    }
    uint64_t n_elements = g->n_elements + (uint64_t)n_lines * ELEMENTS_OF_OBJECT;
    if (n_elements > UINT32_MAX / 2)
        return error_set(p->err, ERR_LIMIT, "the grammar is too large");
    struct element *elements = realloc(g->elements, (n_elements + 1) * sizeof *elements);
    if (!elements)
        return error_memory(p->err);
    g->elements = elements;
    g->objects = calloc(n_lines + 1, sizeof *g->objects);
    g->members = calloc(n_words + 1, sizeof *g->members);
    return (g->objects && g->members) || error_memory(p->err);
}

bool grammar_take_objects(struct parser *p, struct slice objects, struct grammar *g)
{
    uint32_t space, n_members = 0;
    if (objects.len == 0 || !parser_find_rule(p, SLICE("space"), &space))
        return true;
    if (!budget_step(p->budget, objects.len / 4, p->err) || !reserve(p, objects, g))
        return false;
    while (objects.len) {
        const char *end = memchr(objects.data, '\n', objects.len);
        size_t n = end ? (size_t)(end - objects.data) : objects.len;
        uint32_t rule;
        bool known;
        if (end &&
            !read_line(p, (struct line){{objects.data, n}}, space, g, &n_members, &rule, &known))
            return false;
        if (end && known)
            write_rule(g, rule, g->n_objects - 1, space);
        objects = slice_from(objects, end ? n + 1 : n);
    }
    return true;
}
