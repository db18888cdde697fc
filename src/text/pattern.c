/* pattern.c - PCRE2 behind a narrow door. */
#include "text/pattern.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct pattern {
    struct str literal; /* when not empty, the whole pattern */
    pcre2_code *code;
};

/* Backtracking may use this much before a match is given up. PCRE2 does not say
 * how many steps a match took, so it is given few at first, which nearly always
 * is enough, and then ten times as many again and again: what was not enough is
 * counted, over all matches of an encoding. */
enum {
    JIT_STACK_BYTES = 32 << 20,
    HEAP_LIMIT_KIB = 64 << 10,
    FIRST_LIMIT = 2000,
    MATCH_LIMIT = 20000000,
    DEPTH_LIMIT = 2000000,
    ALL_LIMIT = 2 * MATCH_LIMIT,
};

/* The White_Space property, as the inside of a class. */
#define WHITE_SPACE                                                                                \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"

/* Write "\s" and "\S" out. Inside a class "\S" cannot be written so, and stays. */
static bool spell_out_spaces(struct slice in, struct str *out)
{
    bool in_class = false;
    for (size_t i = 0; i < in.len; i++) {
        char c = in.data[i];
        if (c == '\\' && i + 1 < in.len) {
            char next = in.data[++i];
            if (next == 's')
                str_append_text(out, in_class ? WHITE_SPACE : "[" WHITE_SPACE "]");
            else if (next == 'S' && !in_class)
                str_append_text(out, "[^" WHITE_SPACE "]");
            else
                str_append(out, in.data + i - 1, 2);
            continue;
        }
        if (c == '[' && !in_class) {
            in_class = true;
            str_append_char(out, c);
            if (i + 1 < in.len && in.data[i + 1] == '^')
                str_append_char(out, in.data[++i]);
            if (i + 1 < in.len && in.data[i + 1] == ']')
                str_append_char(out, in.data[++i]);
            continue;
        }
        if (c == ']')
            in_class = false;
        str_append_char(out, c);
    }
    return !out->failed;
}

struct pattern *pattern_compile(struct slice expression, struct error *err)
{
    struct pattern *p = calloc(1, sizeof *p);
    struct str spelled = {0};
    if (!p || !spell_out_spaces(expression, &spelled)) {
        free(p);
        str_free(&spelled);
        error_memory(err);
        return NULL;
    }
    int code;
    PCRE2_SIZE at;
    p->code = pcre2_compile((PCRE2_SPTR)str_text(&spelled), spelled.len,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_DOLLAR_ENDONLY |
                                PCRE2_NEVER_BACKSLASH_C,
                            &code, &at, NULL);
    if (!p->code) {
        char why[120] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        error_set(err, ERR_FORMAT, "the pattern \"%.*s\" cannot be compiled: %s",
                  (int)(expression.len < 300 ? expression.len : 300), expression.data, why);
        free(p);
        p = NULL;
    } else {
        /* Without a compiler for this machine the interpreter does it. */
        (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    }
    str_free(&spelled);
    return p;
}

struct pattern *pattern_literal(struct slice text)
{
    struct pattern *p = calloc(1, sizeof *p);
    if (p && !str_append_slice(&p->literal, text)) {
        free(p);
        p = NULL;
    }
    return p;
}

void pattern_free(struct pattern *p)
{
    if (!p)
        return;
    str_free(&p->literal);
    pcre2_code_free(p->code);
    free(p);
}

static enum pattern_result find_literal(struct slice wanted, struct slice text, size_t start,
                                        size_t *begin, size_t *end)
{
    const char *at = text.data + start, *stop = text.data + text.len;
    while ((size_t)(stop - at) >= wanted.len) {
        at = memchr(at, wanted.data[0], (size_t)(stop - at) - wanted.len + 1);
        if (!at)
            break;
        if (memcmp(at, wanted.data, wanted.len) == 0) {
            *begin = (size_t)(at - text.data);
            *end = *begin + wanted.len;
            return PATTERN_FOUND;
        }
        at++;
    }
    return PATTERN_NONE;
}

static bool prepare(struct pattern_scratch *s)
{
    if (!s->match)
        s->match = pcre2_match_data_create(1, NULL);
    if (!s->context && (s->context = pcre2_match_context_create(NULL))) {
        pcre2_set_match_limit(s->context, FIRST_LIMIT);
        pcre2_set_heap_limit(s->context, HEAP_LIMIT_KIB);
        pcre2_set_depth_limit(s->context, DEPTH_LIMIT);
    }
    return s->match && s->context;
}

/* Match with the context's limits. */
static int match(const struct pattern *p, struct pattern_scratch *s, struct slice text,
                 size_t start, uint32_t options)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)(text.len ? text.data : "");
    int n = pcre2_match(p->code, subject, text.len, start, options, s->match, s->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT && !s->stack) {
        /* Rare: ask for a real stack only now, and keep it. */
        s->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK_BYTES, NULL);
        if (s->stack)
            pcre2_jit_stack_assign(s->context, NULL, s->stack);
        n = pcre2_match(p->code, subject, text.len, start, options, s->match, s->context);
    }
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(p->code, subject, text.len, start, options | PCRE2_NO_JIT, s->match,
                        s->context);
    return n;
}

