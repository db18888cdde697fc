/* stage_infill.c - for filling in the middle: ends the text as soon as ending
 * is likely, and adds up tokens of which one begins the other. */
#include "sample/stage.h"

/* Comparing all pairs is quadratic; past so many candidates the rest, the
 * least probable, goes. */
enum { INFILL_MAX = 1024 };

struct infill_state {
    const struct vocab *vocab;
};

static bool begins(const struct vocab *v, int32_t a, int32_t b)
{
    if ((v->flags[a] | v->flags[b]) & VOCAB_HIDDEN)
        return false;
    return v->pieces[a].len && slice_starts_with(v->pieces[b], v->pieces[a]);
}

/* The token of a pair with a common beginning that is more probable takes the
 * probability of the other. */
static void combine(const struct vocab *v, struct candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        for (size_t j = 0; j < c->n && c->data[i].logit != -INFINITY; j++) {
            if (i == j || c->data[j].logit == -INFINITY ||
                !begins(v, c->data[i].token, c->data[j].token))
                continue;
            struct candidate *into = &c->data[i], *from = &c->data[j];
            if (from->p > into->p) {
                into = &c->data[j];
                from = &c->data[i];
            }
            into->p += from->p;
            from->p = 0.0f;
            from->logit = -INFINITY;
        }
    }
}

/* Keep ends of generation, and other tokens at least so probable; returns how
 * many others stay. */
static size_t keep_above(const struct vocab *v, struct candidates *c, float least)
{
    size_t kept = 0, others = 0;
    float sum = 0.0f;
    for (size_t i = 0; i < c->n; i++) {
        bool ends = vocab_is_eog(v, c->data[i].token);
        if (c->data[i].p < least && !ends)
            continue;
        others += !ends;
        sum += c->data[i].p;
        c->data[kept++] = c->data[i];
    }
    c->n = kept;
    for (size_t i = 0; i < kept; i++)
        c->data[i].p /= sum;
    return others;
}

static void infill_apply(void *state, struct candidates *c)
{
    const struct vocab *v = ((struct infill_state *)state)->vocab;
    if (c->n == 0)
        return;
    candidates_softmax(c, true);
    float text = 0.0f, ends = 0.0f;
    for (size_t i = 0; i < c->n; i++) {
        if (vocab_is_eog(v, c->data[i].token))
            ends += c->data[i].p;
        else
            text += c->data[i].p;
    }
    if (3.0f * ends * (float)c->n > text) {
        keep_above(v, c, INFINITY);
        return;
    }
    if (c->n > INFILL_MAX)
        c->n = INFILL_MAX;
    struct candidate first = c->data[0];
    combine(v, c);
    size_t others = keep_above(v, c, 0.2f);
    if (others == 0) {
        int32_t end = v->eot >= 0 ? v->eot : v->eos;
        c->data[0] = (struct candidate){end >= 0 ? end : first.token, 1.0f, 1.0f};
        c->n = 1;
        return;
    }
    keep_above(v, c, (float)(1.0 / (double)(others + 1)));
}

static const struct stage_kind infill_kind = {
    .name = "infill", .size = sizeof(struct infill_state), .apply = infill_apply};

bool stage_infill(const struct stage_inputs *in, struct stage *out)
{
    struct infill_state *s = stage_new(out, &infill_kind);
    if (s)
        s->vocab = in->vocab;
    return s;
}
