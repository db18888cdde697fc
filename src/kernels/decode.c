/* decode.c - any format to floats. */
#include "kernels/blocks.h"

#include <string.h>

#define DECODE_PLAIN(type, expression)                                                             \
    for (size_t i = 0; i < n; i++) {                                                               \
        type v;                                                                                    \
        memcpy(&v, (const char *)blocks + i * sizeof v, sizeof v);                                 \
        out[i] = (expression);                                                                     \
    }                                                                                              \
    break

static void decode_plain(enum dtype dtype, const void *blocks, float *out, size_t n)
{
    switch (dtype) {
    case DTYPE_F32:
        memcpy(out, blocks, n * sizeof *out);
        break;
    case DTYPE_F16:
        DECODE_PLAIN(uint16_t, f16_to_f32(v));
    case DTYPE_BF16:
        DECODE_PLAIN(uint16_t, bf16_to_f32(v));
    case DTYPE_F64:
        DECODE_PLAIN(double, (float)v);
    case DTYPE_I8:
        DECODE_PLAIN(int8_t, (float)v);
    case DTYPE_I16:
        DECODE_PLAIN(int16_t, (float)v);
    case DTYPE_I32:
        DECODE_PLAIN(int32_t, (float)v);
    case DTYPE_I64:
        DECODE_PLAIN(int64_t, (float)v);
    case DTYPE_U8:
        DECODE_PLAIN(uint8_t, (float)v);
    case DTYPE_U16:
        DECODE_PLAIN(uint16_t, (float)v);
    case DTYPE_U32:
        DECODE_PLAIN(uint32_t, (float)v);
    case DTYPE_U64:
        DECODE_PLAIN(uint64_t, (float)v);
    case DTYPE_BOOL:
        DECODE_PLAIN(uint8_t, v ? 1.0f : 0.0f);
    case DTYPE_F8_E4M3:
        DECODE_PLAIN(uint8_t, e4m3_to_f32(v));
    case DTYPE_F8_E5M2:
        DECODE_PLAIN(uint8_t, e5m2_to_f32(v));
    default:
        break;
    }
}

void dtype_decode(enum dtype dtype, const void *blocks, float *out, size_t n)
{
    const struct block_format *format = block_format(dtype);
    if (!format->len) {
        decode_plain(dtype, blocks, out, n);
        return;
    }
    size_t bytes = dtype_info(dtype)->block_bytes;
    struct block_ints ints;
    memset(ints.min, 0, sizeof ints.min);
    for (size_t b = 0; b < n / format->len; b++) {
        format->unpack((const uint8_t *)blocks + b * bytes, &ints);
        float *block_out = out + b * format->len;
        for (size_t i = 0; i < format->len; i++) {
            size_t sub = i / format->sub_len;
            block_out[i] = ints.scale[sub] * (float)ints.q[i] + ints.min[sub];
        }
    }
}
