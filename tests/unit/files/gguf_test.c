/* gguf_test.c - GGUF files: what is read, and what is refused by name. */
#include "unit/files/helpers.h"
#include "unit/unit.h"

#include <math.h>
#include <string.h>

enum { TYPE_F32 = 0, TYPE_Q4_0 = 2 };

static struct model_file *open_or_fail(const char *path, const struct model_file_settings *settings)
{
    struct model_file *file;
    struct error err = {0};
    if (!model_file_open(path, settings, &file, &err))
        fail_msg("%s", err.message);
    return file;
}

static void put_key(struct str *out, const char *key, enum meta_type type)
{
    put_text(out, key);
    put_u32(out, type);
}

static void put_array(struct str *out, const char *key, enum meta_type item, uint64_t n)
{
    put_key(out, key, META_ARRAY);
    put_u32(out, item);
    put_u64(out, n);
}

/* A file with a value of every type and two tensors. */
static void put_sample(struct str *out, uint32_t version)
{
    put_header(out, version, 2, 16);
    put_meta_text(out, "general.architecture", "llama");
    put_key(out, "u8", META_U8);
    str_append(out, "\xFF", 1);
    put_key(out, "i8", META_I8);
    str_append(out, "\xFF", 1);
    put_key(out, "u16", META_U16);
    str_append(out, "\xFE\xFF", 2);
    put_key(out, "i16", META_I16);
    str_append(out, "\xFE\xFF", 2);
    put_meta_u32(out, "u32", 4000000000u);
    put_key(out, "i32", META_I32);
    put_u32(out, (uint32_t)-7);
    put_key(out, "f32", META_F32);
    str_append(out, &(float){0.5f}, 4);
    put_key(out, "bool", META_BOOL);
    str_append(out, "\1", 1);
    put_key(out, "u64", META_U64);
    put_u64(out, UINT64_MAX);
    put_key(out, "i64", META_I64);
    put_u64(out, (uint64_t)INT64_MIN);
    put_key(out, "f64", META_F64);
    str_append(out, &(double){-0.25}, 8);
    put_array(out, "texts", META_TEXT, 40);
    for (int i = 0; i < 40; i++) {
        char text[16];
        snprintf(text, sizeof text, "text%.*s%d", i % 3, "--", i);
        put_text(out, text);
    }
    put_array(out, "integers", META_I16, 2);
    str_append(out, "\x01\x00\xFF\xFF", 4);
    put_array(out, "reals", META_F32, 1);
    str_append(out, &(float){1.5f}, 4);
    put_array(out, "none", META_TEXT, 0);
    put_tensor(out, "a", 3, 2, TYPE_F32, 0);
    put_tensor(out, "b", 32, 1, TYPE_Q4_0, 32);
    put_padding(out, 32);
    for (int i = 0; i < 32 + 18; i++)
        str_append_char(out, (char)i);
}

static void every_metadata_type_is_read_in_both_versions(void **state)
{
    (void)state;
    char *folder = scratch_make();
    for (uint32_t version = 2; version <= 3; version++) {
        struct str bytes = {0};
        put_sample(&bytes, version);
        char *path = scratch_write(folder, "sample.gguf", str_slice(&bytes));
        struct model_file *file = open_or_fail(path, NULL);
        assert_int_equal(model_file_kind(file), MODEL_FILE_GGUF);
        assert_int_equal(model_file_n_meta(file), 16);
        assert_int_equal(model_file_n_bytes(file), bytes.len);
        assert_true(slice_equal_text(meta_text(file, "general.architecture"), "llama"));
        assert_int_equal(meta_u32(file, "u8", 0), 255);
        assert_int_equal(meta_i32(file, "i8", 0), -1);
        assert_int_equal(meta_u32(file, "u16", 0), 65534);
        assert_int_equal(meta_i32(file, "i16", 0), -2);
        assert_int_equal(meta_u32(file, "u32", 0), 4000000000u);
        assert_int_equal(meta_i32(file, "i32", 0), -7);
        assert_true(meta_f32(file, "f32", 0) == 0.5f);
        assert_true(meta_f32(file, "f64", 0) == -0.25f);
        assert_true(meta_bool(file, "bool", false));
        assert_true(meta_i64(file, "u64", 0) == INT64_MAX);
        assert_true(meta_i64(file, "i64", 0) == INT64_MIN);
        assert_null(meta_find(file, "absent"));
        assert_int_equal(meta_i32(file, "absent", 42), 42);
        assert_int_equal(meta_i32(file, "f32", 42), 42); /* a real is no integer */
        assert_int_equal(meta_i32(file, "u32", 42), 42); /* does not fit */
        model_file_close(file);
        free(path);
        str_free(&bytes);
    }
    scratch_remove(folder);
}

