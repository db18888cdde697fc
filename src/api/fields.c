/* fields.c - the one table of request fields, and what reading them means.
 *
 * Rows are evaluated in order: some look at what an earlier one left. A value of
 * null counts as absent; numbers and booleans stand in for each other; a real is
 * cut to an integer. */
#include "api/internal.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum field_type {
    FIELD_BOOL,
    FIELD_I32,
    FIELD_I64,
    FIELD_U32,
    FIELD_F32,
    FIELD_TEXT,
    FIELD_JSON,
    FIELD_NESTED,
    FIELD_IGNORED /* a number that is accepted and has no effect */
};

enum field_limits { NO_LIMITS, CLAMPED, REFUSED };

struct reading {
    const struct api *api;
    const json_t *body;
    struct budget *budget;
    struct generation *g;
};

struct request_field {
    const char *name;
    const char *aliases[2]; /* tried in order where name is absent */
    enum field_type type;
    enum field_limits limits;
    double min, max; /* integers up to INT32_MAX are exact in a double */
    bool max_is_slots;
    size_t offset; /* in struct generation */
    /* Instead of a plain store; name is the one that was found. */
    bool (*read)(struct reading *r, const char *name, const json_t *value, struct error *err);
    const char *subfield; /* FIELD_NESTED: a boolean at offset */
};

/* ---- conversions ----------------------------------------------------------------- */

static bool wrong_type(const json_t *value, const char *wanted, struct error *err)
{
    return error_set(err, ERR_INVALID, "type must be %s, but is %s", wanted, json_type_name(value));
}

static bool read_double(const json_t *value, double *out, struct error *err)
{
    if (json_is_number(value))
        *out = json_number_value(value);
    else if (json_is_boolean(value))
        *out = json_is_true(value);
    else
        return wrong_type(value, "number", err);
    return true;
}

/* An integer; reals are cut, what does not fit saturates. */
static bool read_integer(const json_t *value, int64_t *out, struct error *err)
{
    double real;
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    if (!read_double(value, &real, err))
        return false;
    if (real >= 9223372036854775807.0)
        *out = INT64_MAX;
    else if (real <= -9223372036854775808.0)
        *out = INT64_MIN;
    else
        *out = (int64_t)real;
    return true;
}

/* The text is the body's: what is stored must be of a member in borrowed_members. */
static bool read_text(const json_t *value, struct slice *out, struct error *err)
{
    if (!json_is_string(value))
        return wrong_type(value, "string", err);
    *out = json_slice(value);
    return true;
}

/* Texts of an array into the request's memory; what a non-array or a foreign
 * element means is the caller's. */
static bool read_texts(struct reading *r, const json_t *value, struct slice **out, size_t *n,
                       struct error *err)
{
    size_t size = json_array_size(value);
    *n = 0;
    *out = arena_alloc_array(&r->g->arena, size + 1, sizeof **out);
    if (!*out)
        return error_memory(err);
    for (size_t i = 0; i < size; i++) {
        if (!read_text(json_array_get(value, i), &(*out)[i], err))
            return false;
        *n = i + 1;
    }
    return true;
}

/* Text to tokens in the request's memory. */
static bool read_tokens(struct reading *r, struct slice text, unsigned flags, struct token_run *out,
                        struct error *err)
{
    struct token_vec tokens = {0};
    if (!text_encode_within(engine_tokenizer(r->api->engine), text, flags, NULL, 0, r->budget,
                            &tokens, err))
        return false;
    int32_t *copy = arena_alloc_array(&r->g->arena, tokens.n + 1, sizeof *copy);
    if (copy && tokens.n)
        memcpy(copy, tokens.data, tokens.n * sizeof *copy);
    *out = (struct token_run){copy, tokens.n};
    VEC_FREE(&tokens);
    return copy || error_memory(err);
}

/* ---- fields that need more than a store ------------------------------------------------ */

static bool read_response_fields(struct reading *r, const char *name, const json_t *value,
                                 struct error *err)
{
    (void)name;
    /* Anything but a list of texts means all fields, as it does for clients. */
    if (!json_is_array(value))
        return true;
    if (!read_texts(r, value, &r->g->response_fields, &r->g->n_response_fields, err)) {
        r->g->n_response_fields = 0;
        return err->code == ERR_INVALID;
    }
    return true;
}

static bool read_dry_base(struct reading *r, const char *name, const json_t *value,
                          struct error *err)
{
    double base;
    (void)name;
    if (!read_double(value, &base, err))
        return false;
    r->g->sampling.dry_base = base < 1.0 ? r->api->sampling.dry_base : (float)base;
    return true;
}

