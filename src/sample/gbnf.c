/* gbnf.c - reading GBNF, the grammar notation of llama.cpp (its
 * grammars/README.md). Repetitions are written out as rules:
 *   x{2,}  = x x r   with r ::= x r |
 *   x{0,2} = r2      with r2 ::= x r1 |, r1 ::= x | */
#include "sample/gbnf_parser.h"

#include "base/utf8.h"

#include <stdlib.h>

enum {
    REPEAT_MAX = 2000,     /* rules or copies one repetition may make */
    COPIES_MAX = 1 << 21,  /* elements that repetitions may make, all together */
    SIZE_MAX_32 = 1 << 30, /* elements, rules, ranges */
    DEPTH_MAX = 200,       /* of nested groups */
    PAID_AT_ONCE = 1024,   /* elements */
    RULE_BYTES = 160,      /* what one costs, besides its elements */
};

#define NO_LIMIT UINT64_MAX

/* ---- errors ---- */

static bool fail_at(struct parser *p, size_t at, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static bool fail_at(struct parser *p, size_t at, enum error_code code, const char *format, ...)
{
    size_t line = 1, start = 0;
    if (at > p->text.len)
        at = p->text.len;
    for (size_t i = 0; i < at; i++) {
        if (p->text.data[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    size_t column = utf8_length((struct slice){p->text.data + start, at - start}) + 1;
    va_list args;
    va_start(args, format);
    error_set_va(p->err, code, format, args);
    va_end(args);
    return error_prefix(p->err, "line %zu, column %zu", line, column);
}

static bool expected(struct parser *p, const char *what)
{
    if (p->pos >= p->text.len)
        return fail_at(p, p->pos, ERR_FORMAT, "expected %s but the grammar ends here", what);
    uint32_t found;
    size_t n = utf8_decode(p->text.data + p->pos, p->text.len - p->pos, &found, NULL);
    if (found < 0x20 || found == 0x7F)
        return fail_at(p, p->pos, ERR_FORMAT, "expected %s but found the character \\x%02X", what,
                       found);
    return fail_at(p, p->pos, ERR_FORMAT, "expected %s but found '%.*s'", what, (int)n,
                   p->text.data + p->pos);
}

static bool no_memory(struct parser *p)
{
    return error_memory(p->err);
}

/* ---- characters ---- */

static char peek(const struct parser *p, size_t ahead)
{
    return p->pos + ahead < p->text.len ? p->text.data[p->pos + ahead] : 0;
}

static bool at_end(const struct parser *p)
{
    return p->pos >= p->text.len;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || is_digit(c);
}

static void skip_space(struct parser *p, bool newlines)
{
    for (;;) {
        char c = peek(p, 0);
        if (c == '#') {
            while (!at_end(p) && peek(p, 0) != '\r' && peek(p, 0) != '\n')
                p->pos++;
        } else if (c == ' ' || c == '\t' || (newlines && (c == '\r' || c == '\n'))) {
            p->pos++;
        } else {
            return;
        }
    }
}

static bool read_name(struct parser *p, struct slice *name)
{
    size_t start = p->pos;
    while (is_word(peek(p, 0)))
        p->pos++;
    *name = (struct slice){p->text.data + start, p->pos - start};
    return name->len || expected(p, "a rule name (letters, digits and '-')");
}

static bool read_number(struct parser *p, uint64_t *number)
{
    if (!is_digit(peek(p, 0)))
        return expected(p, "a number");
    size_t start = p->pos;
    uint64_t value = 0;
    for (; is_digit(peek(p, 0)); p->pos++) {
        uint64_t digit = (uint64_t)(peek(p, 0) - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return fail_at(p, start, ERR_FORMAT, "this number is too large");
        value = value * 10 + digit;
    }
    *number = value;
    return true;
}

static bool read_hex(struct parser *p, int digits, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < digits; i++, p->pos++) {
        char c = peek(p, 0);
        uint32_t digit;
        if (is_digit(c))
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return expected(p, digits == 2   ? "two hexadecimal digits after \\x"
                               : digits == 4 ? "four hexadecimal digits after \\u"
                                             : "eight hexadecimal digits after \\U");
        *value = *value << 4 | digit;
    }
    return true;
}

static bool read_escape(struct parser *p, uint32_t *c)
{
    char kind = peek(p, 1);
    p->pos += 2;
    switch (kind) {
    case 'x':
        return read_hex(p, 2, c);
    case 'u':
        return read_hex(p, 4, c);
    case 'U':
        return read_hex(p, 8, c);
    case 't':
        *c = '\t';
        return true;
    case 'r':
        *c = '\r';
        return true;
    case 'n':
        *c = '\n';
        return true;
    case '\\':
    case '"':
    case '[':
    case ']':
        *c = (uint32_t)kind;
        return true;
    default:
        p->pos--;
        return expected(p, "one of x u U t r n \\ \" [ ] after the backslash");
    }
}

/* One character of a literal or class; closing says what else may stand here. */
static bool read_char(struct parser *p, uint32_t *c, const char *closing)
{
    if (at_end(p))
        return expected(p, closing);
    if (peek(p, 0) == '\\')
        return read_escape(p, c);
    bool valid = true;
    if ((unsigned char)peek(p, 0) < 0x80) {
        *c = (unsigned char)p->text.data[p->pos++];
        return true;
    }
    size_t n = utf8_decode(p->text.data + p->pos, p->text.len - p->pos, c, &valid);
    if (!valid)
        return fail_at(p, p->pos, ERR_FORMAT, "this is not UTF-8");
    p->pos += n;
    return true;
}

/* ---- rules ---- */

static uint64_t hash_name(struct slice name)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < name.len; i++)
        hash = (hash ^ (unsigned char)name.data[i]) * 1099511628211u;
    return hash;
}

bool parser_new_rule(struct parser *p, struct slice name, uint32_t *rule)
{
    if (p->rules.n >= SIZE_MAX_32)
        return fail_at(p, p->pos, ERR_LIMIT, "the grammar has too many rules");
    if (!budget_step(p->budget, 8, p->err) || !budget_bytes(p->budget, RULE_BYTES, p->err))
        return false;
    *rule = (uint32_t)p->rules.n;
    return (VEC_PUSH(&p->rules, (struct rule_body){0}) && VEC_PUSH(&p->names, name)) ||
           no_memory(p);
}

static bool grow_symbols(struct parser *p)
{
    size_t capacity = p->symbols.n ? p->symbols.n * 2 : 64;
    struct symbol *grown = calloc(capacity, sizeof *grown);
    if (!grown)
        return no_memory(p);
    for (size_t i = 0; i < p->symbols.n; i++) {
        struct symbol symbol = p->symbols.data[i];
        if (!symbol.name.len)
            continue;
        size_t at = hash_name(symbol.name) & (capacity - 1);
        while (grown[at].name.len)
            at = (at + 1) & (capacity - 1);
        grown[at] = symbol;
    }
    free(p->symbols.data);
    p->symbols.data = grown;
    p->symbols.n = p->symbols.capacity = capacity;
    return true;
}

/* The rule of that name; made, not yet defined, where it is new. */
static bool rule_named(struct parser *p, struct slice name, uint32_t *rule)
{
    if (p->n_named * 2 >= p->symbols.n && !grow_symbols(p))
        return false;
    size_t mask = p->symbols.n - 1, at = hash_name(name) & mask;
    for (; p->symbols.data[at].name.len; at = (at + 1) & mask) {
        if (!budget_step(p->budget, 1, p->err))
            return false;
        if (slice_equal(p->symbols.data[at].name, name)) {
            *rule = p->symbols.data[at].rule;
            return true;
        }
    }
    if (!parser_new_rule(p, name, rule))
        return false;
    p->symbols.data[at] = (struct symbol){name, *rule};
    p->n_named++;
    return true;
}

bool parser_find_rule(const struct parser *p, struct slice name, uint32_t *rule)
{
    if (p->symbols.n == 0)
        return false;
    size_t mask = p->symbols.n - 1, at = hash_name(name) & mask;
    while (p->symbols.data[at].name.len && !slice_equal(p->symbols.data[at].name, name))
        at = (at + 1) & mask;
    *rule = p->symbols.data[at].rule;
    return p->symbols.data[at].name.len > 0;
}

/* Count elements, and pay for some in advance. */
static bool count_elements(struct parser *p, size_t n)
{
    p->n_elements += n;
    if (p->n_elements <= p->n_paid)
        return true;
    if (p->n_elements >= SIZE_MAX_32)
        return fail_at(p, p->pos, ERR_LIMIT, "the grammar is too large");
    size_t more = p->n_elements - p->n_paid + PAID_AT_ONCE;
    p->n_paid += more;
    return budget_step(p->budget, more / 4, p->err) &&
           budget_bytes(p->budget, more * sizeof(struct element), p->err);
}

bool parser_add(struct parser *p, struct rule_body *body, enum element_type type, uint32_t value)
{
    if (!count_elements(p, 1))
        return false;
    return VEC_PUSH(body, (struct element){type, value}) || no_memory(p);
}

static bool add_copy(struct parser *p, struct rule_body *body, const struct element *from, size_t n)
{
    p->n_copied += n;
    if (p->n_copied > COPIES_MAX)
        return fail_at(p, p->pos, ERR_LIMIT,
                       "the grammar is too large once its repetitions are written out");
    if (!count_elements(p, n))
        return false;
    if (!VEC_RESERVE(body, n))
        return no_memory(p);
    if (n)
        memcpy(body->data + body->n, from, n * sizeof *from);
    body->n += n;
    return true;
}

/* The item the next repetition applies to. */
struct item {
    size_t start;   /* its first element in the body */
    uint64_t rules; /* rules it stands for, repetitions counted */
};

static bool repeat(struct parser *p, struct rule_body *body, struct item *item, size_t at,
                   uint64_t min, uint64_t max)
{
    if (item->start == body->n)
        return fail_at(p, at, ERR_FORMAT, "expected something to repeat before this repetition");
    if (max < min)
        return fail_at(p, at, ERR_LIMIT, "a repetition cannot have a maximum below its minimum");
    uint64_t times = max != NO_LIMIT && max > 0 ? max : min > 0 ? min : 1;
    if (item->rules * times >= REPEAT_MAX)
        return fail_at(p, at, ERR_LIMIT,
                       "this repetition makes more than %d rules; repeat less, or less of it",
                       REPEAT_MAX);
    item->rules *= times;

    size_t n = body->n - item->start;
    struct rule_body once = {0};
    bool ok = add_copy(p, &once, body->data + item->start, n);
    if (min == 0)
        body->n = item->start;
    for (uint64_t i = 1; ok && i < min; i++)
        ok = add_copy(p, body, once.data, n);
    uint64_t optional = max == NO_LIMIT ? 1 : max - min;
    uint32_t rule = 0;
    for (uint64_t i = 0; ok && i < optional; i++) {
        uint32_t inner = rule;
        struct rule_body more = {0};
        ok = parser_new_rule(p, (struct slice){0}, &rule) && add_copy(p, &more, once.data, n);
        if (ok && (i > 0 || max == NO_LIMIT))
            ok = parser_add(p, &more, ELEMENT_RULE, max == NO_LIMIT ? rule : inner);
        ok = ok && parser_add(p, &more, ELEMENT_ALT, 0) && parser_add(p, &more, ELEMENT_END, 0);
        if (ok)
            p->rules.data[rule] = more;
        else
            VEC_FREE(&more);
    }
    if (ok && optional > 0)
        ok = parser_add(p, body, ELEMENT_RULE, rule);
    VEC_FREE(&once);
    return ok;
}

static bool read_repetition(struct parser *p, struct rule_body *body, struct item *item,
                            bool nested)
{
    size_t at = p->pos;
    char kind = peek(p, 0);
    uint64_t min = kind == '+' ? 1 : 0, max = kind == '?' ? 1 : NO_LIMIT;
    p->pos++;
    skip_space(p, nested);
    if (kind == '{') {
        size_t number_at = p->pos;
        if (!read_number(p, &min))
            return false;
        skip_space(p, nested);
        max = min;
        if (peek(p, 0) == ',') {
            p->pos++;
            skip_space(p, nested);
            max = NO_LIMIT;
            if (is_digit(peek(p, 0)) && !read_number(p, &max))
                return false;
            skip_space(p, nested);
            if (peek(p, 0) != '}')
                return expected(p, max == NO_LIMIT ? "a number or '}'" : "'}'");
        } else if (peek(p, 0) != '}') {
            return expected(p, "',' or '}'");
        }
        p->pos++;
        skip_space(p, nested);
        if (min > REPEAT_MAX)
            return fail_at(p, number_at, ERR_LIMIT, "at most %d repetitions can be asked for",
                           REPEAT_MAX);
        if (max < min)
            return fail_at(p, number_at, ERR_LIMIT,
                           "a repetition cannot have a maximum below its minimum");
        if (max > REPEAT_MAX)
            max = NO_LIMIT;
    }
    return repeat(p, body, item, at, min, max);
}

static bool read_literal(struct parser *p, struct rule_body *body)
{
    p->pos++;
    while (peek(p, 0) != '"') {
        uint32_t c;
        if (!read_char(p, &c, "'\"' to close the literal") || !parser_add(p, body, ELEMENT_CHAR, c))
            return false;
    }
    p->pos++;
    return true;
}

static void fill_ascii(struct parser *p, struct char_class *class)
{
    for (uint32_t i = 0; i < class->n_ranges; i++) {
        const struct char_range *range = &p->ranges.data[class->first_range + i];
        for (uint32_t c = range->low; c <= range->high && c < 128; c++)
            class->ascii[c / 32] |= 1u << c % 32;
    }
    for (int i = 0; class->negated && i < 4; i++)
        class->ascii[i] = ~class->ascii[i];
}

static int compare_ranges(const void *pa, const void *pb)
{
    const struct char_range *a = pa, *b = pb;
    return a->low < b->low ? -1 : a->low > b->low;
}

/* Sort the ranges of a class and join those that meet, so that a character is
 * looked for by halving. */
static bool sort_ranges(struct parser *p, struct char_class *class)
{
    struct char_range *ranges = p->ranges.data + class->first_range;
    uint32_t n = 0;
    if (!budget_step(p->budget, 4 * (uint64_t) class->n_ranges, p->err) ||
        !budget_bytes(p->budget, class->n_ranges * sizeof *ranges, p->err))
        return false;
    qsort(ranges, class->n_ranges, sizeof *ranges, compare_ranges);
    for (uint32_t i = 0; i < class->n_ranges; i++) {
        if (ranges[i].low > ranges[i].high)
            continue;
        if (n && ranges[i].low <= ranges[n - 1].high)
            ranges[n - 1].high =
                ranges[i].high > ranges[n - 1].high ? ranges[i].high : ranges[n - 1].high;
        else
            ranges[n++] = ranges[i];
    }
    class->n_ranges = n;
    p->ranges.n = class->first_range + n;
    return true;
}

static bool read_class(struct parser *p, struct rule_body *body)
{
    struct char_class class = {.first_range = (uint32_t)p->ranges.n};
    p->pos++;
    if (peek(p, 0) == '^') {
        class.negated = true;
        p->pos++;
    }
    while (peek(p, 0) != ']') {
        struct char_range range;
        if (!read_char(p, &range.low, "']' to close the character class"))
            return false;
        range.high = range.low;
        if (peek(p, 0) == '-' && peek(p, 1) != ']') {
            p->pos++;
            if (!read_char(p, &range.high, "the end of the range"))
                return false;
        }
        if (p->ranges.n >= SIZE_MAX_32)
            return fail_at(p, p->pos, ERR_LIMIT, "the grammar has too many character ranges");
        if (!budget_step(p->budget, 1, p->err))
            return false;
        if (!VEC_PUSH(&p->ranges, range))
            return no_memory(p);
    }
    p->pos++;
    class.n_ranges = (uint32_t)p->ranges.n - class.first_range;
    if (class.n_ranges == 0)
        return true; /* "[]" stands for nothing, as in the reference */
    if (!sort_ranges(p, &class))
        return false;
    fill_ascii(p, &class);
    uint32_t index = (uint32_t)p->classes.n;
    if (!budget_bytes(p->budget, sizeof class, p->err))
        return false;
    if (!VEC_PUSH(&p->classes, class))
        return no_memory(p);
    return parser_add(p, body, ELEMENT_CLASS, index);
}

static bool read_token(struct parser *p, struct rule_body *body)
{
    enum element_type type = ELEMENT_TOKEN;
    if (peek(p, 0) == '!') {
        type = ELEMENT_TOKEN_NOT;
        p->pos++;
    }
    size_t start = p->pos;
    if (peek(p, 0) != '<')
        return expected(p, "'<' of a token after '!'");
    p->pos++;
    if (peek(p, 0) == '[') {
        uint64_t id;
        p->pos++;
        if (!read_number(p, &id))
            return false;
        if (id > INT32_MAX)
            return fail_at(p, start, ERR_FORMAT, "no token has this number");
        if (peek(p, 0) != ']')
            return expected(p, "']'");
        p->pos++;
        if (peek(p, 0) != '>')
            return expected(p, "'>'");
        p->pos++;
        return parser_add(p, body, type, (uint32_t)id);
    }
    while (!at_end(p) && peek(p, 0) != '>')
        p->pos++;
    if (at_end(p))
        return expected(p, "'>' to close the token");
    p->pos++;
    struct slice text = {p->text.data + start, p->pos - start};
    struct token_vec ids = {0};
    if (!budget_step(p->budget, 4 * text.len, p->err))
        return false;
    bool one = p->vocab && vocab_encode(p->vocab, text, true, &ids) && ids.n == 1;
    uint32_t id = one ? (uint32_t)ids.data[0] : 0;
    VEC_FREE(&ids);
    if (!one)
        return fail_at(p, start, ERR_FORMAT, "'%.*s' is not one token of the vocabulary",
                       (int)(text.len < 64 ? text.len : 64), text.data);
    return parser_add(p, body, type, id);
}

static bool read_alternatives(struct parser *p, uint32_t rule, bool nested);

static bool read_group(struct parser *p, struct rule_body *body, struct item *item)
{
    size_t open = p->pos++;
    skip_space(p, true);
    size_t before = p->rules.n - p->n_factored;
    uint32_t rule;
    if (p->depth >= DEPTH_MAX)
        return fail_at(p, open, ERR_LIMIT, "groups are nested deeper than %d", DEPTH_MAX);
    p->depth++;
    if (!parser_new_rule(p, (struct slice){0}, &rule) || !read_alternatives(p, rule, true))
        return false;
    p->depth--;
    item->rules = p->rules.n - p->n_factored - before;
    if (peek(p, 0) != ')')
        return expected(p, "')'");
    p->pos++;
    return parser_add(p, body, ELEMENT_RULE, rule);
}

static bool read_reference(struct parser *p, struct rule_body *body)
{
    struct slice name;
    uint32_t rule;
    return read_name(p, &name) && rule_named(p, name, &rule) &&
           parser_add(p, body, ELEMENT_RULE, rule);
}

static bool read_sequence(struct parser *p, struct rule_body *body, bool nested)
{
    struct item item = {body->n, 1};
    for (;;) {
        char c = peek(p, 0);
        if (c == '*' || c == '+' || c == '?' || c == '{') {
            if (!read_repetition(p, body, &item, nested))
                return false;
            continue;
        }
        struct item next = {body->n, 1};
        bool ok;
        if (c == '"')
            ok = read_literal(p, body);
        else if (c == '[')
            ok = read_class(p, body);
        else if (c == '<' || c == '!')
            ok = read_token(p, body);
        else if (c == '(')
            ok = read_group(p, body, &next);
        else if (c == '.')
            ok = parser_add(p, body, ELEMENT_ANY, 0) && ++p->pos;
        else if (is_word(c))
            ok = read_reference(p, body);
        else
            return true;
        if (!ok)
            return false;
        item = next;
        skip_space(p, nested);
    }
}

struct alternatives {
    struct rule_body one; /* being read */
    struct literals literals;
    struct rule_body body; /* of the others */
    bool any;              /* others */
};

/* One alternative: to the literals, or to the others. */
static bool read_alternative(struct parser *p, struct alternatives *to, bool nested)
{
    struct rule_body *one = &to->one;
    bool literal;
    one->n = 0;
    if (!read_sequence(p, one, nested) || !literals_take(p, &to->literals, one, &literal))
        return false;
    if (literal)
        return true;
    if (to->any && !parser_add(p, &to->body, ELEMENT_ALT, 0))
        return false;
    to->any = true;
    if (!VEC_RESERVE(&to->body, one->n))
        return no_memory(p);
    if (one->n)
        memcpy(to->body.data + to->body.n, one->data, one->n * sizeof *one->data);
    to->body.n += one->n;
    return true;
}

static bool read_alternatives(struct parser *p, uint32_t rule, bool nested)
{
    struct alternatives all = {0};
    bool ok = read_alternative(p, &all, nested);
    while (ok && peek(p, 0) == '|') {
        p->pos++;
        skip_space(p, true);
        ok = read_alternative(p, &all, nested);
    }
    ok = ok && literals_append(p, &all.literals, &all.body, all.any) &&
         parser_add(p, &all.body, ELEMENT_END, 0);
    literals_free(&all.literals);
    VEC_FREE(&all.one);
    if (!ok) {
        VEC_FREE(&all.body);
        return false;
    }
    VEC_FREE(&p->rules.data[rule]); /* a second definition replaces the first */
    p->rules.data[rule] = all.body;
    return true;
}

static bool read_rule(struct parser *p)
{
    struct slice name;
    uint32_t rule;
    if (!read_name(p, &name))
        return false;
    skip_space(p, false);
    if (!rule_named(p, name, &rule))
        return false;
    if (!slice_starts_with(slice_from(p->text, p->pos), SLICE("::=")))
        return expected(p, "'::='");
    p->pos += 3;
    skip_space(p, true);
    if (!read_alternatives(p, rule, false))
        return false;
    if (!at_end(p) && peek(p, 0) != '\r' && peek(p, 0) != '\n')
        return expected(p, "an item, '|', a repetition or the end of the line");
    skip_space(p, true);
    return true;
}

/* ---- putting it together ---- */

static bool check_defined(struct parser *p)
{
    for (size_t i = 0; i < p->rules.n; i++) {
        if (p->rules.data[i].n)
            continue;
        struct slice name = p->names.data[i];
        size_t at = (size_t)(name.data - p->text.data);
        return fail_at(p, at, ERR_FORMAT, "the rule '%.*s' is not defined",
                       (int)(name.len < 64 ? name.len : 64), name.data);
    }
    return true;
}

static bool flatten(struct parser *p, struct grammar *g)
{
    size_t n = 0;
    for (size_t i = 0; i < p->rules.n; i++)
        n += p->rules.data[i].n;
    g->elements = malloc((n + 1) * sizeof *g->elements);
    g->rules = malloc((p->rules.n + 1) * sizeof *g->rules);
    if (!g->elements || !g->rules)
        return no_memory(p);
    for (size_t i = 0; i < p->rules.n; i++) {
        g->rules[i] = g->n_elements;
        memcpy(g->elements + g->n_elements, p->rules.data[i].data,
               p->rules.data[i].n * sizeof *g->elements);
        g->n_elements += (uint32_t)p->rules.data[i].n;
    }
    g->n_rules = (uint32_t)p->rules.n;
    g->classes = p->classes.data;
    g->ranges = p->ranges.data;
    p->classes.data = NULL;
    p->ranges.data = NULL;
    return true;
}

static bool find_root(struct parser *p, struct grammar *g)
{
    for (size_t i = 0; i < p->names.n; i++) {
        if (slice_equal_text(p->names.data[i], "root")) {
            g->root = (uint32_t)i;
            return true;
        }
    }
    return error_set(p->err, ERR_FORMAT, "expected a rule named 'root' where the grammar starts");
}

/* Memory that the check for left recursion takes, and gives back. */
static uint64_t check_bytes(const struct grammar *g)
{
    return (uint64_t)g->n_elements * 16 + (uint64_t)g->n_rules * 40;
}

static uint64_t grammar_bytes(const struct grammar *g)
{
    return (uint64_t)g->n_elements * sizeof *g->elements + (uint64_t)g->n_rules * sizeof *g->rules;
}

static bool check_recursion(struct parser *p, const struct grammar *g)
{
    return budget_step(p->budget, (uint64_t)g->n_elements + g->n_rules, p->err) &&
           budget_bytes(p->budget, check_bytes(g) + grammar_bytes(g), p->err) &&
           grammar_check_recursion(g, p->names.data, p->err);
}

static bool parse(struct parser *p, struct grammar *g)
{
    if (!budget_step(p->budget, p->text.len / 4, p->err))
        return false;
    skip_space(p, true);
    while (!at_end(p))
        if (!read_rule(p))
            return false;
    return check_defined(p) && find_root(p, g) && flatten(p, g) && check_recursion(p, g);
}

struct grammar *grammar_parse(const struct vocab *vocab, struct slice text, struct slice objects,
                              struct budget *budget, struct error *err)
{
    struct error ignored;
    struct parser p = {.vocab = vocab, .text = text, .budget = budget, .err = err ? err : &ignored};
    struct grammar *g = calloc(1, sizeof *g);
    bool ok = g ? parse(&p, g) && grammar_take_objects(&p, objects, g) : no_memory(&p);
    if (ok) /* only the grammar itself stays */
        budget_return(budget,
                      p.n_paid * sizeof(struct element) + p.rules.n * RULE_BYTES + check_bytes(g));
    for (size_t i = 0; i < p.rules.n; i++)
        VEC_FREE(&p.rules.data[i]);
    VEC_FREE(&p.rules);
    VEC_FREE(&p.names);
    VEC_FREE(&p.symbols);
    VEC_FREE(&p.classes);
    VEC_FREE(&p.ranges);
    if (ok)
        return g;
    grammar_free(g);
    return NULL;
}

void grammar_free(struct grammar *g)
{
    if (!g)
        return;
    free(g->elements);
    free(g->rules);
    free(g->classes);
    free(g->ranges);
    free(g->objects);
    free(g->members);
    free(g);
}

bool grammar_check(const struct vocab *vocab, struct slice gbnf, struct budget *budget,
                   struct error *err)
{
    struct grammar *g = grammar_parse(vocab, gbnf, SLICE(""), budget, err);
    if (g)
        budget_return(budget, grammar_bytes(g));
    grammar_free(g);
    return g;
}
