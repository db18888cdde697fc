/* bench_templates.c - mlxcel bench --templates: the cost of rendering.
 *
 * The conversation is an agent's: a system message, ten tools with schemas, and
 * 199 messages in which a user asks, the assistant calls a tool, the tool
 * answers and the assistant sums up. Texts are of the usual length: a paragraph
 * of a hundred words, results as JSON. A template that knows no tools gets 200
 * messages of user and assistant. */
#include "cmd/bench_templates.h"

#include "base/file.h"
#include "base/json.h"
#include "base/printable.h"
#include "chat/chat.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { N_MESSAGES = 200, N_TOOLS = 10, FILE_MAX = 4 << 20 };

static const char paragraph[] =
    "The harbour was quiet in the morning, and the boats that had come in at night lay side by "
    "side along the wall. A man in a blue coat counted the crates, wrote a number in his book and "
    "began again at the other end. \"Twelve,\" he said, \"and yesterday it was eleven.\" Nobody "
    "answered: the gulls were louder than he was. Behind the sheds a road goes up to the town, "
    "past caf\303\251s, a school and a shop that sells ropes, lamps & tar.\n\n- one\n- two\n- "
    "three\n";

/* ---- The conversation ---------------------------------------------------- */

static json_t *make_tool(int i)
{
    char name[32];
    snprintf(name, sizeof name, "look_up_%d", i);
    return json_pack(
        "{s:s,s:{s:s,s:s,s:{s:s,s:{s:{s:s,s:s},s:{s:s,s:i,s:i},s:{s:s,s:[s,s,s]},s:{s:s,s:{s:s}}},"
        "s:[s,s]}}}",
        "type", "function", "function", "name", name, "description",
        "Looks up what is known of a place on a day, from the table of that number.", "parameters",
        "type", "object", "properties", "city", "type", "string", "description",
        "The city's name, as people there write it", "days", "type", "integer", "minimum", 1,
        "maximum", 14, "unit", "type", "string", "enum", "celsius", "fahrenheit", "kelvin", "tags",
        "type", "array", "items", "type", "string", "required", "city", "days");
}

static json_t *make_message(int i)
{
    char id[16], name[32], text[sizeof paragraph + 16];
    snprintf(text, sizeof text, "%d. %s", i, paragraph);
    snprintf(id, sizeof id, "call%05d", i / 4);
    snprintf(name, sizeof name, "look_up_%d", i / 4 % N_TOOLS);
    switch (i % 4) {
    case 0:
        return json_pack("{s:s,s:s}", "role", "user", "content", text);
    case 1:
        return json_pack(
            "{s:s,s:s,s:[{s:s,s:s,s:{s:s,s:s}}]}", "role", "assistant", "content", "", "tool_calls",
            "id", id, "type", "function", "function", "name", name, "arguments",
            "{\"city\": \"Saint-\\u00c9tienne\", \"days\": 3, \"tags\": [\"wind\", \"rain\"]}");
    case 2:
        return json_pack(
            "{s:s,s:s,s:s,s:s}", "role", "tool", "tool_call_id", id, "name", name, "content",
            "{\"days\": [{\"high\": 21.5, \"low\": 12, \"sky\": \"cloudy\"}, {\"high\": "
            "19, \"low\": 11, \"sky\": \"rain\"}], \"source\": \"table\"}");
    default:
        return json_pack("{s:s,s:s}", "role", "assistant", "content", text);
    }
}

static json_t *make_body(void)
{
    json_t *tools = json_array(), *messages = json_array();
    for (int i = 0; i < N_TOOLS; i++)
        json_array_append_new(tools, make_tool(i));
    json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "system", "content", paragraph));
    for (int i = 0; i + 1 < N_MESSAGES; i++)
        json_array_append_new(messages, make_message(i));
    return json_pack("{s:o,s:o}", "tools", tools, "messages", messages);
}

/* User and assistant in turn. */
static json_t *make_plain_body(void)
{
    json_t *messages = json_array();
    for (int i = 0; i < N_MESSAGES; i++)
        json_array_append_new(messages, make_message(i % 2 ? 3 : 4 * i));
    return json_pack("{s:o}", "messages", messages);
}

