/* fuzz_jinja.c - any template with any variables: refused or rendered, within
 * its limits. The input is a template, a zero byte, and a JSON object. */
#include "chat/jinja.h"

/* Rendering with one more variable and without at once gives for the latter what
 * it gives alone. */
static void check_both(const struct jinja_template *t, const json_t *variables,
                       const struct jinja_limits *limits, const struct jinja_output *alone)
{
    struct jinja_run *run = jinja_run_create(t, 0, false, limits, NULL);
    struct jinja_output with = {0}, without = {0};
    struct error err;
    const char *key;
    json_t *value;
    bool both = false;
    json_object_foreach((json_t *)variables, key, value)
    {
        jinja_set(run, key, jinja_from_json(run, value, true));
    }
    bool ok = jinja_render_both(run, "add_generation_prompt", jinja_bool(run, true), &with,
                                &without, &both, &err);
    if (ok && both && alone &&
        (!slice_equal(str_slice(&alone->text), str_slice(&without.text)) ||
         alone->n_spans != without.n_spans ||
         (alone->n_spans &&
          memcmp(alone->spans, without.spans, alone->n_spans * sizeof *alone->spans) != 0)))
        __builtin_trap();
    jinja_output_free(&with);
    jinja_output_free(&without);
    jinja_run_free(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char usual[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi \\u00e9\"},{\"role\":\"assistant\","
        "\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\",\"arguments\":"
        "{\"a\":[1,2.5,true]}}}]}],\"tools\":[{\"type\":\"function\"}],\"x\":3,\"s\":\"a b c\"}";
    const char *text = (const char *)data;
    const char *zero = size ? memchr(text, '\0', size) : NULL;
    struct slice source = {text, zero ? (size_t)(zero - text) : size};
    struct slice context =
        zero ? slice_from((struct slice){text, size}, source.len + 1) : SLICE(usual);
    struct jinja_template *t;
    struct error err;
    if (!jinja_parse(source, &t, &err))
        return 0;
    json_t *variables = json_parse(context, NULL);
    if (!json_is_object(variables)) {
        json_decref(variables);
        variables = json_parse(SLICE(usual), NULL);
    }
    const struct jinja_limits limits = {
        .steps = 20000, .memory = 16 << 20, .depth = 300, .time_ms = 500};
    struct jinja_run *run = jinja_run_create(t, 0, size % 2, &limits, NULL);
    struct jinja_output out = {0};
    const char *key;
    json_t *value;
    json_object_foreach(variables, key, value)
    {
        jinja_set(run, key, jinja_from_json(run, value, true));
    }
    bool rendered = jinja_render(run, &out, &err);
    if (rendered)
        for (size_t i = 0; i < out.n_spans; i++)
            if (out.spans[i].begin >= out.spans[i].end || out.spans[i].end > out.text.len ||
                (i && out.spans[i].begin < out.spans[i - 1].end))
                __builtin_trap();
    check_both(t, variables, &limits, rendered ? &out : NULL);
    jinja_output_free(&out);
    jinja_run_free(run);
    jinja_template_free(t);
    json_decref(variables);
    return 0;
}
