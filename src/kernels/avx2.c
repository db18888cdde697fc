/* avx2.c - the table of kernels for AVX2, FMA and F16C. */
#if defined(__x86_64__)
#include "kernels/avx2.h"

const struct kernel_table kernels_avx2 = {
    .name = "avx2",
    .quantize = quantize_avx2,
    .quantize_wide = quantize_wide_avx2,
    .unpack = unpack_avx2,
    .panel_dot = panel_dot_avx2,
    .panel_one = panel_one_avx2,
    .reads_packed = reads_packed_avx2,
    .float_dots = float_dots_avx2,
    .lanes_sum = lanes_sum_avx2,
    .decode = decode_avx2,
    .scores = scores_avx2,
    .scores_half = scores_half_avx2,
    .values = values_avx2,
    .values_half = values_half_avx2,
    .product = product_avx2,
    .transpose = transpose_avx2,
    .exp_sum = exp_sum_avx2,
    .activate = activate_avx2,
};
#endif