static bool read_lora(struct reading *r, const char *name, const json_t *value, struct error *err)
{
    (void)r;
    (void)name;
    if (!json_is_array(value))
        return error_set(err, ERR_INVALID,
                         "Error: 'lora' must be an array of objects with 'id' and 'scale' fields");
    for (size_t i = 0; i < json_array_size(value); i++)
        return error_set(err, ERR_INVALID, "no LoRA adapter with id %lld is loaded",
                         (long long)member_integer(json_array_get(value, i), "id", -1));
    return true;
}

static bool read_breakers(struct reading *r, const char *name, const json_t *value,
                          struct error *err)
{
    struct slice *breakers;
    size_t n = 0;
    struct error ignored;
    (void)name;
    if (!json_is_array(value) || !read_texts(r, value, &breakers, &n, &ignored) || n == 0)
        return error_set(err, ERR_INVALID,
                         "Error: dry_sequence_breakers must be a non-empty array of strings");
    r->g->sampling.dry_sequence_breakers = breakers;
    r->g->sampling.n_dry_sequence_breakers = n;
    return true;
}

static bool read_grammar(struct reading *r, const char *name, const json_t *value,
                         struct error *err)
{
    struct generation *g = r->g;
    const json_t *grammar = json_object_get(r->body, "grammar");
    (void)name;
    (void)value;
    if (json_object_get(r->body, "json_schema") && !grammar) {
        struct str gbnf = {0};
        /* In the schema's order, as the grammar that the answer shows. */
        if (!schema_to_grammar(json_object_get(r->body, "json_schema"), r->budget, &gbnf, NULL,
                               err)) {
            str_free(&gbnf);
            if (err->code != ERR_MEMORY && err->code != ERR_CANCELLED)
                err->code = ERR_INVALID;
            return error_prefix(err, "\"json_schema\"");
        }
        const char *copy = arena_duplicate(&g->arena, str_slice(&gbnf));
        g->sampling.grammar = (struct slice){copy, gbnf.len};
        g->sampling.grammar_prefilled = true;
        str_free(&gbnf);
        if (!copy)
            return error_memory(err);
    } else {
        struct slice text = json_slice(grammar);
        if (text.len == 0)
            return true;
        g->sampling.grammar = text;
        g->sampling.grammar_prefilled =
            slice_equal_text(member_text(r->body, "grammar_type"), "tool_calls");
    }
    g->has_grammar = true;
    return true;
}

static bool read_chat_format(struct reading *r, const char *name, const json_t *value,
                             struct error *err)
{
    int64_t format;
    (void)name;
    if (!read_integer(value, &format, err))
        return false;
    if (format < CHAT_FORMAT_CONTENT_ONLY || format > CHAT_FORMAT_PEG_MINIMAX_M3)
        return error_set(err, ERR_INVALID, "there is no chat format %lld", (long long)format);
    r->g->chat_format = (int32_t)format;
    return true;
}

static bool read_reasoning_format(struct reading *r, const char *name, const json_t *value,
                                  struct error *err)
{
    struct slice text;
    (void)name;
    return read_text(value, &text, err) &&
           chat_reasoning_format_from_name(text, &r->g->reasoning_format, err);
}

static bool read_chat_parser(struct reading *r, const char *name, const json_t *value,
                             struct error *err)
{
    struct slice text;
    (void)name;
    (void)r;
    if (!read_text(value, &text, err))
        return false;
    /* Chat routes hand their parser on in memory; its text form is nobody's API. */
    return text.len == 0 || error_set(err, ERR_INVALID, "a parser cannot be given as text");
}

static bool read_continuation(struct reading *r, const char *name, const json_t *value,
                              struct error *err)
{
    (void)name;
    (void)err;
    r->g->is_continuation = chat_continuation_from_json(value) != CHAT_CONTINUE_NONE;
    return true;
}

