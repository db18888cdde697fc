/* peg.c - building parsers. */
#include "chat/peg_internal.h"

#include "base/utf8.h"

#include <ctype.h>
#include <stdlib.h>

struct peg *peg_create(void)
{
    struct peg *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    struct peg_piece *empty = arena_alloc(&g->arena, sizeof *empty);
    if (!empty || !vec_reserve((void **)&g->pieces, &g->capacity, 0, 1, sizeof *g->pieces)) {
        peg_free(g);
        return NULL;
    }
    g->pieces[g->n++] = empty; /* PEG_NOTHING */
    return g;
}

void peg_free(struct peg *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n; i++)
        json_decref((json_t *)g->pieces[i]->schema);
    free(g->pieces);
    free(g->rules);
    arena_free(&g->arena);
    free(g);
}

bool peg_failed(const struct peg *g)
{
    return g->failed;
}

void peg_set_root(struct peg *g, peg_id root)
{
    g->root = root;
    for (size_t i = 0; i < g->n; i++) { /* now all rules are known */
        struct peg_piece *piece = g->pieces[i];
        const struct peg_rule_entry *rule =
            piece->kind == PEG_REF ? peg_rule_of(g, piece->text) : NULL;
        if (rule)
            piece->child = rule->rule;
    }
}

static struct peg_piece *add(struct peg *g, enum peg_kind kind, peg_id *id)
{
    struct peg_piece *piece = g->failed ? NULL : arena_alloc(&g->arena, sizeof *piece);
    *id = PEG_NOTHING;
    if (!piece || g->n >= UINT32_MAX ||
        !vec_reserve((void **)&g->pieces, &g->capacity, g->n, 1, sizeof *g->pieces)) {
        g->failed = true;
        return NULL;
    }
    piece->kind = kind;
    *id = (peg_id)g->n;
    g->pieces[g->n++] = piece;
    return piece;
}

static struct slice copy(struct peg *g, struct slice text)
{
    char *made = arena_duplicate(&g->arena, text);
    if (!made) {
        g->failed = true;
        return SLICE("");
    }
    return (struct slice){made, text.len};
}

static peg_id add_with_child(struct peg *g, enum peg_kind kind, peg_id child)
{
    peg_id id;
    struct peg_piece *piece = add(g, kind, &id);
    if (piece)
        piece->child = child;
    return id;
}

static peg_id add_plain(struct peg *g, enum peg_kind kind)
{
    return add_with_child(g, kind, PEG_NOTHING);
}

peg_id peg_end(struct peg *g)
{
    return add_plain(g, PEG_END);
}

peg_id peg_any(struct peg *g)
{
    return add_plain(g, PEG_ANY);
}

peg_id peg_space(struct peg *g)
{
    return add_plain(g, PEG_SPACE);
}

peg_id peg_literal(struct peg *g, struct slice text)
{
    peg_id id;
    if (text.len == 0)
        return PEG_NOTHING;
    struct peg_piece *piece = add(g, PEG_LITERAL, &id);
    if (piece)
        piece->text = copy(g, text);
    return id;
}

peg_id peg_text(struct peg *g, const char *text)
{
    return peg_literal(g, slice_of(text));
}

/* A sequence in a sequence, a choice in a choice is laid out flat. */
static peg_id add_list(struct peg *g, enum peg_kind kind, const peg_id *items, size_t n)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        const struct peg_piece *item = g->pieces[items[i]];
        total += item->kind == kind ? item->n_children : 1;
    }
    peg_id id;
    struct peg_piece *piece = add(g, kind, &id);
    if (!piece || !(piece->children = arena_alloc_array(&g->arena, total + 1, sizeof(peg_id)))) {
        g->failed = true;
        return PEG_NOTHING;
    }
    for (size_t i = 0; i < n; i++) {
        const struct peg_piece *item = g->pieces[items[i]];
        if (kind == PEG_SEQUENCE && item->kind == PEG_EMPTY)
            continue;
        if (item->kind == kind)
            for (size_t k = 0; k < item->n_children; k++)
                piece->children[piece->n_children++] = item->children[k];
        else
            piece->children[piece->n_children++] = items[i];
    }
    return id;
}

peg_id peg_sequence(struct peg *g, const peg_id *items, size_t n)
{
    return add_list(g, PEG_SEQUENCE, items, n);
}

peg_id peg_choice(struct peg *g, const peg_id *items, size_t n)
{
    return add_list(g, PEG_CHOICE, items, n);
}

