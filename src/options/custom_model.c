/* custom_model.c - options of model and context whose values want reading. */
#include "options/table.h"

#include <math.h>
#include <stdlib.h>

static void *field_of(struct option_parser *p, const struct option_use *use)
{
    return (char *)p->options + use->option->field;
}

/* Longest key and text of an override; as in the reference. */
enum { KV_TEXT_MAX = 127 };

static const char kv_form[] = "KEY=int:N, KEY=float:X, KEY=bool:true|false or KEY=str:TEXT";

static bool push_kv(struct options *o, const struct option_kv *kv)
{
    if (o->model.kv_overrides.n == o->model.kv_overrides.capacity) {
        size_t capacity = o->model.kv_overrides.capacity ? o->model.kv_overrides.capacity * 2 : 8;
        struct option_kv *data = arena_alloc_array(&o->arena, capacity, sizeof *data);
        if (!data)
            return false;
        if (o->model.kv_overrides.n)
            memcpy(data, o->model.kv_overrides.data, o->model.kv_overrides.n * sizeof *data);
        o->model.kv_overrides.data = data;
        o->model.kv_overrides.capacity = capacity;
    }
    o->model.kv_overrides.data[o->model.kv_overrides.n++] = *kv;
    return true;
}

static bool add_kv(struct option_parser *p, const struct option_use *use, struct slice item,
                   struct error *err)
{
    struct options *o = p->options;
    const char *equals = memchr(item.data, '=', item.len);
    if (!equals || equals == item.data || equals - item.data > KV_TEXT_MAX)
        return bad_value(use, err, kv_form);
    struct option_kv kv = {0};
    struct slice value = slice_from(item, (size_t)(equals - item.data) + 1);
    const char *colon = memchr(value.data, ':', value.len);
    if (!colon)
        return bad_value(use, err, kv_form);
    struct slice type = {value.data, (size_t)(colon - value.data)};
    kv.key = options_text(o, (struct slice){item.data, (size_t)(equals - item.data)});
    kv.text = options_text(o, slice_from(value, type.len + 1));
    if (!kv.key || !kv.text)
        return error_memory(err);
    char *end = NULL;
    bool ok = true;
    if (slice_equal_text(type, "int")) {
        kv.type = OPTION_KV_INT;
        kv.i64 = strtoll(kv.text, &end, 10);
    } else if (slice_equal_text(type, "float")) {
        kv.type = OPTION_KV_FLOAT;
        kv.f64 = strtod(kv.text, &end);
        ok = isfinite(kv.f64);
    } else if (slice_equal_text(type, "bool")) {
        kv.type = OPTION_KV_BOOL;
        kv.i64 = !strcmp(kv.text, "true");
        ok = kv.i64 || !strcmp(kv.text, "false");
    } else {
        kv.type = OPTION_KV_TEXT;
        ok = slice_equal_text(type, "str") && strlen(kv.text) <= KV_TEXT_MAX;
    }
    if (end)
        ok = ok && end != kv.text && *end == '\0';
    if (!ok)
        return bad_value(use, err, kv_form);
    return push_kv(o, &kv) || error_memory(err);
}

bool apply_override_kv(struct option_parser *p, const struct option_use *use, struct error *err)
{
    return csv_each(p, use, add_kv, err);
}

static bool push_control(struct options *o, struct slice path, float scale)
{
    if (o->model.controls.n == o->model.controls.capacity) {
        size_t capacity = o->model.controls.capacity ? o->model.controls.capacity * 2 : 4;
        struct option_control *data = arena_alloc_array(&o->arena, capacity, sizeof *data);
        if (!data)
            return false;
        if (o->model.controls.n)
            memcpy(data, o->model.controls.data, o->model.controls.n * sizeof *data);
        o->model.controls.data = data;
        o->model.controls.capacity = capacity;
    }
    const char *text = options_text(o, path);
    if (text)
        o->model.controls.data[o->model.controls.n++] = (struct option_control){text, scale};
    return text != NULL;
}

static bool add_control(struct option_parser *p, const struct option_use *use, struct slice item,
                        struct error *err)
{
    if (item.len == 0)
        return bad_value(use, err, "GGUF files of control vectors");
    return push_control(p->options, item, 1.0f) || error_memory(err);
}

bool apply_control(struct option_parser *p, const struct option_use *use, struct error *err)
{
    return csv_each(p, use, add_control, err);
}

