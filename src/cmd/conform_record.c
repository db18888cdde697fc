/* conform_record.c - making an answer fit to be compared with later ones. */
#include "cmd/conform_record.h"

#include <string.h>

/* Keys whose values vary from run to run, and of which type they are then. */
static const struct {
    const char *key, *type;
} varying[] = {
    {"build_info", "string"},
    {"completed_at", "number"},
    {"created", "number"},
    {"created_at", "number"},
    {"digest", "string"},
    {"id", "string"},
    {"item_id", "string"},
    {"media_marker", "string"},
    {"model", "string"},
    {"model_path", "string"},
    {"modified_at", "string"},
    {"name", "string"},
    {"predicted_ms", "number"},
    {"predicted_per_second", "number"},
    {"predicted_per_token_ms", "number"},
    {"prompt_ms", "number"},
    {"prompt_per_second", "number"},
    {"prompt_per_token_ms", "number"},
    {"restore_ms", "number"},
    {"save_ms", "number"},
    {"started_at", "number"},
    {"system_fingerprint", "string"},
    {"time_ms", "number"},
    {"total_bytes", "number"},
};

static bool is_kept(const json_t *keep, const char *key)
{
    for (size_t i = 0; i < json_array_size(keep); i++)
        if (strcmp(json_string_value(json_array_get(keep, i)), key) == 0)
            return true;
    return false;
}

/* The type to write instead of the value; NULL for a value that stays. */
static const char *varies(const char *key, const json_t *value)
{
    for (size_t i = 0; i < sizeof varying / sizeof *varying; i++) {
        bool fits =
            strcmp(varying[i].type, "number") == 0 ? json_is_number(value) : json_is_string(value);
        if (fits && strcmp(varying[i].key, key) == 0)
            return varying[i].type;
    }
    return NULL;
}

void conform_forget_varying(json_t *response, const json_t *keep)
{
    for (size_t i = 0; i < json_array_size(response); i++)
        conform_forget_varying(json_array_get(response, i), keep);
    if (!json_is_object(response))
        return;
    const char *key;
    json_t *value;
    json_object_foreach(response, key, value)
    {
        const char *type = is_kept(keep, key) ? NULL : varies(key, value);
        if (type)
            json_object_set_new(response, key, json_pack("{s:s}", "$any", type));
        else
            conform_forget_varying(value, keep);
    }
}
