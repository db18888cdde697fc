/* deferred_test.c - options that are not served yet: --help says so, values that ask
 * for nothing pass, and all others are refused. */
#include "unit/unit.h"

#include "options/table.h"

#include <stdio.h>
#include <string.h>

#define MARK "(not supported yet)"

/* One row per deferred option: what passes and what does not. A switch is written by
 * its spelling, in takes and refuses alike. Values are separated by '|'. */
static const struct {
    const char *option, *takes, *refuses;
} rows[] = {
    {"--lora", NULL, "a.gguf|"},
    {"--lora-scaled", NULL, "a.gguf:0|"},
    {"--lora-init-without-apply", "--lora-init-without-apply", NULL},
    {"--rpc", NULL, "a:1|"},
    {"--spec-draft-type-k", "f16", "q8_0|"},
    {"--spec-draft-type-v", "f16", "q8_0|"},
    {"--lookup-cache-static", "", "a.bin"},
    {"--lookup-cache-dynamic", "", "a.bin"},
    {"--mmproj", "", "a.gguf"},
    {"--mmproj-url", "", "http://127.0.0.1/a"},
    {"--mmproj-auto", "--no-mmproj|--no-mmproj-auto", "--mmproj-auto"},
    {"--image-min-tokens", "-1", "0|64"},
    {"--image-max-tokens", "-1", "0|64"},
    {"--mtmd-batch-max-tokens", "1024|+1024", "0|512"},
    {"--media-path", NULL, "/tmp|"},
    {"--ui-mcp-proxy", "--no-ui-mcp-proxy|--no-webui-mcp-proxy", "--ui-mcp-proxy"},
    {"--tools", NULL, "all|"},
    {"--tools-runtime", "", "docker:a|none"},
    {"--mcp-servers-config", "", "a.json"},
    {"--mcp-servers-json", "", "{}"},
    {"--agent", "--no-agent|-no-ag", "--agent|-ag"},
    {"--models-dir", "", "/tmp"},
    {"--models-preset", "", "a.ini"},
    {"--models-max", "0|4|-1|100", "x|1.5"},
    {"--models-autoload", "--models-autoload|--no-models-autoload", NULL},
    {"--spec-draft-hf", "", "a/b"},
    {"--spec-draft-model", "", "a.gguf"},
    {"--spec-draft-threads", NULL, "1|-1"},
    {"--spec-draft-threads-batch", NULL, "1|-1"},
    {"--spec-draft-cpu-mask", NULL, "f|"},
    {"--spec-draft-cpu-range", NULL, "0-1|"},
    {"--spec-draft-cpu-strict", NULL, "0|1"},
    {"--spec-draft-prio", "0", "1|x"},
    {"--spec-draft-poll", NULL, "0|1"},
    {"--spec-draft-cpu-mask-batch", NULL, "f|"},
    {"--spec-draft-cpu-strict-batch", NULL, "0|1"},
    {"--spec-draft-prio-batch", "0", "1"},
    {"--spec-draft-poll-batch", NULL, "0|1"},
    {"--spec-draft-n-max", "0|3", "16|-1|x|"},
    {"--spec-draft-n-min", "0", "1"},
    {"--spec-draft-p-split", "0.1|0.10|.1", "0.2|0.1x|nan"},
    {"--spec-draft-p-min", "0|0.0|0.00", "0.5"},
    {"--spec-type", "none", "ngram-mod|none,ngram-mod|x"},
    {"--spec-ngram-mod-n-min", "48", "0|47"},
    {"--spec-ngram-mod-n-max", "64", "0|65"},
    {"--spec-ngram-mod-n-match", "24", "23"},
    {"--spec-ngram-simple-size-n", "12", "11"},
    {"--spec-ngram-simple-size-m", "48", "47"},
    {"--spec-ngram-simple-min-hits", "1", "2"},
    {"--spec-ngram-map-k-size-n", "12", "11"},
    {"--spec-ngram-map-k-size-m", "48", "47"},
    {"--spec-ngram-map-k-min-hits", "1", "2"},
    {"--spec-ngram-map-k4v-size-n", "12", "11"},
    {"--spec-ngram-map-k4v-size-m", "48", "47"},
    {"--spec-ngram-map-k4v-min-hits", "1", "2"},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static void check_parse(int argc, char **argv, char **environment, bool taken, const char *what)
{
    struct options o;
    struct error err = {0};
    bool ok = options_parse(argc, argv, environment, &o, &err);
    if (ok != taken)
        fail_msg("%s is %s: %s", what, taken ? "refused" : "taken", err.message);
    options_free(&o);
}

/* The same by its variable: a switch is on or off there, by value or by name. */
static void check_variable(const struct option *option, const char *value, bool taken)
{
    char set[256], negative[96];
    bool on;
    if (!option->env)
        return;
    if (option->value) {
        snprintf(set, sizeof set, "%s=%s", option->env, value);
    } else {
        option_find(value, &on);
        snprintf(set, sizeof set, "%s=%d", option->env, on);
    }
    char *argv[] = {"mlxcel-server", NULL}, *environment[] = {set, NULL};
    check_parse(1, argv, environment, taken, set);
    if (!option->value && !on && option_negative_env(option, negative, sizeof negative)) {
        snprintf(set, sizeof set, "%s=1", negative);
        check_parse(1, argv, environment, taken, set);
    }
}

static void check_value(const struct option *option, const char *name, char *value, bool taken)
{
    char what[256];
    char *with_value[] = {"mlxcel-server", (char *)(uintptr_t)name, value, NULL};
    char *alone[] = {"mlxcel-server", value, NULL};
    snprintf(what, sizeof what, "%s '%s'", name, value);
    if (option->value)
        check_parse(3, with_value, NULL, taken, what);
    else
        check_parse(2, alone, NULL, taken, what);
    check_variable(option, value, taken);
}

static void check_values(const struct option *option, const char *name, const char *values,
                         bool taken)
{
    for (const char *end; values; values = *end ? end + 1 : NULL) {
        char value[128];
        end = values + strcspn(values, "|");
        snprintf(value, sizeof value, "%.*s", (int)(end - values), values);
        check_value(option, name, value, taken);
    }
}

static void values_that_ask_for_nothing_pass_and_others_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ROWS; i++) {
        bool on;
        const struct option *option = option_find(rows[i].option, &on);
        assert_non_null(option);
        check_values(option, rows[i].option, rows[i].takes, true);
        check_values(option, rows[i].option, rows[i].refuses, false);
    }
}

