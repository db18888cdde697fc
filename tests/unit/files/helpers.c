/* helpers.c - making model files by hand. */
#include "unit/files/helpers.h"

#include "unit/unit.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

char *scratch_make(void)
{
    char *folder = slice_duplicate(SLICE("/tmp/mlxcel-files-XXXXXX"));
    assert_non_null(mkdtemp(folder));
    return folder;
}

static void remove_below(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *path = text_format("%s/%s", folder, entry->d_name);
        struct stat info;
        if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode))
            remove_below(path);
        else
            unlink(path);
        free(path);
    }
    closedir(dir);
    rmdir(folder);
}

void scratch_remove(char *folder)
{
    remove_below(folder);
    free(folder);
}

char *scratch_write(const char *folder, const char *name, struct slice bytes)
{
    char *path = text_format("%s/%s", folder, name);
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes.data, 1, bytes.len, stream), bytes.len);
    assert_int_equal(fclose(stream), 0);
    return path;
}

void put_u32(struct str *out, uint32_t value)
{
    str_append(out, &value, sizeof value);
}

void put_u64(struct str *out, uint64_t value)
{
    str_append(out, &value, sizeof value);
}

void put_text(struct str *out, const char *text)
{
    put_u64(out, strlen(text));
    str_append_text(out, text);
}

void put_header(struct str *out, uint32_t version, uint64_t n_tensors, uint64_t n_metas)
{
    str_append_text(out, "GGUF");
    put_u32(out, version);
    put_u64(out, n_tensors);
    put_u64(out, n_metas);
}

void put_meta_u32(struct str *out, const char *key, uint32_t value)
{
    put_text(out, key);
    put_u32(out, META_U32);
    put_u32(out, value);
}

void put_meta_text(struct str *out, const char *key, const char *value)
{
    put_text(out, key);
    put_u32(out, META_TEXT);
    put_text(out, value);
}

void put_tensor(struct str *out, const char *name, uint64_t d0, uint64_t d1, uint32_t type,
                uint64_t offset)
{
    put_text(out, name);
    put_u32(out, 2);
    put_u64(out, d0);
    put_u64(out, d1);
    put_u32(out, type);
    put_u64(out, offset);
}

void put_padding(struct str *out, size_t alignment)
{
    while (out->len % alignment)
        str_append_char(out, '\0');
}

void put_safetensors(struct str *out, const char *header, size_t n_data)
{
    put_text(out, header);
    for (size_t i = 0; i < n_data; i++)
        str_append_char(out, (char)i);
}

void assert_refused(const char *path, const char *words)
{
    struct model_file *file = NULL;
    struct error err = {0};
    if (model_file_open(path, NULL, &file, &err))
        fail_msg("%s was opened and should be refused (%s)", path, words);
    assert_null(file);
    assert_int_not_equal(err.code, ERR_NONE);
    if (!strstr(err.message, path))
        fail_msg("the message does not name %s: %s", path, err.message);
    char *copy = slice_duplicate(slice_of(words));
    for (char *rest = copy, *word; (word = strtok_r(rest, "|", &rest));)
        if (!strstr(err.message, word))
            fail_msg("the message lacks '%s': %s", word, err.message);
    free(copy);
}

void each_file(const char *folder, const char *suffix, void (*fn)(const char *path, void *arg),
               void *arg)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        char *path = text_format("%s/%s", folder, entries[i]->d_name);
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        if (S_ISDIR(info.st_mode) && entries[i]->d_name[0] != '.')
            each_file(path, suffix, fn, arg);
        else if (S_ISREG(info.st_mode) && slice_ends_with(slice_of(path), slice_of(suffix)))
            fn(path, arg);
        free(path);
        free(entries[i]);
    }
    free(entries);
}