peg_id peg_repeat(struct peg *g, peg_id item, int least, int most)
{
    peg_id id;
    struct peg_piece *piece = add(g, PEG_REPEAT, &id);
    if (piece) {
        piece->child = item;
        piece->least = least;
        piece->most = most;
    }
    return id;
}

peg_id peg_optional(struct peg *g, peg_id item)
{
    return peg_repeat(g, item, 0, 1);
}

peg_id peg_any_number(struct peg *g, peg_id item)
{
    return peg_repeat(g, item, 0, -1);
}

peg_id peg_some(struct peg *g, peg_id item)
{
    return peg_repeat(g, item, 1, -1);
}

peg_id peg_ahead(struct peg *g, peg_id item)
{
    return add_with_child(g, PEG_AHEAD, item);
}

peg_id peg_not_ahead(struct peg *g, peg_id item)
{
    return add_with_child(g, PEG_NOT_AHEAD, item);
}

peg_id peg_atomic(struct peg *g, peg_id item)
{
    return add_with_child(g, PEG_ATOMIC, item);
}

peg_id peg_tag(struct peg *g, enum peg_tag_name tag, peg_id item)
{
    peg_id id;
    struct peg_piece *piece = add(g, PEG_TAG, &id);
    if (piece) {
        piece->child = item;
        piece->tag = tag;
    }
    return id;
}

peg_id peg_grammar(struct peg *g, peg_id item, const char *gbnf)
{
    peg_id id;
    struct peg_piece *piece = add(g, PEG_GRAMMAR, &id);
    if (piece) {
        piece->child = item;
        piece->text = copy(g, slice_of(gbnf));
    }
    return id;
}

/* One character of a class, escapes read. */
static uint32_t class_character(const char *pattern, size_t len, size_t *at)
{
    uint32_t c;
    if (pattern[*at] != '\\' || *at + 1 >= len) {
        *at += utf8_decode(pattern + *at, len - *at, &c, NULL);
        return c;
    }
    char letter = pattern[*at + 1];
    size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    *at += 2;
    if (digits && *at + digits <= len) {
        char hex[9] = {0};
        memcpy(hex, pattern + *at, digits);
        *at += digits;
        return (uint32_t)strtoul(hex, NULL, 16);
    }
    return letter == 'n' ? '\n' : letter == 't' ? '\t' : letter == 'r' ? '\r' : (uint32_t)letter;
}

peg_id peg_chars(struct peg *g, const char *pattern, int least, int most)
{
    peg_id id;
    struct peg_piece *piece = add(g, PEG_CHARS, &id);
    size_t len = strlen(pattern), at = 1;
    if (!piece || !(piece->ranges = arena_alloc_array(&g->arena, len, sizeof *piece->ranges))) {
        g->failed = true;
        return PEG_NOTHING;
    }
    piece->text = copy(g, slice_of(pattern));
    piece->least = least;
    piece->most = most;
    len--; /* the closing bracket */
    if (at < len && pattern[at] == '^') {
        piece->negated = true;
        at++;
    }
    while (at < len) {
        struct peg_range range;
        range.low = range.high = class_character(pattern, len, &at);
        if (at + 1 < len && pattern[at] == '-') {
            at++;
            range.high = class_character(pattern, len, &at);
        }
        piece->ranges[piece->n_ranges++] = range;
    }
    return id;
}

peg_id peg_string_content(struct peg *g, char delimiter)
{
    peg_id id;
    struct peg_piece *piece = add(g, PEG_STRING, &id);
    if (piece)
        piece->delimiter = delimiter;
    return id;
}

static peg_id add_texts(struct peg *g, enum peg_kind kind, peg_id item, const struct slice *texts,
                        size_t n)
{
    peg_id id;
    struct peg_piece *piece = add(g, kind, &id);
    if (!piece || !(piece->texts = arena_alloc_array(&g->arena, n + 1, sizeof *piece->texts))) {
        g->failed = true;
        return PEG_NOTHING;
    }
    piece->child = item;
    for (size_t i = 0; i < n; i++) {
        if (texts[i].len)
            piece->firsts[(unsigned char)texts[i].data[0]] = true;
        else
            memset(piece->firsts, 1, sizeof piece->firsts);
        piece->texts[piece->n_texts++] = copy(g, texts[i]);
    }
    return id;
}

peg_id peg_until_any(struct peg *g, const struct slice *texts, size_t n)
{
    return add_texts(g, PEG_UNTIL, PEG_NOTHING, texts, n);
}

peg_id peg_until_slice(struct peg *g, struct slice text)
{
    return peg_until_any(g, &text, 1);
}

