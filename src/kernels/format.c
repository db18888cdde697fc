/* format.c - the table of formats, and what is asked of a row. */
#include "kernels/format.h"

#include "kernels/blocks.h"

#include <string.h>
#include <strings.h>

/* No file is of this format throughout. */
#define NOT_A_FILE .info.file_type = -1

const struct format format_table[DTYPE_COUNT] = {
#define ROW(ID, id, in_safetensors, number, bytes, ...)                                            \
    [DTYPE_##ID] = {.info.name = #id,                                                              \
                    .info.safetensors = (in_safetensors),                                          \
                    .info.ggml_type = (number),                                                    \
                    .info.block_len = 1,                                                           \
                    .info.block_bytes = (bytes),                                                   \
                    .info.can_decode = true,                                                       \
                    .decode = decode_##id,                                                         \
                    __VA_ARGS__},
    PLAIN_FORMATS(ROW)
#undef ROW
#define ROW(ID, id, text, number, bytes, len, sub, mins, add, most, ...)                           \
    [DTYPE_##ID] = {.info.name = (text),                                                           \
                    .info.ggml_type = (number),                                                    \
                    .info.block_len = (len),                                                       \
                    .info.block_bytes = (bytes),                                                   \
                    .info.can_decode = true,                                                       \
                    .info.is_quantized = true,                                                     \
                    .matrix = &matrix_of_blocks,                                                   \
                    .sub_len = (sub),                                                              \
                    .has_min = (mins),                                                             \
                    .offset = (add),                                                               \
                    .max = (most),                                                                 \
                    .unpack = unpack_##id,                                                         \
                    __VA_ARGS__},
        BLOCK_FORMATS(ROW)
#undef ROW
#define ROW(ID, text, stored_as, ...)                                                              \
    [DTYPE_##ID] = {.info.name = (text),                                                           \
                    .info.ggml_type = -1,                                                          \
                    NOT_A_FILE,                                                                    \
                    .info.block_len = 1,                                                           \
                    .info.is_scaled = true,                                                        \
                    .info.stored = DTYPE_##stored_as,                                              \
                    __VA_ARGS__},
            SCALED_FORMATS(ROW)
#undef ROW
};

const struct dtype_info *dtype_info(enum dtype dtype)
{
    return &format_of(dtype)->info;
}

bool dtype_can_encode(enum dtype dtype)
{
    return format_of(dtype)->encode || format_of(dtype)->encode_block;
}

bool dtype_from_ggml(uint32_t type, enum dtype *dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        int32_t number = format_table[i].info.ggml_type;
        if (number >= 0 && (uint32_t)number == type) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

bool dtype_from_name(const char *name, enum dtype *dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (!format_table[i].info.is_scaled && strcasecmp(format_table[i].info.name, name) == 0) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

bool dtype_bytes(enum dtype dtype, uint64_t n, size_t *bytes)
{
    const struct dtype_info *info = dtype_info(dtype);
    if (n % info->block_len || info->is_scaled)
        return false;
    uint64_t blocks = n / info->block_len;
    if (blocks > SIZE_MAX / info->block_bytes)
        return false;
    *bytes = (size_t)blocks * info->block_bytes;
    return true;
}

static void decode_blocks(const struct format *f, const uint8_t *blocks, float *out, size_t n)
{
    size_t len = f->info.block_len, bytes = f->info.block_bytes;
    struct block_ints ints;
    memset(ints.min, 0, sizeof ints.min);
    for (size_t b = 0; b < n / len; b++) {
        f->unpack(blocks + b * bytes, &ints);
        float *block_out = out + b * len;
        for (size_t i = 0; i < len; i++) {
            size_t sub = i / f->sub_len;
            block_out[i] = ints.scale[sub] * (float)ints.q[i] + ints.min[sub];
        }
    }
}

void dtype_decode(enum dtype dtype, const void *blocks, float *out, size_t n)
{
    const struct format *f = format_of(dtype);
    if (f->unpack)
        decode_blocks(f, blocks, out, n);
    else if (f->decode)
        f->decode(blocks, out, n);
}

bool dtype_encode(enum dtype dtype, const float *x, void *blocks, size_t n)
{
    const struct format *f = format_of(dtype);
    size_t len = f->info.block_len, bytes = f->info.block_bytes;
    if (f->encode)
        f->encode(x, blocks, n);
    else if (f->encode_block)
        for (size_t i = 0; i < n / len; i++)
            f->encode_block(x + i * len, (uint8_t *)blocks + i * bytes);
    else
        return false;
    return true;
}
