/* matcher.c - positions in a grammar. */
#include "sample/grammar.h"

bool matcher_create(const struct vocab *vocab, const struct sampler_settings *settings,
                    struct matcher **out, struct error *err)
{
    (void)vocab;
    *out = NULL;
    if (settings->grammar.len == 0)
        return true;
    return error_set(err, ERR_UNSUPPORTED, "grammars are not yet part of this build");
}
struct matcher *matcher_clone(const struct matcher *m)
{
    (void)m;
    return NULL;
}
void matcher_free(struct matcher *m)
{
    (void)m;
}
bool matcher_admits(struct matcher *m, int32_t token, bool *admits, struct error *err)
{
    (void)m, (void)token, (void)err;
    *admits = true;
    return true;
}
bool matcher_mask(struct matcher *m, struct candidates *c, struct error *err)
{
    (void)m, (void)c, (void)err;
    return true;
}
bool matcher_accept(struct matcher *m, int32_t token, struct error *err)
{
    (void)m, (void)token, (void)err;
    return true;
}
bool matcher_done(const struct matcher *m)
{
    (void)m;
    return false;
}