static bool add_control_scaled(struct option_parser *p, const struct option_use *use,
                               struct slice item, struct error *err)
{
    const char *colon = memchr(item.data, ':', item.len);
    struct slice path = {item.data, colon ? (size_t)(colon - item.data) : 0};
    char *end, *number = colon ? slice_duplicate(slice_from(item, path.len + 1)) : NULL;
    float scale = number ? strtof(number, &end) : 0;
    bool ok = path.len && number && end != number && *end == '\0' && isfinite(scale);
    free(number);
    if (!ok)
        return bad_value(use, err, "FNAME:SCALE,...");
    return push_control(p->options, path, scale) || error_memory(err);
}

bool apply_control_scaled(struct option_parser *p, const struct option_use *use, struct error *err)
{
    return csv_each(p, use, add_control_scaled, err);
}

bool apply_control_range(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct option_use second = *use;
    int64_t first, last;
    second.value = use->value2;
    if (!read_int(use, INT32_MIN, INT32_MAX, &first, err) ||
        !read_int(&second, INT32_MIN, INT32_MAX, &last, err))
        return false;
    p->options->model.control_first = (int32_t)first;
    p->options->model.control_last = (int32_t)last;
    return true;
}

bool apply_load_switch(struct option_parser *p, const struct option_use *use, struct error *err)
{
    (void)err;
    *(int *)field_of(p, use) = use->on ? use->option->number : OPTION_LOAD_NONE;
    return true;
}

bool apply_cache_type(struct option_parser *p, const struct option_use *use, struct error *err)
{
    static const char *const types[] = {"f32",  "f16",    "bf16", "q8_0", "q4_0",
                                        "q4_1", "iq4_nl", "q5_0", "q5_1"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!strcmp(use->value, types[i])) {
            *(const char **)field_of(p, use) = types[i];
            return true;
        }
    }
    return bad_value(use, err, "f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0 or q5_1");
}

bool apply_rope_scale(struct option_parser *p, const struct option_use *use, struct error *err)
{
    char *end;
    float scale = strtof(use->value, &end);
    if (end == use->value || *end || !isfinite(scale) || !(scale > 0) || !isfinite(1.0f / scale))
        return bad_value(use, err, "a number above 0");
    *(float *)field_of(p, use) = 1.0f / scale;
    return true;
}

bool apply_name_set(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct option_list *list = field_of(p, use);
    for (const char *part = use->value; part;) {
        const char *comma = strchr(part, ',');
        struct slice name = {part, comma ? (size_t)(comma - part) : strlen(part)};
        while (name.len && strchr(" \t\r\n", name.data[0]))
            name = slice_from(name, 1);
        while (name.len && strchr(" \t\r\n", name.data[name.len - 1]))
            name.len--;
        if (name.len && !list_insert(p->options, list, name))
            return error_memory(err);
        part = comma ? comma + 1 : NULL;
    }
    return true;
}

bool apply_parallel(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int64_t n;
    if (!read_int(use, INT32_MIN, 256, &n, err))
        return false;
    if (n == 0)
        return bad_value(use, err, "1 to 256 slots, or -1 to choose");
    p->options->context.n_parallel = n < 0 ? -1 : (int32_t)n;
    return true;
}

bool apply_ctx_size(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int64_t n;
    if (!read_int(use, 0, INT32_MAX, &n, err))
        return false;
    p->options->context.n_ctx = (int32_t)n;
    if (n == 0) /* asked for all of it: --fit must not take any away */
        p->options->context.fit_ctx = INT32_MAX;
    return true;
}

bool apply_fit(struct option_parser *p, const struct option_use *use, struct error *err)
{
    if (!text_is_true(use->value) && !text_is_false(use->value))
        return bad_value(use, err, "on or off");
    p->options->context.fit = text_is_true(use->value);
    return true;
}

bool apply_fit_target(struct option_parser *p, const struct option_use *use, struct error *err)
{
    /* One number per device, with ',' or '/' between; main memory is the only
     * device, the first number its own. All must be numbers nevertheless. */
    bool first = true;
    for (const char *part = use->value; part; first = false) {
        size_t len = strcspn(part, ",/");
        char *end;
        unsigned long mib = strtoul(part, &end, 10);
        if (len == 0 || end != part + len || part[0] == '-' || mib > INT32_MAX)
            return bad_value(use, err, "MiB to leave free, a whole number");
        if (first)
            p->options->context.fit_target_mib = (int32_t)mib;
        part = part[len] ? part + len + 1 : NULL;
    }
    return true;
}

bool apply_rerank(struct option_parser *p, const struct option_use *use, struct error *err)
{
    (void)use, (void)err;
    p->options->context.embedding = true;
    p->options->context.pooling = 4;
    return true;
}
