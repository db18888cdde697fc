/* conform_scenario.c - one scenario: start a server, take the steps, compare. */
#include "cmd/conform_scenario.h"

#include "base/clock.h"
#include "cmd/conform_client.h"
#include "cmd/conform_compare.h"
#include "cmd/conform_process.h"
#include "cmd/conform_record.h"
#include "files/files.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    START_TIMEOUT_MS = 60000, /* until a server is ready */
    CLI_TIMEOUT_MS = 30000,   /* until a command has ended */
    STARTED_AFTER_MS = 3000,  /* still running then: it went on to serve */
    PARALLEL_MAX = 64,
    LOG_SHOWN = 1500 /* bytes */
};

struct run {
    const struct conform_settings *settings;
    const json_t *scenario;
    const char *name;
    struct conform_process process;
    char url[64];
    enum numerics_rule numerics;
    struct conform_result *result;
    json_t *recorded_steps;
};

/* ---- What counts ------------------------------------------------------ */

static const char *pending_reason(const struct run *run, const char *label)
{
    return json_string_value(json_object_get(run->settings->pending, label));
}

/* Add a finding under a heading. */
static void report(struct run *run, bool counts, const char *heading, const char *lines, size_t n)
{
    str_append_format(&run->result->report, "  %s\n", heading);
    while (*lines) {
        const char *end = strchr(lines, '\n');
        int len = end ? (int)(end - lines) : (int)strlen(lines);
        str_append_format(&run->result->report, "      %.*s\n", len, lines);
        lines += len + (end != NULL);
    }
    if (counts)
        run->result->n_differences += n;
    else
        run->result->n_pending += n;
}

