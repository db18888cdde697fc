/* jinja_parse.c - tokens to a tree, by recursive descent.
 *
 * Binding, loosest first: if-else, or, and, not, comparison and in, + -, ~,
 * * / // %, **, unary, then filters, tests, members and calls. */
#include "chat/jinja_ast.h"
#include "chat/jinja_builtin.h"
#include "chat/jinja_lex.h"

#include "base/vec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct parser {
    struct jinja_template *t;
    struct jinja_tokens tokens;
    size_t i;
    uint32_t depth;
    struct error *err;
};

static struct jinja_node *parse_expression(struct parser *p);
static struct jinja_node *parse_unary(struct parser *p, bool with_filters);
static bool parse_body(struct parser *p, struct jinja_nodes *out, const char *const *ends);

static const struct jinja_token *peek(const struct parser *p, size_t ahead)
{
    size_t i = p->i + ahead;
    return &p->tokens.data[i < p->tokens.n ? i : p->tokens.n - 1];
}

static const struct jinja_token *next(struct parser *p)
{
    const struct jinja_token *token = peek(p, 0);
    if (p->i + 1 < p->tokens.n)
        p->i++;
    return token;
}

static void *fail(struct parser *p, const char *reason)
{
    jinja_error_at(p->err, p->t->source, peek(p, 0)->pos, "reading the template", reason);
    return NULL;
}

static void *out_of_memory(struct parser *p)
{
    error_memory(p->err);
    return NULL;
}

static bool is_operator(const struct parser *p, const char *text)
{
    return peek(p, 0)->kind == TOK_OPERATOR && slice_equal_text(peek(p, 0)->text, text);
}

static bool is_name(const struct parser *p, const char *text)
{
    return peek(p, 0)->kind == TOK_NAME && slice_equal_text(peek(p, 0)->text, text);
}

static bool accept(struct parser *p, const char *operator)
{
    if (!is_operator(p, operator))
        return false;
    next(p);
    return true;
}

static bool expect(struct parser *p, const char *operator)
{
    if (accept(p, operator))
        return true;
    char reason[128];
    snprintf(reason, sizeof reason,
             "expected '%s', not '%.*s'", operator, (int)(peek(p, 0)->text.len < 40
                                                              ? peek(p, 0)->text.len
                                                              : 40),
             peek(p, 0)->text.data);
    fail(p, reason);
    return false;
}

static bool expect_kind(struct parser *p, enum jinja_token_kind kind, const char *what)
{
    if (peek(p, 0)->kind == kind) {
        next(p);
        return true;
    }
    char reason[64];
    snprintf(reason, sizeof reason, "expected %s", what);
    fail(p, reason);
    return false;
}

static bool end_statement(struct parser *p)
{
    return expect_kind(p, TOK_STATEMENT_CLOSE, "'%}'");
}

static struct jinja_node *node(struct parser *p, enum jinja_node_kind kind, size_t pos)
{
    struct jinja_node *made = arena_alloc(&p->t->arena, sizeof *made);
    if (!made)
        return out_of_memory(p);
    made->kind = kind;
    made->pos = pos;
    return made;
}

static bool add(struct parser *p, struct jinja_nodes *list, struct jinja_node *item)
{
    if (!item)
        return false;
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 4;
        struct jinja_node **grown = arena_alloc_array(&p->t->arena, capacity, sizeof *grown);
        if (!grown)
            return out_of_memory(p) != NULL;
        if (list->n)
            memcpy(grown, list->data, list->n * sizeof *grown);
        list->data = grown;
        list->capacity = capacity;
    }
    list->data[list->n++] = item;
    return true;
}

static int32_t symbol_of(struct parser *p, struct slice name)
{
    struct jinja_template *t = p->t;
    for (size_t i = 0; i < t->n_symbols; i++)
        if (slice_equal(t->symbols[i], name))
            return (int32_t)i;
    if (t->n_symbols >= 65535 || !vec_reserve((void **)&t->symbols, &t->symbols_capacity,
                                              t->n_symbols, 1, sizeof *t->symbols))
        return -1;
    t->symbols[t->n_symbols] = name;
    return (int32_t)t->n_symbols++;
}

static struct jinja_node *name_node(struct parser *p, struct slice name, size_t pos)
{
    struct jinja_node *made = node(p, NODE_NAME, pos);
    if (!made)
        return NULL;
    made->text = name;
    made->symbol = symbol_of(p, name);
    made->method = jinja_global_of(name);
    return made->symbol < 0 ? fail(p, "too many names") : made;
}