static int by_id(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

static bool read_preserved(struct reading *r, const char *name, const json_t *value,
                           struct error *err)
{
    struct generation *g = r->g;
    size_t size = json_array_size(value), n = 0;
    (void)name;
    int32_t *ids = arena_alloc_array(&g->arena, size + 1, sizeof *ids);
    if (!ids)
        return error_memory(err);
    for (size_t i = 0; i < size; i++) {
        struct slice text;
        struct token_run run;
        if (!read_text(json_array_get(value, i), &text, err) ||
            !read_tokens(r, text, TEXT_PARSE_SPECIAL, &run, err))
            return false;
        if (run.n == 1)
            ids[n++] = run.tokens[0];
    }
    qsort(ids, n, sizeof *ids, by_id);
    g->n_preserved_tokens = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[g->n_preserved_tokens++] = ids[i];
    g->preserved_tokens = ids;
    return true;
}

static bool is_preserved(const struct generation *g, int32_t token)
{
    for (size_t i = 0; i < g->n_preserved_tokens; i++)
        if (g->preserved_tokens[i] == token)
            return true;
    return false;
}

static bool read_trigger(struct reading *r, const json_t *value, struct grammar_trigger *out,
                         struct error *err)
{
    int64_t kind, token = -1;
    if (!json_is_object(value))
        return wrong_type(value, "object", err);
    if (!read_integer(json_object_get(value, "type"), &kind, err) ||
        !read_text(json_object_get(value, "value"), &out->text, err))
        return false;
    if (kind < TRIGGER_TOKEN || kind > TRIGGER_PATTERN_FULL)
        return error_set(err, ERR_INVALID, "there is no grammar trigger of type %lld",
                         (long long)kind);
    out->kind = (enum grammar_trigger_kind)kind;
    if (out->kind == TRIGGER_TOKEN) {
        if (!read_integer(json_object_get(value, "token"), &token, err))
            return false;
        if (token < 0 || token >= tokenizer_n_vocab(engine_tokenizer(r->api->engine)))
            return error_set(err, ERR_INVALID, "the vocabulary has no token %lld",
                             (long long)token);
        out->token = (int32_t)token;
    } else if (out->kind == TRIGGER_WORD) {
        struct token_run run;
        if (!read_tokens(r, out->text, TEXT_PARSE_SPECIAL, &run, err))
            return false;
        if (run.n != 1)
            return true;
        if (!is_preserved(r->g, run.tokens[0]))
            return error_set(err, ERR_INVALID,
                             "Grammar trigger word should be marked as preserved token: %.*s",
                             (int)(out->text.len < 200 ? out->text.len : 200), out->text.data);
        out->kind = TRIGGER_TOKEN;
        out->token = run.tokens[0];
    }
    return true;
}

static bool read_triggers(struct reading *r, const char *name, const json_t *value,
                          struct error *err)
{
    struct generation *g = r->g;
    size_t n = json_array_size(value);
    (void)name;
    struct grammar_trigger *triggers = arena_alloc_array(&g->arena, n + 1, sizeof *triggers);
    if (!triggers)
        return error_memory(err);
    for (size_t i = 0; i < n; i++)
        if (!read_trigger(r, json_array_get(value, i), &triggers[i], err))
            return false;
    g->sampling.grammar_triggers = triggers;
    g->sampling.n_grammar_triggers = n;
    if (g->sampling.grammar_lazy && n == 0)
        return error_set(err, ERR_INVALID, "Error: no triggers set for lazy grammar!");
    return true;
}

static bool read_reasoning_start(struct reading *r, const char *name, const json_t *value,
                                 struct error *err)
{
    struct slice text;
    (void)name;
    return read_text(value, &text, err) &&
           read_tokens(r, text, TEXT_PARSE_SPECIAL, &r->g->sampling.reasoning_start, err);
}

static bool read_reasoning_ends(struct reading *r, const char *name, const json_t *value,
                                struct error *err)
{
    struct generation *g = r->g;
    const json_t *list = json_object_get(r->body, "reasoning_budget_end_tags");
    bool is_list = list != NULL;
    size_t size = is_list ? json_array_size(list) : 1;
    (void)name;
    struct token_run *ends = arena_alloc_array(&g->arena, size + 1, sizeof *ends);
    if (!ends)
        return error_memory(err);
    g->sampling.reasoning_ends = ends;
    g->sampling.n_reasoning_ends = 0;
    for (size_t i = 0; i < size; i++) {
        struct slice text;
        if (!read_text(is_list ? json_array_get(list, i) : value, &text, err))
            return false;
        if (text.len == 0)
            continue;
        if (!read_tokens(r, text, TEXT_PARSE_SPECIAL, &ends[g->sampling.n_reasoning_ends], err))
            return false;
        g->sampling.n_reasoning_ends++;
    }
    return true;
}

/* What is forced when the budget is spent: the message, then the first end. */
static bool read_reasoning_message(struct reading *r, const char *name, const json_t *value,
                                   struct error *err)
{
    struct generation *g = r->g;
    (void)name;
    if (g->sampling.n_reasoning_ends == 0)
        return true;
    struct token_run end = g->sampling.reasoning_ends[0], message = {0};
    struct slice text = json_slice(value);
    if (text.len > 0 && !read_tokens(r, text, TEXT_PARSE_SPECIAL, &message, err))
        return false;
    int32_t *forced = arena_alloc_array(&g->arena, message.n + end.n + 1, sizeof *forced);
    if (!forced)
        return error_memory(err);
    if (message.n)
        memcpy(forced, message.tokens, message.n * sizeof *forced);
    if (end.n)
        memcpy(forced + message.n, end.tokens, end.n * sizeof *forced);
    g->sampling.reasoning_forced = (struct token_run){forced, message.n + end.n};
    return true;
}

struct biases {
    struct logit_bias *data;
    size_t n, capacity;
};

static bool add_bias(struct reading *r, struct biases *biases, struct slice text, float bias,
                     struct error *err)
{
    struct token_run run;
    if (!read_tokens(r, text, 0, &run, err))
        return false;
    for (size_t i = 0; i < run.n; i++)
        if (!VEC_PUSH(biases, (struct logit_bias){run.tokens[i], bias}))
            return error_memory(err);
    return true;
}

static bool add_bias_id(struct reading *r, struct biases *biases, int64_t token, float bias,
                        struct error *err)
{
    if (token < 0 || token >= tokenizer_n_vocab(engine_tokenizer(r->api->engine)))
        return true;
    return VEC_PUSH(biases, (struct logit_bias){(int32_t)token, bias}) || error_memory(err);
}

/* A number, or false for never. */
static bool bias_of(const json_t *value, float *bias)
{
    if (json_is_number(value))
        *bias = (float)json_number_value(value);
    else if (json_is_false(value))
        *bias = -INFINITY;
    else
        return false;
    return true;
}

static bool gather_biases(struct reading *r, const json_t *value, struct biases *biases,
                          struct error *err)
{
    float bias;
    const char *key;
    json_t *entry;
    size_t i;
    if (json_is_array(value)) {
        json_array_foreach(value, i, entry)
        {
            const json_t *token = json_array_get(entry, 0);
            if (json_array_size(entry) != 2 || !bias_of(json_array_get(entry, 1), &bias))
                continue;
            if (json_is_integer(token)
                    ? !add_bias_id(r, biases, json_integer_value(token), bias, err)
                    : json_is_string(token) && !add_bias(r, biases, json_slice(token), bias, err))
                return false;
        }
    } else if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, entry)
        {
            char *end;
            if (!bias_of(entry, &bias))
                continue;
            long long token = strtoll(key, &end, 10);
            if (*end == 0 ? !add_bias_id(r, biases, token, bias, err)
                          : !add_bias(r, biases, slice_of(key), bias, err))
                return false;
        }
    }
    return true;
}

