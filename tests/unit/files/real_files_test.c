/* real_files_test.c - every file of the reference data opens, and no truncation
 * of one does. */
#include "unit/files/helpers.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 200 };

static void open_it(const char *path, void *arg)
{
    struct model_file *file;
    struct error err = {0};
    if (!model_file_open(path, NULL, &file, &err))
        fail_msg("%s", err.message);
    /* Touch the last byte of every tensor. */
    for (size_t i = 0; i < model_file_n_tensors(file); i++) {
        const struct tensor_view *t = model_file_tensor_at(file, i);
        if (t->n_bytes)
            *(volatile const char *)((const char *)t->data + t->n_bytes - 1);
    }
    (*(int *)arg)++;
    model_file_close(file);
}

static void every_real_file_opens(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared);
    int n = 0;
    each_file(shared, ".gguf", open_it, &n);
    each_file(shared, ".safetensors", open_it, &n);
    assert_true(n >= 60);
}

struct cutter {
    const char *folder; /* scratch */
    const char *name;   /* what the cut file is called there */
};

/* The largest cut first: the file then only ever shrinks, and is written once. */
static void refuse_cuts(const char *path, void *arg)
{
    const struct cutter *cutter = arg;
    struct str whole = {0};
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    char chunk[65536];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, stream)) > 0;)
        str_append(&whole, chunk, n);
    fclose(stream);
    char *copy = scratch_write(cutter->folder, cutter->name, str_slice(&whole));
    size_t step = whole.len / PLACES ? whole.len / PLACES : 1;
    for (size_t len = whole.len - 1; len + 1 > 0; len = len > step ? len - step : (size_t)-1) {
        assert_int_equal(truncate(copy, (off_t)len), 0);
        assert_refused(copy, "");
    }
    free(copy);
    str_free(&whole);
}

static void every_truncation_of_a_real_gguf_is_refused_by_name(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared);
    struct cutter cutter = {scratch_make(), "cut.gguf"};
    each_file(shared, ".gguf", refuse_cuts, &cutter);
    scratch_remove((char *)(uintptr_t)cutter.folder);
}

static void every_truncation_of_a_real_safetensors_is_refused_by_name(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared);
    struct cutter cutter = {scratch_make(), "model.safetensors"};
    free(scratch_write(cutter.folder, "config.json", SLICE("{}")));
    each_file(shared, ".safetensors", refuse_cuts, &cutter);
    scratch_remove((char *)(uintptr_t)cutter.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_real_file_opens),
        cmocka_unit_test(every_truncation_of_a_real_gguf_is_refused_by_name),
        cmocka_unit_test(every_truncation_of_a_real_safetensors_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
