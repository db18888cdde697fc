/* conform.c - "mlxcel conform": which scenarios, how many at once, and the
 * summary. */
#include "base/file.h"
#include "base/printable.h"
#include "cmd/cmd.h"
#include "cmd/conform_scenario.h"
#include "cmd/resources.h"

#include <curl/curl.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: mlxcel conform RECORDING.json... [OPTIONS]\n"
    "\n"
    "Replay recorded requests and compare the answers. Exit code 0 when all agree.\n"
    "\n"
    "  --server BINARY         the server to start for each scenario (default: the\n"
    "                          mlxcel-server beside this program)\n"
    "  --url URL               send to a server that runs already, starting none\n"
    "  --only REGEX            only scenarios whose name matches (extended)\n"
    "  --shared DIR            the reference data; its models/ is {M} in recordings\n"
    "                          (default: $MLXCEL_SHARED, else ../shared)\n"
    "  --models DIR            the models folder, where it is another\n"
    "  --expect-failures FILE  {\"SCENARIO\" or \"SCENARIO/STEP\": \"reason\"}, or lines\n"
    "                          'SCENARIO[/STEP] reason': these must differ still\n"
    "  --by-design FILE        [{\"scenario\", \"step\", \"reason\", \"response\"}]: what is\n"
    "                          answered otherwise on purpose\n"
    "  --junit FILE            write the results as JUnit XML\n"
    "  --jobs N                scenarios at once (default 1)\n"
    "  --record FILE           write the answers as a new recording instead\n"
    "  --list                  print the scenarios' names only\n";

struct job {
    const json_t *scenario;
    bool numerics;
    struct conform_result result;
};

struct suite {
    struct conform_settings settings;
    const char *only, *junit, *record, *shared;
    char *models, *server; /* owned */
    long n_workers;
    bool list;
    json_t *recordings[64]; /* owned */
    size_t n_recordings;
    struct job *jobs; /* owned */
    size_t n_jobs, next;
    pthread_mutex_t lock;
};

/* ---- Loading ---------------------------------------------------------- */

/* Lines "SCENARIO[/STEP] reason"; # begins a comment. */
static json_t *parse_lines(struct slice text)
{
    json_t *list = json_object();
    while (text.len) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t len = end ? (size_t)(end - text.data) : text.len;
        char *line = slice_duplicate((struct slice){text.data, len});
        text = slice_from(text, len + (end != NULL));
        char *name = line ? line + strspn(line, " \t") : NULL;
        if (name && *name && *name != '#') {
            char *reason = name + strcspn(name, " \t");
            if (*reason)
                *reason++ = '\0';
            json_object_set_new(list, name, json_string(reason + strspn(reason, " \t:->")));
        }
        free(line);
    }
    return list;
}

enum { LIST_MAX_BYTES = 16 << 20 };

static json_t *load_pending(const char *path, struct error *err)
{
    json_t *list = json_parse_file(path, NULL);
    if (json_is_object(list))
        return list;
    json_decref(list);
    struct str text = {0};
    list = file_read_whole(path, LIST_MAX_BYTES, &text, err) ? parse_lines(str_slice(&text)) : NULL;
    str_free(&text);
    return list;
}

static bool add_recording(struct suite *suite, const char *path, struct error *err)
{
    if (suite->n_recordings == sizeof suite->recordings / sizeof *suite->recordings)
        return error_set(err, ERR_LIMIT, "more than %zu recordings", suite->n_recordings);
    json_t *recording = json_parse_file(path, err);
    if (!recording)
        return false;
    suite->recordings[suite->n_recordings++] = recording;
    if (!json_is_array(recording))
        return error_set(err, ERR_FORMAT, "%s: is not a list of scenarios", path);
    const char *slash = strrchr(path, '/');
    bool numerics = strncmp(slash ? slash + 1 : path, "numerics", 8) == 0;
    size_t n = json_array_size(recording);
    struct job *jobs = realloc(suite->jobs, (suite->n_jobs + n + 1) * sizeof *jobs);
    if (!jobs)
        return error_memory(err);
    suite->jobs = jobs;
    for (size_t i = 0; i < n; i++) {
        const json_t *scenario = json_array_get(recording, i);
        if (!json_is_string(json_object_get(scenario, "name")))
            return error_set(err, ERR_FORMAT, "%s: scenario %zu has no name", path, i);
        jobs[suite->n_jobs++] = (struct job){.scenario = scenario, .numerics = numerics};
    }
    return true;
}

