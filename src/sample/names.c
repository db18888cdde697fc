/* names.c - the samplers' names, letters and aliases, and the defaults. */
#include "sample/sample.h"

#include <ctype.h>

static const struct {
    const char *name; /* aliases: '_' as '-' or left out */
    char letter;
    const char *alias; /* one more, or NULL */
} kinds[SAMPLER_KIND_COUNT] = {
    [SAMPLER_PENALTIES] = {"penalties", 'e', NULL},
    [SAMPLER_DRY] = {"dry", 'd', NULL},
    [SAMPLER_TOP_N_SIGMA] = {"top_n_sigma", 's', NULL},
    [SAMPLER_TOP_K] = {"top_k", 'k', NULL},
    [SAMPLER_TYPICAL_P] = {"typ_p", 'y', "typ"},
    [SAMPLER_TOP_P] = {"top_p", 'p', "nucleus"},
    [SAMPLER_MIN_P] = {"min_p", 'm', NULL},
    [SAMPLER_XTC] = {"xtc", 'x', NULL},
    [SAMPLER_TEMPERATURE] = {"temperature", 't', "temp"},
    [SAMPLER_INFILL] = {"infill", 'i', NULL},
    [SAMPLER_ADAPTIVE_P] = {"adaptive_p", 'a', NULL},
};

const char *sampler_kind_name(enum sampler_kind kind)
{
    return kind >= 0 && kind < SAMPLER_KIND_COUNT ? kinds[kind].name : "";
}

char sampler_kind_letter(enum sampler_kind kind)
{
    return kind >= 0 && kind < SAMPLER_KIND_COUNT ? kinds[kind].letter : '?';
}

/* Whether text is name with each '_' written as separator, or left out where
 * that is 0. */
static bool spelled(struct slice text, const char *name, char separator)
{
    size_t i = 0;
    for (const char *c = name; *c; c++) {
        char want = *c == '_' ? separator : *c;
        if (!want)
            continue;
        if (i >= text.len || tolower((unsigned char)text.data[i]) != want)
            return false;
        i++;
    }
    return i == text.len;
}

bool sampler_kind_from_name(struct slice name, enum sampler_kind *kind)
{
    for (int i = 0; i < SAMPLER_KIND_COUNT; i++) {
        if (spelled(name, kinds[i].name, '_') || spelled(name, kinds[i].name, '-') ||
            spelled(name, kinds[i].name, 0) ||
            (kinds[i].alias && spelled(name, kinds[i].alias, '_'))) {
            *kind = (enum sampler_kind)i;
            return true;
        }
    }
    return false;
}

bool sampler_kind_from_letter(char letter, enum sampler_kind *kind)
{
    for (int i = 0; i < SAMPLER_KIND_COUNT; i++) {
        if (kinds[i].letter == letter) {
            *kind = (enum sampler_kind)i;
            return true;
        }
    }
    return false;
}

static const struct slice default_breakers[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};

struct sampler_settings sampler_settings_defaults(void)
{
    return (struct sampler_settings){
        .seed = SAMPLER_SEED_RANDOM,
        .n_prev = 64,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .typical_p = 1.0f,
        .top_n_sigma = -1.0f,
        .xtc_threshold = 0.1f,
        .temperature = 0.8f,
        .dynatemp_exponent = 1.0f,
        .repeat_last_n = 64,
        .repeat_penalty = 1.0f,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_penalty_last_n = 64,
        .dry_sequence_breakers = default_breakers,
        .n_dry_sequence_breakers = sizeof default_breakers / sizeof *default_breakers,
        .mirostat_tau = 5.0f,
        .mirostat_eta = 0.1f,
        .adaptive_target = -1.0f,
        .adaptive_decay = 0.9f,
        .samplers = {SAMPLER_PENALTIES, SAMPLER_DRY, SAMPLER_TOP_N_SIGMA, SAMPLER_TOP_K,
                     SAMPLER_TYPICAL_P, SAMPLER_TOP_P, SAMPLER_MIN_P, SAMPLER_XTC,
                     SAMPLER_TEMPERATURE},
        .n_samplers = 9,
        .reasoning_budget_tokens = -1,
    };
}
