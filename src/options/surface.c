/* surface.c - the table as JSON, for the manifest check. */
#include "options/table.h"

static const char *const states[] = {
    [STATE_SERVED] = "served",
    [STATE_ALIASED] = "aliased",
    [STATE_NOT_APPLICABLE] = "not_applicable",
    [STATE_DEFERRED] = "deferred",
    [STATE_BY_DESIGN] = "by_design",
};

static json_t *words_json(const char *a, const char *b)
{
    json_t *array = json_array();
    const char *lists[] = {a, b};
    struct slice word;
    for (size_t i = 0; i < 2; i++)
        for (const char *rest = lists[i]; next_word(&rest, &word);)
            json_array_append_new(array, json_string_from(word));
    return array;
}

static json_t *text_or_null(const char *text)
{
    return text ? json_string_from(slice_of(text)) : json_null();
}

static json_t *option_json(const struct option *o, enum option_section section)
{
    struct str value = {0};
    if (o->value)
        str_append_text(&value, o->value);
    if (o->value2)
        str_append_format(&value, " %s", o->value2);
    json_t *row = json_object();
    json_object_set_new(row, "id", json_string_from(option_id(o)));
    json_object_set_new(row, "section", json_string_from(slice_of(option_section_title(section))));
    json_object_set_new(row, "spellings", words_json(o->names, o->names_off));
    json_object_set_new(row, "value", o->value ? json_string_from(str_slice(&value)) : json_null());
    json_object_set_new(row, "env", text_or_null(o->env));
    json_object_set_new(row, "default", text_or_null(o->fallback));
    json_object_set_new(row, "removed", json_boolean(o->type == OPT_REMOVED));
    json_object_set_new(row, "deprecated", json_boolean(o->deprecated));
    json_object_set_new(row, "hidden", json_boolean(o->hidden));
    json_object_set_new(row, "state", json_string_from(slice_of(states[o->state])));
    json_object_set_new(row, "note", text_or_null(o->note));
    json_object_set_new(row, "inert", text_or_null(o->inert));
    str_free(&value);
    return row;
}

json_t *options_surface(void)
{
    json_t *options = json_array(), *environment = json_array();
    const struct option *o;
    for (size_t i = 0; (o = option_at(i)); i++) {
        json_array_append_new(options, option_json(o, option_section_of(i)));
        if (o->env)
            json_array_append_new(environment, json_string_from(slice_of(o->env)));
    }
    json_t *surface = json_object();
    json_object_set_new(surface, "options", options);
    json_object_set_new(surface, "environment", environment);
    return surface;
}
