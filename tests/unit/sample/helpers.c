#include "unit/sample/helpers.h"

#include "unit/unit.h"

#include <string.h>

static struct slice toy_piece(const void *context, int32_t token)
{
    return slice_of(((const struct toy *)context)->pieces[token]);
}

static bool toy_is_eog(const void *context, int32_t token)
{
    const struct toy *toy = context;
    return token >= toy->n - toy->n_eog;
}

void toy_create(struct toy *toy, const char *const *pieces, int32_t n, int32_t n_eog)
{
    *toy = (struct toy){pieces, n, n_eog, NULL};
    struct vocab_source source = {.context = toy,
                                  .n_tokens = n,
                                  .eot = -1,
                                  .eos = n_eog ? n - n_eog : -1,
                                  .piece = toy_piece,
                                  .is_eog = toy_is_eog};
    struct error err = {0};
    toy->vocab = vocab_create(&source, &err);
    if (!toy->vocab)
        fail_msg("%s", err.message);
}

void toy_free(struct toy *toy)
{
    vocab_free(toy->vocab);
}

static char numbers[1 << 16][16];

static struct slice number_piece(const void *context, int32_t token)
{
    (void)context;
    return slice_of(numbers[token]);
}

static bool number_is_eog(const void *context, int32_t token)
{
    return token == *(const int32_t *)context - 1;
}

struct vocab *numbered_vocab(int32_t n)
{
    static int32_t size;
    size = n;
    for (int32_t i = 0; i < n; i++)
        snprintf(numbers[i], sizeof numbers[i], "t%d", (int)i);
    struct vocab_source source = {.context = &size,
                                  .n_tokens = n,
                                  .eot = -1,
                                  .eos = n - 1,
                                  .piece = number_piece,
                                  .is_eog = number_is_eog};
    struct vocab *vocab = vocab_create(&source, NULL);
    assert_non_null(vocab);
    return vocab;
}

void numbered_free(struct vocab *vocab)
{
    vocab_free(vocab);
}

struct sampler_settings plain_settings(void)
{
    struct sampler_settings set = sampler_settings_defaults();
    set.seed = 42;
    set.n_samplers = 0;
    return set;
}
