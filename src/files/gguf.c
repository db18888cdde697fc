/* gguf.c - the header of a GGUF file: metadata and the table of tensors.
 *
 * Source: the GGUF specification, versions 2 and 3 (they differ in nothing a
 * little-endian reader sees). */
#include "files/model_file.h"

#include <inttypes.h>
#include <string.h>

enum {
    GGUF_ALIGNMENT = 32,           /* where general.alignment says nothing */
    GGUF_ALIGNMENT_MAX = 1 << 20,  /* nobody needs more; keeps sums small */
    GGUF_NAME_MAX = 64,            /* bytes of a tensor's name, the NUL included */
    GGUF_KEY_MAX = 65535,          /* bytes of a key */
    GGUF_KV_MIN_BYTES = 8 + 4 + 1, /* the shortest key and value */
    GGUF_TENSOR_MIN_BYTES = 8 + 4 + 4 + 8
};

/* A cursor over the file's bytes; what says what is being read, for errors. */
struct reader {
    const char *path;
    const unsigned char *data;
    size_t size, at;
    struct error *err;
};

static size_t left(const struct reader *r)
{
    return r->size - r->at;
}

static bool truncated(struct reader *r, const char *what)
{
    return error_set(r->err, ERR_FORMAT,
                     "%s: ends at byte %zu, in the middle of %s; the download is probably "
                     "incomplete",
                     r->path, r->size, what);
}

static bool read_u32(struct reader *r, const char *what, uint32_t *out)
{
    if (left(r) < 4)
        return truncated(r, what);
    memcpy(out, r->data + r->at, 4);
    r->at += 4;
    return true;
}

static bool read_u64(struct reader *r, const char *what, uint64_t *out)
{
    if (left(r) < 8)
        return truncated(r, what);
    memcpy(out, r->data + r->at, 8);
    r->at += 8;
    return true;
}

/* A text that is a name: no NUL inside, at most max bytes. */
static bool read_name(struct reader *r, const char *what, size_t max, struct slice *out)
{
    uint64_t len;
    if (!read_u64(r, what, &len))
        return false;
    if (len > max)
        return error_set(r->err, ERR_FORMAT,
                         "%s: at byte %zu, %s claims %" PRIu64 " bytes and may have %zu; the file "
                         "is damaged",
                         r->path, r->at - 8, what, len, max);
    if (len > left(r))
        return truncated(r, what);
    *out = (struct slice){(const char *)r->data + r->at, (size_t)len};
    if (memchr(out->data, '\0', out->len))
        return error_set(r->err, ERR_FORMAT, "%s: at byte %zu, %s holds a NUL; the file is damaged",
                         r->path, r->at, what);
    r->at += (size_t)len;
    return true;
}

/* ---- Metadata --------------------------------------------------------- */

static bool skip_text(struct reader *r, const char *key)
{
    uint64_t len;
    if (left(r) < 8)
        return truncated(r, key);
    memcpy(&len, r->data + r->at, 8);
    if (len > left(r) - 8)
        return error_set(r->err, ERR_FORMAT,
                         "%s: metadata '%s' has a text of %" PRIu64
                         " bytes at byte %zu but the file ends at %zu; the download is probably "
                         "incomplete",
                         r->path, key, len, r->at, r->size);
    r->at += 8 + (size_t)len;
    return true;
}

/* Walk an array of texts once, to check it and to note where every 16th
 * begins: any of them is then found in a few steps. */
static bool index_texts(struct reader *r, struct model_file *file, struct meta_value *value)
{
    size_t n_index = (value->n + META_INDEX_STEP - 1) / META_INDEX_STEP;
    uint64_t *index = arena_alloc_array(&file->arena, n_index ? n_index : 1, sizeof *index);
    if (!index)
        return error_memory(r->err);
    size_t start = r->at;
    for (size_t i = 0; i < value->n; i++) {
        if (i % META_INDEX_STEP == 0)
            index[i / META_INDEX_STEP] = r->at - start;
        if (!skip_text(r, value->key))
            return false;
    }
    value->index = index;
    return true;
}

