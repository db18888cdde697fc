/* meta.c - reading GGUF metadata values, and overriding them. */
#include "files/model_file.h"

#include "base/log.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "model files are little-endian, and weights are used as they stand in them"
#endif

enum meta_class { CLASS_INTEGER, CLASS_REAL, CLASS_BOOL, CLASS_TEXT, CLASS_ARRAY };

static const struct {
    const char *name;
    size_t size; /* bytes of an item; 0: varies */
    enum meta_class class;
} types[] = {
    [META_U8] = {"u8", 1, CLASS_INTEGER},   [META_I8] = {"i8", 1, CLASS_INTEGER},
    [META_U16] = {"u16", 2, CLASS_INTEGER}, [META_I16] = {"i16", 2, CLASS_INTEGER},
    [META_U32] = {"u32", 4, CLASS_INTEGER}, [META_I32] = {"i32", 4, CLASS_INTEGER},
    [META_F32] = {"f32", 4, CLASS_REAL},    [META_BOOL] = {"bool", 1, CLASS_BOOL},
    [META_TEXT] = {"str", 0, CLASS_TEXT},   [META_ARRAY] = {"arr", 0, CLASS_ARRAY},
    [META_U64] = {"u64", 8, CLASS_INTEGER}, [META_I64] = {"i64", 8, CLASS_INTEGER},
    [META_F64] = {"f64", 8, CLASS_REAL},
};

const char *meta_type_name(enum meta_type type)
{
    return (unsigned)type < sizeof types / sizeof *types ? types[type].name : "unknown";
}

size_t meta_type_size(enum meta_type type)
{
    return types[type].size;
}

void meta_table_free(struct meta_table *table)
{
    VEC_FREE(&table->values);
    name_index_free(&table->names);
}

/* ---- Items ------------------------------------------------------------ */

