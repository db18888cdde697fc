/* peg_grammar.c - the GBNF grammar of what a parser reads.
 *
 * Rules of the parser get names that start with "p-", those of schemas come
 * from the schema converter under names of their own. "Up to a text" becomes
 * the automaton of Aho and Corasick (1975) over the text's characters, each of
 * its states a rule. */
#include "chat/peg_internal.h"

#include "base/utf8.h"

#include <stdlib.h>

struct writer {
    const struct peg *g;
    struct grammar_builder *schemas;
    struct budget *budget;
    struct str rules; /* lines "name ::= body" */
    struct error *err;
    bool failed;
    bool *wanted;    /* by rule entry: to be written */
    bool *automaton; /* by piece: its automaton is written */
};

static void write_piece(struct writer *w, peg_id id, struct str *out);

/* ---- Until: automata ----------------------------------------------------- */

enum { NO_STATE = UINT32_MAX };

struct state {
    uint32_t *next; /* by alphabet index; NO_STATE */
    uint32_t fail;
    bool final;
};

struct automaton {
    uint32_t *alphabet;
    size_t n_alphabet;
    struct state *states;
    size_t n_states;
    bool *reached; /* by state: a letter leads there from the one that is written */
};

static size_t letter_of(const struct automaton *a, uint32_t c)
{
    size_t i = 0;
    while (i < a->n_alphabet && a->alphabet[i] != c)
        i++;
    return i;
}

static void automaton_free(struct automaton *a)
{
    for (size_t i = 0; i < a->n_states; i++)
        free(a->states[i].next);
    free(a->states);
    free(a->alphabet);
    free(a->reached);
}

static uint32_t add_state(struct automaton *a)
{
    struct state *s = &a->states[a->n_states];
    s->next = malloc((a->n_alphabet + 1) * sizeof *s->next);
    if (!s->next)
        return NO_STATE;
    for (size_t i = 0; i < a->n_alphabet; i++)
        s->next[i] = NO_STATE;
    return (uint32_t)a->n_states++;
}

static bool build_trie(struct automaton *a, const struct peg_piece *p)
{
    size_t total = 0;
    for (size_t i = 0; i < p->n_texts; i++)
        total += p->texts[i].len;
    a->alphabet = calloc(total + 1, sizeof *a->alphabet);
    a->states = calloc(total + 2, sizeof *a->states);
    a->reached = calloc(total + 2, sizeof *a->reached);
    if (!a->alphabet || !a->states || !a->reached)
        return false;
    for (size_t i = 0; i < p->n_texts; i++)
        for (size_t at = 0; at < p->texts[i].len;) {
            uint32_t c;
            at += utf8_decode(p->texts[i].data + at, p->texts[i].len - at, &c, NULL);
            if (letter_of(a, c) == a->n_alphabet)
                a->alphabet[a->n_alphabet++] = c;
        }
    if (add_state(a) == NO_STATE)
        return false;
    for (size_t i = 0; i < p->n_texts; i++) {
        uint32_t s = 0;
        for (size_t at = 0; at < p->texts[i].len;) {
            uint32_t c;
            at += utf8_decode(p->texts[i].data + at, p->texts[i].len - at, &c, NULL);
            size_t letter = letter_of(a, c);
            if (a->states[s].next[letter] == NO_STATE) {
                uint32_t made = add_state(a);
                if (made == NO_STATE)
                    return false;
                a->states[s].next[letter] = made;
            }
            s = a->states[s].next[letter];
        }
        a->states[s].final = true;
    }
    return true;
}

/* Breadth first: a state's failing letters go where its longest proper suffix
 * would. */
static bool link_states(struct automaton *a)
{
    uint32_t *queue = malloc((a->n_states + 1) * sizeof *queue);
    size_t head = 0, tail = 0;
    if (!queue)
        return false;
    for (size_t c = 0; c < a->n_alphabet; c++) {
        uint32_t *to = &a->states[0].next[c];
        if (*to == NO_STATE)
            *to = 0;
        else
            queue[tail++] = *to;
    }
    while (head < tail) {
        struct state *s = &a->states[queue[head++]];
        s->final = s->final || a->states[s->fail].final;
        for (size_t c = 0; c < a->n_alphabet; c++) {
            uint32_t other = a->states[s->fail].next[c];
            if (s->next[c] == NO_STATE) {
                s->next[c] = other;
            } else {
                a->states[s->next[c]].fail = other;
                queue[tail++] = s->next[c];
            }
        }
    }
    free(queue);
    return true;
}

