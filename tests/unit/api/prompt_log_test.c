/* Prompts reach a file only where the operator asked for it, and nobody else
 * can read it. */
#include "unit/unit.h"

#include "api/internal.h"

#include <dirent.h>
#include <unistd.h>

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/mlxcel-prompts-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static mode_t mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 0777;
}

static void prompts_of_one_moment_become_files_of_their_own(void **state)
{
    (void)state;
    char folder[128];
    snprintf(folder, sizeof folder, "%s/a/b", root);
    struct options options = {.logging.prompts_dir = folder};
    struct api api = {.options = &options};
    struct error err = {0};
    assert_true(prompt_log_open(&options, &err));
    assert_true(prompt_log_open(&options, &err)); /* there already */
    assert_int_equal(mode_of(folder), 0700);
    json_t *text = json_string("secret"), *list = json_pack("[i, i]", 1, 2);
    prompt_log_write(&api, text);
    prompt_log_write(&api, text);
    prompt_log_write(&api, list);
    json_decref(text);
    json_decref(list);
    DIR *dir = opendir(folder);
    size_t n_text = 0, n_list = 0;
    for (struct dirent *item; (item = readdir(dir));) {
        char path[512], content[64] = "";
        if (item->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        assert_int_equal(mode_of(path), 0600);
        FILE *file = fopen(path, "r");
        content[fread(content, 1, sizeof content - 1, file)] = '\0';
        fclose(file);
        n_text += !strcmp(content, "secret");
        n_list += !strcmp(content, "[\n  1,\n  2\n]");
    }
    closedir(dir);
    assert_int_equal(n_text, 2);
    assert_int_equal(n_list, 1);
}

static void without_a_folder_nothing_is_written(void **state)
{
    (void)state;
    struct options options = {0};
    struct api api = {.options = &options};
    json_t *text = json_string("secret");
    assert_true(prompt_log_open(&options, NULL));
    prompt_log_write(&api, text);
    json_decref(text);
}

static void a_folder_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct options options = {.logging.prompts_dir = "/proc/none/such"};
    struct error err = {0};
    assert_false(prompt_log_open(&options, &err));
    assert_non_null(strstr(err.message, "--log-prompts-dir"));
    options.logging.prompts_dir = "/etc/passwd";
    assert_false(prompt_log_open(&options, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_of_one_moment_become_files_of_their_own),
        cmocka_unit_test(without_a_folder_nothing_is_written),
        cmocka_unit_test(a_folder_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
