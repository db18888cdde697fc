/* manifest_load.c - reading the claims, and the names of the tests. */
#include "cmd/manifest.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SHARDS = 64, MAX_DEPTH = 8, MAX_TESTFILE = 16 << 20 };

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_shard(const char *name)
{
    size_t len = strlen(name);
    return len > 5 && !strcmp(name + len - 5, ".json") && strcmp(name, "pin.json") != 0 &&
           strcmp(name, "schema.json") != 0;
}

static bool add_shard(struct manifest *m, const char *folder, const char *name, struct error *err)
{
    char *path = text_format("%s/%s", folder, name);
    if (!path)
        return error_memory(err);
    json_t *shard = json_parse_file(path, err);
    json_t *entries = json_object_get(shard, "entries"), *entry;
    bool ok = shard != NULL;
    if (ok && !json_is_array(entries))
        ok = error_set(err, ERR_FORMAT, "%s: \"entries\" is missing", path);
    size_t i;
    if (ok)
        json_array_foreach(entries, i, entry)
        {
            if (!json_is_object(entry))
                ok = error_set(err, ERR_FORMAT, "%s: entry %zu is not an object", path, i + 1);
            else if (json_object_set_new(entry, "shard", json_string(name)) != 0 ||
                     json_array_append(m->entries, entry) != 0)
                ok = error_memory(err);
            if (!ok)
                break;
        }
    json_decref(shard);
    free(path);
    return ok;
}

bool manifest_load(const char *folder, struct manifest *out, struct error *err)
{
    *out = (struct manifest){.entries = json_array()};
    char *pin = text_format("%s/pin.json", folder);
    if (!pin || !out->entries) {
        free(pin);
        return error_memory(err);
    }
    out->pin = json_parse_file(pin, err);
    free(pin);
    if (!out->pin)
        return false;
    DIR *dir = opendir(folder);
    if (!dir)
        return error_set(err, ERR_IO, "cannot read '%s': %s", folder, strerror(errno));
    char *names[MAX_SHARDS];
    size_t n = 0;
    bool ok = true;
    for (struct dirent *item; ok && (item = readdir(dir));) {
        if (!is_shard(item->d_name))
            continue;
        if (n == MAX_SHARDS)
            ok = error_set(err, ERR_LIMIT, "%s: more than %d shards", folder, MAX_SHARDS);
        else if (!(names[n++] = slice_duplicate(slice_of(item->d_name))))
            ok = error_memory(err);
    }
    closedir(dir);
    if (ok)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        ok = ok && add_shard(out, folder, names[i], err);
        free(names[i]);
    }
    return ok;
}

void manifest_free(struct manifest *manifest)
{
    json_decref(manifest->pin);
    json_decref(manifest->entries);
    *manifest = (struct manifest){0};
}

/* ---- what ctest would run -------------------------------------------------- */

/* CMake writes names as [=[NAME]=] or bare. */
static struct slice test_name(struct slice text)
{
    static const struct slice open = {"[=[", 3};
    if (slice_starts_with(text, open)) {
        text = slice_from(text, open.len);
        for (size_t i = 0; i + 2 < text.len; i++)
            if (!memcmp(text.data + i, "]=]", 3))
                return (struct slice){text.data, i};
    }
    size_t len = 0;
    while (len < text.len && !strchr(" \t\n)\"", text.data[len]))
        len++;
    return (struct slice){text.data, len};
}

static bool set_test(json_t *tests, struct slice name, bool enabled, struct error *err)
{
    return json_object_setn_new(tests, name.data, name.len, json_boolean(enabled)) == 0 ||
           error_memory(err);
}

static bool contains(struct slice text, const char *part)
{
    size_t len = strlen(part);
    for (size_t i = 0; i + len <= text.len; i++)
        if (!memcmp(text.data + i, part, len))
            return true;
    return false;
}

static bool read_testfile(const char *folder, int depth, json_t *tests, struct error *err);

static bool read_line(const char *folder, int depth, struct slice line, json_t *tests,
                      struct error *err)
{
    static const struct slice add = {"add_test(", 9}, set = {"set_tests_properties(", 21},
                              sub = {"subdirs(\"", 9};
    if (slice_starts_with(line, add))
        return set_test(tests, test_name(slice_from(line, add.len)), true, err);
    if (slice_starts_with(line, set) &&
        (contains(line, "DISABLED \"TRUE\"") || contains(line, "DISABLED \"ON\"") ||
         contains(line, "DISABLED \"1\"")))
        return set_test(tests, test_name(slice_from(line, set.len)), false, err);
    if (slice_starts_with(line, sub)) {
        struct slice name = test_name(slice_from(line, sub.len));
        char *path = text_format("%s/%.*s", folder, (int)name.len, name.data);
        bool ok = path ? read_testfile(path, depth + 1, tests, err) : error_memory(err);
        free(path);
        return ok;
    }
    return true;
}

static bool read_testfile(const char *folder, int depth, json_t *tests, struct error *err)
{
    if (depth > MAX_DEPTH)
        return error_set(err, ERR_LIMIT, "%s: folders of tests nest too deep", folder);
    char *path = text_format("%s/CTestTestfile.cmake", folder);
    if (!path)
        return error_memory(err);
    struct str text = {0};
    bool ok = file_read_whole(path, MAX_TESTFILE, &text, err) ||
              error_prefix(err, "name a configured build with --build");
    free(path);
    for (struct slice rest = str_slice(&text); ok && rest.len;) {
        const char *newline = memchr(rest.data, '\n', rest.len);
        struct slice line = {rest.data, newline ? (size_t)(newline - rest.data) : rest.len};
        ok = read_line(folder, depth, line, tests, err);
        rest = slice_from(rest, line.len + 1);
    }
    str_free(&text);
    return ok;
}

json_t *manifest_tests(const char *build, struct error *err)
{
    json_t *tests = json_object();
    if (!tests) {
        error_memory(err);
        return NULL;
    }
    if (read_testfile(build, 0, tests, err))
        return tests;
    json_decref(tests);
    return NULL;
}