/* The letters that lead from s to a state for which keep holds, as a class. */
static bool append_class(struct str *out, const struct automaton *a, uint32_t s, bool negated,
                         uint32_t to)
{
    size_t begin = out->len;
    bool any = false;
    str_append_text(out, negated ? "[^" : "[");
    for (size_t c = 0; c < a->n_alphabet; c++) {
        uint32_t next = a->states[s].next[c];
        bool listed = to != NO_STATE ? next == to && !a->states[next].final
                      : negated      ? next != 0
                                     : a->states[next].final;
        if (listed) {
            grammar_append_class_char(out, a->alphabet[c]);
            any = true;
        }
    }
    if (!any && negated) { /* any character at all */
        str_truncate(out, begin);
        str_append_char(out, '.');
        return true;
    }
    str_append_char(out, ']');
    if (!any)
        str_truncate(out, begin);
    return any;
}

static void append_number(struct str *out, uint32_t n)
{
    char digits[10];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    str_append(out, digits + at, sizeof digits - at);
}

static void append_state_name(struct str *out, const char *kind, peg_id id, uint32_t s)
{
    str_append_text(out, "p-");
    str_append_text(out, kind);
    str_append_char(out, '-');
    append_number(out, id);
    if (s) {
        str_append_char(out, '-');
        append_number(out, s);
    }
}

static void write_state(struct writer *w, const struct automaton *a, peg_id id, uint32_t s,
                        bool through)
{
    const char *kind = through ? "through" : "until";
    struct str line = {0};
    append_state_name(&line, kind, id, s);
    str_append_text(&line, " ::= ");
    bool first = true;
    if (through) {
        if (append_class(&line, a, s, false, NO_STATE))
            first = false;
    } else {
        str_append_text(&line, "\"\""); /* may end anywhere before a text is whole */
        first = false;
    }
    memset(a->reached, 0, a->n_states * sizeof *a->reached);
    for (size_t c = 0; c < a->n_alphabet; c++)
        a->reached[a->states[s].next[c]] = true;
    for (uint32_t to = 1; to < a->n_states; to++) {
        size_t before = line.len;
        if (!a->reached[to])
            continue;
        if (!first)
            str_append_text(&line, " | ");
        if (append_class(&line, a, s, false, to)) {
            str_append_char(&line, ' ');
            append_state_name(&line, kind, id, to);
            first = false;
        } else {
            str_truncate(&line, before);
        }
    }
    if (!first)
        str_append_text(&line, " | ");
    append_class(&line, a, s, true, NO_STATE);
    str_append_char(&line, ' ');
    append_state_name(&line, kind, id, 0);
    str_append_char(&line, '\n');
    w->failed = w->failed || line.failed || !str_append_slice(&w->rules, str_slice(&line));
    str_free(&line);
}

static void write_automaton(struct writer *w, const struct peg_piece *p, peg_id id, bool through,
                            struct str *out)
{
    struct automaton a = {0};
    const char *kind = through ? "through" : "until";
    append_state_name(out, kind, id, 0);
    if (w->automaton[id])
        return;
    w->automaton[id] = true;
    uint64_t letters = 1; /* so many states at most, each with a way for each letter */
    for (size_t i = 0; i < p->n_texts; i++)
        letters += p->texts[i].len;
    if (!budget_step(w->budget, letters * letters, w->err) ||
        !budget_bytes(w->budget, letters * letters * sizeof(uint32_t), w->err))
        w->failed = true;
    else if (!build_trie(&a, p) || !link_states(&a)) {
        w->failed = true;
    } else {
        for (uint32_t s = 0; s < a.n_states; s++)
            if (!a.states[s].final)
                write_state(w, &a, id, s, through);
        if (a.states[0].final) { /* an empty text: nothing stands before it */
            append_state_name(&w->rules, kind, id, 0);
            str_append_text(&w->rules, " ::= \"\"\n");
        }
    }
    automaton_free(&a);
}

