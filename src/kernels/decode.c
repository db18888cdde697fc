/* decode.c - numbers that stand alone, of any format, to floats. */
#include "kernels/blocks.h"
#include "kernels/format.h"

#include <string.h>

#define DECODE(name, type, expression)                                                             \
    void decode_##name(const void *in, float *out, size_t n)                                       \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            type v;                                                                                \
            memcpy(&v, (const char *)in + i * sizeof v, sizeof v);                                 \
            out[i] = (expression);                                                                 \
        }                                                                                          \
    }

DECODE(f32, float, v)
DECODE(f16, uint16_t, f16_to_f32(v))
DECODE(bf16, uint16_t, bf16_to_f32(v))
DECODE(f64, double, (float)v)
DECODE(i8, int8_t, (float)v)
DECODE(i16, int16_t, (float)v)
DECODE(i32, int32_t, (float)v)
DECODE(i64, int64_t, (float)v)
DECODE(u8, uint8_t, (float)v)
DECODE(u16, uint16_t, (float)v)
DECODE(u32, uint32_t, (float)v)
DECODE(u64, uint64_t, (float)v)
DECODE(bool, uint8_t, v ? 1.0f : 0.0f)
DECODE(f8_e4m3, uint8_t, e4m3_to_f32(v))
DECODE(f8_e5m2, uint8_t, e5m2_to_f32(v))