/* The same with more and more steps, as long as some are left. */
static int match_hard(const struct pattern *p, struct pattern_scratch *s, struct slice text,
                      size_t start, uint32_t options)
{
    int n = PCRE2_ERROR_MATCHLIMIT;
    uint64_t spent = FIRST_LIMIT;
    for (uint64_t limit = 10 * FIRST_LIMIT; n == PCRE2_ERROR_MATCHLIMIT && limit <= MATCH_LIMIT;
         limit *= 10) {
        s->backtracked += spent;
        if (s->backtracked + limit > ALL_LIMIT)
            break;
        pcre2_set_match_limit(s->context, (uint32_t)limit);
        n = match(p, s, text, start, options);
        spent = limit;
    }
    pcre2_set_match_limit(s->context, FIRST_LIMIT);
    return n;
}

enum pattern_result pattern_find(const struct pattern *p, struct pattern_scratch *s,
                                 struct slice text, size_t start, bool not_empty, size_t *begin,
                                 size_t *end, struct error *err)
{
    if (start > text.len)
        return PATTERN_NONE;
    if (p->literal.len)
        return find_literal(str_slice(&p->literal), text, start, begin, end);
    if (!prepare(s)) {
        error_memory(err);
        return PATTERN_FAILED;
    }
    uint32_t options = PCRE2_NO_UTF_CHECK | (not_empty ? PCRE2_NOTEMPTY_ATSTART : 0);
    int n = match(p, s, text, start, options);
    if (n == PCRE2_ERROR_MATCHLIMIT)
        n = match_hard(p, s, text, start, options);
    if (n == PCRE2_ERROR_NOMATCH)
        return PATTERN_NONE;
    if (n < 0) {
        char why[120] = "";
        pcre2_get_error_message(n, (PCRE2_UCHAR *)why, sizeof why);
        error_set(err, n == PCRE2_ERROR_NOMEMORY ? ERR_MEMORY : ERR_LIMIT,
                  "the text is too hard for the tokenizer's pattern: %s; send less of what "
                  "repeats, or mend the pattern",
                  why);
        return PATTERN_FAILED;
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(s->match);
    /* "\K" in a lookaround can give a match that ends before it begins. */
    if (ends[0] > ends[1] || ends[0] < start) {
        error_set(err, ERR_UNSUPPORTED, "the tokenizer's pattern moves backwards with \\K");
        return PATTERN_FAILED;
    }
    *begin = ends[0];
    *end = ends[1];
    return PATTERN_FOUND;
}

void pattern_scratch_free(struct pattern_scratch *s)
{
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    if (s->stack)
        pcre2_jit_stack_free(s->stack);
    *s = (struct pattern_scratch){0};
}
