/* helpers.c - loading tokenizers and comparing ids. */
#include "unit/text/helpers.h"

struct tokenizer *load_tokenizer(const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    struct model_file *file;
    struct tokenizer *tok;
    struct error err = {0};
    if (!model_file_open(path, NULL, &file, &err))
        fail_msg("%s", err.message);
    if (!tokenizer_load(file, &tok, &err))
        fail_msg("%s", err.message);
    model_file_close(file);
    return tok;
}

static void append_ids(struct str *out, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        str_append_format(out, " %d", ids[i]);
}

void assert_encodes(const struct tokenizer *tok, struct slice text, unsigned flags,
                    const int32_t *ids, size_t n, const char *what)
{
    struct token_vec got = {0};
    struct error err = {0};
    if (!text_encode(tok, text, flags, &got, &err))
        fail_msg("%s: \"%.*s\": %s", what, (int)text.len, text.data, err.message);
    if (got.n != n || (n && memcmp(got.data, ids, n * sizeof *ids) != 0)) {
        struct str wanted = {0}, given = {0};
        append_ids(&wanted, ids, n);
        append_ids(&given, got.data, got.n);
        fail_msg("%s: \"%.*s\" should be%s, but is%s", what, (int)text.len, text.data,
                 str_text(&wanted), str_text(&given));
    }
    VEC_FREE(&got);
}