static bool set_biases(struct generation *g, const struct logit_bias *data, size_t n,
                       const struct logit_bias *more, size_t n_more, struct error *err)
{
    struct logit_bias *copy = arena_alloc_array(&g->arena, n + n_more + 1, sizeof *copy);
    if (!copy)
        return error_memory(err);
    if (n)
        memcpy(copy, data, n * sizeof *copy);
    if (n_more)
        memcpy(copy + n, more, n_more * sizeof *copy);
    g->sampling.logit_bias = copy;
    g->sampling.n_logit_bias = n + n_more;
    return true;
}

static bool read_logit_bias(struct reading *r, const char *name, const json_t *value,
                            struct error *err)
{
    struct biases biases = {0};
    (void)name;
    bool ok = gather_biases(r, value, &biases, err) &&
              set_biases(r->g, biases.data, biases.n, NULL, 0, err);
    VEC_FREE(&biases);
    return ok;
}

static bool read_ignore_eos(struct reading *r, const char *name, const json_t *value,
                            struct error *err)
{
    struct generation *g = r->g;
    (void)name;
    if (!json_is_boolean(value))
        return wrong_type(value, "boolean", err);
    g->ignore_eos = json_is_true(value);
    return !g->ignore_eos || set_biases(g, g->sampling.logit_bias, g->sampling.n_logit_bias,
                                        r->api->eog_bias, r->api->n_eog_bias, err);
}

static bool read_stop(struct reading *r, const char *name, const json_t *value, struct error *err)
{
    struct generation *g = r->g;
    struct slice *stop = NULL;
    size_t n = 0;
    (void)name;
    if (json_is_array(value)) {
        if (!read_texts(r, value, &stop, &n, err))
            return false;
    } else if (json_is_string(value)) {
        stop = arena_alloc_array(&g->arena, 1, sizeof *stop);
        if (!stop)
            return error_memory(err);
        stop[n++] = json_slice(value);
    }
    if (n > 0) { /* otherwise the command line's stay */
        g->stop = stop;
        g->n_stop = n;
    }
    return true;
}

