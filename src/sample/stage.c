/* stage.c - what all stages share. */
#include "sample/stage.h"

#include <stdlib.h>

void *stage_new(struct stage *out, const struct stage_kind *kind)
{
    out->state = calloc(1, kind->size);
    out->kind = out->state ? kind : NULL;
    return out->state;
}

size_t window_length(int32_t last_n, int32_t n_ctx)
{
    int32_t most = n_ctx > WINDOW_MAX ? n_ctx : WINDOW_MAX;
    int32_t length = last_n < 0 ? n_ctx : last_n;
    return length <= 0 ? 0 : (size_t)(length < most ? length : most);
}

void window_push(struct window *w, int32_t token)
{
    /* Out of memory the oldest tokens are forgotten early: a penalty weaker by
     * some tokens is better than a request lost. */
    if (w->n_max == 0)
        return;
    if (w->tokens.n >= 2 * w->n_max || !VEC_RESERVE(&w->tokens, 1)) {
        size_t keep = w->tokens.n < w->n_max ? w->tokens.n : w->n_max;
        if (keep == w->tokens.n && keep)
            keep--;
        memmove(w->tokens.data, w->tokens.data + (w->tokens.n - keep),
                keep * sizeof *w->tokens.data);
        w->tokens.n = keep;
        if (!w->tokens.capacity)
            return;
    }
    w->tokens.data[w->tokens.n++] = token;
}

bool window_clone(struct window *to, const struct window *from)
{
    *to = (struct window){.n_max = from->n_max};
    if (!VEC_RESERVE(&to->tokens, from->tokens.n + 1))
        return false;
    if (from->tokens.n)
        memcpy(to->tokens.data, from->tokens.data, from->tokens.n * sizeof *to->tokens.data);
    to->tokens.n = from->tokens.n;
    return true;
}
