/* trigger.c - words and patterns looked for in what was generated, by PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "sample/trigger.h"

#include <pcre2.h>
#include <stdlib.h>

enum {
    PATTERN_MAX = 1 << 16,
    /* Steps a match may take: a pattern that needs more is no trigger, and
     * must not hold up the other requests. */
    MATCH_LIMIT = 200000,
};

struct pattern {
    pcre2_code *code;
    bool whole; /* matched against all of the text before it is searched */
};

struct triggers {
    struct pattern *patterns;
    size_t n_patterns;
    int32_t *tokens;
    size_t n_tokens;
};

static bool compile(struct triggers *t, struct slice text, uint32_t options, struct error *err)
{
    if (text.len > PATTERN_MAX)
        return error_set(err, ERR_LIMIT, "grammar_triggers: a pattern is longer than %d bytes",
                         PATTERN_MAX);
    int code;
    PCRE2_SIZE at;
    struct pattern *p = &t->patterns[t->n_patterns];
    p->code = pcre2_compile((PCRE2_SPTR)(text.data ? text.data : ""), text.len, options, &code, &at,
                            NULL);
    if (!p->code) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(code, why, sizeof why);
        return error_set(err, ERR_INVALID,
                         "grammar_triggers: the pattern is not a regular expression: %s at byte "
                         "%zu",
                         (const char *)why, (size_t)at);
    }
    p->whole = !(options & PCRE2_LITERAL) && text.len && text.data[0] == '^' &&
               text.data[text.len - 1] == '$';
    t->n_patterns++;
    return true;
}

static bool add_trigger(struct triggers *t, const struct grammar_trigger *trigger,
                        struct error *err)
{
    const uint32_t options =
        PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_MATCH_UNSET_BACKREF;
    switch (trigger->kind) {
    case TRIGGER_TOKEN:
        t->tokens[t->n_tokens++] = trigger->token;
        return true;
    case TRIGGER_WORD:
        return compile(t, trigger->text, PCRE2_LITERAL, err);
    case TRIGGER_PATTERN:
        return compile(t, trigger->text, options, err);
    case TRIGGER_PATTERN_FULL: {
        struct str anchored = {0};
        struct slice text = trigger->text;
        if (!text.len || text.data[0] != '^')
            str_append_char(&anchored, '^');
        str_append_slice(&anchored, text);
        if (!text.len || text.data[text.len - 1] != '$')
            str_append_char(&anchored, '$');
        bool ok =
            anchored.failed ? error_memory(err) : compile(t, str_slice(&anchored), options, err);
        str_free(&anchored);
        return ok;
    }
    }
    return error_set(err, ERR_INVALID, "grammar_triggers: the type %d is not one of 0, 1, 2, 3",
                     (int)trigger->kind);
}

struct triggers *triggers_create(const struct grammar_trigger *list, size_t n, struct error *err)
{
    struct triggers *t = calloc(1, sizeof *t);
    if (t) {
        t->patterns = calloc(n + 1, sizeof *t->patterns);
        t->tokens = calloc(n + 1, sizeof *t->tokens);
    }
    if (!t || !t->patterns || !t->tokens) {
        triggers_free(t);
        error_memory(err);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (!add_trigger(t, &list[i], err)) {
            triggers_free(t);
            return NULL;
        }
    }
    return t;
}

void triggers_free(struct triggers *t)
{
    if (!t)
        return;
    for (size_t i = 0; t->patterns && i < t->n_patterns; i++)
        pcre2_code_free(t->patterns[i].code);
    free(t->patterns);
    free(t->tokens);
    free(t);
}

bool triggers_on_token(const struct triggers *t, int32_t token)
{
    for (size_t i = 0; i < t->n_tokens; i++)
        if (t->tokens[i] == token)
            return true;
    return false;
}

static bool matches(const struct pattern *p, struct slice text, uint32_t options,
                    pcre2_match_context *limits, size_t *begin)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(p->code, NULL);
    if (!data)
        return false;
    int groups = pcre2_match(p->code, (PCRE2_SPTR)(text.data ? text.data : ""), text.len, 0,
                             options, data, limits);
    if (groups > 0) {
        const PCRE2_SIZE *spans = pcre2_get_ovector_pointer(data);
        *begin = spans[0];
        for (int i = 1; i < groups; i++) {
            if (spans[2 * i] != PCRE2_UNSET && spans[2 * i + 1] > spans[2 * i]) {
                *begin = spans[2 * i];
                break;
            }
        }
    }
    pcre2_match_data_free(data);
    return groups > 0;
}

bool triggers_on_text(const struct triggers *t, struct slice text, size_t *begin)
{
    if (t->n_patterns == 0)
        return false;
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    if (!limits)
        return false;
    pcre2_set_match_limit(limits, MATCH_LIMIT);
    bool found = false;
    for (size_t i = 0; !found && i < t->n_patterns; i++) {
        const struct pattern *p = &t->patterns[i];
        found = (p->whole && matches(p, text, PCRE2_ANCHORED | PCRE2_ENDANCHORED, limits, begin)) ||
                matches(p, text, 0, limits, begin);
    }
    pcre2_match_context_free(limits);
    return found;
}
