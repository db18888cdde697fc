/* folder_test.c - Hugging Face folders and safetensors. */
#include "unit/files/helpers.h"
#include "unit/unit.h"

#include <string.h>

static struct model_file *open_or_fail(const char *path)
{
    struct model_file *file;
    struct error err = {0};
    if (!model_file_open(path, NULL, &file, &err))
        fail_msg("%s", err.message);
    return file;
}

static void write_text(const char *folder, const char *name, const char *text)
{
    free(scratch_write(folder, name, slice_of(text)));
}

static void write_safetensors(const char *folder, const char *name, const char *header,
                              size_t n_data)
{
    struct str bytes = {0};
    put_safetensors(&bytes, header, n_data);
    free(scratch_write(folder, name, str_slice(&bytes)));
    str_free(&bytes);
}

static const char two_tensors[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
    "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}";

static void a_folder_opens_by_its_path_or_a_file_inside(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_text(folder, "config.json", "{\"model_type\":\"llama\"}");
    write_safetensors(folder, "model.safetensors", two_tensors, 16);
    static const char *const suffixes[] = {"", "/", "/config.json", "/model.safetensors"};
    for (size_t i = 0; i < 4; i++) {
        char *path = text_format("%s%s", folder, suffixes[i]);
        assert_true(model_file_looks_like_one(path));
        struct model_file *file = open_or_fail(path);
        assert_int_equal(model_file_kind(file), MODEL_FILE_FOLDER);
        assert_string_equal(model_file_path(file), folder);
        assert_string_equal(
            json_string_value(json_object_get(model_file_config(file), "model_type")), "llama");
        assert_int_equal(model_file_n_tensors(file), 2);
        const struct tensor_view *w = model_file_find_tensor(file, "w");
        const struct tensor_view *s = model_file_find_tensor(file, "s");
        assert_int_equal(w->dtype, DTYPE_F16);
        assert_int_equal(w->n_dims, 2);
        assert_int_equal(w->dims[0], 3); /* fastest first */
        assert_int_equal(w->dims[1], 2);
        assert_int_equal(w->n_bytes, 12);
        assert_int_equal(*(const char *)w->data, 4);
        assert_int_equal(s->n_dims, 0);
        assert_int_equal(s->n_bytes, 4);
        assert_null(meta_find(file, "general.architecture"));
        model_file_close(file);
        free(path);
    }
    scratch_remove(folder);
}

/* The header's length is odd here, so no tensor is aligned in the file. */
static void misaligned_tensors_are_handed_out_aligned(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_text(folder, "config.json", "{}");
    for (int pad = 0; pad < 4; pad++) {
        char *header = text_format(
            "{%.*s\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", pad, "    ");
        write_safetensors(folder, "model.safetensors", header, 8);
        struct model_file *file = open_or_fail(folder);
        const struct tensor_view *w = model_file_find_tensor(file, "w");
        assert_int_equal((uintptr_t)w->data % 4, 0);
        assert_int_equal(((const char *)w->data)[7], 7);
        model_file_close(file);
        free(header);
    }
    scratch_remove(folder);
}

static void every_dtype_and_odd_shapes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum dtype dtype;
        size_t size;
    } cases[] = {
        {"F64", DTYPE_F64, 8},   {"F32", DTYPE_F32, 4},         {"F16", DTYPE_F16, 2},
        {"BF16", DTYPE_BF16, 2}, {"F8_E4M3", DTYPE_F8_E4M3, 1}, {"F8_E5M2", DTYPE_F8_E5M2, 1},
        {"I64", DTYPE_I64, 8},   {"I32", DTYPE_I32, 4},         {"I16", DTYPE_I16, 2},
        {"I8", DTYPE_I8, 1},     {"U64", DTYPE_U64, 8},         {"U32", DTYPE_U32, 4},
        {"U16", DTYPE_U16, 2},   {"U8", DTYPE_U8, 1},           {"BOOL", DTYPE_BOOL, 1}};
    char *folder = scratch_make();
    write_text(folder, "config.json", "{}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *header = text_format("{\"five\":{\"dtype\":\"%s\",\"shape\":[2,1,3,1,2],"
                                   "\"data_offsets\":[0,%zu]},\"no\":{\"dtype\":\"%s\","
                                   "\"shape\":[0,7],\"data_offsets\":[0,0]}}",
                                   cases[i].name, 12 * cases[i].size, cases[i].name);
        write_safetensors(folder, "model.safetensors", header, 12 * cases[i].size);
        struct model_file *file = open_or_fail(folder);
        const struct tensor_view *five = model_file_find_tensor(file, "five");
        assert_int_equal(five->dtype, cases[i].dtype);
        assert_int_equal(five->n_bytes, 12 * cases[i].size);
        assert_int_equal(five->n_dims, 4);
        assert_int_equal(five->dims[0], 2);
        assert_int_equal(five->dims[2], 3);
        assert_int_equal(five->dims[3], 2);
        assert_null(model_file_find_tensor(file, "no")->data);
        model_file_close(file);
        free(header);
    }
    scratch_remove(folder);
}

