/* safetensors.c - the header of a safetensors file.
 *
 * Eight bytes: the length of a JSON object {"NAME": {"dtype", "shape",
 * "data_offsets"}, ..., "__metadata__": {...}}; after it the tensors, without
 * holes. Source: the safetensors format description (huggingface/safetensors). */
#include "files/model_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The format's own limit. */
static const uint64_t HEADER_MAX = 100000000;
enum { SHAPE_MAX = 16 };

/* One tensor's place, to check that together they cover the data. */
struct range {
    uint64_t begin, end;
    const char *name;
};

struct parser {
    struct model_file *file;
    const char *path, *prefix; /* prefix: before every name */
    const unsigned char *data; /* the tensors' bytes */
    size_t size;
    VEC(struct range) ranges;
    struct error *err;
};

static bool damaged(struct parser *p, const char *name, const char *why)
{
    return error_set(p->err, ERR_FORMAT, "%s: tensor '%s' %s; the file is damaged", p->path, name,
                     why);
}

static bool read_dtype(struct parser *p, const json_t *value, struct tensor_view *t)
{
    struct slice name = json_slice(value);
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const char *known = dtype_info((enum dtype)i)->safetensors;
        if (known && slice_equal_text(name, known)) {
            t->dtype = (enum dtype)i;
            return true;
        }
    }
    if (name.len == 0)
        return damaged(p, t->name, "has no dtype");
    return error_set(p->err, ERR_UNSUPPORTED,
                     "%s: tensor '%s' is of dtype %.*s, which mlxcel does not know; use another "
                     "version of the model",
                     p->path, t->name, (int)(name.len > 32 ? 32 : name.len), name.data);
}

/* Turn the shape round (slowest first becomes fastest first); what is more than
 * four dimensions is folded into the last. */
static bool read_shape(struct parser *p, const json_t *shape, struct tensor_view *t,
                       uint64_t *n_items)
{
    if (!json_is_array(shape))
        return damaged(p, t->name, "has no shape");
    size_t n = json_array_size(shape);
    if (n > SHAPE_MAX)
        return damaged(p, t->name, "has an impossible number of dimensions");
    t->n_dims = (int32_t)(n > TENSOR_MAX_DIMS ? TENSOR_MAX_DIMS : n);
    for (size_t k = 0; k < TENSOR_MAX_DIMS; k++)
        t->dims[k] = 1;
    *n_items = 1;
    for (size_t k = 0; k < n; k++) {
        const json_t *item = json_array_get(shape, n - 1 - k);
        json_int_t dim = json_integer_value(item);
        if (!json_is_integer(item) || dim < 0)
            return damaged(p, t->name, "has a dimension that is not a size");
        size_t place = k < TENSOR_MAX_DIMS ? k : TENSOR_MAX_DIMS - 1;
        int64_t most = dim ? INT64_MAX / 16 / dim : INT64_MAX;
        if (*n_items > (uint64_t)most || t->dims[place] > most)
            return damaged(p, t->name, "has an impossible shape");
        *n_items *= (uint64_t)dim;
        t->dims[place] *= dim;
    }
    return true;
}

/* Writers sort tensors so that each is aligned for its dtype, but the format
 * does not demand it: one that is not is copied. */
static bool align_data(struct parser *p, const unsigned char *data, struct tensor_view *t)
{
    t->data = t->n_bytes ? data : NULL;
    if (t->n_bytes == 0 || (uintptr_t)data % dtype_info(t->dtype)->block_bytes == 0)
        return true;
    void *copy = arena_alloc(&p->file->arena, t->n_bytes);
    if (!copy)
        return error_memory(p->err);
    memcpy(copy, data, t->n_bytes);
    t->data = copy;
    return true;
}

static bool read_offsets(struct parser *p, const json_t *offsets, struct tensor_view *t,
                         uint64_t n_items)
{
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to) ||
        json_integer_value(from) < 0 || json_integer_value(to) < json_integer_value(from))
        return damaged(p, t->name, "has no sensible data_offsets");
    uint64_t begin = (uint64_t)json_integer_value(from), end = (uint64_t)json_integer_value(to);
    uint64_t want = n_items * dtype_info(t->dtype)->block_bytes;
    if (end - begin != want)
        return error_set(p->err, ERR_FORMAT,
                         "%s: tensor '%s' has %" PRIu64 " bytes but its shape of %s needs %" PRIu64
                         "; the file is damaged",
                         p->path, t->name, end - begin, dtype_info(t->dtype)->name, want);
    if (end > p->size)
        return error_set(p->err, ERR_FORMAT,
                         "%s: tensor '%s' needs bytes %" PRIu64 "..%" PRIu64
                         " of the data but the file has only %zu; the download is probably "
                         "incomplete",
                         p->path, t->name, begin, end, p->size);
    t->n_bytes = (size_t)want;
    return align_data(p, p->data + begin, t) &&
           (VEC_PUSH(&p->ranges, (struct range){begin, end, t->name}) || error_memory(p->err));
}