peg_id peg_until(struct peg *g, const char *text)
{
    return peg_until_slice(g, slice_of(text));
}

peg_id peg_rest(struct peg *g)
{
    return peg_until_any(g, NULL, 0);
}

peg_id peg_through(struct peg *g, peg_id item, const struct slice *texts, size_t n)
{
    return add_texts(g, PEG_THROUGH, item, texts, n);
}

peg_id peg_schema(struct peg *g, peg_id item, struct slice name, const json_t *schema,
                  enum schema_mode mode)
{
    peg_id id;
    struct peg_piece *piece = add(g, PEG_SCHEMA, &id);
    if (piece) {
        piece->child = item;
        piece->text = copy(g, name);
        piece->schema = json_incref((json_t *)schema);
        piece->mode = mode;
    }
    return id;
}

/* ---- Rules --------------------------------------------------------------- */

static struct slice rule_name(struct peg *g, struct slice name)
{
    struct str clean = {0};
    for (size_t i = 0; i < name.len; i++) {
        bool plain = isalnum((unsigned char)name.data[i]) || name.data[i] == '-';
        if (plain)
            str_append_char(&clean, name.data[i]);
        else if (clean.len == 0 || i == 0 || isalnum((unsigned char)name.data[i - 1]) ||
                 name.data[i - 1] == '-')
            str_append_char(&clean, '-');
    }
    struct slice kept = copy(g, str_slice(&clean));
    str_free(&clean);
    return kept;
}

const struct peg_rule_entry *peg_rule_of(const struct peg *g, struct slice name)
{
    for (size_t i = 0; i < g->n_rules; i++)
        if (slice_equal(g->rules[i].name, name))
            return &g->rules[i];
    return NULL;
}

bool peg_has_rule(const struct peg *g, const char *name)
{
    return peg_rule_of(g, slice_of(name)) != NULL;
}

peg_id peg_ref(struct peg *g, const char *name)
{
    peg_id id;
    struct peg_piece *piece = add(g, PEG_REF, &id);
    if (piece)
        piece->text = copy(g, slice_of(name));
    return id;
}

/* name, or where a rule has it already name and a number: "get-it" and "get_it" are
 * two tools. */
static struct slice free_name(struct peg *g, struct slice name)
{
    struct slice made = name;
    for (size_t i = g->n_rules; !g->failed && peg_rule_of(g, made); i++) {
        struct str text = {0};
        str_append_format(&text, "%.*s-%zu", (int)name.len, name.data, i);
        made = copy(g, str_slice(&text));
        str_free(&text);
    }
    return made;
}

/* name is the rule's own. */
static peg_id define_rule(struct peg *g, struct slice name, peg_id item, bool trigger)
{
    peg_id id, ref;
    struct peg_piece *rule = add(g, PEG_RULE, &id), *piece = add(g, PEG_REF, &ref);
    if (!rule || !piece)
        return PEG_NOTHING;
    rule->child = item;
    rule->trigger = trigger;
    rule->text = piece->text = name;
    struct peg_rule_entry *entry = (struct peg_rule_entry *)peg_rule_of(g, rule->text);
    if (!entry) {
        if (!vec_reserve((void **)&g->rules, &g->rules_capacity, g->n_rules, 1, sizeof *g->rules)) {
            g->failed = true;
            return PEG_NOTHING;
        }
        entry = &g->rules[g->n_rules++];
        entry->name = rule->text;
    }
    entry->rule = id;
    return ref;
}

peg_id peg_rule(struct peg *g, struct slice name, peg_id item, bool trigger)
{
    return define_rule(g, free_name(g, rule_name(g, name)), item, trigger);
}

/* ---- Values -------------------------------------------------------------- */

/* The rule of that name, made by build when it is not there yet. While it is
 * being made, its name stands for it, so that values can hold values. */
static peg_id value_rule(struct peg *g, const char *name, peg_id (*build)(struct peg *g))
{
    if (peg_has_rule(g, name))
        return peg_ref(g, name);
    define_rule(g, slice_of(name), PEG_NOTHING, false);
    if (g->failed) /* nothing stands for the name: values would hold values without end */
        return PEG_NOTHING;
    return define_rule(g, slice_of(name), build(g), false);
}

