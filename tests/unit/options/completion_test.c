/* The completion script, tried in bash itself. */
#include "unit/unit.h"

#include "options/options.h"

#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/mlxcel-complete-XXXXXX";

static int write_script(void **state)
{
    (void)state;
    struct str script = {0};
    if (!mkdtemp(folder) || chdir(folder) != 0 ||
        !options_completion_bash("serve bench manifest", &script))
        return -1;
    FILE *file = fopen("script", "w");
    fwrite(script.data, 1, script.len, file);
    fclose(file);
    fclose(fopen("model.gguf", "w"));
    str_free(&script);
    return 0;
}

static int remove_script(void **state)
{
    (void)state;
    unlink("script");
    unlink("model.gguf");
    return chdir("/") == 0 ? rmdir(folder) : -1;
}

/* What bash offers for the last of these words. */
static void complete(const char *function, const char *words, char *out, size_t size)
{
    char command[1024];
    snprintf(command, sizeof command,
             "bash -u -c 'set -e; source ./script; set +e; COMP_WORDS=(%s); "
             "COMP_CWORD=$((${#COMP_WORDS[@]}-1)); %s; echo \" ${COMPREPLY[*]-} \"' 2>&1",
             words, function);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, size - 1, pipe);
    out[n] = '\0';
    if (pclose(pipe) != 0)
        fail_msg("bash refuses the script: %s", out);
}

static void offers(const char *function, const char *words, const char *offered, bool wanted)
{
    static char out[1 << 16];
    char padded[256];
    complete(function, words, out, sizeof out);
    snprintf(padded, sizeof padded, " %s ", offered);
    if ((strstr(out, padded) != NULL) != wanted)
        fail_msg("%s: '%s' is %soffered: %s", words, offered, wanted ? "not " : "", out);
}

static void bash_offers_option_names(void **state)
{
    (void)state;
    offers("_mlxcel_options", "mlxcel-server --ctx", "--ctx-size", true);
    offers("_mlxcel_options", "mlxcel-server -ct", "-ctk", true);
    offers("_mlxcel_options", "mlxcel-server --no-", "--no-webui", true);
    offers("_mlxcel_options", "mlxcel-server --dra", "--draft", false); /* removed */
    offers("_mlxcel_options", "mlxcel-server --ctx", "--cpu-mask", false);
}

static void bash_offers_files_where_a_file_is_wanted(void **state)
{
    (void)state;
    offers("_mlxcel_options", "mlxcel-server -m mod", "model.gguf", true);
    offers("_mlxcel_options", "mlxcel-server --grammar-file \"\"", "script", true);
    offers("_mlxcel_options", "mlxcel-server --port mod", "model.gguf", false);
}

static void bash_offers_the_values_of_a_choice(void **state)
{
    (void)state;
    offers("_mlxcel_options", "mlxcel-server --pooling me", "mean", true);
    offers("_mlxcel_options", "mlxcel-server -fa o", "off", true);
    offers("_mlxcel_options", "mlxcel-server --load-mode mm", "mmap+mlock", true);
}

static void bash_offers_commands_then_their_options(void **state)
{
    (void)state;
    offers("_mlxcel", "mlxcel be", "bench", true);
    offers("_mlxcel", "mlxcel serve --threads-h", "--threads-http", true);
    offers("_mlxcel", "mlxcel bench mod", "model.gguf", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bash_offers_option_names),
        cmocka_unit_test(bash_offers_files_where_a_file_is_wanted),
        cmocka_unit_test(bash_offers_the_values_of_a_choice),
        cmocka_unit_test(bash_offers_commands_then_their_options),
    };
    return cmocka_run_group_tests(tests, write_script, remove_script);
}
