/* conform_run_test.c - the harness itself: what it sends, how it reads answers,
 * and how it counts what is pending or meant. */
#define _GNU_SOURCE /* strcasestr, for loopback.h */
#include "unit/unit.h"

#include "cmd/conform_scenario.h"
#include "unit/loopback.h"

#include <string.h>

/* Echo the request; /events streams, /text is text. */
static void answer(void *arg, const char *head, struct slice body, struct str *out)
{
    (void)arg;
    if (strncmp(head, "GET /events", 11) == 0) {
        str_append_text(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                             ": ping\n\ndata: {\"a\":1}\n\nevent: end\ndata: [DONE]\n\n");
        return;
    }
    json_t *echo = json_object();
    char line[128];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(head, "\r"), head);
    json_object_set_new(echo, "line", json_string(line));
    json_object_set_new(echo, "typed",
                        json_boolean(strcasestr(head, "content-type: application/json") != NULL));
    json_object_set_new(
        echo, "form", json_boolean(strcasestr(head, "content-type: multipart/form-data") != NULL));
    json_object_set_new(echo, "named", json_boolean(strcasestr(head, "x-name: v") != NULL));
    struct str hex = {0};
    for (size_t i = 0; i < body.len && i < 16; i++)
        str_append_format(&hex, "%02x", (unsigned char)body.data[i]);
    json_object_set_new(echo, "body", json_string(str_text(&hex)));
    str_free(&hex);
    struct str text = {0};
    json_append(&text, echo);
    json_decref(echo);
    str_append_format(out,
                      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                      "Access-Control-Allow-Origin: *\r\nContent-Length: %zu\r\n\r\n%s",
                      text.len, str_text(&text));
    str_free(&text);
}

/* Run a scenario given as JSON against the echoing server. */
static void run(struct conform_settings *settings, const char *scenario,
                struct conform_result *result)
{
    struct loopback server;
    json_t *value = json_parse(slice_of(scenario), NULL);
    assert_non_null(value);
    loopback_start(&server, answer, NULL);
    settings->url = server.url;
    settings->models = "";
    conform_run(settings, value, false, result);
    loopback_stop(&server);
    json_decref(value);
}

#define ECHO(line, typed, form, named, body)                                                       \
    "\"response\":{\"status\":200,\"headers\":{\"access-control-allow-origin\":\"*\"},\"json\":{"  \
    "\"line\":\"" line "\",\"typed\":" typed ",\"form\":" form ",\"named\":" named                 \
    ",\"body\":\"" body "\"}}"

static void requests_go_out_as_recorded(void **state)
{
    (void)state;
    struct conform_settings settings = {0};
    struct conform_result result;
    run(&settings,
        "{\"name\":\"s\",\"steps\":["
        "{\"request\":{\"method\":\"POST\",\"path\":\"/a\",\"json\":{\"k\":1}}," ECHO(
            "POST /a HTTP/1.1", "true", "false", "false",
            "7b226b223a317d") "},"
                              "{\"request\":{\"method\":\"POST\",\"path\":\"/"
                              "b\",\"body\":\"{\"}," ECHO(
                                  "POST /b HTTP/1.1", "true", "false", "false",
                                  "7b") "},"
                                        "{\"request\":{\"method\":\"POST\",\"path\":\"/"
                                        "c\",\"body_latin1\":\"\xC3\xBF\xC2\x80z\"}," ECHO(
                                            "POST /c HTTP/1.1", "true", "false", "false",
                                            "ff807a") "},"
                                                      "{\"request\":{\"method\":\"GET\",\"path\":"
                                                      "\"/../"
                                                      "d\",\"headers\":{\"X-Name\":\"v\"}}," ECHO(
                                                          "GET /../d HTTP/1.1", "false", "false",
                                                          "true",
                                                          "") "},"
                                                              "{\"request\":{\"method\":\"DELETE\","
                                                              "\"path\":\"/e?x=1\"}," ECHO(
                                                                  "DELETE /e?x=1 HTTP/1.1", "false",
                                                                  "false", "false",
                                                                  "") "},"
                                                                      "{\"request\":{\"method\":"
                                                                      "\"GET\",\"path\":\"/"
                                                                      "events\"},\"response\":{"
                                                                      "\"status\":200,"
                                                                      "\"events\":[{\"data\":{"
                                                                      "\"a\":1}},{\"event\":"
                                                                      "\"end\",\"data_text\":\"["
                                                                      "DONE]\"}]}}]}",
        &result);
    if (result.outcome != CONFORM_PASSED)
        fail_msg("%s", str_text(&result.report));
    str_free(&result.report);
}

static void forms_are_sent_as_multipart(void **state)
{
    (void)state;
    struct conform_settings settings = {0};
    struct conform_result result;
    run(&settings,
        "{\"name\":\"s\",\"steps\":[{\"request\":{\"method\":\"POST\",\"path\":\"/f\",\"form\":"
        "{\"a\":\"1\",\"file\":{\"content\":\"x\",\"filename\":\"y.wav\"}}},"
        "\"response\":{\"status\":200,\"json\":{\"line\":{\"$any\":\"string\"},\"typed\":false,"
        "\"form\":true,\"named\":false,\"body\":{\"$any\":\"string\"}}}}]}",
        &result);
    /* the header is not recorded here, so an unexpected one is not looked at */
    if (result.outcome != CONFORM_PASSED)
        fail_msg("%s", str_text(&result.report));
    str_free(&result.report);
}

static const char two_steps[] =
    "{\"name\":\"s\",\"steps\":["
    "{\"request\":{\"method\":\"GET\",\"path\":\"/x\"},\"response\":{\"status\":200}},"
    "{\"parallel\":[{\"request\":{\"method\":\"GET\",\"path\":\"/"
    "x\"},\"response\":{\"status\":404}},"
    "{\"request\":{\"method\":\"GET\",\"path\":\"/x\"},\"response\":{\"status\":200}}]}]}";