static bool read_samplers(struct reading *r, const char *name, const json_t *value,
                          struct error *err)
{
    struct sampler_settings *s = &r->g->sampling;
    (void)name;
    if (!json_is_array(value) && !json_is_string(value))
        return true;
    struct slice letters = json_slice(value);
    size_t n_names = json_is_array(value) ? json_array_size(value) : letters.len;
    s->n_samplers = 0;
    for (size_t i = 0; i < n_names; i++) {
        enum sampler_kind kind;
        bool known;
        if (json_is_array(value)) {
            struct slice text;
            if (!read_text(json_array_get(value, i), &text, err))
                return false;
            known = sampler_kind_from_name(text, &kind);
        } else {
            known = sampler_kind_from_letter(letters.data[i], &kind);
        }
        if (!known)
            continue;
        if (s->n_samplers == SAMPLER_ORDER_MAX)
            return error_set(err, ERR_INVALID, "more than %d samplers", SAMPLER_ORDER_MAX);
        s->samplers[s->n_samplers++] = kind;
    }
    return true;
}

/* ---- the table ------------------------------------------------------------------------------ */

#define AT(member)            .offset = offsetof(struct generation, member)
#define SAMPLING(member)      .offset = offsetof(struct generation, sampling.member)
#define RANGE(how, low, high) .limits = how, .min = low, .max = high