/* A finding about the whole scenario: its server or its command. */
static void report_whole(struct run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void report_whole(struct run *run, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *reason = pending_reason(run, run->name);
    report(run, !reason, text, "", 1);
}

static void report_log(struct run *run)
{
    struct str log = {0};
    conform_process_output(&run->process, "err", LOG_SHOWN, &log);
    str_append_format(&run->result->report, "      its last words: %s\n", str_text(&log));
    str_free(&log);
}

/* ---- Steps ------------------------------------------------------------ */

/* The recorded response with what we answer otherwise on purpose; owned. */
static json_t *expected_response(const struct run *run, const json_t *step, const char *label)
{
    json_t *expected = json_copy(json_object_get(step, "response"));
    const char *number = strchr(label, '/') + 1;
    for (size_t i = 0; i < json_array_size(run->settings->by_design); i++) {
        const json_t *entry = json_array_get(run->settings->by_design, i);
        const char *scenario = json_string_value(json_object_get(entry, "scenario"));
        const char *at = json_string_value(json_object_get(entry, "step"));
        json_t *response = json_object_get(entry, "response");
        if (!scenario || !at || strcmp(scenario, run->name) != 0 || strcmp(at, number) != 0)
            continue;
        /* Another kind of body stands for the recorded one. */
        if (json_object_get(response, "json") || json_object_get(response, "text") ||
            json_object_get(response, "events")) {
            json_object_del(expected, "json");
            json_object_del(expected, "text");
            json_object_del(expected, "events");
        }
        json_object_update(expected, response);
    }
    return expected;
}

static void heading_of(const char *label, const json_t *request, char out[256])
{
    snprintf(out, 256, "step %s: %s %s", strchr(label, '/') + 1,
             json_string_value(json_object_get(request, "method")),
             json_string_value(json_object_get(request, "path")));
}

static void judge_step(struct run *run, const json_t *step, const char *label, bool parallel,
                       const json_t *got, const struct error *err)
{
    struct comparison c = {.ignore_slots = parallel, .numerics = run->numerics};
    json_t *expected = expected_response(run, step, label);
    if (got)
        compare_response(&c, expected, got);
    else
        differ(&c, "%s", err->message);
    const char *reason = pending_reason(run, label);
    const char *whole = pending_reason(run, run->name);
    char heading[256], text[512];
    heading_of(label, json_object_get(step, "request"), heading);
    if (reason && c.n == 0) {
        snprintf(text, sizeof text,
                 "%s: is listed as pending (%s) and passes; take it off the list", heading, reason);
        report(run, true, text, "", 1);
    } else if (c.n > 0) {
        snprintf(text, sizeof text, "%s%s%s", heading, reason || whole ? "; pending: " : "",
                 reason  ? reason
                 : whole ? whole
                         : "");
        report(run, !reason && !whole, text, str_text(&c.lines), c.n);
    }
    comparison_free(&c);
    json_decref(expected);
}

static json_t *record_step(const json_t *step, const json_t *got)
{
    json_t *recorded = json_copy((json_t *)(uintptr_t)step);
    json_t *response = json_deep_copy(got);
    conform_forget_varying(response, json_object_get(json_object_get(step, "request"), "keep"));
    json_object_set_new(recorded, "response", response);
    return recorded;
}

/* One request, perhaps on a thread of its own. */
struct exchange {
    const char *url;
    const json_t *request;
    json_t *got;
    struct error err;
};

static void *send_it(void *arg)
{
    struct exchange *exchange = arg;
    exchange->got = conform_send(exchange->url, exchange->request, &exchange->err);
    return NULL;
}

static json_t *finish_step(struct run *run, const json_t *step, const char *label, bool parallel,
                           struct exchange *exchange)
{
    json_t *recorded = NULL;
    if (!run->settings->record)
        judge_step(run, step, label, parallel, exchange->got, &exchange->err);
    else if (exchange->got)
        recorded = record_step(step, exchange->got);
    else
        report_whole(run, "step %s: %s", label, exchange->err.message);
    json_decref(exchange->got);
    return recorded;
}

static void run_parallel(struct run *run, const json_t *steps, size_t number)
{
    struct exchange exchanges[PARALLEL_MAX] = {0};
    pthread_t threads[PARALLEL_MAX];
    bool started[PARALLEL_MAX];
    size_t n = json_array_size(steps) < PARALLEL_MAX ? json_array_size(steps) : PARALLEL_MAX;
    json_t *recorded = json_array();
    for (size_t i = 0; i < n; i++) {
        exchanges[i].url = run->url;
        exchanges[i].request = json_object_get(json_array_get(steps, i), "request");
        started[i] = pthread_create(&threads[i], NULL, send_it, &exchanges[i]) == 0;
    }
    for (size_t i = 0; i < n; i++) {
        char label[128];
        snprintf(label, sizeof label, "%s/%zu.%zu", run->name, number, i + 1);
        if (started[i])
            pthread_join(threads[i], NULL);
        else
            send_it(&exchanges[i]);
        json_t *step = finish_step(run, json_array_get(steps, i), label, true, &exchanges[i]);
        if (step)
            json_array_append_new(recorded, step);
    }
    json_array_append_new(run->recorded_steps, json_pack("{s:o}", "parallel", recorded));
}

static void run_steps(struct run *run)
{
    const json_t *steps = json_object_get(run->scenario, "steps");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        const json_t *parallel = json_object_get(step, "parallel");
        char label[128];
        if (parallel) {
            run_parallel(run, parallel, i + 1);
        } else {
            struct exchange exchange = {.url = run->url,
                                        .request = json_object_get(step, "request")};
            snprintf(label, sizeof label, "%s/%zu", run->name, i + 1);
            send_it(&exchange);
            json_t *recorded = finish_step(run, step, label, false, &exchange);
            if (recorded)
                json_array_append_new(run->recorded_steps, recorded);
        }
        if (!run->settings->url && !conform_process_is_running(&run->process)) {
            report_whole(run, "the server died (exit code %d) at or after step %zu",
                         run->process.exit_code, i + 1);
            report_log(run);
            return;
        }
    }
}

/* ---- Kinds of scenarios ----------------------------------------------- */