static bool read_array(struct reader *r, struct model_file *file, struct meta_value *value)
{
    uint32_t type;
    uint64_t n;
    if (!read_u32(r, value->key, &type) || !read_u64(r, value->key, &n))
        return false;
    if (type == META_ARRAY)
        return error_set(r->err, ERR_UNSUPPORTED,
                         "%s: metadata '%s' is an array of arrays, which no model needs and "
                         "mlxcel does not read",
                         r->path, value->key);
    if (type > META_F64)
        return error_set(r->err, ERR_FORMAT,
                         "%s: metadata '%s' is an array of the unknown type %" PRIu32
                         "; the file is damaged or newer than mlxcel",
                         r->path, value->key, type);
    /* Compare by division: n comes from the file and the product may overflow. */
    size_t item = type == META_TEXT ? 8 : meta_type_size((enum meta_type)type);
    if (n > left(r) / item)
        return error_set(r->err, ERR_FORMAT,
                         "%s: metadata '%s' claims %" PRIu64 " items of %s but only %zu bytes of "
                         "file follow; the download is probably incomplete",
                         r->path, value->key, n, meta_type_name((enum meta_type)type), left(r));
    value->item_type = (enum meta_type)type;
    value->n = (size_t)n;
    value->data = r->data + r->at;
    if (type == META_TEXT)
        return index_texts(r, file, value);
    r->at += (size_t)n * item;
    return true;
}

static bool read_value(struct reader *r, struct model_file *file, struct meta_value *value)
{
    uint32_t type;
    if (!read_u32(r, value->key, &type))
        return false;
    if (type > META_F64)
        return error_set(r->err, ERR_FORMAT,
                         "%s: metadata '%s' has the unknown type %" PRIu32
                         "; the file is damaged or newer than mlxcel",
                         r->path, value->key, type);
    value->type = value->item_type = (enum meta_type)type;
    if (type == META_ARRAY)
        return read_array(r, file, value);
    value->n = 1;
    value->data = r->data + r->at;
    if (type == META_TEXT)
        return skip_text(r, value->key);
    size_t size = meta_type_size(value->type);
    if (size > left(r))
        return truncated(r, value->key);
    r->at += size;
    return true;
}

static bool read_metadata(struct reader *r, struct model_file *file, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct slice key;
        struct meta_value value = {0};
        if (!read_name(r, "a metadata key", GGUF_KEY_MAX, &key))
            return false;
        if (key.len == 0)
            return error_set(r->err, ERR_FORMAT,
                             "%s: metadata entry %" PRIu64 " has no key; the file is damaged",
                             r->path, i);
        value.key = arena_duplicate(&file->arena, key);
        if (!value.key)
            return error_memory(r->err);
        if (!read_value(r, file, &value))
            return false;
        enum name_added added =
            name_index_add(&file->meta.names, slice_of(value.key), file->meta.values.n);
        if (added == NAME_THERE_ALREADY)
            return error_set(r->err, ERR_FORMAT,
                             "%s: metadata '%s' is there twice; the file is damaged", r->path,
                             value.key);
        if (added == NAME_NO_MEMORY || !VEC_PUSH(&file->meta.values, value))
            return error_memory(r->err);
    }
    return true;
}

/* ---- Tensors ---------------------------------------------------------- */