/* ---- Pieces -------------------------------------------------------------- */

/* Through what only wraps: the piece whose grammar will be written. */
static const struct peg_piece *bare(const struct writer *w, peg_id id)
{
    const struct peg_piece *p = w->g->pieces[id];
    while (p->kind == PEG_TAG || p->kind == PEG_ATOMIC)
        p = w->g->pieces[p->child];
    return p;
}

static void write_grouped(struct writer *w, peg_id id, bool sequences_too, struct str *out)
{
    const struct peg_piece *p = bare(w, id);
    bool group = p->kind == PEG_CHOICE || (sequences_too && p->kind == PEG_SEQUENCE);
    if (group)
        str_append_char(out, '(');
    write_piece(w, id, out);
    if (group)
        str_append_char(out, ')');
}

static void append_count(struct str *out, int least, int most)
{
    if (least == 1 && most == 1)
        return;
    if (least == 0 && most == 1)
        str_append_char(out, '?');
    else if (least == 0 && most < 0)
        str_append_char(out, '*');
    else if (least == 1 && most < 0)
        str_append_char(out, '+');
    else if (most < 0)
        str_append_format(out, "{%d,}", least);
    else if (least == most)
        str_append_format(out, "{%d}", least);
    else
        str_append_format(out, "{%d,%d}", least, most);
}

static void write_sequence(struct writer *w, const struct peg_piece *p, struct str *out)
{
    bool any = false;
    for (size_t i = 0; i < p->n_children; i++) {
        size_t before = out->len;
        if (any)
            str_append_char(out, ' ');
        size_t begin = out->len;
        write_grouped(w, p->children[i], true, out);
        if (out->len == begin || (out->len == begin + 2 && out->data[begin] == '('))
            str_truncate(out, before);
        else
            any = true;
    }
}

static void write_choice(struct writer *w, const struct peg_piece *p, struct str *out)
{
    for (size_t i = 0; i < p->n_children; i++) {
        if (i)
            str_append_text(out, " | ");
        size_t begin = out->len;
        write_grouped(w, p->children[i], false, out);
        if (out->len == begin)
            str_append_text(out, "\"\"");
    }
}

static void write_rule_name(struct writer *w, struct slice name, struct str *out)
{
    const struct peg_rule_entry *rule = peg_rule_of(w->g, name);
    if (!rule) {
        w->failed = true;
        return;
    }
    w->wanted[rule - w->g->rules] = true;
    str_append_text(out, "p-");
    str_append_slice(out, name);
}

static void write_schema(struct writer *w, const struct peg_piece *p, struct str *out)
{
    char *name = slice_duplicate(p->text);
    struct error reason = {0};
    const char *used =
        name ? grammar_builder_schema(w->schemas, name, p->schema, p->mode, &reason) : NULL;
    if (used) {
        str_append_text(out, used);
    } else {
        if (!w->failed && w->err && reason.code != ERR_NONE)
            *w->err = reason;
        w->failed = true;
    }
    free(name);
}

