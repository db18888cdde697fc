/* fuzz_jinja.c - any template with any variables: refused or rendered, within
 * its limits. The input is a template, a zero byte, and a JSON object. */
#include "chat/jinja.h"

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
    struct jinja_run *run = jinja_run_create(t, 0, size % 2, &limits);
    struct jinja_output out = {0};
    const char *key;
    json_t *value;
    json_object_foreach(variables, key, value)
    {
        jinja_set(run, key, jinja_from_json(run, value, true));
    }
    if (jinja_render(run, &out, &err))
        for (size_t i = 0; i < out.n_spans; i++)
            if (out.spans[i].begin >= out.spans[i].end || out.spans[i].end > out.text.len ||
                (i && out.spans[i].begin < out.spans[i - 1].end))
                __builtin_trap();
    jinja_output_free(&out);
    jinja_run_free(run);
    jinja_template_free(t);
    json_decref(variables);
    return 0;
}