/* dims, n_dims and the number of items, overflow checked. */
static bool read_shape(struct reader *r, struct tensor_view *t, uint64_t *n_items)
{
    uint32_t n_dims;
    if (!read_u32(r, "the table of tensors", &n_dims))
        return false;
    if (n_dims > TENSOR_MAX_DIMS)
        return error_set(r->err, ERR_FORMAT,
                         "%s: tensor '%s' has %" PRIu32 " dimensions and may have %d; the file is "
                         "damaged",
                         r->path, t->name, n_dims, TENSOR_MAX_DIMS);
    t->n_dims = (int32_t)n_dims;
    *n_items = 1;
    for (uint32_t k = 0; k < TENSOR_MAX_DIMS; k++) {
        uint64_t dim = 1;
        if (k < n_dims && !read_u64(r, "the table of tensors", &dim))
            return false;
        if (dim > INT64_MAX || (dim && *n_items > (uint64_t)INT64_MAX / dim))
            return error_set(r->err, ERR_FORMAT,
                             "%s: tensor '%s' has an impossible shape (dimension %" PRIu32
                             " is %" PRIu64 "); the file is damaged",
                             r->path, t->name, k, dim);
        t->dims[k] = (int64_t)dim;
        *n_items *= dim;
    }
    return true;
}

static bool read_dtype(struct reader *r, struct tensor_view *t, uint64_t n_items)
{
    uint32_t type;
    if (!read_u32(r, "the table of tensors", &type))
        return false;
    if (!dtype_from_ggml(type, &t->dtype))
        return error_set(r->err, ERR_UNSUPPORTED,
                         "%s: tensor '%s' is of type %" PRIu32
                         ", which mlxcel does not know; use a model quantized in another format",
                         r->path, t->name, type);
    const struct dtype_info *info = dtype_info(t->dtype);
    uint64_t block_len = (uint64_t)info->block_len, block_bytes = (uint64_t)info->block_bytes;
    if ((uint64_t)t->dims[0] % block_len != 0)
        return error_set(r->err, ERR_FORMAT,
                         "%s: tensor '%s' has rows of %" PRId64
                         " items, no multiple of the %" PRIu64
                         " in a block of %s; the file is damaged",
                         r->path, t->name, t->dims[0], block_len, info->name);
    if (n_items / block_len > SIZE_MAX / 2 / block_bytes)
        return error_set(
            r->err, ERR_FORMAT,
            "%s: tensor '%s' has more bytes than can be addressed; the file is damaged", r->path,
            t->name);
    t->n_bytes = (size_t)(n_items / block_len * block_bytes);
    return true;
}

/* One row of the table. Until the table is read to its end nobody knows where
 * the data begins, so the offset goes to *offset. */
static bool read_tensor(struct reader *r, struct model_file *file, struct tensor_view *t,
                        uint64_t *offset)
{
    struct slice name;
    uint64_t n_items;
    *t = (struct tensor_view){0};
    if (!read_name(r, "a tensor's name", GGUF_NAME_MAX - 1, &name))
        return false;
    t->name = arena_duplicate(&file->arena, name);
    if (!t->name)
        return error_memory(r->err);
    return read_shape(r, t, &n_items) && read_dtype(r, t, n_items) &&
           read_u64(r, "the table of tensors", offset);
}

static uint64_t align_up(uint64_t at, uint64_t alignment)
{
    return (at + alignment - 1) & ~(alignment - 1);
}

/* Tensors follow one another without a hole, each on its alignment: that is
 * how every writer does it, and it rules out that two overlap. */
static bool place_tensor(struct reader *r, struct tensor_view *t, uint64_t offset,
                         uint64_t expected, uint64_t data_start)
{
    if (offset != expected)
        return error_set(r->err, ERR_FORMAT,
                         "%s: tensor '%s' stands at offset %" PRIu64 " and should stand at %" PRIu64
                         "; the file is damaged",
                         r->path, t->name, offset, expected);
    uint64_t begin = data_start + offset; /* neither can be near 2^64, see align_up's callers */
    if (t->n_bytes > 0 && (begin > r->size || t->n_bytes > r->size - begin))
        return error_set(r->err, ERR_FORMAT,
                         "%s: tensor '%s' needs bytes %" PRIu64 "..%" PRIu64
                         " but the file ends at %zu; the download is probably incomplete",
                         r->path, t->name, begin, begin + t->n_bytes, r->size);
    t->data = t->n_bytes ? r->data + begin : NULL;
    return true;
}