/* Quantized weights or a quantized cache: then arithmetic may differ. */
static enum numerics_rule numerics_of(const struct run *run)
{
    static const char *const plain_caches[] = {"f32", "f16", "bf16"};
    const json_t *args = json_object_get(run->scenario, "args");
    enum numerics_rule rule = NUMERICS_EXACT;
    for (size_t i = 0; i + 1 < json_array_size(args); i++) {
        const char *name = json_string_value(json_array_get(args, i));
        const char *value = json_string_value(json_array_get(args, i + 1));
        if (strncmp(name, "-ctk", 4) == 0 || strncmp(name, "-ctv", 4) == 0) {
            bool plain = false;
            for (size_t k = 0; k < sizeof plain_caches / sizeof *plain_caches; k++)
                plain = plain || strcmp(value, plain_caches[k]) == 0;
            if (!plain)
                rule = NUMERICS_QUANTIZED;
        } else if (strcmp(name, "-m") == 0 && strncmp(value, "{M}", 3) == 0) {
            char *path = text_format("%s%s", run->settings->models, value + 3);
            struct model_file *file = NULL;
            if (path && model_file_open(path, NULL, &file, NULL))
                for (size_t k = 0; k < model_file_n_tensors(file); k++)
                    if (model_file_tensor_at(file, k)->dtype != DTYPE_F32)
                        rule = NUMERICS_QUANTIZED;
            model_file_close(file);
            free(path);
        }
    }
    return rule;
}

static bool start(struct run *run)
{
    struct error err = {0};
    if (conform_process_prepare(&run->process, run->scenario, &err) &&
        conform_process_start(&run->process, run->settings->server, run->settings->models,
                              run->scenario, &err)) {
        snprintf(run->url, sizeof run->url, "http://127.0.0.1:%d", run->process.port);
        return true;
    }
    report_whole(run, "%s", err.message);
    return false;
}

static bool wait_until_ready(struct run *run)
{
    const char *ready = json_string_value(json_object_get(run->scenario, "ready"));
    uint64_t end = clock_monotonic_us() + (uint64_t)START_TIMEOUT_MS * 1000;
    while (conform_process_is_running(&run->process)) {
        if (conform_probe(run->url, ready ? ready : "/health") == 200)
            return true;
        if (clock_monotonic_us() > end) {
            report_whole(run, "the server is not ready after %d s", START_TIMEOUT_MS / 1000);
            report_log(run);
            return false;
        }
        clock_sleep_ms(10);
    }
    report_whole(run, "the server did not start (exit code %d)", run->process.exit_code);
    report_log(run);
    return false;
}

static void run_served(struct run *run)
{
    if (!start(run) || !wait_until_ready(run))
        return;
    run_steps(run);
    if (!conform_process_is_running(&run->process))
        return;
    conform_process_stop(&run->process);
    if (run->process.exit_code != 0) {
        report_whole(run, "asked to stop, the server ended with exit code %d",
                     run->process.exit_code);
        report_log(run);
    }
}

/* Ended with a failure and said nothing: nobody could mend that. */
static void check_words(struct run *run)
{
    struct str out = {0}, log = {0};
    const char *recorded = json_string_value(json_object_get(run->scenario, "stdout"));
    conform_process_output(&run->process, "out", LOG_SHOWN, &out);
    conform_process_output(&run->process, "err", LOG_SHOWN, &log);
    if (run->process.exit_code != 0 && log.len == 0)
        report_whole(run, "failed without a word on standard error");
    if (run->process.exit_code == 0 && recorded && *recorded && out.len == 0)
        report_whole(run, "printed nothing on standard output");
    str_free(&out);
    str_free(&log);
}

/* How a command ends: as recorded, or as by_design has it (step "end"). */
static const json_t *expected_end(const struct run *run)
{
    size_t i;
    json_t *entry;
    json_array_foreach((json_t *)(uintptr_t)run->settings->by_design, i, entry)
    {
        const char *scenario = json_string_value(json_object_get(entry, "scenario"));
        const char *step = json_string_value(json_object_get(entry, "step"));
        if (scenario && step && strcmp(scenario, run->name) == 0 && strcmp(step, "end") == 0)
            return json_object_get(json_object_get(entry, "response"), "exit_code");
    }
    return json_object_get(run->scenario, "exit_code");
}

