/* body.c - reading JSON that a client sent. */
#include "api/internal.h"

#include <math.h>

/* The text fields of a form as an object; one that repeats becomes a list. */
static json_t *form_object(struct http_exchange *x)
{
    struct error err;
    const struct http_part *parts;
    size_t n;
    if (!http_form(x, &parts, &n, &err)) {
        reply_failure(x, FAIL_INVALID, err.message);
        return NULL;
    }
    json_t *object = json_object();
    for (size_t i = 0; i < n && object; i++) {
        if (parts[i].filename.data)
            continue;
        struct str name = {0};
        str_append_slice(&name, parts[i].name);
        json_t *value = json_string_from(parts[i].data);
        json_t *earlier = json_object_get(object, str_text(&name));
        if (json_is_array(earlier)) {
            push(earlier, value);
        } else if (earlier) {
            json_t *list = json_array();
            json_array_append(list, earlier);
            push(list, value);
            put(object, str_text(&name), list);
        } else {
            put(object, str_text(&name), value);
        }
        str_free(&name);
    }
    return object;
}

json_t *body_json(struct http_exchange *x)
{
    struct error err;
    if (request_is_unwanted(x)) { /* it may have waited long for its turn */
        request_end_unwanted(x);
        return NULL;
    }
    if (http_is_form(x))
        return form_object(x);
    struct json_cost cost = {0};
    json_t *value = json_parse_within(http_body(x), &body_limits, &cost, &err);
    if (!value) {
        if (err.code == ERR_FORMAT)
            error_prefix(&err, slice_starts_with(http_body(x), SLICE("\xEF\xBB\xBF"))
                                   ? "request body is not valid JSON: it begins with a byte order "
                                     "mark; send UTF-8 without one"
                                   : "request body is not valid JSON");
        reply_error(x, &err);
    }
    return value;
}

json_t *body_object(struct http_exchange *x)
{
    json_t *value = body_json(x);
    if (value && !json_is_object(value)) {
        struct str message = {0};
        str_append_format(&message, "the request's body must be a JSON object, but is %s",
                          json_type_name(value));
        reply_failure(x, FAIL_INVALID, str_text(&message));
        str_free(&message);
        json_decref(value);
        return NULL;
    }
    return value;
}

json_t *member(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

struct slice member_text(const json_t *object, const char *name)
{
    return json_slice(json_object_get(object, name));
}

bool member_bool(const json_t *object, const char *name, bool fallback)
{
    const json_t *value = json_object_get(object, name);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

int64_t member_integer(const json_t *object, const char *name, int64_t fallback)
{
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value))
        return json_integer_value(value);
    if (json_is_real(value) && fabs(json_real_value(value)) < 9e18)
        return (int64_t)json_real_value(value);
    if (json_is_boolean(value))
        return json_is_true(value);
    return fallback;
}

const char *json_type_name(const json_t *value)
{
    if (!value || json_is_null(value))
        return "null";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "number";
    default:
        return "boolean";
    }
}

bool put(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

bool push(json_t *array, json_t *value)
{
    return json_array_append_new(array, value) == 0;
}