static bool read_tensors(struct reader *r, struct model_file *file, uint64_t n, uint64_t alignment)
{
    VEC(uint64_t) offsets = {0};
    size_t first = file->tensors.n;
    bool ok = true;
    for (uint64_t i = 0; ok && i < n; i++) {
        struct tensor_view t;
        uint64_t offset;
        ok = read_tensor(r, file, &t, &offset) && model_file_add_tensor(file, r->path, t, r->err) &&
             (VEC_PUSH(&offsets, offset) || error_memory(r->err));
    }
    uint64_t data_start = align_up(r->at, alignment);
    uint64_t expected = 0;
    for (size_t i = 0; ok && i < offsets.n; i++) {
        struct tensor_view *t = &file->tensors.data[first + i];
        ok = place_tensor(r, t, offsets.data[i], expected, data_start);
        expected += align_up(t->n_bytes, alignment);
    }
    VEC_FREE(&offsets);
    return ok;
}

/* ---- The whole -------------------------------------------------------- */

static bool read_header(struct reader *r, uint64_t *n_tensors, uint64_t *n_metas)
{
    uint32_t version;
    if (left(r) < 4 || memcmp(r->data, "GGUF", 4) != 0)
        return error_set(r->err, ERR_FORMAT, "%s: is not a GGUF file (its first bytes differ)",
                         r->path);
    r->at = 4;
    if (!read_u32(r, "the header", &version))
        return false;
    if (version != 2 && version != 3) {
        if ((version & 0xFFFF) == 0 && version != 0)
            return error_set(r->err, ERR_UNSUPPORTED,
                             "%s: is in big-endian byte order; use the little-endian file",
                             r->path);
        return error_set(r->err, ERR_UNSUPPORTED,
                         "%s: is GGUF version %" PRIu32
                         " and mlxcel reads versions 2 and 3; convert the model again",
                         r->path, version);
    }
    if (!read_u64(r, "the header", n_tensors) || !read_u64(r, "the header", n_metas))
        return false;
    if (*n_metas > left(r) / GGUF_KV_MIN_BYTES)
        return error_set(r->err, ERR_FORMAT,
                         "%s: claims %" PRIu64
                         " metadata entries, more than its %zu bytes can hold; the download is "
                         "probably incomplete",
                         r->path, *n_metas, r->size);
    if (*n_tensors > left(r) / GGUF_TENSOR_MIN_BYTES)
        return error_set(r->err, ERR_FORMAT,
                         "%s: claims %" PRIu64
                         " tensors, more than its %zu bytes can hold; the download is probably "
                         "incomplete",
                         r->path, *n_tensors, r->size);
    return true;
}

/* Split files carry their place in the metadata of each shard. */
static bool read_split(const struct model_file *file, struct gguf_split *split, struct error *err)
{
    *split = (struct gguf_split){0, 1, -1};
    split->n_tensors = meta_i64(file, "split.tensors.count", -1);
    return meta_get_i32(file, "split.no", META_OPTIONAL, &split->no, err) &&
           meta_get_i32(file, "split.count", META_OPTIONAL, &split->count, err);
}

bool gguf_parse(struct model_file *file, const char *path, const unsigned char *data, size_t size,
                struct gguf_split *split, struct error *err)
{
    struct reader r = {path, data, size, 0, err};
    uint64_t n_tensors, n_metas;
    uint32_t alignment = GGUF_ALIGNMENT;
    if (!read_header(&r, &n_tensors, &n_metas) || !read_metadata(&r, file, n_metas) ||
        !read_split(file, split, err) ||
        !meta_get_u32(file, "general.alignment", META_OPTIONAL, &alignment, err))
        return false;
    if (alignment < 8 || (alignment & (alignment - 1)) != 0 || alignment > GGUF_ALIGNMENT_MAX)
        return error_set(err, ERR_FORMAT,
                         "%s: general.alignment is %" PRIu32
                         " and should be a power of two from 8 up; the file is damaged",
                         path, alignment);
    return read_tensors(&r, file, n_tensors, alignment);
}