static void shards_follow_the_index(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_text(folder, "config.json", "{}");
    write_safetensors(folder, "model-00001-of-00002.safetensors",
                      "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                      "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}",
                      4);
    write_safetensors(folder, "model-00002-of-00002.safetensors",
                      "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
    static const char index[] = "model.safetensors.index.json";
    write_text(folder, index,
               "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
               "\"b\":\"model-00002-of-00002.safetensors\","
               "\"c\":\"model-00001-of-00002.safetensors\"}}");
    char *index_path = text_format("%s/%s", folder, index);
    struct model_file *file = open_or_fail(index_path);
    assert_int_equal(model_file_n_tensors(file), 3);
    assert_int_equal(model_file_find_tensor(file, "b")->n_bytes, 2);
    model_file_close(file);

    /* What the index has too much of is for those to miss who need it. */
    write_text(folder, index, "{\"weight_map\":{\"z\":\"model-00001-of-00002.safetensors\"}}");
    file = open_or_fail(folder);
    assert_int_equal(model_file_n_tensors(file), 2);
    model_file_close(file);
    write_text(folder, index, "{\"weight_map\":{\"a\":\"model-00009-of-00002.safetensors\"}}");
    assert_refused(folder, "model-00009-of-00002.safetensors");
    write_text(folder, index, "{\"weight_map\":{\"a\":\"../../etc/passwd\"}}");
    assert_refused(folder, "no file that could be a shard");
    write_text(folder, index, "{\"weight_map\":{\"a\":7}}");
    assert_refused(folder, "no file that could be a shard");
    write_text(folder, index, "{\"weight_map\":{}}");
    assert_refused(folder, "weight_map");
    write_text(folder, index, "[]");
    assert_refused(folder, "weight_map");
    write_text(folder, index, "{");
    assert_refused(folder, "JSON");
    free(index_path);
    scratch_remove(folder);
}