static bool keep_matching(struct suite *suite, struct error *err)
{
    regex_t regex;
    if (!suite->only)
        return true;
    if (regcomp(&regex, suite->only, REG_EXTENDED | REG_NOSUB) != 0)
        return error_set(err, ERR_INVALID, "--only %s: is not a regular expression", suite->only);
    size_t n = 0;
    for (size_t i = 0; i < suite->n_jobs; i++) {
        const char *name = json_string_value(json_object_get(suite->jobs[i].scenario, "name"));
        if (regexec(&regex, name, 0, NULL, 0) == 0)
            suite->jobs[n++] = suite->jobs[i];
    }
    suite->n_jobs = n;
    regfree(&regex);
    return n > 0 || error_set(err, ERR_NOT_FOUND, "--only %s: matches no scenario", suite->only);
}

/* ---- The command line ------------------------------------------------- */

static bool take_option(struct suite *suite, const char *name, const char *value, struct error *err)
{
    const struct {
        const char *name;
        const char **field;
    } texts[] = {
        {"--server", &suite->settings.server},
        {"--url", &suite->settings.url},
        {"--only", &suite->only},
        {"--shared", &suite->shared},
        {"--models", &suite->settings.models},
        {"--junit", &suite->junit},
        {"--record", &suite->record},
    };
    if (!value)
        return error_set(err, ERR_INVALID, "%s: is unknown or its value is missing; see --help",
                         name);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(name, texts[i].name) == 0) {
            *texts[i].field = value;
            return true;
        }
    if (strcmp(name, "--jobs") == 0) {
        suite->n_workers = strtol(value, NULL, 10);
        return (suite->n_workers >= 1 && suite->n_workers <= 64) ||
               error_set(err, ERR_INVALID, "--jobs %s: give a number from 1 to 64", value);
    }
    if (strcmp(name, "--expect-failures") == 0)
        return (suite->settings.pending = load_pending(value, err)) != NULL;
    if (strcmp(name, "--by-design") == 0)
        return (suite->settings.by_design = json_parse_file(value, err)) != NULL;
    return error_set(err, ERR_INVALID, "%s: unknown option; see --help", name);
}

static bool take_args(struct suite *suite, int argc, char **argv, struct error *err)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            suite->list = true;
        } else if (strncmp(argv[i], "--", 2) == 0) {
            if (!take_option(suite, argv[i], i + 1 < argc ? argv[i + 1] : NULL, err))
                return false;
            i++;
        } else if (!add_recording(suite, argv[i], err)) {
            return false;
        }
    }
    if (suite->n_recordings == 0)
        return error_set(err, ERR_INVALID, "no recording was named; see --help");
    /* The deliberate differences that come with the program. */
    char *differences = suite->settings.by_design || suite->record
                            ? NULL
                            : resource_find("tests/conformance/by_design.json");
    if (differences && !(suite->settings.by_design = json_parse_file(differences, err))) {
        free(differences);
        return false;
    }
    free(differences);
    return keep_matching(suite, err);
}

/* mlxcel-server in the folder of this program. */
static char *sibling_server(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return NULL;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    return slash ? text_format("%.*s/mlxcel-server", (int)(slash - path), path) : NULL;
}

static bool find_server_and_models(struct suite *suite, struct error *err)
{
    if (!suite->settings.server && !suite->settings.url) {
        suite->server = sibling_server();
        suite->settings.server = suite->server;
    }
    if (suite->settings.server && access(suite->settings.server, X_OK) != 0)
        return error_set(err, ERR_NOT_FOUND, "%s: is not a program; name one with --server",
                         suite->settings.server);
    if (suite->settings.models)
        return true;
    const char *shared = suite->shared ? suite->shared : getenv("MLXCEL_SHARED");
    char *models = text_format("%s/models", shared ? shared : "../shared");
    suite->models = models ? realpath(models, NULL) : NULL;
    free(models);
    suite->settings.models = suite->models ? suite->models : "";
    return suite->models != NULL ||
           error_set(err, ERR_NOT_FOUND,
                     "the reference data is not at %s; name its folder with --shared",
                     shared ? shared : "../shared");
}

/* ---- Running ---------------------------------------------------------- */

static const char *const outcome_words[] = {
    [CONFORM_PASSED] = "ok",
    [CONFORM_FAILED] = "FAILED",
    [CONFORM_PENDING] = "pending",
    [CONFORM_SKIPPED] = "skipped",
};

static void *work(void *arg)
{
    struct suite *suite = arg;
    for (;;) {
        pthread_mutex_lock(&suite->lock);
        struct job *job = suite->next < suite->n_jobs ? &suite->jobs[suite->next++] : NULL;
        pthread_mutex_unlock(&suite->lock);
        if (!job)
            return NULL;
        conform_run(&suite->settings, job->scenario, job->numerics, &job->result);
        pthread_mutex_lock(&suite->lock);
        printf("%-8s %s (%.2f s)\n%s", outcome_words[job->result.outcome],
               json_string_value(json_object_get(job->scenario, "name")), job->result.seconds,
               str_text(&job->result.report));
        fflush(stdout);
        pthread_mutex_unlock(&suite->lock);
    }
}