static bool read_tensor(struct parser *p, const char *name, const json_t *entry)
{
    struct tensor_view t = {0};
    uint64_t n_items;
    size_t n_prefix = strlen(p->prefix), len = strlen(name);
    char *full = arena_alloc(&p->file->arena, n_prefix + len + 1);
    if (!full)
        return error_memory(p->err);
    memcpy(full, p->prefix, n_prefix);
    memcpy(full + n_prefix, name, len + 1);
    t.name = full;
    if (!json_is_object(entry))
        return damaged(p, name, "is described by no JSON object");
    return read_dtype(p, json_object_get(entry, "dtype"), &t) &&
           read_shape(p, json_object_get(entry, "shape"), &t, &n_items) &&
           read_offsets(p, json_object_get(entry, "data_offsets"), &t, n_items) &&
           model_file_add_tensor(p->file, p->path, t, p->err);
}

static int by_begin(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Every byte belongs to exactly one tensor. */
static bool check_cover(struct parser *p)
{
    if (p->ranges.n)
        qsort(p->ranges.data, p->ranges.n, sizeof *p->ranges.data, by_begin);
    uint64_t at = 0;
    for (size_t i = 0; i < p->ranges.n; i++) {
        const struct range *r = &p->ranges.data[i];
        if (r->begin < at)
            return damaged(p, r->name, "overlaps another");
        if (r->begin > at)
            return damaged(p, r->name, "leaves a hole before it");
        at = r->end;
    }
    if (at != p->size)
        return error_set(p->err, ERR_FORMAT,
                         "%s: has %zu bytes of data but its tensors end at %" PRIu64
                         "; the file is damaged",
                         p->path, p->size, at);
    return true;
}

static bool read_tensors(struct parser *p, const json_t *header)
{
    json_t *object = (json_t *)(uintptr_t)header; /* jansson iterates mutable objects */
    for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
        const char *name = json_object_iter_key(it);
        if (strcmp(name, "__metadata__") == 0)
            continue;
        if (!read_tensor(p, name, json_object_iter_value(it)))
            return false;
    }
    return check_cover(p);
}

bool safetensors_parse(struct model_file *file, const char *path, const unsigned char *data,
                       size_t size, struct error *err)
{
    return safetensors_parse_as(file, path, "", data, size, err);
}

bool safetensors_parse_as(struct model_file *file, const char *path, const char *prefix,
                          const unsigned char *data, size_t size, struct error *err)
{
    uint64_t n_header;
    if (is_lfs_pointer(path, data, size, err))
        return false;
    if (size < 8)
        return error_set(err, ERR_FORMAT,
                         "%s: is only %zu bytes long and not a safetensors file; the download is "
                         "probably incomplete",
                         path, size);
    memcpy(&n_header, data, 8);
    if (n_header > HEADER_MAX)
        return error_set(err, ERR_FORMAT,
                         "%s: claims a header of %" PRIu64
                         " bytes, more than the format allows; it is not a safetensors file",
                         path, n_header);
    if (n_header > size - 8)
        return error_set(err, ERR_FORMAT,
                         "%s: its header needs %" PRIu64
                         " bytes but the file ends at %zu; the download is probably incomplete",
                         path, n_header, size);
    /* Duplicate names would silently hide tensors, so jansson is told to refuse
     * them. */
    json_error_t why;
    json_t *header =
        json_loadb((const char *)data + 8, (size_t)n_header, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(header)) {
        json_decref(header);
        return error_set(err, ERR_FORMAT,
                         "%s: its header is not a JSON object%s%s; the file is damaged", path,
                         header ? "" : ": ", header ? "" : why.text);
    }
    struct parser p = {.file = file,
                       .path = path,
                       .prefix = prefix,
                       .data = data + 8 + n_header,
                       .size = size - 8 - (size_t)n_header,
                       .err = err};
    bool ok = read_tensors(&p, header);
    VEC_FREE(&p.ranges);
    json_decref(header);
    return ok;
}
