/* real_files_test.c - every file of the reference data opens, and no truncation
 * of one does. */
#include "unit/files/helpers.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    PLACES = 200,
    ALIGNMENT = 32 /* of GGUF files that name no other; the padding at their end is less */
};

/* Broken on purpose: the file or a folder above it is called bad-*. */
static bool is_bad(const char *path)
{
    return strstr(path, "/bad-") != NULL;
}

/* The faults that a file shows by itself. The others need a model or an adapter to
 * go with, and the file opens. */
static bool shows_its_fault(const char *path)
{
    return strstr(path, "/bad-header") != NULL || strstr(path, "/bad-truncated") != NULL;
}

struct counts {
    char *folder; /* scratch: a model's folder, for weights that are alone in theirs */
    int good, bad, refused;
};

/* A path that the file can be opened by; the caller frees it. An adapter's folder has no
 * config.json and is no model, so its weights are shown in one that has. */
static char *openable(const char *path, const struct counts *counts)
{
    if (!strstr(path, "-peft/"))
        return slice_duplicate(slice_of(path));
    char *link = text_format("%s/model.safetensors", counts->folder);
    unlink(link);
    assert_int_equal(symlink(path, link), 0);
    return link;
}

static void touch(const struct model_file *file)
{
    for (size_t i = 0; i < model_file_n_tensors(file); i++) {
        const struct tensor_view *t = model_file_tensor_at(file, i);
        if (t->n_bytes)
            *(volatile const char *)((const char *)t->data + t->n_bytes - 1);
    }
}

/* A good file opens, a broken one that shows it is refused by name, any other does
 * either; the last byte of every tensor can be read. */
static void open_it(const char *path, void *arg)
{
    struct counts *counts = arg;
    struct model_file *file;
    struct error err = {0};
    char *open_as = openable(path, counts);
    if (shows_its_fault(path)) {
        assert_refused(open_as, "");
        counts->refused++;
    } else if (model_file_open(open_as, NULL, &file, &err)) {
        touch(file);
        *(is_bad(path) ? &counts->bad : &counts->good) += 1;
        model_file_close(file);
    } else if (is_bad(path) && strstr(err.message, open_as)) {
        counts->bad++;
    } else {
        fail_msg("%s: %s", path, err.message);
    }
    free(open_as);
}

static void every_real_file_opens(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared);
    struct counts counts = {scratch_make(), 0, 0, 0};
    free(scratch_write(counts.folder, "config.json", SLICE("{}")));
    each_file(shared, ".gguf", open_it, &counts);
    each_file(shared, ".safetensors", open_it, &counts);
    print_message("%d good, %d refused, %d others that are bad\n", counts.good, counts.refused,
                  counts.bad);
    scratch_remove(counts.folder);
    assert_true(counts.good >= 60);
    assert_true(counts.refused > 0 || counts.bad == 0);
}

struct cutter {
    const char *folder; /* scratch */
    const char *name;   /* what the cut file is called there */
};

/* A cut file may open where only padding was cut: every tensor is whole. */
static bool lost_nothing(const char *path, const char *copy)
{
    struct model_file *whole, *cut;
    struct error err = {0};
    if (!model_file_open(copy, NULL, &cut, &err))
        return false;
    assert_true(model_file_open(path, NULL, &whole, &err));
    size_t n = model_file_n_tensors(whole);
    bool same = n == model_file_n_tensors(cut) &&
                model_file_n_bytes(whole) - model_file_n_bytes(cut) < ALIGNMENT;
    for (size_t i = 0; i < n && same; i++) {
        const struct tensor_view *a = model_file_tensor_at(whole, i);
        const struct tensor_view *b = model_file_tensor_at(cut, i);
        same = a->n_bytes == b->n_bytes && memcmp(a->data, b->data, a->n_bytes) == 0;
    }
    model_file_close(whole);
    model_file_close(cut);
    return same;
}

/* The largest cut first: the file then only ever shrinks, and is written once. */
static void refuse_cuts(const char *path, void *arg)
{
    const struct cutter *cutter = arg;
    if (is_bad(path))
        return;
    struct str whole = {0};
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    char chunk[65536];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, stream)) > 0;)
        str_append(&whole, chunk, n);
    fclose(stream);
    char *copy = scratch_write(cutter->folder, cutter->name, str_slice(&whole));
    size_t step = whole.len / PLACES ? whole.len / PLACES : 1;
    bool in_padding = true;
    for (size_t len = whole.len - 1; len + 1 > 0; len = len > step ? len - step : (size_t)-1) {
        assert_int_equal(truncate(copy, (off_t)len), 0);
        in_padding = in_padding && lost_nothing(path, copy);
        if (!in_padding)
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
