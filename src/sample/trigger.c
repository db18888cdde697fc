/* trigger.c - words and patterns looked for in what was generated; patterns by
 * PCRE2, whose callouts before every item count the steps. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "sample/trigger.h"

#include <pcre2.h>
#include <stdlib.h>

enum {
    BYTES_PER_STEP = 64,     /* of text that a repeated item may run over */
    MATCH_HEAP_KIB = 1 << 10 /* of one match's backtracking */
};

/* A word where code is NULL, else a pattern. */
struct sought {
    char *text; /* owned */
    size_t len;
    pcre2_code *code;
    bool whole;      /* matched against all of the text before it is searched */
    uint32_t search; /* options of the search: a pattern that begins with anything
                      * matches from the text's beginning or nowhere */
};

struct triggers {
    struct sought *sought; /* n_sought, as listed */
    size_t n_sought, n_patterns, n_word_bytes;
    int32_t *tokens;
    size_t n_tokens;
};

/* ---- making ---- */

static bool compile(struct sought *s, struct error *err)
{
    const uint32_t options = PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS |
                             PCRE2_MATCH_UNSET_BACKREF | PCRE2_AUTO_CALLOUT;
    int code;
    PCRE2_SIZE at;
    s->code = pcre2_compile((PCRE2_SPTR)s->text, s->len, options, &code, &at, NULL);
    if (!s->code) {
        PCRE2_UCHAR why[128] = "";
        pcre2_get_error_message(code, why, sizeof why);
        return error_set(err, ERR_INVALID,
                         "grammar_triggers: the pattern is not a regular expression: %s at byte "
                         "%zu",
                         (const char *)why, (size_t)at);
    }
    bool any = slice_starts_with((struct slice){s->text, s->len}, SLICE("[\\s\\S]*"));
    s->search = any && !memchr(s->text, '|', s->len) ? PCRE2_ANCHORED : 0;
    s->whole = s->len && s->text[0] == '^' && s->text[s->len - 1] == '$';
    return true;
}

static bool add_text(struct triggers *t, struct slice before, struct slice text, struct slice after,
                     struct error *err)
{
    struct sought *s = &t->sought[t->n_sought];
    struct str whole = {0};
    str_append_slice(&whole, before);
    str_append_slice(&whole, text);
    str_append_slice(&whole, after);
    s->len = whole.len;
    s->text = str_detach(&whole);
    if (!s->text)
        return error_memory(err);
    t->n_sought++;
    return true;
}

static bool add_word(struct triggers *t, struct slice text, struct error *err)
{
    t->n_word_bytes += text.len;
    if (t->n_word_bytes > TRIGGER_WORDS_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "grammar_triggers: the words are longer than %d bytes",
                         TRIGGER_WORDS_BYTES_MAX);
    return add_text(t, SLICE(""), text, SLICE(""), err);
}

static bool add_pattern(struct triggers *t, struct slice text, bool anchored, struct error *err)
{
    if (text.len > TRIGGER_PATTERN_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "grammar_triggers: a pattern is longer than %d bytes",
                         TRIGGER_PATTERN_BYTES_MAX);
    if (++t->n_patterns > TRIGGER_PATTERNS_MAX)
        return error_set(err, ERR_LIMIT,
                         "grammar_triggers: there are more than %d patterns; words may be more",
                         TRIGGER_PATTERNS_MAX);
    bool begins = !anchored || (text.len && text.data[0] == '^');
    bool ends = !anchored || (text.len && text.data[text.len - 1] == '$');
    return add_text(t, begins ? SLICE("") : SLICE("^"), text, ends ? SLICE("") : SLICE("$"), err) &&
           compile(&t->sought[t->n_sought - 1], err);
}

static bool add_trigger(struct triggers *t, const struct grammar_trigger *trigger,
                        struct error *err)
{
    switch (trigger->kind) {
    case TRIGGER_TOKEN:
        t->tokens[t->n_tokens++] = trigger->token;
        return true;
    case TRIGGER_WORD:
        return add_word(t, trigger->text, err);
    case TRIGGER_PATTERN:
        return add_pattern(t, trigger->text, false, err);
    case TRIGGER_PATTERN_FULL:
        return add_pattern(t, trigger->text, true, err);
    }
    return error_set(err, ERR_INVALID, "grammar_triggers: the type %d is not one of 0, 1, 2, 3",
                     (int)trigger->kind);
}

static int by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

struct triggers *triggers_create(const struct grammar_trigger *list, size_t n, struct error *err)
{
    if (n > TRIGGERS_MAX) {
        error_set(err, ERR_LIMIT, "grammar_triggers: there are %zu, more than %d", n, TRIGGERS_MAX);
        return NULL;
    }
    struct triggers *t = calloc(1, sizeof *t);
    if (t) {
        t->sought = calloc(n + 1, sizeof *t->sought);
        t->tokens = calloc(n + 1, sizeof *t->tokens);
    }
    bool ok = (t && t->sought && t->tokens) || error_memory(err);
    for (size_t i = 0; ok && i < n; i++)
        ok = add_trigger(t, &list[i], err);
    if (!ok) {
        triggers_free(t);
        return NULL;
    }
    qsort(t->tokens, t->n_tokens, sizeof *t->tokens, by_id);
    return t;
}

