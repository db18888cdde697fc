/* helpers.c - loading tokenizers, making small ones, comparing ids. */
#include "unit/text/helpers.h"

#include "text/tokenizer_json.h"

#include <unistd.h>

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

/* ---- A GGUF file of metadata alone ---- */

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, TEXT = 8, ARRAY = 9 };

struct writer {
    struct str bytes;
    uint64_t n;
};

static void put_u32(struct writer *w, uint32_t value)
{
    str_append(&w->bytes, &value, sizeof value);
}

static void put_u64(struct writer *w, uint64_t value)
{
    str_append(&w->bytes, &value, sizeof value);
}

static void put_text(struct writer *w, const char *text)
{
    put_u64(w, strlen(text));
    str_append_text(&w->bytes, text);
}

static void put_key(struct writer *w, const char *key, uint32_t type)
{
    put_text(w, key);
    put_u32(w, type);
    w->n++;
}

static void put_array(struct writer *w, const char *key, uint32_t type, size_t n)
{
    put_key(w, key, ARRAY);
    put_u32(w, type);
    put_u64(w, n);
}

static void put_pair(struct writer *w, const char *key, const char *text)
{
    if (!text)
        return;
    put_key(w, key, TEXT);
    put_text(w, text);
}

static void put_vocabulary(struct writer *w, const struct vocabulary *v)
{
    char key[128];
    put_pair(w, "general.architecture", "llama");
    put_pair(w, "general.name", v->name);
    put_pair(w, "tokenizer.ggml.model", v->model);
    put_pair(w, "tokenizer.ggml.pre", v->pre);
    put_array(w, "tokenizer.ggml.tokens", TEXT, v->n_tokens);
    for (size_t i = 0; i < v->n_tokens; i++)
        put_text(w, v->tokens[i].text);
    put_array(w, "tokenizer.ggml.scores", F32, v->n_tokens);
    for (size_t i = 0; i < v->n_tokens; i++)
        str_append(&w->bytes, &v->tokens[i].score, 4);
    put_array(w, "tokenizer.ggml.token_type", I32, v->n_tokens);
    for (size_t i = 0; i < v->n_tokens; i++)
        put_u32(w, (uint32_t)v->tokens[i].type);
    if (v->merges) {
        put_array(w, "tokenizer.ggml.merges", TEXT, v->n_merges);
        for (size_t i = 0; i < v->n_merges; i++)
            put_text(w, v->merges[i]);
    }
    for (size_t i = 0; i < 8 && v->ids[i].key; i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s", v->ids[i].key);
        put_key(w, key, U32);
        put_u32(w, v->ids[i].value);
    }
    for (size_t i = 0; i < 8 && v->flags[i].key; i++) {
        snprintf(key, sizeof key, "tokenizer.ggml.%s", v->flags[i].key);
        put_key(w, key, BOOL);
        str_append_char(&w->bytes, v->flags[i].value);
    }
}

struct tokenizer *try_vocabulary(const struct vocabulary *v, struct error *err)
{
    struct writer body = {0}, head = {0};
    put_vocabulary(&body, v);
    str_append_text(&head.bytes, "GGUF");
    put_u32(&head, 3);
    put_u64(&head, 0);
    put_u64(&head, body.n);
    char path[] = "/tmp/mlxcel-vocabulary-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, head.bytes.data, head.bytes.len), head.bytes.len);
    assert_int_equal(write(fd, body.bytes.data, body.bytes.len), body.bytes.len);
    close(fd);
    struct tokenizer *tok = NULL;
    struct model_file *file;
    if (model_file_open(path, NULL, &file, err)) {
        tokenizer_load(file, &tok, err);
        model_file_close(file);
    }
    unlink(path);
    str_free(&head.bytes);
    str_free(&body.bytes);
    return tok;
}

struct tokenizer *make_vocabulary(const struct vocabulary *v)
{
    struct error err = {0};
    struct tokenizer *tok = try_vocabulary(v, &err);
    if (!tok)
        fail_msg("%s", err.message);
    return tok;
}

/* ---- tokenizer.json ---- */

struct tokenizer *try_json(const char *text, struct error *err)
{
    json_t *root = json_parse(slice_of(text), err);
    struct tokenizer_files files = {0};
    struct tokenizer *tok = tokenizer_new();
    assert_non_null(tok);
    if (!root || !tokenizer_from_json(root, &files, tok, err)) {
        tokenizer_free(tok);
        tok = NULL;
    }
    json_decref(root);
    return tok;
}

struct tokenizer *make_json(const char *text)
{
    struct error err = {0};
    struct tokenizer *tok = try_json(text, &err);
    if (!tok)
        fail_msg("%s", err.message);
    return tok;
}

/* ---- Comparing ---- */

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

static void check_tokens(const struct tokenizer *tok, struct slice text, unsigned flags,
                         const struct text_range *plain, size_t n_plain, const char *tokens)
{
    struct token_vec ids = {0};
    struct str got = {0};
    struct error err = {0};
    if (!text_encode_ranges(tok, text, flags, plain, n_plain, &ids, &err))
        fail_msg("\"%.*s\": %s", (int)text.len, text.data, err.message);
    for (size_t i = 0; i < ids.n; i++) {
        str_append_slice(&got, tokenizer_text(tok, ids.data[i]));
        str_append_char(&got, '|');
    }
    assert_string_equal(str_text(&got), tokens);
    str_free(&got);
    VEC_FREE(&ids);
}

void assert_tokens(const struct tokenizer *tok, const char *text, unsigned flags,
                   const char *tokens)
{
    check_tokens(tok, slice_of(text), flags, NULL, 0, tokens);
}

void assert_marked_tokens(const struct tokenizer *tok, const char *text, const char *tokens)
{
    struct text_range plain[8];
    size_t n = 0;
    struct str taken = {0};
    for (const char *c = text; *c; c++) {
        bool opens = strncmp(c, "[[", 2) == 0, closes = strncmp(c, "]]", 2) == 0;
        if (opens)
            plain[n].begin = taken.len;
        if (closes)
            plain[n++].end = taken.len;
        if (opens || closes)
            c++;
        else
            str_append_char(&taken, *c);
    }
    check_tokens(tok, str_slice(&taken), TEXT_PARSE_SPECIAL, plain, n, tokens);
    str_free(&taken);
}