/* ---- Measuring ----------------------------------------------------------- */

/* Processor time of this thread: what else the machine does is not our cost. */
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool measure(const struct chat_templates *templates, const json_t *body, int runs,
                    double *times, size_t *prompt_bytes, struct error *err)
{
    const struct chat_defaults defaults = {.reasoning_format = CHAT_REASONING_AUTO,
                                           .enable_thinking = true};
    struct chat_request request = {0};
    bool ok = chat_request_parse(body, templates, &defaults, &request, err);
    for (int i = 0; ok && i < runs; i++) {
        struct chat_prompt prompt = {0};
        double begin = now_ms();
        ok = chat_apply(templates, &request, &prompt, err);
        times[i] = now_ms() - begin;
        *prompt_bytes = prompt.text.len;
        chat_prompt_free(&prompt);
    }
    chat_request_free(&request);
    if (ok)
        qsort(times, (size_t)runs, sizeof *times, by_size);
    return ok;
}

struct bodies {
    json_t *tools, *plain;
};

/* A template that takes neither conversation says so in its line. */
static bool bench_one(const char *path, const struct bodies *bodies, int runs, double *times,
                      struct error *err)
{
    const char *slash = strrchr(path, '/');
    struct str source = {0};
    struct chat_templates *templates = NULL;
    bool ok = file_read_whole(path, FILE_MAX, &source, err);
    if (ok) {
        struct chat_template_settings settings = {.source = str_slice(&source),
                                                  .bos = SLICE("<s>"),
                                                  .eos = SLICE("</s>"),
                                                  .use_jinja = true};
        double begin = now_ms();
        ok = chat_templates_load(&settings, &templates, err);
        double load = now_ms() - begin;
        struct error reason = {0};
        size_t bytes = 0;
        bool plain = false;
        if (ok && (measure(templates, bodies->tools, runs, times, &bytes, &reason) ||
                   (plain = measure(templates, bodies->plain, runs, times, &bytes, &reason))))
            printf("%-56s %9zu %9.2f %9.2f %9.2f%s\n", slash ? slash + 1 : path, bytes,
                   times[runs / 2], times[runs - 1], load, plain ? "  without tools" : "");
        else if (ok)
            printf("%-56s does not take it: %.100s\n", slash ? slash + 1 : path, reason.message);
    }
    chat_templates_free(templates);
    str_free(&source);
    return ok;
}

static int is_template(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 6 && strcmp(entry->d_name + n - 6, ".jinja") == 0;
}

static bool bench_folder(const char *path, const struct bodies *bodies, int runs, double *times,
                         struct error *err)
{
    struct dirent **names = NULL;
    int n = scandir(path, &names, is_template, alphasort);
    bool ok = n > 0 || error_set(err, ERR_INVALID, "'%s' holds no *.jinja", path);
    for (int i = 0; i < n; i++) {
        char *file = ok ? text_format("%s/%s", path, names[i]->d_name) : NULL;
        ok = ok && (file || error_memory(err)) && bench_one(file, bodies, runs, times, err);
        free(file);
        free(names[i]);
    }
    free(names);
    return ok;
}

int bench_templates(const char *path, int runs)
{
    struct error err = {0};
    struct stat info;
    struct bodies bodies = {make_body(), make_plain_body()};
    double *times = malloc((size_t)runs * sizeof *times);
    bool ok = bodies.tools && bodies.plain && times ? true : error_memory(&err);
    if (ok)
        printf("%-56s %9s %9s %9s %9s\n", "template", "bytes", "ms", "worst", "load ms");
    if (ok && stat(path, &info) == 0 && !S_ISDIR(info.st_mode))
        ok = bench_one(path, &bodies, runs, times, &err);
    else if (ok)
        ok = bench_folder(path, &bodies, runs, times, &err);
    if (!ok)
        error_print("bench --templates", &err);
    free(times);
    json_decref(bodies.tools);
    json_decref(bodies.plain);
    return ok ? 0 : 1;
}
