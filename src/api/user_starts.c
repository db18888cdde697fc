/* user_starts.c - where users' messages begin in a prompt of tokens.
 *
 * A chat template opens each role's messages with a text of its own; a request's
 * message_delimiters names them. The engine makes checkpoints at the users'. */
#include "api/internal.h"

#include <string.h>

enum { DELIMITERS_MAX = 64 }; /* templates have a handful; each costs a look at every token */

struct delimiter {
    struct token_vec tokens;
    bool is_user;
};

typedef VEC(struct delimiter) delimiter_vec;

static bool read_delimiters(const struct tokenizer *tok, const json_t *list, delimiter_vec *out)
{
    struct error err;
    size_t i;
    const json_t *entry;
    json_array_foreach(list, i, entry)
    {
        struct slice text = member_text(entry, "delimiter");
        struct delimiter d = {.is_user = slice_equal_text(member_text(entry, "role"), "user")};
        if (text.len == 0 || out->n == DELIMITERS_MAX)
            continue;
        bool ok = text_encode(tok, text, TEXT_PARSE_SPECIAL, &d.tokens, &err);
        bool is_empty = d.tokens.n == 0; /* it would begin everywhere */
        if (ok && !is_empty && VEC_PUSH(out, d))
            continue;
        VEC_FREE(&d.tokens);
        if (!ok || !is_empty)
            return false;
    }
    return true;
}

/* Whether a user's message begins at index i; the first delimiter that fits says. */
static bool begins_user(const delimiter_vec *delimiters, const struct token_vec *prompt, size_t i)
{
    for (size_t k = 0; k < delimiters->n; k++) {
        const struct token_vec *d = &delimiters->data[k].tokens;
        if (d->n <= prompt->n - i && memcmp(d->data, prompt->data + i, d->n * sizeof *d->data) == 0)
            return delimiters->data[k].is_user;
    }
    return false;
}

bool find_user_starts(const struct tokenizer *tok, const json_t *delimiters,
                      struct engine_request *request)
{
    delimiter_vec read = {0};
    VEC(int32_t) starts = {0};
    bool ok = read_delimiters(tok, delimiters, &read);
    for (size_t i = 0; ok && read.n && i < request->prompt.n; i++)
        ok = !begins_user(&read, &request->prompt, i) || VEC_PUSH(&starts, (int32_t)i);
    if (ok && starts.n) {
        request->user_starts = arena_alloc_array(&request->arena, starts.n, sizeof *starts.data);
        ok = request->user_starts != NULL;
    }
    if (ok && starts.n) {
        memcpy(request->user_starts, starts.data, starts.n * sizeof *starts.data);
        request->n_user_starts = starts.n;
    }
    VEC_FREE(&starts);
    for (size_t i = 0; i < read.n; i++)
        VEC_FREE(&read.data[i].tokens);
    VEC_FREE(&read);
    return ok;
}