static const struct request_field fields[] = {
    {"verbose", .type = FIELD_BOOL, AT(verbose)},
    {"timings_per_token", .type = FIELD_BOOL, AT(timings_per_token)},
    {"stream", .type = FIELD_BOOL, AT(stream)},
    {"stream_options", .type = FIELD_NESTED, .subfield = "include_usage", AT(include_usage)},
    {"cache_prompt", .type = FIELD_BOOL, AT(cache_prompt)},
    {"return_tokens", .type = FIELD_BOOL, AT(return_tokens)},
    {"return_progress", .type = FIELD_BOOL, AT(return_progress)},
    {"sse_ping_interval", .type = FIELD_I32, RANGE(REFUSED, -1, INT32_MAX), AT(sse_ping_interval)},
    {"n_predict",
     {"max_completion_tokens", "max_tokens"},
     .type = FIELD_I32,
     RANGE(REFUSED, -1, INT32_MAX),
     AT(n_predict)},
    {"n_indent", .type = FIELD_I32, RANGE(REFUSED, 0, INT32_MAX), AT(n_indent)},
    {"n_keep", .type = FIELD_I32, RANGE(REFUSED, -1, INT32_MAX), AT(n_keep)},
    {"n_discard", .type = FIELD_I32, RANGE(REFUSED, 0, INT32_MAX), AT(n_discard)},
    {"n_cmpl",
     {"n"},
     .type = FIELD_I32,
     RANGE(REFUSED, 1, INT32_MAX),
     .max_is_slots = true,
     AT(n_cmpl)},
    {"n_cache_reuse", .type = FIELD_I32, RANGE(REFUSED, 0, INT32_MAX), AT(n_cache_reuse)},
    {"t_max_prompt_ms", .type = FIELD_IGNORED},
    {"t_max_predict_ms", .type = FIELD_I64, RANGE(REFUSED, -1, 9223372036854775807.0),
     AT(t_max_predict_ms)},
    {"response_fields", .type = FIELD_JSON, .read = read_response_fields},

    {"top_k", .type = FIELD_I32, RANGE(CLAMPED, 0, INT32_MAX), SAMPLING(top_k)},
    {"top_p", .type = FIELD_F32, RANGE(CLAMPED, 0, 1), SAMPLING(top_p)},
    {"min_p", .type = FIELD_F32, RANGE(CLAMPED, 0, 1), SAMPLING(min_p)},
    {"top_n_sigma", .type = FIELD_F32, SAMPLING(top_n_sigma)},
    {"xtc_probability", .type = FIELD_F32, RANGE(CLAMPED, 0, 1), SAMPLING(xtc_probability)},
    {"xtc_threshold", .type = FIELD_F32, RANGE(CLAMPED, 0, 1), SAMPLING(xtc_threshold)},
    {"typical_p", .type = FIELD_F32, SAMPLING(typical_p)},
    {"temperature", .type = FIELD_F32, RANGE(CLAMPED, 0, INFINITY), SAMPLING(temperature)},
    {"dynatemp_range", .type = FIELD_F32, SAMPLING(dynatemp_range)},
    {"dynatemp_exponent", .type = FIELD_F32, SAMPLING(dynatemp_exponent)},
    {"repeat_last_n", .type = FIELD_I32, RANGE(REFUSED, 0, INT32_MAX), SAMPLING(repeat_last_n)},
    {"repeat_penalty", .type = FIELD_F32, SAMPLING(repeat_penalty)},
    {"frequency_penalty", .type = FIELD_F32, SAMPLING(frequency_penalty)},
    {"presence_penalty", .type = FIELD_F32, SAMPLING(presence_penalty)},
    {"dry_multiplier", .type = FIELD_F32, SAMPLING(dry_multiplier)},
    {"dry_base", .type = FIELD_F32, .read = read_dry_base},
    {"dry_allowed_length", .type = FIELD_I32, RANGE(REFUSED, 0, INT32_MAX),
     SAMPLING(dry_allowed_length)},
    {"dry_penalty_last_n", .type = FIELD_I32, RANGE(REFUSED, 0, INT32_MAX),
     SAMPLING(dry_penalty_last_n)},
    {"mirostat", .type = FIELD_I32, RANGE(CLAMPED, 0, 2), SAMPLING(mirostat)},
    {"mirostat_tau", .type = FIELD_F32, SAMPLING(mirostat_tau)},
    {"mirostat_eta", .type = FIELD_F32, SAMPLING(mirostat_eta)},
    {"adaptive_target", .type = FIELD_F32, RANGE(CLAMPED, -(double)FLT_MAX, 1),
     SAMPLING(adaptive_target)},
    {"adaptive_decay", .type = FIELD_F32, RANGE(REFUSED, 0, 0.99f), SAMPLING(adaptive_decay)},
    {"seed", .type = FIELD_U32, SAMPLING(seed)},
    {"n_probs", {"logprobs"}, .type = FIELD_I32, SAMPLING(n_probs)},
    {"min_keep", .type = FIELD_I32, RANGE(REFUSED, 0, INT32_MAX), SAMPLING(min_keep)},
    {"backend_sampling", .type = FIELD_BOOL, AT(backend_sampling)},
    {"post_sampling_probs", .type = FIELD_BOOL, AT(post_sampling_probs)},
    {"lora", .type = FIELD_JSON, .read = read_lora},
    {"dry_sequence_breakers", .type = FIELD_JSON, .read = read_breakers},
    {"json_schema", {"grammar"}, .type = FIELD_JSON, .read = read_grammar},
    {"grammar_lazy", .type = FIELD_BOOL, SAMPLING(grammar_lazy)},

    {"chat_format", .type = FIELD_JSON, .read = read_chat_format},
    {"reasoning_format", .type = FIELD_TEXT, .read = read_reasoning_format},
    {"generation_prompt", .type = FIELD_TEXT, AT(generation_prompt)},
    {"parse_tool_calls", .type = FIELD_BOOL, AT(parse_tool_calls)},
    {"chat_parser", .type = FIELD_TEXT, .read = read_chat_parser},
    {"continue_final_message", .type = FIELD_JSON, .read = read_continuation},
    {"echo", .type = FIELD_BOOL, AT(echo)},

    {"preserved_tokens", .type = FIELD_JSON, .read = read_preserved},
    {"grammar_triggers", .type = FIELD_JSON, .read = read_triggers},
    {"reasoning_control", .type = FIELD_BOOL, SAMPLING(reasoning_control)},
    {"reasoning_budget_tokens", .type = FIELD_I32, RANGE(REFUSED, -1, INT32_MAX),
     SAMPLING(reasoning_budget_tokens)},
    {"reasoning_budget_start_tag", .type = FIELD_TEXT, .read = read_reasoning_start},
    {"reasoning_budget_end_tags",
     {"reasoning_budget_end_tag"},
     .type = FIELD_JSON,
     .read = read_reasoning_ends},
    {"reasoning_budget_message", .type = FIELD_TEXT, .read = read_reasoning_message},
    {"logit_bias", .type = FIELD_JSON, .read = read_logit_bias},
    {"ignore_eos", .type = FIELD_BOOL, .read = read_ignore_eos},
    {"stop", .type = FIELD_JSON, .read = read_stop},
    {"samplers", .type = FIELD_JSON, .read = read_samplers},
};

enum { N_FIELDS = sizeof fields / sizeof *fields };

/* ---- evaluation ---------------------------------------------------------------------------------
 */

static bool out_of_range(double min, double max, bool is_real, const char *got, struct error *err)
{
    if (is_real)
        return error_set(err, ERR_INVALID, "Value must be between %f <= value <= %f, but got %s",
                         min, max, got);
    return error_set(err, ERR_INVALID, "Value must be between %lld <= value <= %lld, but got %s",
                     (long long)min, max >= 9.2e18 ? LLONG_MAX : (long long)max, got);
}

