/* stage_temperature.c - temperature, fixed or by the entropy (dynatemp). */
#include "sample/stage.h"

struct temperature_state {
    float temperature, range, exponent;
};

static void keep_best_only(struct candidates *c)
{
    size_t best = 0;
    for (size_t i = 1; i < c->n; i++)
        if (c->data[i].logit > c->data[best].logit)
            best = i;
    for (size_t i = 0; i < c->n; i++)
        if (i != best)
            c->data[i].logit = -INFINITY;
}

void scale_by_temperature(struct candidates *c, float temperature)
{
    if (c->n == 0)
        return;
    bool overflow = !(temperature > 0.0f);
    /* So cold that a quotient leaves the floats: as good as zero. */
    for (size_t i = 0; i < c->n && !overflow; i++)
        overflow = c->data[i].logit / temperature > FLT_MAX;
    if (overflow) {
        keep_best_only(c);
        return;
    }
    for (size_t i = 0; i < c->n; i++)
        c->data[i].logit = logit_tamed(c->data[i].logit / temperature);
}

static void temperature_apply(void *state, struct candidates *c)
{
    struct temperature_state *s = state;
    if (!(s->range > 0.0f)) {
        scale_by_temperature(c, s->temperature);
        return;
    }
    if (c->n <= 1)
        return;
    float low = s->temperature - s->range > 0.0f ? s->temperature - s->range : 0.0f;
    float high = s->temperature + s->range;
    candidates_softmax(c, true);
    float entropy = 0.0f;
    for (size_t i = 0; i < c->n; i++)
        if (c->data[i].p > 0.0f)
            entropy -= c->data[i].p * logf(c->data[i].p);
    float most = -logf(1.0f / (float)c->n);
    float temperature = low + (high - low) * powf(entropy / most, s->exponent);
    scale_by_temperature(c, isnan(temperature) ? s->temperature : temperature);
}

static const struct stage_kind temperature_kind = {
    .name = "temperature", .size = sizeof(struct temperature_state), .apply = temperature_apply};

bool stage_temperature(const struct stage_inputs *in, struct stage *out)
{
    const struct sampler_settings *set = in->settings;
    if (set->temperature == 1.0f && !(set->dynatemp_range > 0.0f))
        return true;
    struct temperature_state *s = stage_new(out, &temperature_kind);
    if (s)
        *s = (struct temperature_state){set->temperature, set->dynatemp_range,
                                        set->dynatemp_exponent};
    return s;
}

bool stage_plain_temperature(const struct stage_inputs *in, struct stage *out)
{
    if (in->settings->temperature == 1.0f)
        return true;
    struct temperature_state *s = stage_new(out, &temperature_kind);
    if (s)
        s->temperature = in->settings->temperature;
    return s;
}