/* A command, or a server that must refuse to start. */
static void run_to_its_end(struct run *run)
{
    const json_t *expected = expected_end(run);
    if (!start(run))
        return;
    bool to_serve = json_is_string(expected);
    bool ended = conform_process_wait(&run->process, to_serve ? STARTED_AFTER_MS : CLI_TIMEOUT_MS);
    if (to_serve && ended) {
        report_whole(run, "expected to go on to serve, ended with exit code %d",
                     run->process.exit_code);
        report_log(run);
    } else if (!to_serve && !ended) {
        report_whole(run, "expected exit code %d, still runs", (int)json_integer_value(expected));
    } else if (ended && run->process.exit_code != (int)json_integer_value(expected)) {
        report_whole(run, "expected exit code %d, got %d", (int)json_integer_value(expected),
                     run->process.exit_code);
        report_log(run);
    } else if (ended) {
        check_words(run);
    }
    conform_process_stop(&run->process);
}

/* A command's recording is what it printed and how it ended. */
static void record_end(struct run *run)
{
    struct str out = {0}, log = {0};
    if (!start(run))
        return;
    bool ended = conform_process_wait(&run->process, STARTED_AFTER_MS);
    conform_process_stop(&run->process);
    conform_process_output(&run->process, "out", LOG_SHOWN, &out);
    conform_process_output(&run->process, "err", LOG_SHOWN, &log);
    json_object_set_new(run->result->recorded, "exit_code",
                        ended ? json_integer(run->process.exit_code) : json_string("started"));
    json_object_set_new(run->result->recorded, "stdout", json_string_from(str_slice(&out)));
    json_object_set_new(run->result->recorded, "stderr", json_string_from(str_slice(&log)));
    str_free(&out);
    str_free(&log);
}

static void settle(struct run *run)
{
    struct conform_result *result = run->result;
    const char *reason = pending_reason(run, run->name);
    if (reason && result->n_differences == 0 && result->n_pending == 0 && !run->settings->record)
        report(run, true, "is listed as pending and passes; take it off the list", reason, 1);
    result->outcome = result->n_differences ? CONFORM_FAILED
                      : result->n_pending   ? CONFORM_PENDING
                                            : CONFORM_PASSED;
}

void conform_run(const struct conform_settings *settings, const json_t *scenario, bool numerics,
                 struct conform_result *result)
{
    uint64_t begin = clock_monotonic_us();
    struct run run = {.settings = settings,
                      .scenario = scenario,
                      .name = json_string_value(json_object_get(scenario, "name")),
                      .result = result,
                      .recorded_steps = json_array()};
    *result = (struct conform_result){0};
    bool to_its_end = json_is_true(json_object_get(scenario, "cli")) ||
                      json_is_true(json_object_get(scenario, "failed_to_start"));
    if (settings->record)
        result->recorded = json_copy((json_t *)(uintptr_t)scenario);
    if (numerics)
        run.numerics = numerics_of(&run);
    if (settings->url && to_its_end) {
        result->outcome = CONFORM_SKIPPED;
    } else {
        if (settings->url) {
            snprintf(run.url, sizeof run.url, "%s", settings->url);
            run_steps(&run);
        } else if (!to_its_end) {
            run_served(&run);
        } else if (settings->record) {
            record_end(&run);
        } else {
            run_to_its_end(&run);
        }
        settle(&run);
    }
    if (settings->record)
        json_object_set(result->recorded, "steps", run.recorded_steps);
    conform_process_stop(&run.process);
    conform_process_free(&run.process);
    json_decref(run.recorded_steps);
    result->seconds = (double)(clock_monotonic_us() - begin) / 1e6;
}