static struct jinja_node *unary(struct parser *p, enum jinja_node_kind kind, size_t pos,
                                struct jinja_node *a)
{
    struct jinja_node *made = a ? node(p, kind, pos) : NULL;
    if (made)
        made->a = a;
    return made;
}

static struct jinja_node *binary(struct parser *p, enum jinja_node_kind kind,
                                 enum jinja_operator op, size_t pos, struct jinja_node *a,
                                 struct jinja_node *b)
{
    struct jinja_node *made = a && b ? node(p, kind, pos) : NULL;
    if (made) {
        made->op = op;
        made->a = a;
        made->b = b;
    }
    return made;
}

/* Every recursion goes through here. */
static bool enter(struct parser *p)
{
    if (++p->depth <= JINJA_PARSE_DEPTH)
        return true;
    fail(p, "nested too deeply");
    return false;
}

/* ---- Expressions --------------------------------------------------------- */

static bool parse_arguments(struct parser *p, struct jinja_nodes *out)
{
    if (!expect(p, "("))
        return false;
    while (!is_operator(p, ")")) {
        const struct jinja_token *token = peek(p, 0);
        struct jinja_node *argument;
        if (accept(p, "**")) {
            argument = unary(p, NODE_SPREAD_KEYWORDS, token->pos, parse_expression(p));
        } else if (accept(p, "*")) {
            argument = unary(p, NODE_SPREAD, token->pos, parse_expression(p));
        } else if (token->kind == TOK_NAME && peek(p, 1)->kind == TOK_OPERATOR &&
                   slice_equal_text(peek(p, 1)->text, "=")) {
            next(p);
            next(p);
            argument = unary(p, NODE_KEYWORD, token->pos, parse_expression(p));
            if (argument) {
                argument->text = token->text;
                argument->symbol = symbol_of(p, token->text);
                if (argument->symbol < 0)
                    return fail(p, "too many names") != NULL;
            }
        } else {
            argument = parse_expression(p);
        }
        if (!add(p, out, argument))
            return false;
        if (!accept(p, ",") && !is_operator(p, ")"))
            return expect(p, ")");
    }
    return expect(p, ")");
}

/* a, b, c up to one of the closing tokens; a single expression stays itself. */
static struct jinja_node *parse_tuple(struct parser *p, bool with_condition)
{
    size_t pos = peek(p, 0)->pos;
    struct jinja_nodes items = {0};
    bool comma = false;
    for (;;) {
        enum jinja_token_kind kind = peek(p, 0)->kind;
        if (kind == TOK_STATEMENT_CLOSE || kind == TOK_EXPRESSION_CLOSE || is_operator(p, ")") ||
            is_operator(p, "=") || (!with_condition && is_name(p, "in")))
            break;
        struct jinja_node *item = with_condition ? parse_expression(p) : parse_unary(p, false);
        if (!add(p, &items, item))
            return NULL;
        if (!accept(p, ","))
            break;
        comma = true;
    }
    if (items.n == 1 && !comma)
        return items.data[0];
    if (items.n == 0 && !is_operator(p, ")"))
        return fail(p, "expected an expression");
    struct jinja_node *made = node(p, NODE_TUPLE, pos);
    if (made)
        made->list = items;
    return made;
}

static struct jinja_node *parse_list(struct parser *p, size_t pos)
{
    struct jinja_node *made = node(p, NODE_LIST, pos);
    while (made && !is_operator(p, "]")) {
        if (!add(p, &made->list, parse_expression(p)))
            return NULL;
        if (!accept(p, ",") && !is_operator(p, "]"))
            return fail(p, "expected ']'");
    }
    if (made)
        next(p);
    return made;
}

static struct jinja_node *parse_dict(struct parser *p, size_t pos)
{
    struct jinja_node *made = node(p, NODE_DICT, pos);
    while (made && !is_operator(p, "}")) {
        if (!add(p, &made->list, parse_expression(p)) || !expect(p, ":") ||
            !add(p, &made->list, parse_expression(p)))
            return NULL;
        if (!accept(p, ",") && !is_operator(p, "}"))
            return fail(p, "expected '}'");
    }
    if (made)
        next(p);
    return made;
}