static void arrays_are_read_at_any_index(void **state)
{
    (void)state;
    char *folder = scratch_make();
    struct str bytes = {0};
    put_sample(&bytes, 3);
    char *path = scratch_write(folder, "sample.gguf", str_slice(&bytes));
    struct model_file *file = open_or_fail(path, NULL);
    const struct meta_value *texts = meta_find(file, "texts");
    assert_int_equal(meta_array_len(texts), 40);
    assert_true(meta_is_text_array(texts));
    for (size_t i = 40; i-- > 0;) {
        char want[16];
        snprintf(want, sizeof want, "text%.*s%d", (int)(i % 3), "--", (int)i);
        assert_true(slice_equal_text(meta_array_text(texts, i), want));
    }
    const struct meta_value *integers = meta_find(file, "integers");
    assert_true(meta_is_integer_array(integers));
    assert_int_equal(meta_array_i64(integers, 0), 1);
    assert_int_equal(meta_array_i64(integers, 1), -1);
    assert_true(meta_array_f64(meta_find(file, "reals"), 0) == 1.5);
    assert_int_equal(meta_array_len(meta_find(file, "none")), 0);
    assert_int_equal(meta_array_len(NULL), 0);
    assert_int_equal(meta_array_len(meta_find(file, "u8")), 0);
    model_file_close(file);
    free(path);
    str_free(&bytes);
    scratch_remove(folder);
}

static void tensors_are_found_with_shape_type_and_bytes(void **state)
{
    (void)state;
    char *folder = scratch_make();
    struct str bytes = {0};
    put_sample(&bytes, 3);
    char *path = scratch_write(folder, "sample.gguf", str_slice(&bytes));
    static const enum file_loading ways[] = {FILE_MMAP, FILE_READ, FILE_DIRECT};
    for (size_t way = 0; way < 3; way++) {
        struct model_file_settings settings = {.loading = ways[way], .lock = true};
        struct model_file *file = open_or_fail(path, &settings);
        assert_int_equal(model_file_n_tensors(file), 2);
        const struct tensor_view *a = model_file_find_tensor(file, "a");
        const struct tensor_view *b = model_file_find_tensor(file, "b");
        assert_ptr_equal(a, model_file_tensor_at(file, 0));
        assert_null(model_file_find_tensor(file, "c"));
        assert_int_equal(a->dtype, DTYPE_F32);
        assert_int_equal(a->n_dims, 2);
        assert_int_equal(a->dims[0], 3);
        assert_int_equal(a->dims[1], 2);
        assert_int_equal(a->dims[2], 1);
        assert_int_equal(a->n_bytes, 24);
        assert_int_equal(b->dtype, DTYPE_Q4_0);
        assert_int_equal(b->n_bytes, 18);
        assert_int_equal(((const unsigned char *)b->data)[17], 32 + 17);
        assert_int_equal((uintptr_t)b->data % 32, 0);
        model_file_release(file, b);
        assert_int_equal(((const unsigned char *)b->data)[17], 32 + 17);
        model_file_close(file);
    }
    free(path);
    str_free(&bytes);
    scratch_remove(folder);
}