static void every_deferred_option_is_decided(void **state)
{
    (void)state;
    const struct option *o;
    size_t n = 0;
    for (size_t i = 0; (o = option_at(i)); i++) {
        bool listed = false;
        for (size_t r = 0; r < N_ROWS; r++)
            listed = listed || slice_equal_text(option_id(o), rows[r].option);
        if (listed != (o->state == STATE_DEFERRED))
            fail_msg("%.*s is %s the table above", (int)option_id(o).len, option_id(o).data,
                     listed ? "still in" : "not in");
        n += listed;
    }
    assert_int_equal(n, N_ROWS);
}

/* Is the option's entry in --help's text marked? The entry ends where the next begins. */
static bool is_marked(const char *help, const struct option *option)
{
    char names[128];
    snprintf(names, sizeof names, "\n%s", option->names);
    names[1 + strcspn(option->names, " ")] = '\0';
    const char *entry = help;
    do
        entry = strstr(entry + 1, names);
    while (entry && !strchr(", \n", entry[strlen(names)]));
    assert_non_null(entry);
    const char *end = entry + 1;
    while (*end && !(*end == '\n' && end[1] != ' '))
        end++;
    return end - entry > (long)strlen(MARK) && !strncmp(end - strlen(MARK), MARK, strlen(MARK));
}

/* The claims are those of the table (manifest.check); so are the marks. */
static void help_marks_what_the_manifest_defers(void **state)
{
    (void)state;
    static const char *const shards[] = {"common", "sampling", "speculative", "server"};
    struct str help = {0};
    assert_true(options_help("mlxcel-server", 200, &help));
    size_t n_marked = 0;
    for (size_t s = 0; s < sizeof shards / sizeof *shards; s++) {
        char path[512];
        snprintf(path, sizeof path, "%s/compat/llama-server/b10621/options-%s.json", MLXCEL_SOURCE,
                 shards[s]);
        json_t *shard = json_parse_file(path, NULL), *entry;
        assert_non_null(shard);
        size_t i;
        json_array_foreach(json_object_get(shard, "entries"), i, entry)
        {
            const char *id = json_string_value(json_object_get(entry, "id"));
            const char *claim = json_string_value(json_object_get(entry, "state"));
            bool on, deferred = !strcmp(claim, "deferred");
            const struct option *option = option_find(id, &on);
            /* What is short for several options is marked by them. */
            if (option->type != OPT_EXPANDS && is_marked(str_text(&help), option) != deferred)
                fail_msg("%s, which is %s", id, claim);
            n_marked += deferred;
        }
        json_decref(shard);
    }
    assert_int_equal(n_marked, N_ROWS);
    bool on;
    assert_true(is_marked(str_text(&help), option_find("--spec-default", &on)));
    assert_false(is_marked(str_text(&help), option_find("--embd-gemma-default", &on)));
    str_free(&help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_ask_for_nothing_pass_and_others_are_refused),
        cmocka_unit_test(every_deferred_option_is_decided),
        cmocka_unit_test(help_marks_what_the_manifest_defers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
