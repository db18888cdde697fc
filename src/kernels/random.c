/* random.c - random weights of any format, for synthetic models. */
#include "kernels/blocks.h"
#include "kernels/format.h"

#include <string.h>

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13; /* Marsaglia 2003, xorshift64 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void store_f16(uint8_t *p, float f)
{
    uint16_t h = f32_to_f16(f);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* The factor's sixteen bits stand in the high halves of four bytes. */
void set_scale_iq1_m(uint8_t *block, float amplitude)
{
    uint16_t d = f32_to_f16(amplitude / (15 * 1.125f));
    for (int j = 0; j < 4; j++)
        block[49 + 2 * j] = (uint8_t)((block[49 + 2 * j] & 15) | (d >> 4 * j & 15) << 4);
}

void set_scale_q8_1(uint8_t *block, float amplitude)
{
    store_f16(block, amplitude / 128);
    memset(block + 2, 0, 2);
}

void set_scale_q8_k(uint8_t *block, float amplitude)
{
    float d = amplitude / 128;
    memcpy(block, &d, sizeof d);
}

static void fill_block(const struct format *f, uint8_t *b, float amplitude, uint64_t *state)
{
    for (size_t i = 0; i < f->info.block_bytes; i++)
        b[i] = (uint8_t)(next_random(state) >> 32);
    if (f->set_scale)
        f->set_scale(b, amplitude);
    else
        store_f16(b, amplitude / f->largest);
}

void dtype_fill_random(enum dtype dtype, void *blocks, size_t n, float amplitude, uint64_t *state)
{
    const struct format *f = format_of(dtype);
    const struct dtype_info *info = &f->info;
    uint8_t *out = blocks;
    float x[DTYPE_MAX_BLOCK];
    for (size_t i = 0; i < n / info->block_len; i++) {
        uint8_t *b = out + i * info->block_bytes;
        if (info->is_quantized && !f->encode_block) {
            fill_block(f, b, amplitude, state);
            continue;
        }
        for (size_t j = 0; j < info->block_len; j++)
            x[j] = ((float)(next_random(state) >> 40) * 0x1p-23f - 1.0f) * amplitude;
        if (!dtype_encode(dtype, x, b, info->block_len)) {
            /* Integers and 8-bit floats: any bytes but the NaNs will do. */
            for (size_t j = 0; j < info->block_bytes; j++)
                b[j] = (uint8_t)(next_random(state) >> 32 & (dtype == DTYPE_BOOL ? 1 : 0x5F));
        }
    }
}