static struct jinja_node *parse_number(struct parser *p, const struct jinja_token *token)
{
    char digits[64];
    if (token->text.len >= sizeof digits)
        return fail(p, "this number is too long");
    memcpy(digits, token->text.data, token->text.len);
    digits[token->text.len] = '\0';
    struct jinja_node *made =
        node(p, token->kind == TOK_FLOAT ? NODE_FLOAT : NODE_INTEGER, token->pos);
    if (!made)
        return NULL;
    errno = 0;
    made->real = strtod(digits, NULL);
    if (token->kind == TOK_INTEGER) {
        made->integer = strtoll(digits, NULL, 10);
        if (errno == ERANGE)
            return fail(p, "this integer is too large");
    }
    return made;
}

/* Nothing writes to a text's value but a run that watches. */
static struct jinja_node *with_constant(struct parser *p, struct jinja_node *string)
{
    if (!string)
        return NULL;
    struct jinja_value *v = arena_alloc(&p->t->arena, sizeof *v);
    if (!v)
        return out_of_memory(p);
    v->type = JINJA_STRING;
    v->as.string = (struct jinja_string){string->text.data, string->text.len, NULL, false};
    v->hash = jinja_hash_text(string->text);
    string->constant = v;
    return string;
}

static struct jinja_node *parse_primary(struct parser *p)
{
    const struct jinja_token *token = next(p);
    switch (token->kind) {
    case TOK_INTEGER:
    case TOK_FLOAT:
        return parse_number(p, token);
    case TOK_STRING: {
        struct jinja_node *made = node(p, NODE_STRING, token->pos);
        if (!made)
            return NULL;
        made->text = token->text;
        while (peek(p, 0)->kind == TOK_STRING) { /* "a" "b" is "ab" */
            struct slice more = next(p)->text;
            char *joined = arena_alloc(&p->t->arena, made->text.len + more.len + 1);
            if (!joined)
                return out_of_memory(p);
            memcpy(joined, made->text.data, made->text.len);
            memcpy(joined + made->text.len, more.data, more.len);
            made->text = (struct slice){joined, made->text.len + more.len};
        }
        return with_constant(p, made);
    }
    case TOK_NAME: {
        static const struct {
            const char *name;
            enum jinja_node_kind kind;
        } constants[] = {{"true", NODE_TRUE},   {"True", NODE_TRUE}, {"false", NODE_FALSE},
                         {"False", NODE_FALSE}, {"none", NODE_NONE}, {"None", NODE_NONE}};
        for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
            if (slice_equal_text(token->text, constants[i].name))
                return node(p, constants[i].kind, token->pos);
        return name_node(p, token->text, token->pos);
    }
    case TOK_OPERATOR:
        if (slice_equal_text(token->text, "(")) {
            struct jinja_node *inner = parse_tuple(p, true);
            return inner && expect(p, ")") ? inner : NULL;
        }
        if (slice_equal_text(token->text, "["))
            return parse_list(p, token->pos);
        if (slice_equal_text(token->text, "{"))
            return parse_dict(p, token->pos);
        break;
    default:
        break;
    }
    p->i = (size_t)(token - p->tokens.data);
    return fail(p, token->kind == TOK_EOF ? "the template ends inside a tag"
                                          : "expected an expression");
}

static struct jinja_node *parse_subscript(struct parser *p, struct jinja_node *object, size_t pos)
{
    struct jinja_node *parts[3] = {0};
    size_t n = 0;
    bool slice = false;
    while (!is_operator(p, "]")) {
        if (accept(p, ":")) {
            slice = true;
            if (++n > 2)
                return fail(p, "a slice has at most three parts");
            continue;
        }
        if (parts[n])
            return fail(p, "expected ']'");
        parts[n] = parse_tuple(p, true);
        if (!parts[n])
            return NULL;
    }
    next(p);
    if (!slice && !parts[0])
        return fail(p, "expected an index");
    struct jinja_node *made = node(p, slice ? NODE_SLICE : NODE_INDEX, pos);
    if (!made)
        return NULL;
    made->a = object;
    made->b = parts[0];
    made->c = parts[1];
    made->d = parts[2];
    return made;
}

/* .name  [index]  (arguments) */
static struct jinja_node *parse_postfix(struct parser *p, struct jinja_node *value)
{
    size_t chain = peek(p, 0)->pos;
    while (value) {
        size_t pos = peek(p, 0)->pos;
        if (accept(p, ".")) {
            const struct jinja_token *name = next(p);
            if (name->kind == TOK_INTEGER) {
                struct jinja_node *index = parse_number(p, name);
                value = binary(p, NODE_INDEX, OP_ADD, chain, value, index);
                continue;
            }
            if (name->kind != TOK_NAME)
                return fail(p, "expected a name after '.'");
            value = unary(p, NODE_MEMBER, chain, value);
            if (value) {
                value->text = name->text;
                value->method = jinja_method_of(name->text);
                value->flag = value->method && jinja_shadows_keys(name->text);
                value = with_constant(p, value);
            }
        } else if (accept(p, "[")) {
            value = parse_subscript(p, value, chain);
        } else if (is_operator(p, "(")) {
            struct jinja_node *call = unary(p, NODE_CALL, pos, value);
            if (!call || !parse_arguments(p, &call->list))
                return NULL;
            value = call;
            chain = peek(p, 0)->pos;
        } else {
            break;
        }
    }
    return value;
}