static void every_prefix_of_a_small_file_is_refused(void **state)
{
    (void)state;
    char *folder = scratch_make();
    struct str bytes = {0};
    put_sample(&bytes, 3);
    for (size_t len = 0; len < bytes.len; len++) {
        char *path = scratch_write(folder, "cut.gguf", (struct slice){bytes.data, len});
        assert_refused(path, "");
        free(path);
    }
    str_free(&bytes);
    scratch_remove(folder);
}

/* ---- Malformed files, one for each check ------------------------------ */

static void nothing(struct str *s)
{
    (void)s;
}

static void bad_version_1(struct str *s)
{
    put_header(s, 1, 0, 0);
}

static void bad_version_9(struct str *s)
{
    put_header(s, 9, 0, 0);
}

static void bad_big_endian(struct str *s)
{
    put_header(s, 0x03000000, 0, 0);
}

static void bad_n_metas(struct str *s)
{
    put_header(s, 3, 0, UINT64_MAX);
}

static void bad_n_tensors(struct str *s)
{
    put_header(s, 3, UINT64_MAX / 2, 0);
}

static void bad_key_length(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_u64(s, UINT64_MAX);
    str_append_text(s, "0123456789abcdef");
}

static void bad_empty_key(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_meta_u32(s, "", 1);
}

static void bad_nul_in_key(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_u64(s, 3);
    str_append(s, "a\0b", 3);
    put_u32(s, META_U32);
    put_u32(s, 1);
}

static void bad_key_twice(struct str *s)
{
    put_header(s, 3, 0, 2);
    put_meta_u32(s, "again", 1);
    put_meta_u32(s, "again", 2);
}

static void bad_value_type(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_key(s, "odd", (enum meta_type)13);
    put_u64(s, 0);
}

static void bad_text_length(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_key(s, "odd", META_TEXT);
    put_u64(s, UINT64_MAX - 4);
    put_u64(s, 0);
}

static void bad_nested_array(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_array(s, "odd", META_ARRAY, 1);
    put_u32(s, META_U8);
    put_u64(s, 0);
}

static void bad_item_type(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_array(s, "odd", (enum meta_type)77, 1);
    put_u64(s, 0);
}

static void bad_array_length(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_array(s, "odd", META_U64, UINT64_MAX / 8 + 2);
    put_u64(s, 0);
}

static void bad_text_array_length(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_array(s, "odd", META_TEXT, UINT64_MAX / 8 + 2);
    put_u64(s, 0);
}

static void bad_text_in_array(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_array(s, "odd", META_TEXT, 1);
    put_u64(s, 1000);
    put_u64(s, 0);
}

static void bad_alignment(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_meta_u32(s, "general.alignment", 48);
}

static void bad_alignment_0(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_meta_u32(s, "general.alignment", 0);
}

static void bad_alignment_type(struct str *s)
{
    put_header(s, 3, 0, 1);
    put_meta_text(s, "general.alignment", "32");
}

static void bad_tensor_name(struct str *s)
{
    put_header(s, 3, 1, 0);
    put_tensor(s, "a name of a tensor that is longer than any tensor's name may ever be", 1, 1, 0,
               0);
}

static void bad_tensor_twice(struct str *s)
{
    put_header(s, 3, 2, 0);
    put_tensor(s, "w", 8, 1, TYPE_F32, 0);
    put_tensor(s, "w", 8, 1, TYPE_F32, 32);
    put_padding(s, 32);
    put_padding(s, 64);
}

static void bad_n_dims(struct str *s)
{
    put_header(s, 3, 1, 0);
    put_text(s, "w");
    put_u32(s, 5);
    for (int i = 0; i < 5; i++)
        put_u64(s, 1);
    put_u32(s, TYPE_F32);
    put_u64(s, 0);
}

static void bad_negative_dim(struct str *s)
{
    put_header(s, 3, 1, 0);
    put_tensor(s, "w", UINT64_MAX, 1, TYPE_F32, 0);
}

static void bad_dims_overflow(struct str *s)
{
    put_header(s, 3, 1, 0);
    put_tensor(s, "w", 1ull << 40, 1ull << 40, TYPE_F32, 0);
}