static uint16_t load16(const unsigned char *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t load32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t load64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static float load_f32(const unsigned char *p)
{
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}

static double load_f64(const unsigned char *p)
{
    double v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* A real cut to an integer; NaN gives 0. */
static int64_t cut(double value)
{
    if (!(value > -9223372036854775808.0))
        return isnan(value) ? 0 : INT64_MIN;
    return value < 9223372036854775808.0 ? (int64_t)value : INT64_MAX;
}

static int64_t item_i64(enum meta_type type, const unsigned char *p)
{
    switch (type) {
    case META_U8:
    case META_BOOL:
        return *p;
    case META_I8:
        return (int8_t)*p;
    case META_U16:
        return load16(p);
    case META_I16:
        return (int16_t)load16(p);
    case META_U32:
        return load32(p);
    case META_I32:
        return (int32_t)load32(p);
    case META_U64:
        return load64(p) > INT64_MAX ? INT64_MAX : (int64_t)load64(p);
    case META_I64:
        return (int64_t)load64(p);
    case META_F32:
        return cut((double)load_f32(p));
    case META_F64:
        return cut(load_f64(p));
    case META_TEXT:
    case META_ARRAY:
        break;
    }
    return 0;
}

static double item_f64(enum meta_type type, const unsigned char *p)
{
    switch (type) {
    case META_F32:
        return (double)load_f32(p);
    case META_F64:
        return load_f64(p);
    case META_U64:
        return (double)load64(p);
    default:
        return (double)item_i64(type, p);
    }
}

static struct slice item_text(const unsigned char *p)
{
    return (struct slice){(const char *)p + 8, (size_t)load64(p)};
}

size_t meta_array_len(const struct meta_value *value)
{
    return value && value->type == META_ARRAY ? value->n : 0;
}

static bool is_array_of(const struct meta_value *value, enum meta_class class)
{
    return value && value->type == META_ARRAY && types[value->item_type].class == class;
}

bool meta_is_text_array(const struct meta_value *value)
{
    return is_array_of(value, CLASS_TEXT);
}

bool meta_is_integer_array(const struct meta_value *value)
{
    return is_array_of(value, CLASS_INTEGER) || is_array_of(value, CLASS_BOOL);
}

bool meta_is_real_array(const struct meta_value *value)
{
    return is_array_of(value, CLASS_REAL);
}

struct slice meta_array_text(const struct meta_value *value, size_t i)
{
    if (!meta_is_text_array(value) || i >= value->n)
        return (struct slice){"", 0};
    const unsigned char *p = value->data + value->index[i / META_INDEX_STEP];
    for (size_t k = i % META_INDEX_STEP; k > 0; k--)
        p += 8 + load64(p);
    return item_text(p);
}

int64_t meta_array_i64(const struct meta_value *value, size_t i)
{
    if (i >= meta_array_len(value))
        return 0;
    return item_i64(value->item_type, value->data + i * types[value->item_type].size);
}

double meta_array_f64(const struct meta_value *value, size_t i)
{
    if (i >= meta_array_len(value))
        return 0;
    return item_f64(value->item_type, value->data + i * types[value->item_type].size);
}

struct slice meta_value_text(const struct meta_value *value)
{
    if (!value || value->type != META_TEXT)
        return (struct slice){NULL, 0};
    return item_text(value->data);
}

int64_t meta_value_i64(const struct meta_value *value)
{
    return value && value->type != META_ARRAY ? item_i64(value->type, value->data) : 0;
}

double meta_value_f64(const struct meta_value *value)
{
    return value && value->type != META_ARRAY ? item_f64(value->type, value->data) : 0;
}

/* ---- Scalars by key --------------------------------------------------- */

static const char *const class_words[] = {
    [CLASS_INTEGER] = "an integer", [CLASS_REAL] = "a real number", [CLASS_BOOL] = "a boolean",
    [CLASS_TEXT] = "a text",        [CLASS_ARRAY] = "an array",
};

/* The value of that key and kind. *value is NULL when the key is absent and not
 * required. */
static bool find_of_class(const struct model_file *file, const char *key, enum meta_need need,
                          enum meta_class class, const struct meta_value **value, struct error *err)
{
    *value = meta_find(file, key);
    if (!*value)
        return need == META_OPTIONAL ||
               error_set(err, ERR_NOT_FOUND,
                         "%s: the metadata has no '%s', which this model needs; the file is "
                         "incomplete, or give the value with --override-kv",
                         file->path, key);
    if (types[(*value)->type].class != class)
        return error_set(err, ERR_FORMAT, "%s: metadata '%s' is %s (%s) and should be %s",
                         file->path, key, class_words[types[(*value)->type].class],
                         meta_type_name((*value)->type), class_words[class]);
    return true;
}

static bool get_integer(const struct model_file *file, const char *key, enum meta_need need,
                        int64_t min, int64_t max, int64_t *out, struct error *err)
{
    const struct meta_value *value;
    if (!find_of_class(file, key, need, CLASS_INTEGER, &value, err))
        return false;
    if (!value)
        return true;
    int64_t integer = meta_value_i64(value);
    if (integer < min || integer > max)
        return error_set(err, ERR_FORMAT,
                         "%s: metadata '%s' is %" PRId64 " and should be in %" PRId64 "..%" PRId64,
                         file->path, key, integer, min, max);
    *out = integer;
    return true;
}

bool meta_get_u32(const struct model_file *file, const char *key, enum meta_need need,
                  uint32_t *out, struct error *err)
{
    int64_t value = *out;
    if (!get_integer(file, key, need, 0, UINT32_MAX, &value, err))
        return false;
    *out = (uint32_t)value;
    return true;
}

bool meta_get_i32(const struct model_file *file, const char *key, enum meta_need need, int32_t *out,
                  struct error *err)
{
    int64_t value = *out;
    if (!get_integer(file, key, need, INT32_MIN, INT32_MAX, &value, err))
        return false;
    *out = (int32_t)value;
    return true;
}

bool meta_get_f32(const struct model_file *file, const char *key, enum meta_need need, float *out,
                  struct error *err)
{
    const struct meta_value *value;
    if (!find_of_class(file, key, need, CLASS_REAL, &value, err))
        return false;
    if (value)
        *out = (float)meta_value_f64(value);
    return true;
}

bool meta_get_bool(const struct model_file *file, const char *key, enum meta_need need, bool *out,
                   struct error *err)
{
    const struct meta_value *value;
    if (!find_of_class(file, key, need, CLASS_BOOL, &value, err))
        return false;
    if (value)
        *out = meta_value_i64(value) != 0;
    return true;
}

bool meta_get_text(const struct model_file *file, const char *key, enum meta_need need,
                   struct slice *out, struct error *err)
{
    const struct meta_value *value;
    if (!find_of_class(file, key, need, CLASS_TEXT, &value, err))
        return false;
    if (value)
        *out = meta_value_text(value);
    return true;
}

uint32_t meta_u32(const struct model_file *file, const char *key, uint32_t fallback)
{
    meta_get_u32(file, key, META_OPTIONAL, &fallback, NULL);
    return fallback;
}

int32_t meta_i32(const struct model_file *file, const char *key, int32_t fallback)
{
    meta_get_i32(file, key, META_OPTIONAL, &fallback, NULL);
    return fallback;
}

int64_t meta_i64(const struct model_file *file, const char *key, int64_t fallback)
{
    get_integer(file, key, META_OPTIONAL, INT64_MIN, INT64_MAX, &fallback, NULL);
    return fallback;
}

float meta_f32(const struct model_file *file, const char *key, float fallback)
{
    meta_get_f32(file, key, META_OPTIONAL, &fallback, NULL);
    return fallback;
}

bool meta_bool(const struct model_file *file, const char *key, bool fallback)
{
    meta_get_bool(file, key, META_OPTIONAL, &fallback, NULL);
    return fallback;
}

struct slice meta_text(const struct model_file *file, const char *key)
{
    struct slice text = {NULL, 0};
    meta_get_text(file, key, META_OPTIONAL, &text, NULL);
    return text;
}

/* ---- Overrides -------------------------------------------------------- */

static const struct {
    const char *word; /* with its colon */
    enum meta_type type;
} override_types[] = {
    [META_OVERRIDE_INT] = {"int:", META_I64},
    [META_OVERRIDE_FLOAT] = {"float:", META_F64},
    [META_OVERRIDE_BOOL] = {"bool:", META_BOOL},
    [META_OVERRIDE_TEXT] = {"str:", META_TEXT},
};

static bool override_value(const char *whole, const char *text, struct meta_override *out,
                           struct error *err)
{
    char *end = NULL;
    switch (out->type) {
    case META_OVERRIDE_INT:
        out->integer = strtoll(text, &end, 10);
        break;
    case META_OVERRIDE_FLOAT:
        out->real = strtod(text, &end);
        break;
    case META_OVERRIDE_BOOL:
        out->boolean = strcmp(text, "true") == 0;
        if (out->boolean || strcmp(text, "false") == 0)
            return true;
        return error_set(err, ERR_INVALID, "'%s': a bool is true or false", whole);
    case META_OVERRIDE_TEXT:
        if (strlen(text) >= META_OVERRIDE_MAX)
            return error_set(err, ERR_LIMIT, "'%s': a str has at most %d bytes", whole,
                             META_OVERRIDE_MAX - 1);
        strcpy(out->text, text);
        return true;
    }
    if (end == text || *end != '\0')
        return error_set(err, ERR_INVALID, "'%s': '%s' is not of type %s", whole, text,
                         out->type == META_OVERRIDE_INT ? "integer" : "number");
    return true;
}

bool meta_override_parse(const char *text, struct meta_override *out, struct error *err)
{
    *out = (struct meta_override){0};
    const char *sign = strchr(text, '=');
    if (!sign || sign == text)
        return error_set(
            err, ERR_INVALID,
            "'%s' is not a metadata override; write KEY=TYPE:VALUE with TYPE one of int, "
            "float, bool, str",
            text);
    if (sign - text >= META_OVERRIDE_MAX)
        return error_set(err, ERR_LIMIT, "'%s': the key has more than %d bytes", text,
                         META_OVERRIDE_MAX - 1);
    memcpy(out->key, text, (size_t)(sign - text));
    for (size_t i = 0; i < sizeof override_types / sizeof *override_types; i++) {
        size_t len = strlen(override_types[i].word);
        if (strncmp(sign + 1, override_types[i].word, len) == 0) {
            out->type = (enum meta_override_type)i;
            return override_value(text, sign + 1 + len, out, err);
        }
    }
    return error_set(err, ERR_INVALID,
                     "'%s': after '=' comes a type (int:, float:, bool: or str:) and the value",
                     text);
}

/* The override's value in the shape a file would have it. */
static bool encode_override(struct model_file *file, const struct meta_override *override,
                            struct meta_value *value)
{
    size_t n_text = strlen(override->text);
    unsigned char *data = arena_alloc(&file->arena, 8 + n_text);
    char *key = arena_duplicate(&file->arena, slice_of(override->key));
    if (!data || !key)
        return false;
    enum meta_type type = override_types[override->type].type;
    *value = (struct meta_value){key, type, type, 1, data, NULL};
    switch (override->type) {
    case META_OVERRIDE_INT:
        memcpy(data, &override->integer, 8);
        break;
    case META_OVERRIDE_FLOAT:
        memcpy(data, &override->real, 8);
        break;
    case META_OVERRIDE_BOOL:
        data[0] = override->boolean;
        break;
    case META_OVERRIDE_TEXT:
        memcpy(data, &(uint64_t){n_text}, 8);
        memcpy(data + 8, override->text, n_text);
        break;
    }
    return true;
}

bool meta_apply_overrides(struct model_file *file, const struct model_file_settings *settings,
                          struct error *err)
{
    for (size_t i = 0; settings && i < settings->n_overrides; i++) {
        struct meta_value value;
        if (!encode_override(file, &settings->overrides[i], &value))
            return error_memory(err);
        size_t place = name_index_find(&file->meta.names, slice_of(value.key));
        if (place == SIZE_MAX) {
            if (name_index_add(&file->meta.names, slice_of(value.key), file->meta.values.n) !=
                    NAME_ADDED ||
                !VEC_PUSH(&file->meta.values, value))
                return error_memory(err);
        } else if (types[file->meta.values.data[place].type].class != types[value.type].class) {
            log_warn("%s: the override of '%s' is ignored: it is %s and the file has %s",
                     file->path, value.key, class_words[types[value.type].class],
                     class_words[types[file->meta.values.data[place].type].class]);
        } else {
            file->meta.values.data[place] = value;
        }
    }
    return true;
}