/* "|name", "|name(arguments)" */
static struct jinja_node *parse_filter(struct parser *p, struct jinja_node *operand, size_t pos)
{
    const struct jinja_token *name = peek(p, 0);
    if (!expect_kind(p, TOK_NAME, "a filter's name"))
        return NULL;
    struct jinja_node *made = node(p, NODE_FILTER, pos);
    if (!made)
        return NULL;
    made->a = operand;
    made->text = name->text;
    made->method = jinja_filter_of(name->text);
    return is_operator(p, "(") && !parse_arguments(p, &made->list) ? NULL : made;
}

static bool starts_test_argument(const struct parser *p)
{
    const struct jinja_token *token = peek(p, 0);
    if (token->kind == TOK_NAME)
        return !is_name(p, "else") && !is_name(p, "or") && !is_name(p, "and") &&
               !is_name(p, "is") && !is_name(p, "if") && !is_name(p, "in") && !is_name(p, "not");
    return token->kind == TOK_STRING || token->kind == TOK_INTEGER || token->kind == TOK_FLOAT ||
           is_operator(p, "[") || is_operator(p, "{");
}

/* "is [not] name", with "(arguments)" or one bare argument */
static struct jinja_node *parse_test(struct parser *p, struct jinja_node *operand, size_t pos)
{
    bool negated = is_name(p, "not");
    if (negated)
        next(p);
    const struct jinja_token *name = peek(p, 0);
    if (!expect_kind(p, TOK_NAME, "a test's name"))
        return NULL;
    struct jinja_node *made = node(p, NODE_TEST, pos);
    if (!made)
        return NULL;
    made->a = operand;
    made->flag = negated;
    made->text = name->text;
    made->method = jinja_test_of(name->text);
    if (is_operator(p, "("))
        return parse_arguments(p, &made->list) ? made : NULL;
    if (starts_test_argument(p) && !add(p, &made->list, parse_postfix(p, parse_primary(p))))
        return NULL;
    return made;
}

static struct jinja_node *parse_filters(struct parser *p, struct jinja_node *value)
{
    while (value) {
        size_t pos = peek(p, 0)->pos;
        if (accept(p, "|")) {
            value = parse_filter(p, value, pos);
        } else if (is_name(p, "is")) {
            next(p);
            value = parse_test(p, value, pos);
        } else if (is_operator(p, "(") || is_operator(p, ".") || is_operator(p, "[")) {
            value = parse_postfix(p, value); /* x|filter(y).name */
        } else {
            break;
        }
    }
    return value;
}

static struct jinja_node *parse_unary(struct parser *p, bool with_filters)
{
    if (!enter(p))
        return NULL;
    size_t pos = peek(p, 0)->pos;
    struct jinja_node *value;
    if (accept(p, "-"))
        value = unary(p, NODE_NEGATE, pos, parse_unary(p, false));
    else if (accept(p, "+"))
        value = unary(p, NODE_PLUS, pos, parse_unary(p, false));
    else
        value = parse_postfix(p, parse_primary(p));
    if (value && with_filters)
        value = parse_filters(p, value);
    p->depth--;
    return value;
}

/* One level of left-associative operators per row. */
static const struct {
    const char *text;
    enum jinja_operator op;
    int level;
} binary_operators[] = {
    {"+", OP_ADD, 0},    {"-", OP_SUBTRACT, 0},      {"~", OP_CONCAT, 1}, {"*", OP_MULTIPLY, 2},
    {"/", OP_DIVIDE, 2}, {"//", OP_FLOOR_DIVIDE, 2}, {"%", OP_MODULO, 2}, {"**", OP_POWER, 3},
};

static struct jinja_node *parse_binary(struct parser *p, int level)
{
    if (level > 3)
        return parse_unary(p, true);
    struct jinja_node *left = parse_binary(p, level + 1);
    while (left) {
        size_t i = 0, n = sizeof binary_operators / sizeof *binary_operators;
        while (i < n &&
               (binary_operators[i].level != level || !is_operator(p, binary_operators[i].text)))
            i++;
        if (i == n)
            break;
        size_t pos = next(p)->pos;
        left =
            binary(p, NODE_BINARY, binary_operators[i].op, pos, left, parse_binary(p, level + 1));
    }
    return left;
}