static bool store_integer(const struct request_field *field, const struct reading *r,
                          const json_t *value, int64_t *out, struct error *err)
{
    if (!read_integer(value, out, err))
        return false;
    if (field->limits == NO_LIMITS)
        return true;
    double max_value = field->max_is_slots ? engine_n_slots(r->api->engine) : field->max;
    int64_t min = (int64_t)field->min;
    int64_t max = max_value >= 9.2e18 ? INT64_MAX : (int64_t)max_value;
    if (*out >= min && *out <= max)
        return true;
    if (field->limits == CLAMPED) {
        *out = *out < min ? min : max;
        return true;
    }
    char got[32];
    snprintf(got, sizeof got, "%lld", (long long)*out);
    return out_of_range(field->min, max_value, false, got, err);
}

static bool store_real(const struct request_field *field, const json_t *value, float *out,
                       struct error *err)
{
    double real;
    if (!read_double(value, &real, err))
        return false;
    if (field->limits == REFUSED && !(real >= field->min && real <= field->max)) {
        char got[400];
        snprintf(got, sizeof got, "%f", real);
        return out_of_range(field->min, field->max, true, got, err);
    }
    if (field->limits == CLAMPED)
        real = real < field->min ? field->min : real > field->max ? field->max : real;
    *out = (float)real;
    return true;
}

static bool store(const struct request_field *field, struct reading *r, const char *name,
                  const json_t *value, struct error *err)
{
    char *at = (char *)r->g + field->offset;
    int64_t integer;
    if (field->read)
        return field->read(r, name, value, err);
    switch (field->type) {
    case FIELD_BOOL:
        if (!json_is_boolean(value))
            return wrong_type(value, "boolean", err);
        *(bool *)at = json_is_true(value);
        return true;
    case FIELD_I32:
        if (!store_integer(field, r, value, &integer, err))
            return false;
        if (integer < INT32_MIN || integer > INT32_MAX)
            integer = integer < 0 ? INT32_MIN : INT32_MAX;
        *(int32_t *)at = (int32_t)integer;
        return true;
    case FIELD_I64:
        return store_integer(field, r, value, (int64_t *)at, err);
    case FIELD_U32: /* -1 is the greatest */
        if (!store_integer(field, r, value, &integer, err))
            return false;
        *(uint32_t *)at = (uint32_t)(uint64_t)integer;
        return true;
    case FIELD_F32:
        return store_real(field, value, (float *)at, err);
    case FIELD_TEXT:
        return read_text(value, (struct slice *)at, err);
    case FIELD_NESTED: {
        const json_t *inner = json_is_object(value) ? member(value, field->subfield) : NULL;
        if (!inner)
            return true;
        if (!json_is_boolean(inner)) {
            wrong_type(inner, "boolean", err);
            return false;
        }
        *(bool *)at = json_is_true(inner);
        return true;
    }
    case FIELD_IGNORED:
    case FIELD_JSON:
        break;
    }
    return true;
}

static bool evaluate(const struct request_field *field, struct reading *r, struct error *err)
{
    const char *name = field->name;
    const json_t *value = member(r->body, name);
    for (size_t i = 0; i < 2 && !value && field->aliases[i]; i++) {
        name = field->aliases[i];
        value = member(r->body, name);
    }
    if (!value || store(field, r, name, value, err))
        return true;
    if (err->code == ERR_FORMAT || err->code == ERR_UNSUPPORTED || err->code == ERR_LIMIT)
        err->code = ERR_INVALID;
    return error_prefix(err, "Field '%s'", name);
}

static bool take_defaults(const struct api *api, struct generation *g, struct error *err)
{
    const struct options *o = api->options;
    g->sampling = api->sampling;
    g->ignore_eos = api->ignore_eos;
    g->has_grammar = api->sampling.grammar.len > 0;
    g->n_keep = o->context.n_keep;
    g->n_predict = o->context.n_predict;
    g->n_cache_reuse = o->cache.n_cache_reuse;
    g->cache_prompt = o->cache.cache_prompt;
    g->sse_ping_interval = o->http.sse_ping_interval;
    g->n_cmpl = 1;
    g->t_max_predict_ms = -1;
    g->verbose = o->logging.verbosity > 9;
    g->reasoning_format = api->chat_defaults.reasoning_format;
    g->backend_sampling = o->sampling.backend_sampling;
    size_t n = o->generation.reverse_prompts.n;
    g->stop = arena_alloc_array(&g->arena, n + 1, sizeof *g->stop);
    if (!g->stop)
        return error_memory(err);
    for (size_t i = 0; i < n; i++)
        g->stop[i] = slice_of(o->generation.reverse_prompts.data[i]);
    g->n_stop = n;
    return true;
}

/* The prompt's end that opens the answer, as tokens: where the grammar and the
 * reasoning budget start. A space that a tokenizer puts in front is dropped. */