static const char only_a[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";
static const char only_b[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";

static void assert_tensors(const char *folder, size_t n)
{
    struct model_file *file = open_or_fail(folder);
    assert_int_equal(model_file_n_tensors(file), n);
    model_file_close(file);
}

/* Shards were merged, and their index stayed behind. */
static void a_stale_index_gives_way_to_the_whole_file(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_text(folder, "config.json", "{}");
    write_text(folder, "model.safetensors.index.json",
               "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\"}}");
    assert_refused(folder, "model-00001-of-00002.safetensors is missing");
    write_safetensors(folder, "model.safetensors", two_tensors, 16);
    assert_tensors(folder, 2);
    scratch_remove(folder);
}

static void weights_without_an_index_are_found(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"},
        {"weights.00.safetensors", "weights.01.safetensors"},
        {"weights.safetensors", "vision.safetensors"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *folder = scratch_make();
        write_text(folder, "config.json", "{}");
        write_text(folder, "adapter_model.safetensors", "not looked at");
        write_text(folder, "._model.safetensors", "not looked at");
        assert_refused(folder, "neither model.safetensors nor");
        write_safetensors(folder, names[i][0], only_a, 3);
        if (i == 0)
            assert_refused(folder, "1 of 2 shards");
        else
            assert_tensors(folder, 1);
        write_safetensors(folder, names[i][1], only_b, 2);
        assert_tensors(folder, 2);
        scratch_remove(folder);
    }
}

static void a_tensor_may_be_there_twice_if_both_are_the_same(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_text(folder, "config.json", "{}");
    write_safetensors(folder, "weights.00.safetensors", only_a, 3);
    write_safetensors(folder, "weights.01.safetensors", only_a, 3);
    assert_tensors(folder, 1);
    write_safetensors(folder, "weights.01.safetensors",
                      "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                      "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}",
                      4);
    assert_refused(folder, "'a' is there twice");
    scratch_remove(folder);
}

/* Python's json module writes numbers that JSON does not have. */
static void a_config_may_have_pythons_numbers(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_text(folder, "config.json",
               "{\"limit\":[0.0,Infinity],\"low\":-Infinity,\"none\":NaN,\"text\":\"a \\\"NaN\"}");
    write_safetensors(folder, "model.safetensors", two_tensors, 16);
    struct model_file *file = open_or_fail(folder);
    const json_t *config = model_file_config(file);
    const json_t *limit = json_object_get(config, "limit");
    assert_true(json_real_value(json_array_get(limit, 1)) > 1e300);
    assert_true(json_real_value(json_object_get(config, "low")) < -1e300);
    assert_true(json_is_null(json_object_get(config, "none")));
    assert_string_equal(json_string_value(json_object_get(config, "text")), "a \"NaN");
    model_file_close(file);
    write_text(folder, "config.json", "{\"limit\":Infinit}");
    assert_refused(folder, "not valid JSON");
    scratch_remove(folder);
}

#define TENSOR(name, rest) "\"" name "\":{" rest "}"
#define W8                 "{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]") "}"

static const struct {
    const char *header;
    size_t n_data;
    const char *words;
} malformed[] = {
    {"", 0, "JSON"},
    {"[]", 0, "JSON object"},
    {"{\"w\":3}", 0, "'w'|described"},
    {W8, 7, "'w'|incomplete"},
    {W8, 9, "9 bytes of data|end at 8"},
    {"{" TENSOR("w", "\"shape\":[2],\"data_offsets\":[0,8]") "}", 8, "'w'|dtype"},
    {"{" TENSOR("w", "\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,8]") "}", 8, "'w'|F4"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"data_offsets\":[0,8]") "}", 8, "'w'|shape"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]") "}", 8, "'w'|size"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]") "}", 8,
     "'w'|size"},
    {"{" TENSOR("w",
                "\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,8]") "}",
     8, "'w'|impossible shape"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[0,4611686018427387904,1,1,4611686018427387904],"
                     "\"data_offsets\":[0,0]") "}",
     0, "'w'|impossible shape"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],"
                     "\"data_offsets\":[0,8]") "}",
     8, "'w'|dimensions"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[2]") "}", 8, "'w'|data_offsets"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]") "}", 8,
     "'w'|data_offsets"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]") "}", 8,
     "'w'|data_offsets"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]") "}", 8,
     "'w'|data_offsets"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]") "}", 8,
     "'w'|needs 12"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]") "}", 12,
     "'w'|hole"},
    {"{" TENSOR("v", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]") "," TENSOR(
         "w", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]") "}",
     12, "'w'|overlaps"},
    {"{" TENSOR("w", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]") "," TENSOR(
         "w", "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]") "}",
     8, "duplicate"},
};

static void malformed_headers_are_refused_with_their_fault(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_text(folder, "config.json", "{}");
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        write_safetensors(folder, "model.safetensors", malformed[i].header, malformed[i].n_data);
        assert_refused(folder, malformed[i].words);
    }
    struct str bytes = {0};
    put_u64(&bytes, UINT64_MAX);
    free(scratch_write(folder, "model.safetensors", str_slice(&bytes)));
    assert_refused(folder, "more than the format allows");
    str_clear(&bytes);
    put_u64(&bytes, 100);
    free(scratch_write(folder, "model.safetensors", str_slice(&bytes)));
    assert_refused(folder, "header needs 100|incomplete");
    str_free(&bytes);
    write_text(folder, "model.safetensors", "1234");
    assert_refused(folder, "only 4 bytes");
    write_text(folder, "model.safetensors", "");
    assert_refused(folder, "empty");
    scratch_remove(folder);
}

