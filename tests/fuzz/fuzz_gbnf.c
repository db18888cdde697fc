/* fuzz_gbnf.c - any bytes as a grammar: refused, or fit to sample by. */
#include "sample/sample.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 130, STEPS = 12 };

static char pieces[N][4];

static struct slice piece(const void *context, int32_t token)
{
    (void)context;
    return slice_of(pieces[token]);
}

static bool is_eog(const void *context, int32_t token)
{
    (void)context;
    return token == N - 1;
}

static struct vocab *vocabulary(void)
{
    static const char *const more[] = {"\xC3", "\xA9", "ab", "\xE6\x97", "},"};
    for (int i = 0; i < N; i++)
        pieces[i][0] = (char)(i < 124 ? i + 3 : 'x');
    for (int i = 0; i < 5; i++)
        memcpy(pieces[124 + i], more[i], strlen(more[i]));
    struct vocab_source source = {
        .n_tokens = N, .eot = -1, .eos = N - 1, .piece = piece, .is_eog = is_eog};
    return vocab_create(&source, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct vocab *vocab;
    if (!vocab && !(vocab = vocabulary()))
        return 0;
    struct sampler_settings set = sampler_settings_defaults();
    set.seed = 1;
    set.grammar = (struct slice){(const char *)data, size};
    struct error err = {0};
    bool parses = grammar_check(vocab, set.grammar, NULL, &err);
    struct sampler *s = sampler_create(vocab, &set, 64, &err);
    if (size && (s != NULL) != parses)
        abort();
    float logits[N];
    for (int i = 0; i < N; i++)
        logits[i] = (float)((size_t)i * 7919 % 101) / 20;
    for (int step = 0; s && step < STEPS; step++) {
        int32_t token;
        if (!sampler_sample(s, logits, &token, &err) || token == N - 1)
            break;
        /* Whatever the mask lets through is accepted. */
        if (!sampler_accept(s, token, true, &err) && err.code != ERR_LIMIT)
            abort();
    }
    sampler_free(s);
    return 0;
}