static bool accept_comparison(struct parser *p, enum jinja_operator *op)
{
    static const struct {
        const char *text;
        enum jinja_operator op;
    } table[] = {{"==", OP_EQUAL},      {"!=", OP_NOT_EQUAL}, {"<", OP_LESS},
                 {"<=", OP_LESS_EQUAL}, {">", OP_GREATER},    {">=", OP_GREATER_EQUAL}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (accept(p, table[i].text)) {
            *op = table[i].op;
            return true;
        }
    if (is_name(p, "in")) {
        next(p);
        *op = OP_IN;
        return true;
    }
    if (is_name(p, "not") && peek(p, 1)->kind == TOK_NAME &&
        slice_equal_text(peek(p, 1)->text, "in")) {
        next(p);
        next(p);
        *op = OP_NOT_IN;
        return true;
    }
    return false;
}

static struct jinja_node *parse_comparison(struct parser *p)
{
    struct jinja_node *left = parse_binary(p, 0), *all = NULL;
    enum jinja_operator op;
    while (left) {
        size_t pos = peek(p, 0)->pos;
        if (!accept_comparison(p, &op))
            break;
        struct jinja_node *right = parse_binary(p, 0);
        struct jinja_node *one = binary(p, NODE_BINARY, op, pos, left, right);
        if (!one)
            return NULL;
        /* a < b < c: both must hold */
        all = all ? binary(p, NODE_AND, op, pos, all, one) : one;
        left = right;
    }
    return all ? all : left;
}

static struct jinja_node *parse_not(struct parser *p)
{
    if (!is_name(p, "not"))
        return parse_comparison(p);
    if (!enter(p))
        return NULL;
    size_t pos = next(p)->pos;
    struct jinja_node *made = unary(p, NODE_NOT, pos, parse_not(p));
    p->depth--;
    return made;
}

static struct jinja_node *parse_and(struct parser *p)
{
    struct jinja_node *left = parse_not(p);
    while (left && is_name(p, "and")) {
        size_t pos = next(p)->pos;
        left = binary(p, NODE_AND, OP_ADD, pos, left, parse_not(p));
    }
    return left;
}

static struct jinja_node *parse_or(struct parser *p)
{
    struct jinja_node *left = parse_and(p);
    while (left && is_name(p, "or")) {
        size_t pos = next(p)->pos;
        left = binary(p, NODE_OR, OP_ADD, pos, left, parse_and(p));
    }
    return left;
}

static struct jinja_node *parse_expression(struct parser *p)
{
    if (!enter(p))
        return NULL;
    struct jinja_node *value = parse_or(p);
    while (value && is_name(p, "if")) {
        size_t pos = next(p)->pos;
        struct jinja_node *made = binary(p, NODE_CONDITION, OP_ADD, pos, parse_or(p), value);
        if (made && is_name(p, "else")) {
            made->pos = next(p)->pos;
            made->c = parse_expression(p);
            if (!made->c)
                made = NULL;
        }
        value = made;
    }
    p->depth--;
    return value;
}

/* ---- Statements ---------------------------------------------------------- */

/* True at "{% name" for one of the names; consumes nothing. */
static bool at_statement(const struct parser *p, const char *const *names)
{
    if (peek(p, 0)->kind != TOK_STATEMENT_OPEN || peek(p, 1)->kind != TOK_NAME)
        return false;
    for (; *names; names++)
        if (slice_equal_text(peek(p, 1)->text, *names))
            return true;
    return false;
}

static bool at_one_statement(const struct parser *p, const char *name)
{
    return at_statement(p, (const char *const[]){name, NULL});
}

/* "{% end... [name] %}" */
static bool end_block(struct parser *p, const char *name)
{
    if (!at_one_statement(p, name)) {
        char reason[64];
        snprintf(reason, sizeof reason, "expected '{%% %s %%}'", name);
        fail(p, reason);
        return false;
    }
    next(p);
    next(p);
    if (peek(p, 0)->kind == TOK_NAME)
        next(p);
    return end_statement(p);
}

static bool parse_block_body(struct parser *p, struct jinja_nodes *out, const char *end)
{
    return parse_body(p, out, (const char *const[]){end, NULL}) && end_block(p, end);
}

static struct jinja_node *parse_if(struct parser *p, size_t pos)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jinja_node *made = unary(p, NODE_IF, pos, parse_expression(p));
    if (!made || !end_statement(p) || !parse_body(p, &made->list, ends))
        return NULL;
    if (at_one_statement(p, "elif")) {
        if (!enter(p))
            return NULL;
        next(p);
        size_t inner = next(p)->pos;
        bool ok = add(p, &made->other, parse_if(p, inner));
        p->depth--;
        return ok ? made : NULL;
    }
    if (at_one_statement(p, "else")) {
        next(p);
        next(p);
        if (!end_statement(p) || !parse_body(p, &made->other, ends + 2))
            return NULL;
    }
    return end_block(p, "endif") ? made : NULL;
}