static void a_difference_fails_and_is_shown_with_its_step(void **state)
{
    (void)state;
    struct conform_settings settings = {0};
    struct conform_result result;
    run(&settings, two_steps, &result);
    assert_int_equal(result.outcome, CONFORM_FAILED);
    assert_int_equal(result.n_differences, 1);
    assert_non_null(strstr(str_text(&result.report), "step 2.1: GET /x"));
    assert_non_null(strstr(str_text(&result.report), "status: expected 404, got 200"));
    str_free(&result.report);
}

static void what_is_pending_may_differ_but_must_not_pass(void **state)
{
    (void)state;
    struct conform_result result;
    json_t *step = json_pack("{s:s}", "s/2.1", "not yet");
    json_t *whole = json_pack("{s:s}", "s", "not yet");
    json_t *wrong = json_pack("{s:s, s:s}", "s/1", "not yet", "s/2.1", "not yet");
    struct conform_settings settings = {.pending = step};
    run(&settings, two_steps, &result);
    assert_int_equal(result.outcome, CONFORM_PENDING);
    str_free(&result.report);
    settings.pending = whole;
    run(&settings, two_steps, &result);
    assert_int_equal(result.outcome, CONFORM_PENDING);
    str_free(&result.report);
    settings.pending = wrong;
    run(&settings, two_steps, &result);
    assert_int_equal(result.outcome, CONFORM_FAILED);
    assert_non_null(strstr(str_text(&result.report), "take it off the list"));
    str_free(&result.report);
    settings.pending = whole;
    run(&settings,
        "{\"name\":\"s\",\"steps\":[{\"request\":{\"method\":\"GET\",\"path\":\"/x\"},"
        "\"response\":{\"status\":200}}]}",
        &result);
    assert_int_equal(result.outcome, CONFORM_FAILED);
    str_free(&result.report);
    json_decref(step);
    json_decref(whole);
    json_decref(wrong);
}

static void what_differs_by_design_is_pinned(void **state)
{
    (void)state;
    struct conform_result result;
    json_t *by_design = json_pack("[{s:s, s:s, s:s, s:{s:i}}]", "scenario", "s", "step", "2.1",
                                  "reason", "better", "response", "status", 200);
    struct conform_settings settings = {.by_design = by_design};
    run(&settings, two_steps, &result);
    assert_int_equal(result.outcome, CONFORM_PASSED);
    str_free(&result.report);
    json_decref(by_design);
}

static void a_recording_forgets_what_varies(void **state)
{
    (void)state;
    struct conform_settings settings = {.record = true};
    struct conform_result result;
    run(&settings,
        "{\"name\":\"s\",\"steps\":[{\"request\":{\"method\":\"GET\",\"path\":\"/events\"}}]}",
        &result);
    const json_t *step = json_array_get(json_object_get(result.recorded, "steps"), 0);
    const json_t *response = json_object_get(step, "response");
    assert_int_equal(json_integer_value(json_object_get(response, "status")), 200);
    assert_int_equal(json_array_size(json_object_get(response, "events")), 2);
    str_free(&result.report);
    json_decref(result.recorded);
}

/* A command run to its end, as a shell script in place of the server. */
static enum conform_outcome outcome_of(const char *script, const char *scenario)
{
    char path[] = "/tmp/mlxcel-script-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd, "#!/bin/sh\n%s\n", script);
    fchmod(fd, 0700);
    close(fd);
    struct conform_settings settings = {.server = path, .models = "/models"};
    struct conform_result result;
    json_t *value = json_parse(slice_of(scenario), NULL);
    conform_run(&settings, value, false, &result);
    json_decref(value);
    str_free(&result.report);
    unlink(path);
    return result.outcome;
}

static void commands_agree_in_their_exit_code_and_that_they_explain(void **state)
{
    (void)state;
    static const char one[] = "{\"name\":\"c\",\"cli\":true,\"args\":[\"-m\",\"{M}/x\",\"{T}/f\"],"
                              "\"env\":{\"A\":\"{PORT}\"},\"files\":{\"f\":\"text\"},"
                              "\"exit_code\":1,\"stdout\":\"\"}";
    assert_int_equal(outcome_of("echo no >&2; exit 1", one), CONFORM_PASSED);
    assert_int_equal(outcome_of("exit 1", one), CONFORM_FAILED);
    assert_int_equal(outcome_of("echo no >&2; exit 2", one), CONFORM_FAILED);
    /* place-holders are filled in, files are there */
    assert_int_equal(outcome_of("test \"$2\" = /models/x && test \"$(cat $3)\" = text && "
                                "test \"$A\" -gt 0 && echo no >&2 && exit 1",
                                one),
                     CONFORM_PASSED);
    assert_int_equal(outcome_of("exit 0", "{\"name\":\"c\",\"failed_to_start\":true,\"args\":[],"
                                          "\"exit_code\":1}"),
                     CONFORM_FAILED);
    assert_int_equal(outcome_of("exec sleep 20", "{\"name\":\"c\",\"cli\":true,\"args\":[],"
                                                 "\"exit_code\":\"started\"}"),
                     CONFORM_PASSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_go_out_as_recorded),
        cmocka_unit_test(forms_are_sent_as_multipart),
        cmocka_unit_test(a_difference_fails_and_is_shown_with_its_step),
        cmocka_unit_test(what_is_pending_may_differ_but_must_not_pass),
        cmocka_unit_test(what_differs_by_design_is_pinned),
        cmocka_unit_test(a_recording_forgets_what_varies),
        cmocka_unit_test(commands_agree_in_their_exit_code_and_that_they_explain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