void triggers_free(struct triggers *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_sought; i++) {
        free(t->sought[i].text);
        pcre2_code_free(t->sought[i].code);
    }
    free(t->sought);
    free(t->tokens);
    free(t);
}

/* ---- looking ---- */

bool triggers_on_token(const struct triggers *t, int32_t token)
{
    return bsearch(&token, t->tokens, t->n_tokens, sizeof token, by_id) != NULL;
}

/* One look at a text. */
struct look {
    const struct sought *sought;
    struct slice text;
    size_t steps; /* left, for all patterns together */
    size_t at;    /* where in the text the last step was taken */
    pcre2_match_context *context;
};

/* What trying an item may cost that moves over nothing in the end: many
 * repetitions that must be there, and what a group matched before. */
static bool may_be_long(const struct sought *s, size_t at, size_t len)
{
    if (len < 2 || at + len > s->len)
        return false;
    const char *item = s->text + at;
    if (item[0] == '\\' && strchr("123456789gk", item[1]))
        return true;
    if (item[len - 1] != '}')
        return false;
    size_t open = len - 1;
    while (open > 0 && item[open] != '{')
        open--;
    return strtoul(s->text + at + open + 1, NULL, 10) > BYTES_PER_STEP;
}

static int take_step(pcre2_callout_block *block, void *arg)
{
    struct look *look = arg;
    size_t at = block->current_position, cost = 1;
    if (at > look->at)
        cost += (at - look->at) / BYTES_PER_STEP;
    if (may_be_long(look->sought, block->pattern_position, block->next_item_length))
        cost += (look->text.len - at) / BYTES_PER_STEP;
    look->at = at;
    if (look->steps < cost)
        return PCRE2_ERROR_CALLOUT;
    look->steps -= cost;
    return 0;
}

static enum trigger_result match(struct look *look, uint32_t options, size_t *begin,
                                 struct error *err)
{
    const pcre2_code *code = look->sought->code;
    struct slice text = look->text;
    look->at = 0;
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    if (!data) {
        error_memory(err);
        return TRIGGER_FAILED;
    }
    int groups = pcre2_match(code, (PCRE2_SPTR)(text.data ? text.data : ""), text.len, 0, options,
                             data, look->context);
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
    if (groups > 0)
        return TRIGGER_FOUND;
    if (groups == PCRE2_ERROR_NOMATCH)
        return TRIGGER_NONE;
    error_set(err, ERR_LIMIT,
              "grammar_triggers: the patterns need more steps in the text generated so far than "
              "are allowed for a token (%d); let them begin with a fixed text",
              TRIGGER_STEPS_MAX);
    return TRIGGER_FAILED;
}

static enum trigger_result find_pattern(struct look *look, size_t *begin, struct error *err)
{
    enum trigger_result result = TRIGGER_NONE;
    if (look->sought->whole)
        result = match(look, PCRE2_ANCHORED | PCRE2_ENDANCHORED, begin, err);
    return result == TRIGGER_NONE ? match(look, look->sought->search, begin, err) : result;
}

static enum trigger_result find_word(const struct look *look, size_t n_new, size_t *begin)
{
    struct slice word = {look->sought->text, look->sought->len};
    size_t reach = word.len + n_new;
    size_t from = look->text.len > reach ? look->text.len - reach : 0;
    *begin = slice_find(look->text, from, word);
    return *begin == SLICE_NOT_FOUND ? TRIGGER_NONE : TRIGGER_FOUND;
}

static pcre2_match_context *make_context(struct look *look)
{
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    if (!context)
        return NULL;
    pcre2_set_callout(context, take_step, look);
    pcre2_set_heap_limit(context, MATCH_HEAP_KIB);
    return context;
}

enum trigger_result triggers_on_text(const struct triggers *t, struct slice text, size_t n_new,
                                     size_t *begin, struct error *err)
{
    enum trigger_result result = TRIGGER_NONE;
    struct look look = {.text = text, .steps = TRIGGER_STEPS_MAX};
    if (t->n_patterns > 0 && !(look.context = make_context(&look))) {
        error_memory(err);
        return TRIGGER_FAILED;
    }
    for (size_t i = 0; result == TRIGGER_NONE && i < t->n_sought; i++) {
        look.sought = &t->sought[i];
        result =
            look.sought->code ? find_pattern(&look, begin, err) : find_word(&look, n_new, begin);
    }
    pcre2_match_context_free(look.context);
    return result;
}