static void bad_bytes_overflow(struct str *s)
{
    put_header(s, 3, 1, 0);
    put_tensor(s, "w", 1ull << 62, 1, TYPE_F32, 0);
}

static void bad_tensor_type(struct str *s)
{
    put_header(s, 3, 1, 0);
    put_tensor(s, "w", 32, 1, 31, 0);
}

static void bad_block_length(struct str *s)
{
    put_header(s, 3, 1, 0);
    put_tensor(s, "w", 33, 1, TYPE_Q4_0, 0);
}

static void bad_offset(struct str *s)
{
    put_header(s, 3, 2, 0);
    put_tensor(s, "v", 8, 1, TYPE_F32, 0);
    put_tensor(s, "w", 8, 1, TYPE_F32, 0);
    put_padding(s, 32);
    for (int i = 0; i < 64; i++)
        str_append_char(s, 0);
}

static void bad_huge_offset(struct str *s)
{
    put_header(s, 3, 1, 0);
    put_tensor(s, "w", 8, 1, TYPE_F32, UINT64_MAX - 31);
}

static void bad_end(struct str *s)
{
    put_header(s, 3, 1, 0);
    put_tensor(s, "w", 8, 1, TYPE_F32, 0);
    put_padding(s, 32);
    str_append_text(s, "only so much");
}

static void text_ggml(struct str *s)
{
    str_append_text(s, "ggml\1\0\0\0");
}

static void text_zip(struct str *s)
{
    str_append_text(s, "PK\3\4 archive/data.pkl");
}

static void text_lfs(struct str *s)
{
    str_append_text(s, "version https://git-lfs.github.com/spec/v1\n");
}

static void text_html(struct str *s)
{
    str_append_text(s, "<!doctype html><title>404</title>");
}

static void text_noise(struct str *s)
{
    str_append_text(s, "\x7F"
                       "ELF and more");
}

static const struct {
    void (*make)(struct str *);
    const char *words;
} malformed[] = {
    {nothing, "empty"},
    {bad_version_1, "version 1|convert"},
    {bad_version_9, "version 9"},
    {bad_big_endian, "big-endian"},
    {bad_n_metas, "metadata entries|incomplete"},
    {bad_n_tensors, "tensors|incomplete"},
    {bad_key_length, "key|damaged"},
    {bad_empty_key, "no key"},
    {bad_nul_in_key, "NUL"},
    {bad_key_twice, "'again' is there twice"},
    {bad_value_type, "'odd'|unknown type 13"},
    {bad_text_length, "'odd'|ends at"},
    {bad_nested_array, "'odd'|array of arrays"},
    {bad_item_type, "'odd'|unknown type 77"},
    {bad_array_length, "'odd'|claims"},
    {bad_text_array_length, "'odd'|claims"},
    {bad_text_in_array, "'odd'|1000"},
    {bad_alignment, "alignment is 48"},
    {bad_alignment_0, "alignment is 0"},
    {bad_alignment_type, "general.alignment|integer"},
    {bad_tensor_name, "name|damaged"},
    {bad_tensor_twice, "'w' is there twice"},
    {bad_n_dims, "'w'|5 dimensions"},
    {bad_negative_dim, "'w'|impossible shape"},
    {bad_dims_overflow, "'w'|impossible shape"},
    {bad_bytes_overflow, "'w'|more bytes"},
    {bad_tensor_type, "'w'|type 31"},
    {bad_block_length, "'w'|33|32"},
    {bad_offset, "'w'|offset 0|32"},
    {bad_huge_offset, "'w'|offset"},
    {bad_end, "'w' needs bytes|incomplete"},
    {text_ggml, "2023|GGUF"},
    {text_zip, "PyTorch"},
    {text_lfs, "git lfs pull"},
    {text_html, "web page"},
    {text_noise, "GGUF"},
};

static void malformed_files_are_refused_with_their_fault(void **state)
{
    (void)state;
    char *folder = scratch_make();
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        struct str bytes = {0};
        malformed[i].make(&bytes);
        char *path = scratch_write(folder, "bad.gguf", str_slice(&bytes));
        assert_refused(path, malformed[i].words);
        free(path);
        str_free(&bytes);
    }
    scratch_remove(folder);
}