static bool take_prefill(struct reading *r, struct error *err)
{
    struct generation *g = r->g;
    if (g->generation_prompt.len == 0)
        return true;
    struct token_run run;
    if (!read_tokens(r, g->generation_prompt, TEXT_PARSE_SPECIAL, &run, err))
        return false;
    if (run.n > 0) {
        struct slice piece = text_piece(engine_tokenizer(r->api->engine), run.tokens[0], true);
        char first = g->generation_prompt.data[0];
        bool prompt_has_space = first == ' ' || (first >= '\t' && first <= '\r');
        if (piece.len > 0 &&
            (piece.data[0] == ' ' || (piece.data[0] >= '\t' && piece.data[0] <= '\r')) &&
            !prompt_has_space) {
            run.tokens++;
            run.n--;
        }
    }
    g->sampling.prefill = run;
    return true;
}

/* Where the reference samples on its backend it says so; a grammar and a reasoning
 * budget are not read there. Here both are sampled by the CPU, with the same result. */
static bool shows_backend_sampling(const struct generation *g)
{
    const struct sampler_settings *s = &g->sampling;
    bool budget = s->reasoning_start.n > 0 && s->n_reasoning_ends > 0 &&
                  (s->grammar_lazy || s->reasoning_budget_tokens >= 0 || s->reasoning_control);
    return g->backend_sampling && s->grammar.len == 0 && !budget;
}

/* The members whose texts a generation borrows. It is kept for as long as a slot
 * shows its last request; the rest of a body, the prompt above all, need not be. */
static json_t *borrowed_members(const json_t *body)
{
    static const char *const names[] = {"response_fields",   "dry_sequence_breakers", "grammar",
                                        "generation_prompt", "grammar_triggers",      "stop"};
    json_t *members = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names && members; i++) {
        json_t *value = json_object_get(body, names[i]);
        if (value && json_object_set(members, names[i], value) != 0) {
            json_decref(members);
            return NULL;
        }
    }
    return members;
}

struct generation *generation_parse(const struct api *api, const json_t *body,
                                    struct budget *budget, struct error *err)
{
    struct generation *g = calloc(1, sizeof *g);
    if (!g) {
        error_memory(err);
        return NULL;
    }
    atomic_init(&g->references, 1);
    g->source = borrowed_members(body);
    struct reading reading = {api, body, budget, g};
    bool ok = g->source ? take_defaults(api, g, err) : error_memory(err);
    for (size_t i = 0; i < N_FIELDS && ok; i++)
        ok = budget_step(budget, 1, err) && evaluate(&fields[i], &reading, err);
    if (!ok || !take_prefill(&reading, err)) {
        generation_drop(g);
        return NULL;
    }
    g->backend_sampling = shows_backend_sampling(g);
    g->reasoning_in_content = g->stream && g->reasoning_format == CHAT_REASONING_DEEPSEEK_LEGACY;
    return g;
}

struct generation *generation_hold(struct generation *g)
{
    atomic_fetch_add(&g->references, 1);
    return g;
}

void generation_drop(void *arg)
{
    struct generation *g = arg;
    if (!g || atomic_fetch_sub(&g->references, 1) != 1)
        return;
    arena_free(&g->arena);
    json_decref(g->source);
    free(g);
}

/* ---- the manifest -------------------------------------------------------------------------------
 */

static const char *type_word(enum field_type type)
{
    switch (type) {
    case FIELD_BOOL:
        return "bool";
    case FIELD_TEXT:
        return "str";
    case FIELD_JSON:
        return "json";
    case FIELD_NESTED:
        return "nested";
    default:
        return "num";
    }
}

json_t *fields_surface(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < N_FIELDS; i++) {
        const struct request_field *field = &fields[i];
        json_t *aliases = json_array();
        for (size_t k = 0; k < 2 && field->aliases[k]; k++)
            push(aliases, json_string(field->aliases[k]));
        json_t *row = json_pack("{s:s,s:s,s:o}", "name", field->name, "type",
                                type_word(field->type), "aliases", aliases);
        if (field->subfield)
            put(row, "subfields", json_pack("[s]", field->subfield));
        if (field->limits != NO_LIMITS) {
            put(row, "min", json_real(field->min));
            if (field->max_is_slots)
                put(row, "max", json_string("slots"));
            else if (isfinite(field->max))
                put(row, "max", json_real(field->max));
            put(row, "out_of_range", json_string(field->limits == CLAMPED ? "clamped" : "error"));
        }
        if (field->type == FIELD_IGNORED)
            put(row, "ignored", json_true());
        if (!row || !push(list, row)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