static struct jinja_node *parse_for(struct parser *p, size_t pos)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct jinja_node *made = unary(p, NODE_FOR, pos, parse_tuple(p, false));
    if (!made)
        return NULL;
    if (!is_name(p, "in"))
        return fail(p, "expected 'in'");
    next(p);
    made->b = parse_or(p);
    if (!made->b)
        return NULL;
    if (is_name(p, "if")) {
        next(p);
        made->c = parse_expression(p);
        if (!made->c)
            return NULL;
        if (is_name(p, "else")) { /* for x in a if t else b */
            size_t at = next(p)->pos;
            struct jinja_node *choice = binary(p, NODE_CONDITION, OP_ADD, at, made->c, made->b);
            if (!choice)
                return NULL;
            choice->c = parse_expression(p);
            made->b = choice;
            made->c = NULL;
            if (!choice->c)
                return NULL;
        }
    }
    if (is_name(p, "recursive")) {
        next(p);
        made->flag = true;
    }
    if (!end_statement(p) || !parse_body(p, &made->list, ends))
        return NULL;
    if (at_one_statement(p, "else")) {
        next(p);
        next(p);
        if (!end_statement(p) || !parse_body(p, &made->other, ends + 1))
            return NULL;
    }
    return end_block(p, "endfor") ? made : NULL;
}

static struct jinja_node *parse_set(struct parser *p, size_t pos)
{
    struct jinja_node *made = unary(p, NODE_SET, pos, parse_tuple(p, false));
    if (!made)
        return NULL;
    if (accept(p, "=")) {
        made->b = parse_tuple(p, true);
        return made->b && end_statement(p) ? made : NULL;
    }
    while (is_operator(p, "|")) { /* {% set x | filter %} */
        size_t at = next(p)->pos;
        made->c = parse_filter(p, made->c, at);
        if (!made->c)
            return NULL;
    }
    return end_statement(p) && parse_block_body(p, &made->list, "endset") ? made : NULL;
}

/* "(a, b=default)" */
static bool parse_parameters(struct parser *p, struct jinja_nodes *out)
{
    if (!parse_arguments(p, out))
        return false;
    for (size_t i = 0; i < out->n; i++)
        if (out->data[i]->kind != NODE_NAME && out->data[i]->kind != NODE_KEYWORD) {
            fail(p, "a parameter must be a name");
            return false;
        }
    return true;
}

static struct jinja_node *parse_macro(struct parser *p, size_t pos)
{
    const struct jinja_token *name = peek(p, 0);
    struct jinja_node *made = node(p, NODE_MACRO, pos);
    if (!made || !expect_kind(p, TOK_NAME, "a macro's name"))
        return NULL;
    made->text = name->text;
    made->symbol = symbol_of(p, name->text);
    if (made->symbol < 0)
        return fail(p, "too many names");
    return parse_parameters(p, &made->other) && end_statement(p) &&
                   parse_block_body(p, &made->list, "endmacro")
               ? made
               : NULL;
}

static struct jinja_node *parse_call_block(struct parser *p, size_t pos)
{
    struct jinja_node *made = node(p, NODE_CALL_BLOCK, pos);
    if (!made || (is_operator(p, "(") && !parse_parameters(p, &made->other)))
        return NULL;
    made->a = parse_unary(p, false);
    if (!made->a)
        return NULL;
    if (made->a->kind != NODE_CALL)
        return fail(p, "expected a call");
    return end_statement(p) && parse_block_body(p, &made->list, "endcall") ? made : NULL;
}

static struct jinja_node *parse_filter_block(struct parser *p, size_t pos)
{
    struct jinja_node *made = node(p, NODE_FILTER_BLOCK, pos);
    do {
        if (!made || !(made->a = parse_filter(p, made->a, pos)))
            return NULL;
    } while (accept(p, "|"));
    return end_statement(p) && parse_block_body(p, &made->list, "endfilter") ? made : NULL;
}

