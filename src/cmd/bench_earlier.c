/* bench_earlier.c - finding in an earlier output what is measured now. */
#include "cmd/bench_earlier.h"

#include "base/json.h"

#include <string.h>

static bool has_text(const json_t *object, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(object, key));
    return found && strcmp(found, text) == 0;
}

static const json_t *run_of(const json_t *file, const char *model)
{
    if (json_is_object(file))
        return file;
    for (size_t i = 0; i < json_array_size(file); i++)
        if (has_text(json_array_get(file, i), "model", model))
            return json_array_get(file, i);
    return NULL;
}

bool bench_earlier(const char *path, const char *model, const char *test, int32_t depth,
                   int32_t clients, double *speed, struct error *err)
{
    json_t *file = json_parse_file(path, err);
    if (!file)
        return false;
    const json_t *results = json_object_get(run_of(file, model), "results");
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *then = json_array_get(results, i);
        if (has_text(then, "test", test) &&
            json_integer_value(json_object_get(then, "depth")) == depth &&
            json_integer_value(json_object_get(then, "clients")) == clients)
            *speed = json_number_value(json_object_get(then, "tokens_per_second"));
    }
    json_decref(file);
    return true;
}