static void a_missing_file_and_a_device_are_refused(void **state)
{
    (void)state;
    assert_refused("/nowhere/model.gguf", "no such file");
    assert_refused("/dev/null", "");
}

/* ---- Splits ----------------------------------------------------------- */

static void put_shard(struct str *out, uint16_t no, uint16_t count, int32_t total, const char *name)
{
    put_header(out, 3, 1, 4);
    put_key(out, "split.no", META_U16);
    str_append(out, &no, 2);
    put_key(out, "split.count", META_U16);
    str_append(out, &count, 2);
    put_key(out, "split.tensors.count", META_I32);
    put_u32(out, (uint32_t)total);
    put_meta_u32(out, no == 0 ? "of.the.first" : "of.another", no);
    put_tensor(out, name, 8, 1, TYPE_F32, 0);
    put_padding(out, 32);
    for (int i = 0; i < 32; i++)
        str_append_char(out, (char)no);
}

static void write_shard(const char *folder, const char *file, uint16_t no, uint16_t count,
                        int32_t total, const char *name)
{
    struct str bytes = {0};
    put_shard(&bytes, no, count, total, name);
    free(scratch_write(folder, file, str_slice(&bytes)));
    str_free(&bytes);
}

static void shards_are_opened_together_from_any_of_them(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_shard(folder, "m-00001-of-00003.gguf", 0, 3, 3, "a");
    write_shard(folder, "m-00002-of-00003.gguf", 1, 3, 3, "b");
    write_shard(folder, "m-00003-of-00003.gguf", 2, 3, 3, "c");
    for (int from = 1; from <= 3; from++) {
        char *path = text_format("%s/m-%05d-of-00003.gguf", folder, from);
        struct model_file *file = open_or_fail(path, NULL);
        assert_int_equal(model_file_n_tensors(file), 3);
        assert_int_equal(*(const char *)model_file_find_tensor(file, "c")->data, 2);
        assert_non_null(meta_find(file, "of.the.first"));
        assert_null(meta_find(file, "of.another"));
        assert_true(strstr(model_file_path(file), "m-00001-of-00003.gguf") != NULL);
        model_file_close(file);
        free(path);
    }
    scratch_remove(folder);
}

static void broken_splits_are_refused(void **state)
{
    (void)state;
    char *folder = scratch_make();
    write_shard(folder, "m-00001-of-00002.gguf", 0, 2, 2, "a");
    char *first = text_format("%s/m-00001-of-00002.gguf", folder);
    struct model_file *file;
    struct error err = {0};
    assert_false(model_file_open(first, NULL, &file, &err));
    assert_non_null(strstr(err.message, "m-00002-of-00002.gguf"));
    assert_non_null(strstr(err.message, "shard 2 of 2 is missing"));
    write_shard(folder, "m-00002-of-00002.gguf", 0, 2, 2, "b");
    assert_false(model_file_open(first, NULL, &file, &err));
    assert_non_null(strstr(err.message, "says it is shard 1 of 2"));
    write_shard(folder, "m-00002-of-00002.gguf", 1, 2, 3, "a");
    assert_false(model_file_open(first, NULL, &file, &err));
    assert_non_null(strstr(err.message, "'a' is there twice"));
    write_shard(folder, "m-00001-of-00002.gguf", 0, 2, 5, "a");
    write_shard(folder, "m-00002-of-00002.gguf", 1, 2, 5, "b");
    assert_refused(first, "promises 5 tensors");
    write_shard(folder, "renamed.gguf", 0, 2, 2, "a");
    char *renamed = text_format("%s/renamed.gguf", folder);
    assert_refused(renamed, "not named so");
    free(renamed);
    free(first);
    scratch_remove(folder);
}

/* ---- Overrides and needs ---------------------------------------------- */