static struct jinja_node *parse_with(struct parser *p, size_t pos)
{
    struct jinja_node *made = node(p, NODE_WITH, pos);
    while (made && peek(p, 0)->kind == TOK_NAME) {
        const struct jinja_token *name = next(p);
        if (!expect(p, "="))
            return NULL;
        struct jinja_node *one = unary(p, NODE_KEYWORD, name->pos, parse_expression(p));
        if (!one || !add(p, &made->other, one))
            return NULL;
        one->text = name->text;
        one->symbol = symbol_of(p, name->text);
        if (one->symbol < 0)
            return fail(p, "too many names");
        if (!accept(p, ","))
            break;
    }
    return made && end_statement(p) && parse_block_body(p, &made->list, "endwith") ? made : NULL;
}

static struct jinja_node *parse_named_block(struct parser *p, size_t pos)
{
    struct jinja_node *made = node(p, NODE_BLOCK, pos);
    while (peek(p, 0)->kind == TOK_NAME)
        next(p);
    return made && end_statement(p) && parse_block_body(p, &made->list, "endblock") ? made : NULL;
}

static struct jinja_node *parse_do(struct parser *p, size_t pos)
{
    struct jinja_node *made = unary(p, NODE_DO, pos, parse_tuple(p, true));
    return made && end_statement(p) ? made : NULL;
}

static struct jinja_node *parse_continue(struct parser *p, size_t pos)
{
    struct jinja_node *made = node(p, NODE_CONTINUE, pos);
    return made && end_statement(p) ? made : NULL;
}

/* "generation" blocks mark text for training; here they are what they hold. */
static struct jinja_node *parse_nothing(struct parser *p, size_t pos)
{
    struct jinja_node *made = node(p, NODE_BLOCK, pos);
    return made && end_statement(p) ? made : NULL;
}

static struct jinja_node *parse_break(struct parser *p, size_t pos)
{
    struct jinja_node *made = node(p, NODE_BREAK, pos);
    return made && end_statement(p) ? made : NULL;
}

static const struct {
    const char *name;
    struct jinja_node *(*parse)(struct parser *, size_t);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"block", parse_named_block},
    {"do", parse_do},
    {"break", parse_break},
    {"continue", parse_continue},
    {"generation", parse_nothing},
    {"endgeneration", parse_nothing},
};

static struct jinja_node *parse_statement(struct parser *p)
{
    next(p);
    const struct jinja_token *name = peek(p, 0);
    if (!expect_kind(p, TOK_NAME, "a statement"))
        return NULL;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (slice_equal_text(name->text, statements[i].name))
            return statements[i].parse(p, name->pos);
    char reason[128];
    snprintf(reason, sizeof reason, "Unknown statement: %.*s",
             (int)(name->text.len < 60 ? name->text.len : 60), name->text.data);
    p->i = (size_t)(name - p->tokens.data);
    return fail(p, reason);
}

static struct jinja_node *parse_any(struct parser *p)
{
    const struct jinja_token *token = peek(p, 0);
    if (token->kind == TOK_TEXT) {
        struct jinja_node *made = node(p, NODE_TEXT, token->pos);
        if (made)
            made->text = token->text;
        next(p);
        return made;
    }
    if (token->kind == TOK_STATEMENT_OPEN)
        return parse_statement(p);
    if (token->kind == TOK_EXPRESSION_OPEN) {
        next(p);
        struct jinja_node *made = unary(p, NODE_OUTPUT, token->pos, parse_tuple(p, true));
        return made && expect_kind(p, TOK_EXPRESSION_CLOSE, "'}}'") ? made : NULL;
    }
    return fail(p, "unexpected end");
}

/* Nodes up to one of the ends (not consumed); with ends NULL up to the end of
 * the template. */
static bool parse_body(struct parser *p, struct jinja_nodes *out, const char *const *ends)
{
    if (!enter(p))
        return false;
    for (;;) {
        if (peek(p, 0)->kind == TOK_EOF) {
            if (!ends)
                break;
            char reason[64];
            snprintf(reason, sizeof reason, "the template ends before '%s'", ends[0]);
            fail(p, reason);
            return false;
        }
        if (ends && at_statement(p, ends))
            break;
        if (!add(p, out, parse_any(p)))
            return false;
    }
    p->depth--;
    return true;
}

/* ---- Whole templates ----------------------------------------------------- */

