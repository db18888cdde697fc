/* neon.c - the tables of kernels for AArch64: what every such processor has,
 * and the same with the dot products of ARMv8.2. */
#if defined(__aarch64__)
#include "kernels/neon.h"

#define NEON_BUT_PANEL_DOT                                                                         \
    .quantize = quantize_neon, .quantize_wide = quantize_wide_neon, .unpack = unpack_neon,         \
    .reads_packed = reads_packed_neon, .float_dots = float_dots_neon, .lanes_sum = lanes_sum_neon, \
    .decode = decode_neon, .scores = scores_neon, .values = values_neon,                           \
    .values_half = values_half_neon, .product = product_neon, .transpose = transpose_generic,      \
    .exp_sum = exp_sum_neon, .activate = activate_neon

const struct kernel_table kernels_neon = {
    .name = "neon",
    .panel_dot = panel_dot_neon,
    NEON_BUT_PANEL_DOT,
};

const struct kernel_table kernels_neon_dot = {
    .name = "neon_dot",
    .panel_dot = panel_dot_neon_dot,
    NEON_BUT_PANEL_DOT,
};
#endif