static void folders_that_are_no_model_say_what_to_do(void **state)
{
    (void)state;
    char *folder = scratch_make();
    assert_refused(folder, "without config.json");
    write_text(folder, "config.json", "{}");
    assert_refused(folder, "model.safetensors");
    write_text(folder, "pytorch_model.bin", "x");
    assert_refused(folder, "pytorch_model.bin|safetensors");
    write_text(folder, "some.gguf", "x");
    assert_refused(folder, "-m|some.gguf");
    write_text(folder, "config.json", "[1]");
    assert_refused(folder, "config.json|object");
    write_text(folder, "config.json", "{");
    assert_refused(folder, "config.json|JSON");
    scratch_remove(folder);
}

static void a_folder_refuses_metadata_overrides(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_text(folder, "config.json", "{}");
    write_safetensors(folder, "model.safetensors", two_tensors, 16);
    struct meta_override override;
    assert_true(meta_override_parse("a.key=int:1", &override, NULL));
    struct model_file_settings settings = {.overrides = &override, .n_overrides = 1};
    struct model_file *file;
    struct error err = {0};
    assert_false(model_file_open(folder, &settings, &file, &err));
    assert_non_null(strstr(err.message, "a.key"));
    scratch_remove(folder);
}

static void sidecars_are_read_once_and_absent_ones_are_no_error(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_text(folder, "config.json", "{}");
    write_safetensors(folder, "model.safetensors", two_tensors, 16);
    write_text(folder, "tokenizer_config.json", "{\"a\":1}");
    write_text(folder, "generation_config.json", "{\"a\":");
    write_text(folder, "chat_template.jinja", "{{ messages }}");
    struct model_file *file = open_or_fail(folder);
    struct error err;
    const json_t *config = model_file_json(file, "tokenizer_config.json", &err);
    assert_int_equal(json_integer_value(json_object_get(config, "a")), 1);
    assert_ptr_equal(model_file_json(file, "tokenizer_config.json", &err), config);
    assert_null(model_file_json(file, "tokenizer.json", &err));
    assert_int_equal(err.code, ERR_NONE);
    for (int i = 0; i < 2; i++) {
        assert_null(model_file_json(file, "generation_config.json", &err));
        assert_int_equal(err.code, ERR_FORMAT);
        assert_non_null(strstr(err.message, "generation_config.json"));
    }
    struct str text = {0};
    assert_true(model_file_sidecar(file, "chat_template.jinja", &text, &err));
    assert_string_equal(str_text(&text), "{{ messages }}");
    assert_false(model_file_sidecar(file, "tokenizer.model", &text, &err));
    assert_int_equal(err.code, ERR_NONE);
    str_free(&text);
    model_file_close(file);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_opens_by_its_path_or_a_file_inside),
        cmocka_unit_test(misaligned_tensors_are_handed_out_aligned),
        cmocka_unit_test(every_dtype_and_odd_shapes_are_read),
        cmocka_unit_test(shards_follow_the_index),
        cmocka_unit_test(a_stale_index_gives_way_to_the_whole_file),
        cmocka_unit_test(weights_without_an_index_are_found),
        cmocka_unit_test(a_tensor_may_be_there_twice_if_both_are_the_same),
        cmocka_unit_test(a_config_may_have_pythons_numbers),
        cmocka_unit_test(malformed_headers_are_refused_with_their_fault),
        cmocka_unit_test(folders_that_are_no_model_say_what_to_do),
        cmocka_unit_test(a_folder_refuses_metadata_overrides),
        cmocka_unit_test(sidecars_are_read_once_and_absent_ones_are_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