/* "\r\n" and "\r" become "\n"; one line break at the very end goes. */
static bool normalize(struct jinja_template *t, struct slice source)
{
    char *copy = arena_duplicate(&t->arena, source);
    char *clean = arena_alloc(&t->arena, source.len + 1);
    if (!copy || !clean)
        return false;
    size_t n = 0;
    for (size_t i = 0; i < source.len; i++) {
        char c = source.data[i];
        if (c == '\r' && i + 1 < source.len && source.data[i + 1] == '\n')
            continue;
        clean[n++] = c == '\r' ? '\n' : c;
    }
    if (n && clean[n - 1] == '\n')
        n--;
    clean[n] = '\0';
    t->original = (struct slice){copy, source.len};
    t->source = (struct slice){clean, n};
    return true;
}

bool jinja_parse(struct slice source, struct jinja_template **out, struct error *err)
{
    *out = NULL;
    if (source.len > JINJA_SOURCE_MAX)
        return error_set(err, ERR_LIMIT, "the chat template is longer than %d MiB",
                         JINJA_SOURCE_MAX >> 20);
    struct jinja_template *t = calloc(1, sizeof *t);
    if (!t)
        return error_memory(err);
    struct parser p = {.t = t, .err = err};
    t->spare = jinja_spare_create();
    bool ok = (t->spare && normalize(t, source)) || error_memory(err);
    ok = ok && jinja_lex(t->source, &t->arena, &p.tokens, err) && parse_body(&p, &t->body, NULL);
    VEC_FREE(&p.tokens);
    t->loop_symbol = jinja_symbol(t, "loop");
    t->caller_symbol = jinja_symbol(t, "caller");
    if (!ok) {
        jinja_template_free(t);
        return false;
    }
    *out = t;
    return true;
}

int32_t jinja_symbol(const struct jinja_template *t, const char *name)
{
    for (size_t i = 0; i < t->n_symbols; i++)
        if (slice_equal_text(t->symbols[i], name))
            return (int32_t)i;
    return -1;
}

void jinja_template_free(struct jinja_template *t)
{
    if (!t)
        return;
    free(t->symbols);
    jinja_spare_free(t->spare);
    arena_free(&t->arena);
    free(t);
}

struct slice jinja_source(const struct jinja_template *t)
{
    return t->original;
}

const char *jinja_node_name(const struct jinja_node *n)
{
    static const char *const names[] = {
        [NODE_TEXT] = "Text",
        [NODE_OUTPUT] = "Output",
        [NODE_IF] = "IfStatement",
        [NODE_FOR] = "ForStatement",
        [NODE_SET] = "SetStatement",
        [NODE_MACRO] = "MacroStatement",
        [NODE_CALL_BLOCK] = "CallStatement",
        [NODE_FILTER_BLOCK] = "FilterStatement",
        [NODE_WITH] = "WithStatement",
        [NODE_BLOCK] = "Block",
        [NODE_DO] = "DoStatement",
        [NODE_BREAK] = "BreakStatement",
        [NODE_CONTINUE] = "ContinueStatement",
        [NODE_NAME] = "Identifier",
        [NODE_STRING] = "StringLiteral",
        [NODE_INTEGER] = "IntegerLiteral",
        [NODE_FLOAT] = "FloatLiteral",
        [NODE_TRUE] = "BooleanLiteral",
        [NODE_FALSE] = "BooleanLiteral",
        [NODE_NONE] = "NoneLiteral",
        [NODE_LIST] = "ArrayLiteral",
        [NODE_TUPLE] = "TupleLiteral",
        [NODE_DICT] = "ObjectLiteral",
        [NODE_NOT] = "UnaryExpression",
        [NODE_NEGATE] = "UnaryExpression",
        [NODE_PLUS] = "UnaryExpression",
        [NODE_AND] = "BinaryExpression",
        [NODE_OR] = "BinaryExpression",
        [NODE_BINARY] = "BinaryExpression",
        [NODE_CONDITION] = "TernaryExpression",
        [NODE_MEMBER] = "MemberExpression",
        [NODE_INDEX] = "MemberExpression",
        [NODE_SLICE] = "MemberExpression",
        [NODE_CALL] = "CallExpression",
        [NODE_FILTER] = "FilterExpression",
        [NODE_TEST] = "TestExpression",
        [NODE_KEYWORD] = "KeywordArgumentExpression",
        [NODE_SPREAD] = "SpreadExpression",
        [NODE_SPREAD_KEYWORDS] = "SpreadExpression",
    };
    return names[n->kind];
}
