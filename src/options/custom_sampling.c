/* custom_sampling.c - options of sampling whose values want reading. */
#include "options/table.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const struct {
    char letter;
    const char *name, *also;
} samplers[] = {
    {'e', "penalties", NULL},  {'d', "dry", NULL},    {'s', "top_n_sigma", NULL},
    {'k', "top_k", NULL},      {'y', "typ_p", "typ"}, {'p', "top_p", "nucleus"},
    {'m', "min_p", NULL},      {'x', "xtc", NULL},    {'t', "temperature", "temp"},
    {'a', "adaptive_p", NULL}, {'i', "infill", NULL},
};
enum { N_SAMPLERS = sizeof samplers / sizeof *samplers };

/* "top_k", "top-k" and "topk" are the same, in any case. */
static bool same_sampler(struct slice given, const char *name)
{
    size_t i = 0;
    for (const char *c = name; *c; c++) {
        if (*c == '_')
            continue;
        while (i < given.len && (given.data[i] == '_' || given.data[i] == '-'))
            i++;
        if (i == given.len || tolower((unsigned char)given.data[i++]) != *c)
            return false;
    }
    return i == given.len;
}

bool apply_samplers(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct option_list *list = &p->options->sampling.samplers;
    list->n = 0;
    for (const char *part = use->value; part;) {
        const char *end = strchr(part, ';');
        struct slice name = {part, end ? (size_t)(end - part) : strlen(part)};
        size_t i = 0;
        while (i < N_SAMPLERS && !same_sampler(name, samplers[i].name) &&
               !(samplers[i].also && same_sampler(name, samplers[i].also)))
            i++;
        bool ok = i < N_SAMPLERS ? list_push(p->options, list, slice_of(samplers[i].name))
                                 : option_warn(p, "%s: there is no sampler '%.*s'; it is left out",
                                               use->source, (int)name.len, name.data);
        if (!ok)
            return error_memory(err);
        part = end ? end + 1 : NULL;
    }
    return true;
}

bool apply_sampler_seq(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct option_list *list = &p->options->sampling.samplers;
    list->n = 0;
    for (const char *c = use->value; *c; c++) {
        size_t i = 0;
        while (i < N_SAMPLERS && samplers[i].letter != *c)
            i++;
        bool ok = i < N_SAMPLERS
                      ? list_push(p->options, list, slice_of(samplers[i].name))
                      : option_warn(p, "%s: no sampler has the letter '%c'; it is left out",
                                    use->source, *c);
        if (!ok)
            return error_memory(err);
    }
    return true;
}

bool apply_seed(struct option_parser *p, const struct option_use *use, struct error *err)
{
    errno = 0;
    char *end;
    unsigned long seed = strtoul(use->value, &end, 10); /* reads a sign: -1 is all ones */
    if (end == use->value || *end || errno == ERANGE)
        return bad_value(use, err, "a whole number; -1 for a random one");
    p->options->sampling.seed = (uint32_t)seed;
    return true;
}

static bool read_number(const struct option_use *use, float *out, struct error *err)
{
    char *end;
    *out = strtof(use->value, &end);
    if (end == use->value || *end || !isfinite(*out))
        return bad_value(use, err, "a number");
    return true;
}

bool apply_temperature(struct option_parser *p, const struct option_use *use, struct error *err)
{
    float value;
    if (!read_number(use, &value, err))
        return false;
    p->options->sampling.temperature = value > 0 ? value : 0;
    return true;
}

bool apply_repeat_penalty(struct option_parser *p, const struct option_use *use, struct error *err)
{
    float value;
    if (!read_number(use, &value, err))
        return false;
    if (!(value > 0) || !isfinite(1.0f / value))
        return bad_value(use, err, "a number above 0");
    p->options->sampling.repeat_penalty = value;
    return true;
}

bool apply_dry_base(struct option_parser *p, const struct option_use *use, struct error *err)
{
    float value;
    if (!read_number(use, &value, err))
        return false;
    if (value >= 1)
        p->options->sampling.dry_base = value;
    else if (!option_warn(p, "%s: %s is below 1 and left out of account", use->source, use->value))
        return error_memory(err);
    return true;
}

bool apply_dry_breaker(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct option_list *list = &p->options->sampling.dry_sequence_breakers;
    bool none = !strcmp(use->value, "none");
    if (!p->breakers_cleared || none)
        list->n = 0;
    p->breakers_cleared = true;
    return none || list_push(p->options, list, slice_of(use->value)) || error_memory(err);
}

bool apply_logit_bias(struct option_parser *p, const struct option_use *use, struct error *err)
{
    static const char form[] = "TOKEN+BIAS or TOKEN-BIAS, like 15043+1";
    struct options *o = p->options;
    char *sign, *end;
    errno = 0;
    long token = strtol(use->value, &sign, 10);
    if (sign == use->value || errno || token < INT32_MIN || token > INT32_MAX)
        return bad_value(use, err, form);
    if (*sign != '+' && *sign != '-')
        return bad_value(use, err, form);
    float bias = strtof(sign + 1, &end);
    if (end == sign + 1 || *end || isnan(bias))
        return bad_value(use, err, form);
    if (o->sampling.logit_bias.n == o->sampling.logit_bias.capacity) {
        size_t capacity = o->sampling.logit_bias.n * 2 + 8;
        struct option_logit_bias *data = arena_alloc_array(&o->arena, capacity, sizeof *data);
        if (!data)
            return error_memory(err);
        if (o->sampling.logit_bias.n)
            memcpy(data, o->sampling.logit_bias.data, o->sampling.logit_bias.n * sizeof *data);
        o->sampling.logit_bias.data = data;
        o->sampling.logit_bias.capacity = capacity;
    }
    o->sampling.logit_bias.data[o->sampling.logit_bias.n++] =
        (struct option_logit_bias){(int32_t)token, *sign == '-' ? -bias : bias};
    return true;
}

static bool set_grammar(struct option_parser *p, const char *grammar, const char *schema)
{
    p->options->sampling.grammar = grammar;
    p->options->sampling.json_schema = schema;
    return grammar || schema;
}

bool apply_grammar(struct option_parser *p, const struct option_use *use, struct error *err)
{
    return set_grammar(p, options_text(p->options, slice_of(use->value)), NULL) ||
           error_memory(err);
}

bool apply_grammar_file(struct option_parser *p, const struct option_use *use, struct error *err)
{
    return set_grammar(p, read_text_file(p, use, err), NULL);
}

static bool set_schema(struct option_parser *p, const struct option_use *use, const char *text,
                       struct error *err)
{
    if (!text)
        return false;
    json_t *schema = json_parse(slice_of(text), err);
    if (!schema)
        return error_prefix(err, "%s", use->source);
    json_decref(schema);
    return set_grammar(p, NULL, text);
}

bool apply_json_schema(struct option_parser *p, const struct option_use *use, struct error *err)
{
    const char *text = options_text(p->options, slice_of(use->value));
    return text ? set_schema(p, use, text, err) : error_memory(err);
}

bool apply_json_schema_file(struct option_parser *p, const struct option_use *use,
                            struct error *err)
{
    return set_schema(p, use, read_text_file(p, use, err), err);
}
