/* jinja_run.c - runs: made, given variables, rendered. */
#include "chat/jinja_value.h"

#include "base/clock.h"

#include <stdlib.h>

struct jinja_run *jinja_run_create(const struct jinja_template *t, int64_t now, bool watch,
                                   const struct jinja_limits *limits, struct budget *budget)
{
    struct jinja_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->limits = (struct jinja_limits){20000000, (size_t)512 << 20, 1000, 10000};
    if (limits && limits->steps)
        run->limits.steps = limits->steps;
    if (limits && limits->memory)
        run->limits.memory = limits->memory;
    if (limits && limits->depth)
        run->limits.depth = limits->depth;
    if (limits && limits->time_ms)
        run->limits.time_ms = limits->time_ms;
    run->t = t;
    run->budget = budget;
    run->now = now;
    run->watch = watch;
    run->globals = calloc(t->n_symbols + 1, sizeof *run->globals);
    run->undefined = jinja_undefined(run, SLICE("object_property"));
    run->none = jinja_new(run, JINJA_NONE);
    struct jinja_value *yes = jinja_bool(run, true);
    run->no = jinja_bool(run, false);
    run->yes = yes;
    if (!run->globals || !run->undefined || !run->none || !run->yes || !run->no) {
        jinja_run_free(run);
        return NULL;
    }
    return run;
}

void jinja_run_free(struct jinja_run *run)
{
    if (!run)
        return;
    for (struct jinja_kept *kept = run->kept; kept; kept = kept->next)
        json_decref(kept->json);
    free(run->globals);
    jinja_pay(run, 0); /* the steps since the last look */
    budget_return(run->budget, run->paid_bytes);
    jinja_pools_release(run);
    free(run);
}

bool jinja_set(struct jinja_run *run, const char *name, struct jinja_value *value)
{
    int32_t symbol = jinja_symbol(run->t, name);
    if (!value)
        return false;
    if (symbol >= 0)
        run->globals[symbol] = value;
    return true;
}

static bool copy_output(const struct jinja_builder *b, struct jinja_output *out, struct error *err)
{
    if (!str_append(&out->text, b->data ? b->data : "", b->len))
        return error_memory(err);
    if (b->n_spans) {
        out->spans = malloc(b->n_spans * sizeof *out->spans);
        if (!out->spans)
            return error_memory(err);
        memcpy(out->spans, b->spans, b->n_spans * sizeof *out->spans);
    }
    out->n_spans = b->n_spans;
    return true;
}

static void begin(struct jinja_run *run)
{
    run->deadline_us = clock_monotonic_us() + (uint64_t)run->limits.time_ms * 1000;
    run->out = &run->output;
}

static bool give_error(const struct jinja_run *run, struct error *err)
{
    if (err)
        *err = run->error;
    return false;
}

bool jinja_render(struct jinja_run *run, struct jinja_output *out, struct error *err)
{
    begin(run);
    return jinja_exec_body(run, 0, run->t->body.n) ? copy_output(&run->output, out, err)
                                                   : give_error(run, err);
}

/* How many statements stand before the first that has this name in it. */
static size_t statements_before(const struct jinja_template *t, int32_t symbol)
{
    size_t pos = (size_t)(t->symbols[symbol].data - t->source.data), n = t->body.n;
    while (n > 0 && t->body.data[n - 1]->pos > pos)
        n--;
    return n > 0 ? n - 1 : 0;
}

bool jinja_render_both(struct jinja_run *run, const char *name, struct jinja_value *value,
                       struct jinja_output *with, struct jinja_output *without, bool *both,
                       struct error *err)
{
    int32_t symbol = jinja_symbol(run->t, name);
    size_t n = run->t->body.n, common = symbol < 0 ? n : statements_before(run->t, symbol);
    begin(run);
    struct jinja_value *before = symbol < 0 ? NULL : run->globals[symbol];
    if (!value || (symbol >= 0 && !jinja_set(run, name, value)) || !jinja_exec_body(run, 0, common))
        return give_error(run, err);
    struct jinja_builder *b = &run->output;
    size_t n_globals = run->t->n_symbols, len = b->len, n_spans = b->n_spans;
    struct jinja_span last = n_spans ? b->spans[n_spans - 1] : (struct jinja_span){0, 0};
    uint64_t mutations = run->mutations;
    struct jinja_value **globals = jinja_alloc(run, (n_globals + 1) * sizeof *globals);
    if (!globals)
        return give_error(run, err);
    memcpy(globals, run->globals, n_globals * sizeof *globals);
    if (!jinja_exec_body(run, common, n))
        return give_error(run, err);
    if (!copy_output(&run->output, with, err))
        return false;
    *both = run->mutations == mutations;
    if (!*both)
        return true;
    memcpy(run->globals, globals, n_globals * sizeof *globals);
    if (symbol >= 0)
        run->globals[symbol] = before;
    b->len = len;
    b->n_spans = n_spans;
    if (n_spans)
        b->spans[n_spans - 1] = last;
    return jinja_exec_body(run, common, n) ? copy_output(&run->output, without, err)
                                           : give_error(run, err);
}

void jinja_output_free(struct jinja_output *out)
{
    str_free(&out->text);
    free(out->spans);
    *out = (struct jinja_output){0};
}