static void run_all(struct suite *suite)
{
    pthread_t threads[64];
    long n = 0;
    while (n + 1 < suite->n_workers && pthread_create(&threads[n], NULL, work, suite) == 0)
        n++;
    work(suite);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

static void put_xml(FILE *stream, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            fputs("&lt;", stream);
        else if (c == '>')
            fputs("&gt;", stream);
        else if (c == '&')
            fputs("&amp;", stream);
        else if (c == '"')
            fputs("&quot;", stream);
        else if (c >= 0x20 || c == '\n' || c == '\t')
            fputc(c, stream);
    }
}

static bool write_junit(const struct suite *suite, const size_t counts[4])
{
    FILE *stream = fopen(suite->junit, "w");
    if (!stream)
        return false;
    fprintf(stream,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuite name=\"conform\" tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\">\n",
            suite->n_jobs, counts[CONFORM_FAILED],
            counts[CONFORM_SKIPPED] + counts[CONFORM_PENDING]);
    for (size_t i = 0; i < suite->n_jobs; i++) {
        const struct conform_result *result = &suite->jobs[i].result;
        fprintf(stream, "  <testcase name=\"");
        put_xml(stream, json_string_value(json_object_get(suite->jobs[i].scenario, "name")));
        fprintf(stream, "\" time=\"%.3f\">", result->seconds);
        if (result->outcome == CONFORM_FAILED) {
            fprintf(stream, "<failure message=\"%zu differences\">", result->n_differences);
            put_xml(stream, str_text(&result->report));
            fprintf(stream, "</failure>");
        } else if (result->outcome != CONFORM_PASSED) {
            fprintf(stream, "<skipped message=\"%s\"/>", outcome_words[result->outcome]);
        }
        fprintf(stream, "</testcase>\n");
    }
    fprintf(stream, "</testsuite>\n");
    return fclose(stream) == 0;
}

static bool write_recording(const struct suite *suite)
{
    json_t *all = json_array();
    for (size_t i = 0; i < suite->n_jobs; i++)
        json_array_append(all, suite->jobs[i].result.recorded);
    bool ok = json_dump_file(all, suite->record, JSON_INDENT(1) | JSON_REAL_PRECISION(8)) == 0;
    json_decref(all);
    return ok;
}

static int conclude(const struct suite *suite)
{
    size_t counts[4] = {0}, differences = 0;
    for (size_t i = 0; i < suite->n_jobs; i++) {
        counts[suite->jobs[i].result.outcome]++;
        differences += suite->jobs[i].result.n_differences;
    }
    printf("%zu scenarios: %zu ok, %zu failed (%zu differences), %zu pending, %zu skipped\n",
           suite->n_jobs, counts[CONFORM_PASSED], counts[CONFORM_FAILED], differences,
           counts[CONFORM_PENDING], counts[CONFORM_SKIPPED]);
    int code = counts[CONFORM_FAILED] ? 1 : 0;
    if (suite->junit && !write_junit(suite, counts)) {
        fprintf(stderr, "%s: cannot be written\n", suite->junit);
        code = 1;
    }
    if (suite->record && !write_recording(suite)) {
        fprintf(stderr, "%s: cannot be written\n", suite->record);
        code = 1;
    }
    return code;
}

static void suite_free(struct suite *suite)
{
    for (size_t i = 0; i < suite->n_jobs; i++) {
        str_free(&suite->jobs[i].result.report);
        json_decref(suite->jobs[i].result.recorded);
    }
    for (size_t i = 0; i < suite->n_recordings; i++)
        json_decref(suite->recordings[i]);
    json_decref((json_t *)(uintptr_t)suite->settings.pending);
    json_decref((json_t *)(uintptr_t)suite->settings.by_design);
    free(suite->jobs);
    free(suite->models);
    free(suite->server);
    pthread_mutex_destroy(&suite->lock);
}

static void list(const struct suite *suite)
{
    for (size_t i = 0; i < suite->n_jobs; i++)
        printf("%s\n", json_string_value(json_object_get(suite->jobs[i].scenario, "name")));
}

int cmd_conform(int argc, char **argv)
{
    struct suite suite = {.n_workers = 1};
    struct error err = {0};
    int code = 0;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    pthread_mutex_init(&suite.lock, NULL);
    if (!take_args(&suite, argc, argv, &err) ||
        (!suite.list && !find_server_and_models(&suite, &err))) {
        error_print("mlxcel conform", &err);
        code = 2;
    } else if (suite.list) {
        list(&suite);
    } else {
        suite.settings.record = suite.record != NULL;
        signal(SIGPIPE, SIG_IGN);
        curl_global_init(CURL_GLOBAL_DEFAULT);
        run_all(&suite);
        code = conclude(&suite);
        curl_global_cleanup();
    }
    suite_free(&suite);
    return code;
}
