/* Every template renders every conversation as it was recorded. */
#include "chat/chat.h"
#include "unit/chat/helpers.h"

#include <stdlib.h>

/* A recorded error is cut off; what it has must be how ours begins. */
static bool same_error(const json_t *expected, const struct error *err)
{
    struct slice text = json_slice(json_object_get(expected, "error"));
    return slice_starts_with(slice_of(err->message), text);
}

static bool renders(const struct chat_templates *templates, const json_t *body,
                    const json_t *expected, int64_t now, const char *what)
{
    struct chat_defaults defaults = {.reasoning_format = CHAT_REASONING_AUTO,
                                     .enable_thinking = chat_templates_support_thinking(templates),
                                     .prefill_assistant = true};
    struct chat_request request;
    struct chat_prompt prompt = {0};
    struct error err = {0};
    bool ok = chat_request_parse(body, templates, &defaults, &request, &err);
    if (ok) {
        request.now = now;
        ok = chat_apply(templates, &request, &prompt, &err);
        chat_request_free(&request);
    }
    bool same = json_is_string(expected)
                    ? ok && slice_equal(str_slice(&prompt.text), json_slice(expected))
                    : !ok && same_error(expected, &err);
    if (!same)
        print_error("%s\n--- expected\n%s\n--- got (%s)\n%s\n", what,
                    json_is_string(expected)
                        ? json_string_value(expected)
                        : json_string_value(json_object_get(expected, "error")),
                    ok ? "rendered" : "error", ok ? str_text(&prompt.text) : err.message);
    chat_prompt_free(&prompt);
    return same;
}

static void every_template_renders_every_conversation_as_recorded(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    char path[1024];
    struct error err = {0};
    json_t *all = json_parse_file(shared_template(path, folder, "renderings.json"), &err);
    assert_non_null(all);
    const char *name, *which;
    json_t *recorded, *expected;
    int failed = 0, n = 0;
    setenv("TZ", "UTC", 1);
    json_object_foreach(json_object_get(all, "rendered"), name, recorded)
    {
        struct chat_templates *templates = load_template(folder, name);
        if (!templates) {
            failed++;
            continue;
        }
        struct chat_caps caps = chat_templates_caps(templates);
        json_t *found = chat_caps_to_json(&caps);
        if (!json_equal(found, json_object_get(recorded, "caps"))) {
            char *a = json_dumps(found, JSON_SORT_KEYS),
                 *b = json_dumps(json_object_get(recorded, "caps"), JSON_SORT_KEYS);
            print_error("%s: caps\n  expected %s\n  got      %s\n", name, b, a);
            free(a);
            free(b);
            failed++;
        }
        json_decref(found);
        json_object_foreach(json_object_get(recorded, "prompts"), which, expected)
        {
            char what[256];
            snprintf(what, sizeof what, "%s, %s", name, which);
            n++;
            failed += !renders(templates, json_object_get(json_object_get(all, "cases"), which),
                               expected, 1768478400, what);
        }
        chat_templates_free(templates);
    }
    json_decref(all);
    assert_true(n > 900);
    assert_int_equal(failed, 0);
}

/* A marker: '<', then what holds no space, quote or angle, then '>'. Some
 * templates write a tool's schema as XML; its keys are none. */
static size_t marker_len(const char *text)
{
    static const char *const keys[] = {"<minimum>", "</minimum>", "<required>", "</required>"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strncmp(text, keys[i], strlen(keys[i])) == 0)
            return 0;
    size_t n = text[0] == '<' ? 1 + strcspn(text + 1, "<> \n\"'") : 0;
    return n && text[n] == '>' ? n + 1 : 0;
}

static int n_cut_markers(const struct chat_prompt *prompt, const char *what)
{
    int n = 0;
    const char *text = str_text(&prompt->text);
    for (size_t i = 0, r = 0; i < prompt->text.len; i++) {
        size_t end = i + marker_len(text + i);
        while (r < prompt->n_user && prompt->user[r].end <= i)
            r++;
        if (r < prompt->n_user && prompt->user[r].begin < end &&
            (prompt->user[r].begin > i || prompt->user[r].end < end)) {
            print_error("%s: %.*s\n", what, (int)(end - i), text + i);
            n++;
        }
    }
    return n;
}

static void no_template_builds_its_markers_of_what_users_wrote(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    char path[1024];
    struct error err = {0};
    json_t *all = json_parse_file(shared_template(path, folder, "renderings.json"), &err);
    assert_non_null(all);
    const char *name, *which;
    json_t *recorded, *body;
    int cut = 0;
    json_object_foreach(json_object_get(all, "rendered"), name, recorded)
    {
        struct chat_templates *templates = load_template(folder, name);
        assert_non_null(templates);
        json_object_foreach(json_object_get(all, "cases"), which, body)
        {
            struct chat_defaults defaults = {.prefill_assistant = true};
            struct chat_request request;
            struct chat_prompt prompt = {0};
            char what[256];
            snprintf(what, sizeof what, "%s, %s", name, which);
            if (chat_request_parse(body, templates, &defaults, &request, &err)) {
                if (chat_apply(templates, &request, &prompt, &err))
                    cut += n_cut_markers(&prompt, what);
                chat_request_free(&request);
            }
            chat_prompt_free(&prompt);
        }
        chat_templates_free(templates);
    }
    json_decref(all);
    assert_int_equal(cut, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_template_renders_every_conversation_as_recorded),
        cmocka_unit_test(no_template_builds_its_markers_of_what_users_wrote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