static void write_piece(struct writer *w, peg_id id, struct str *out)
{
    const struct peg_piece *p = w->g->pieces[id];
    /* Its own text; the groups around it copy it. */
    uint64_t bytes = 16 + p->text.len;
    if (!w->failed &&
        (!budget_step(w->budget, 8 + bytes / 8, w->err) || !budget_bytes(w->budget, bytes, w->err)))
        w->failed = true;
    if (w->failed)
        return;
    switch (p->kind) {
    case PEG_EMPTY:
    case PEG_END:
    case PEG_AHEAD:
    case PEG_NOT_AHEAD:
        break; /* a grammar cannot look ahead */
    case PEG_LITERAL:
        grammar_append_literal(out, p->text);
        break;
    case PEG_SEQUENCE:
        write_sequence(w, p, out);
        break;
    case PEG_CHOICE:
        write_choice(w, p, out);
        break;
    case PEG_REPEAT: {
        size_t begin = out->len;
        write_grouped(w, p->child, true, out);
        if (out->len > begin)
            append_count(out, p->least, p->most);
        break;
    }
    case PEG_ANY:
        str_append_char(out, '.');
        break;
    case PEG_SPACE:
        str_append_text(out, "p-space");
        break;
    case PEG_CHARS:
        str_append_slice(out, p->text);
        append_count(out, p->least, p->most);
        break;
    case PEG_STRING:
        str_append_format(out, "([^%c\\\\] | \"\\\\\" ([%c\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4}))*",
                          p->delimiter, p->delimiter);
        break;
    case PEG_UNTIL:
        if (p->n_texts == 0)
            str_append_text(out, ".*");
        else
            write_automaton(w, p, id, false, out);
        break;
    case PEG_THROUGH:
        write_automaton(w, p, id, true, out);
        break;
    case PEG_SCHEMA:
        write_schema(w, p, out);
        break;
    case PEG_RULE:
    case PEG_REF:
        write_rule_name(w, p->text, out);
        break;
    case PEG_TAG:
    case PEG_ATOMIC:
        write_piece(w, p->child, out);
        break;
    case PEG_GRAMMAR:
        str_append_slice(out, p->text);
        break;
    }
}

/* ---- Whole grammars ------------------------------------------------------ */

static void write_root(struct writer *w, bool lazy)
{
    struct str body = {0};
    if (lazy) {
        for (size_t i = 0; i < w->g->n_rules; i++)
            if (w->g->pieces[w->g->rules[i].rule]->trigger) {
                if (body.len)
                    str_append_text(&body, " | ");
                write_rule_name(w, w->g->rules[i].name, &body);
            }
    } else {
        write_piece(w, w->g->root, &body);
    }
    str_append_text(&w->rules, "root ::= ");
    str_append_slice(&w->rules, body.len ? str_slice(&body) : SLICE("\"\""));
    str_append_char(&w->rules, '\n');
    w->failed = w->failed || body.failed;
    str_free(&body);
}

/* The rules that what is written so far asks for, until no more are. */
static void write_rules(struct writer *w, bool *written)
{
    bool again = true;
    while (again && !w->failed) {
        again = false;
        for (size_t i = 0; i < w->g->n_rules; i++) {
            if (!w->wanted[i] || written[i])
                continue;
            written[i] = again = true;
            struct str body = {0};
            write_piece(w, w->g->pieces[w->g->rules[i].rule]->child, &body);
            str_append_text(&w->rules, "p-");
            str_append_slice(&w->rules, w->g->rules[i].name);
            str_append_text(&w->rules, " ::= ");
            str_append_slice(&w->rules, body.len ? str_slice(&body) : SLICE("\"\""));
            str_append_char(&w->rules, '\n');
            w->failed = w->failed || body.failed;
            str_free(&body);
        }
    }
}

bool peg_to_grammar(const struct peg *g, bool lazy, struct budget *budget, struct str *out,
                    struct str *objects, struct error *err)
{
    struct error reason = {0};
    struct writer w = {.g = g,
                       .budget = budget,
                       .err = &reason,
                       .schemas = grammar_builder_create(budget, &reason)};
    w.wanted = calloc(g->n_rules + 1, sizeof *w.wanted);
    w.automaton = calloc(g->n + 1, sizeof *w.automaton);
    bool *written = calloc(g->n_rules + 1, sizeof *written);
    bool ok = w.schemas && w.wanted && w.automaton && written && !g->failed;
    if (ok) {
        write_root(&w, lazy);
        write_rules(&w, written);
        /* a few blanks: enough for any layout, too few to get stuck in */
        str_append_text(&w.rules, "p-space ::= | \" \" | \"\\n\"{1,2} [ \\t]{0,20}\n");
        ok = !w.failed && !w.rules.failed && str_append_slice(out, str_slice(&w.rules)) &&
             grammar_builder_text(w.schemas, out, &reason) &&
             grammar_builder_objects(w.schemas, objects);
    }
    if (!ok && err) {
        if (reason.code == ERR_NONE)
            error_memory(&reason);
        *err = reason;
    }
    str_free(&w.rules);
    free(w.wanted);
    free(w.automaton);
    free(written);
    if (w.schemas)
        grammar_builder_free(w.schemas);
    return ok;
}