static peg_id build_number(struct peg *g)
{
    peg_id digits = peg_chars(g, "[0-9]", 1, -1);
    peg_id whole = CHOICE(g, peg_text(g, "0"),
                          SEQ(g, peg_chars(g, "[1-9]", 1, 1), peg_chars(g, "[0-9]", 0, -1)));
    peg_id fraction = SEQ(g, peg_text(g, "."), digits);
    peg_id exponent = SEQ(g, CHOICE(g, peg_text(g, "e"), peg_text(g, "E")),
                          peg_optional(g, peg_chars(g, "[+-]", 1, 1)), digits);
    /* At the text's end a number may still grow: 3 may become 3.14. */
    peg_id no_more = peg_not_ahead(g, peg_chars(g, "[0-9.eE+-]", 1, 1));
    return SEQ(g, peg_optional(g, peg_text(g, "-")), whole, peg_optional(g, fraction),
               peg_optional(g, exponent), no_more);
}

static peg_id quoted(struct peg *g, const char *quote)
{
    return SEQ(g, peg_text(g, quote), peg_string_content(g, quote[0]), peg_text(g, quote));
}

static peg_id build_string(struct peg *g)
{
    return quoted(g, "\"");
}

static peg_id build_bool(struct peg *g)
{
    return CHOICE(g, peg_text(g, "true"), peg_text(g, "false"));
}

static peg_id build_null(struct peg *g)
{
    return peg_text(g, "null");
}

/* open (item (, item)*)? close */
static peg_id bracketed(struct peg *g, const char *open, peg_id item, const char *close)
{
    peg_id space = peg_space(g), comma = peg_text(g, ",");
    peg_id items = SEQ(g, item, peg_any_number(g, SEQ(g, space, comma, space, item)));
    return SEQ(g, peg_text(g, open), space,
               CHOICE(g, peg_text(g, close), SEQ(g, items, space, peg_text(g, close))));
}

static peg_id pair(struct peg *g, peg_id key, peg_id value)
{
    return SEQ(g, key, peg_space(g), peg_text(g, ":"), peg_space(g), value);
}

static peg_id build_object(struct peg *g)
{
    return bracketed(g, "{", pair(g, peg_json_string(g), peg_json(g)), "}");
}

static peg_id build_array(struct peg *g)
{
    return bracketed(g, "[", peg_json(g), "]");
}

static peg_id build_json(struct peg *g)
{
    return CHOICE(g, peg_json_object(g), value_rule(g, "json-array", build_array),
                  peg_json_string(g), peg_json_number(g), peg_json_bool(g), peg_json_null(g));
}

peg_id peg_json_number(struct peg *g)
{
    return value_rule(g, "json-number", build_number);
}

peg_id peg_json_string(struct peg *g)
{
    return value_rule(g, "json-string", build_string);
}

peg_id peg_json_bool(struct peg *g)
{
    return value_rule(g, "json-bool", build_bool);
}

peg_id peg_json_null(struct peg *g)
{
    return value_rule(g, "json-null", build_null);
}

peg_id peg_json_object(struct peg *g)
{
    return value_rule(g, "json-object", build_object);
}

peg_id peg_json(struct peg *g)
{
    return value_rule(g, "json-value", build_json);
}

peg_id peg_json_member(struct peg *g, const char *key, peg_id item)
{
    struct str name = {0};
    str_append_format(&name, "\"%s\"", key);
    peg_id made = pair(g, peg_literal(g, str_slice(&name)), item);
    str_free(&name);
    return made;
}

static peg_id build_python_string(struct peg *g)
{
    return CHOICE(g, quoted(g, "\""), quoted(g, "'"));
}

peg_id peg_python_string(struct peg *g)
{
    return value_rule(g, "python-string", build_python_string);
}

static peg_id python_value(struct peg *g, bool json_too, peg_id self)
{
    peg_id dict = bracketed(g, "{", pair(g, peg_python_string(g), self), "}");
    peg_id list = bracketed(g, "[", self, "]");
    peg_id plain =
        CHOICE(g, SEQ(g, dict, peg_space(g)), SEQ(g, list, peg_space(g)), peg_python_string(g),
               peg_json_number(g), peg_text(g, "True"), peg_text(g, "False"), peg_text(g, "None"));
    return json_too ? CHOICE(g, plain, peg_json_bool(g), peg_json_null(g)) : plain;
}

static peg_id build_python(struct peg *g)
{
    return python_value(g, false, peg_ref(g, "python-value"));
}

static peg_id build_python_or_json(struct peg *g)
{
    return python_value(g, true, peg_ref(g, "python-or-json-value"));
}

peg_id peg_python_value(struct peg *g, bool json_too)
{
    return json_too ? value_rule(g, "python-or-json-value", build_python_or_json)
                    : value_rule(g, "python-value", build_python);
}
