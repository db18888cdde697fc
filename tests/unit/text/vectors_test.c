/* vectors_test.c - the reference's ids, for real vocabularies. */
#include "unit/text/helpers.h"

#include "base/json.h"
#include "base/utf8.h"

#include <dirent.h>

static void read_ids(const json_t *array, struct token_vec *out)
{
    out->n = 0;
    for (size_t i = 0; i < json_array_size(array); i++)
        assert_true(VEC_PUSH(out, (int32_t)json_integer_value(json_array_get(array, i))));
}

/* Every string of vectors.json, with its special tokens parsed and not. */
static void every_vector_of_every_vocabulary_agrees(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared)
    char path[1024];
    snprintf(path, sizeof path, "%s/tokenizers/vectors.json", shared);
    struct error err;
    json_t *vectors = json_parse_file(path, &err);
    assert_non_null(vectors);
    const json_t *strings = json_object_get(vectors, "strings");
    struct token_vec ids = {0};
    const char *name;
    json_t *recorded;
    size_t n_checked = 0;
    json_object_foreach(json_object_get(vectors, "ids"), name, recorded)
    {
        snprintf(path, sizeof path, "tokenizers/%s", name);
        struct tokenizer *tok = load_tokenizer(shared, path);
        for (size_t i = 0; i < json_array_size(strings); i++) {
            struct slice text = json_slice(json_array_get(strings, i));
            read_ids(json_array_get(json_object_get(recorded, "plain"), i), &ids);
            assert_encodes(tok, text, TEXT_ADD_SPECIAL, ids.data, ids.n, name);
            read_ids(json_array_get(json_object_get(recorded, "special"), i), &ids);
            assert_encodes(tok, text, TEXT_ADD_SPECIAL | TEXT_PARSE_SPECIAL, ids.data, ids.n, name);
            n_checked++;
        }
        tokenizer_free(tok);
    }
    assert_true(n_checked >= 12 * 70);
    VEC_FREE(&ids);
    json_decref(vectors);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    struct str bytes = {0};
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        assert_true(str_append(&bytes, block, n));
    fclose(file);
    return str_detach(&bytes);
}

static size_t check_pairs(const struct tokenizer *tok, char *texts, char *lines, const char *name)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    struct token_vec ids = {0};
    size_t n = 0;
    while (texts && *texts) {
        char *end = strstr(texts, mark);
        struct slice text = {texts, end ? (size_t)(end - texts) : strlen(texts)};
        char *line = lines;
        lines = strchr(lines, '\n');
        assert_non_null(lines);
        *lines++ = '\0';
        ids.n = 0;
        for (char *after;; line = after) {
            long id = strtol(line, &after, 10);
            if (after == line)
                break;
            assert_true(VEC_PUSH(&ids, (int32_t)id));
        }
        assert_encodes(tok, text, 0, ids.data, ids.n, name);
        n++;
        texts = end ? end + sizeof mark - 1 : NULL;
    }
    VEC_FREE(&ids);
    return n;
}

/* The blocks of NAME.inp give the lines of NAME.out. */
static void every_recorded_pair_agrees(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared)
    char path[1024];
    snprintf(path, sizeof path, "%s/tokenizers", shared);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    size_t n_files = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        size_t len = strlen(entry->d_name);
        if (len < 5 || strcmp(entry->d_name + len - 5, ".gguf") != 0)
            continue;
        snprintf(path, sizeof path, "%s/tokenizers/%s.inp", shared, entry->d_name);
        char *texts = read_file(path);
        snprintf(path, sizeof path, "%s/tokenizers/%s.out", shared, entry->d_name);
        char *lines = read_file(path);
        if (texts && lines) {
            snprintf(path, sizeof path, "tokenizers/%s", entry->d_name);
            struct tokenizer *tok = load_tokenizer(shared, path);
            assert_true(check_pairs(tok, texts, lines, entry->d_name) > 30);
            tokenizer_free(tok);
            n_files++;
        }
        free(texts);
        free(lines);
    }
    closedir(folder);
    assert_true(n_files >= 10);
}

/* Whatever text goes in comes out again, where the vocabulary keeps all. */
static void a_text_survives_the_way_there_and_back(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared)
    static const char *const names[] = {"ggml-vocab-llama-spm.gguf", "ggml-vocab-starcoder.gguf",
                                        "ggml-vocab-deepseek-llm.gguf"};
    static const char text[] = "Hello, world! \t caf\xC3\xA9 \xF0\x9F\x99\x82\n\n  x = 42;";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        snprintf(path, sizeof path, "tokenizers/%s", names[i]);
        struct tokenizer *tok = load_tokenizer(shared, path);
        struct token_vec ids = {0};
        struct str whole = {0}, streamed = {0};
        assert_true(text_encode(tok, slice_of(text), TEXT_ADD_SPECIAL, &ids, NULL));
        assert_true(text_decode(tok, ids.data, ids.n, TEXT_REMOVE_SPECIAL, &whole, NULL));
        /* Removing bos also keeps the space that encoding put in front. */
        bool space = tokenizer_special(tok)->add_bos && tokenizer_special(tok)->add_space_prefix;
        assert_string_equal(str_text(&whole) + space, text);
        struct detokenizer d;
        detokenizer_init(&d, tok, false);
        for (size_t k = 0; k < ids.n; k++) {
            assert_true(detokenizer_add(&d, ids.data[k], &streamed));
            assert_int_equal(utf8_incomplete_tail(str_slice(&streamed)), 0);
        }
        assert_true(detokenizer_finish(&d, &streamed));
        assert_string_equal(str_text(&streamed) + tokenizer_special(tok)->add_space_prefix, text);
        detokenizer_free(&d);
        VEC_FREE(&ids);
        str_free(&whole);
        str_free(&streamed);
        tokenizer_free(tok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vector_of_every_vocabulary_agrees),
        cmocka_unit_test(every_recorded_pair_agrees),
        cmocka_unit_test(a_text_survives_the_way_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