static void overrides_replace_and_add_values_of_the_same_kind(void **state)
{
    (void)state;
    static const char *const texts[] = {"u32=int:5",
                                        "f32=float:2.5",
                                        "bool=bool:false",
                                        "new=str:here",
                                        "i32=str:ignored",
                                        "none=int:3",
                                        "general.architecture=str:qwen2"};
    struct meta_override overrides[7];
    struct error err = {0};
    for (size_t i = 0; i < 7; i++)
        if (!meta_override_parse(texts[i], &overrides[i], &err))
            fail_msg("%s", err.message);
    char *folder = scratch_make();
    struct str bytes = {0};
    put_sample(&bytes, 3);
    char *path = scratch_write(folder, "sample.gguf", str_slice(&bytes));
    struct model_file_settings settings = {.overrides = overrides, .n_overrides = 7};
    struct model_file *file = open_or_fail(path, &settings);
    assert_int_equal(meta_u32(file, "u32", 0), 5);
    assert_true(meta_f32(file, "f32", 0) == 2.5f);
    assert_false(meta_bool(file, "bool", true));
    assert_true(slice_equal_text(meta_text(file, "new"), "here"));
    assert_int_equal(meta_i32(file, "i32", 0), -7);
    assert_true(meta_is_text_array(meta_find(file, "none")));
    assert_true(slice_equal_text(meta_text(file, "general.architecture"), "qwen2"));
    model_file_close(file);
    free(path);
    str_free(&bytes);
    scratch_remove(folder);
}

static void malformed_overrides_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",         "key",      "=int:1",   "a=1",     "a=int:x",
                                        "a=int:1x", "a=float:", "a=bool:1", "a=bool:", "a=uint:1"};
    struct meta_override override;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct error err = {0};
        assert_false(meta_override_parse(texts[i], &override, &err));
        assert_non_null(strstr(err.message, texts[i]));
    }
    char long_text[200] = "a=str:";
    memset(long_text + 6, 'x', 128);
    assert_false(meta_override_parse(long_text, &override, NULL));
    long_text[6 + 127] = '\0';
    assert_true(meta_override_parse(long_text, &override, NULL));
}

static void needed_values_that_are_absent_or_odd_name_file_and_key(void **state)
{
    (void)state;
    char *folder = scratch_make();
    struct str bytes = {0};
    put_sample(&bytes, 3);
    char *path = scratch_write(folder, "sample.gguf", str_slice(&bytes));
    struct model_file *file = open_or_fail(path, NULL);
    struct error err = {0};
    uint32_t u = 9;
    int32_t n = 9;
    struct slice text;
    assert_false(meta_get_u32(file, "absent", META_REQUIRED, &u, &err));
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "'absent'"));
    assert_true(meta_get_u32(file, "absent", META_OPTIONAL, &u, &err));
    assert_int_equal(u, 9);
    assert_false(meta_get_u32(file, "i32", META_OPTIONAL, &u, &err));
    assert_non_null(strstr(err.message, "-7"));
    assert_false(meta_get_i32(file, "u32", META_OPTIONAL, &n, &err));
    assert_false(meta_get_text(file, "u32", META_REQUIRED, &text, &err));
    assert_non_null(strstr(err.message, "is an integer (u32) and should be a text"));
    model_file_close(file);
    free(path);
    str_free(&bytes);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metadata_type_is_read_in_both_versions),
        cmocka_unit_test(arrays_are_read_at_any_index),
        cmocka_unit_test(tensors_are_found_with_shape_type_and_bytes),
        cmocka_unit_test(every_prefix_of_a_small_file_is_refused),
        cmocka_unit_test(malformed_files_are_refused_with_their_fault),
        cmocka_unit_test(a_missing_file_and_a_device_are_refused),
        cmocka_unit_test(shards_are_opened_together_from_any_of_them),
        cmocka_unit_test(broken_splits_are_refused),
        cmocka_unit_test(overrides_replace_and_add_values_of_the_same_kind),
        cmocka_unit_test(malformed_overrides_are_refused),
        cmocka_unit_test(needed_values_that_are_absent_or_odd_name_file_and_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
