/* avx512.c - the table of kernels for AVX-512 with VNNI. */
#if defined(__x86_64__)
#include "kernels/avx512.h"

const struct kernel_table kernels_avx512 = {
    .name = "avx512",
    .quantize = quantize_avx512,
    .quantize_wide = quantize_wide_avx512,
    .unpack = unpack_avx512,
    .panel_dot = panel_dot_avx512,
    .panel_one = panel_one_avx512,
    .reads_packed = reads_packed_avx512,
    .float_dots = float_dots_avx512,
    .lanes_sum = lanes_sum_avx512,
    .decode = decode_avx512,
    .scores = scores_avx512,
    .scores_half = scores_half_avx512,
    .values = values_avx512,
    .values_half = values_half_avx512,
    .product = product_avx512,
    .transpose = transpose_avx512,
    .exp_sum = exp_sum_avx512,
    .activate = activate_avx512,
};
#endif
