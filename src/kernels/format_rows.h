/* format_rows.h - the formats of numbers and of weight matrices: a row each.
 *
 * Included by kernels.h for the numbering alone. What a row says becomes its entry of the
 * table in format.c (struct format); the columns before the last are constants, because
 * the kernels of each instruction set are compiled for them. To add a format, add its row
 * here and the functions that the row names; nothing else lists the formats. */
#ifndef MLXCEL_KERNELS_FORMAT_ROWS_H
#define MLXCEL_KERNELS_FORMAT_ROWS_H

/* Numbers that stand alone: identifier, name in safetensors (NULL: none), number in GGUF
 * (-1: none), bytes of an element, what else the row says. decode_NAME decodes them. */
#define PLAIN_FORMATS(FORMAT)                                                                      \
    FORMAT(F32, f32, "F32", 0, 4, .info.file_type = 0, .info.is_cache = true,                      \
           .encode = encode_f32, .matrix = &matrix_of_floats)                                      \
    FORMAT(F16, f16, "F16", 1, 2, .info.file_type = 1, .info.is_cache = true,                      \
           .encode = encode_f16, .matrix = &matrix_of_floats)                                      \
    FORMAT(BF16, bf16, "BF16", 30, 2, .info.file_type = 32, .info.is_cache = true,                 \
           .encode = encode_bf16, .matrix = &matrix_of_floats)                                     \
    FORMAT(F64, f64, "F64", 28, 8, NOT_A_FILE, .encode = encode_f64, .matrix = &matrix_of_numbers) \
    FORMAT(I8, i8, "I8", 24, 1, NOT_A_FILE, .matrix = &matrix_of_numbers)                          \
    FORMAT(I16, i16, "I16", 25, 2, NOT_A_FILE, .matrix = &matrix_of_numbers)                       \
    FORMAT(I32, i32, "I32", 26, 4, NOT_A_FILE, .matrix = &matrix_of_numbers)                       \
    FORMAT(I64, i64, "I64", 27, 8, NOT_A_FILE, .matrix = &matrix_of_numbers)                       \
    FORMAT(U8, u8, "U8", -1, 1, NOT_A_FILE, .matrix = &matrix_of_numbers)                          \
    FORMAT(U16, u16, "U16", -1, 2, NOT_A_FILE, .matrix = &matrix_of_numbers)                       \
    FORMAT(U32, u32, "U32", -1, 4, NOT_A_FILE, .matrix = &matrix_of_numbers)                       \
    FORMAT(U64, u64, "U64", -1, 8, NOT_A_FILE, .matrix = &matrix_of_numbers)                       \
    FORMAT(BOOL, bool, "BOOL", -1, 1, NOT_A_FILE, .matrix = &matrix_of_numbers)                    \
    FORMAT(F8_E4M3, f8_e4m3, "F8_E4M3", -1, 1, NOT_A_FILE, .matrix = &matrix_of_numbers)           \
    FORMAT(F8_E5M2, f8_e5m2, "F8_E5M2", -1, 1, NOT_A_FILE, .matrix = &matrix_of_numbers)

/* Blocks of small integers with scales: identifier, suffix of its functions, name, number
 * in GGUF, bytes and elements of a block, elements that share a scale (16 or 32), whether
 * they have a minimum too, what is added to the integers so that they are 0..max, max,
 * what else the row says. unpack_NAME takes a block apart (unpack.c), unpack_simd_NAME
 * sixteen rows of them (panel_simd.h). */
#define BLOCK_FORMATS(FORMAT)                                                                      \
    FORMAT(Q1_0, q1_0, "q1_0", 41, 18, 128, 32, false, 1, 2, .info.file_type = 40,                 \
           .encode_block = encode_q1_0)                                                            \
    FORMAT(Q2_0, q2_0, "q2_0", 42, 18, 64, 32, false, 1, 3, .info.file_type = 41,                  \
           .encode_block = encode_q2_0)                                                            \
    FORMAT(Q4_0, q4_0, "q4_0", 2, 18, 32, 32, false, 8, 15, .info.file_type = 2,                   \
           .info.is_cache = true, .encode_block = encode_q4_0)                                     \
    FORMAT(Q4_1, q4_1, "q4_1", 3, 20, 32, 32, true, 0, 15, .info.file_type = 3,                    \
           .info.is_cache = true, .encode_block = encode_q4_1)                                     \
    FORMAT(Q5_0, q5_0, "q5_0", 6, 22, 32, 32, false, 16, 31, .info.file_type = 8,                  \
           .info.is_cache = true, .encode_block = encode_q5_0)                                     \
    FORMAT(Q5_1, q5_1, "q5_1", 7, 24, 32, 32, true, 0, 31, .info.file_type = 9,                    \
           .info.is_cache = true, .encode_block = encode_q5_1)                                     \
    FORMAT(Q8_0, q8_0, "q8_0", 8, 34, 32, 32, false, 128, 255, .info.file_type = 7,                \
           .info.is_cache = true, .encode_block = encode_q8_0)                                     \
    FORMAT(Q8_1, q8_1, "q8_1", 9, 36, 32, 32, false, 128, 255, NOT_A_FILE,                         \
           .set_scale = set_scale_q8_1)                                                            \
    FORMAT(Q2_K, q2_k, "q2_K", 10, 84, 256, 16, true, 0, 3, NOT_A_FILE,                            \
           .encode_block = encode_q2_k)                                                            \
    FORMAT(Q3_K, q3_k, "q3_K", 11, 110, 256, 16, false, 4, 7, NOT_A_FILE, .small_last = true,      \
           .encode_block = encode_q3_k)                                                            \
    FORMAT(Q4_K, q4_k, "q4_K", 12, 144, 256, 32, true, 0, 15, NOT_A_FILE,                          \
           .encode_block = encode_q4_k)                                                            \
    FORMAT(Q5_K, q5_k, "q5_K", 13, 176, 256, 32, true, 0, 31, NOT_A_FILE,                          \
           .encode_block = encode_q5_k)                                                            \
    FORMAT(Q6_K, q6_k, "q6_K", 14, 210, 256, 16, false, 32, 63, NOT_A_FILE, .small_last = true,    \
           .encode_block = encode_q6_k)                                                            \
    FORMAT(Q8_K, q8_k, "q8_K", 15, 292, 256, 32, false, 128, 255, NOT_A_FILE,                      \
           .set_scale = set_scale_q8_k)                                                            \
    FORMAT(IQ1_S, iq1_s, "iq1_s", 19, 50, 256, 32, false, 9, 18, .info.file_type = 24,             \
           .largest = 15 * 1.125f)                                                                 \
    FORMAT(IQ1_M, iq1_m, "iq1_m", 29, 56, 256, 16, false, 9, 18, .info.file_type = 31,             \
           .set_scale = set_scale_iq1_m)                                                           \
    FORMAT(IQ2_XXS, iq2_xxs, "iq2_xxs", 16, 66, 256, 32, false, 43, 86, .info.file_type = 19,      \
           .largest = 43 * 15.5f / 4)                                                              \
    FORMAT(IQ2_XS, iq2_xs, "iq2_xs", 17, 74, 256, 16, false, 43, 86, .info.file_type = 20,         \
           .largest = 43 * 15.5f / 4)                                                              \
    FORMAT(IQ2_S, iq2_s, "iq2_s", 22, 82, 256, 16, false, 43, 86, .info.file_type = 28,            \
           .largest = 43 * 15.5f / 4)                                                              \
    FORMAT(IQ3_XXS, iq3_xxs, "iq3_xxs", 18, 98, 256, 32, false, 62, 124, .info.file_type = 23,     \
           .largest = 62 * 15.5f / 2)                                                              \
    FORMAT(IQ3_S, iq3_s, "iq3_s", 21, 110, 256, 32, false, 15, 30, .info.file_type = 26,           \
           .largest = 15 * 31)                                                                     \
    FORMAT(IQ4_NL, iq4_nl, "iq4_nl", 20, 18, 32, 32, false, 127, 240, .info.file_type = 25,        \
           .info.is_cache = true, .encode_block = encode_iq4_nl)                                   \
    FORMAT(IQ4_XS, iq4_xs, "iq4_xs", 23, 136, 256, 32, false, 127, 240, .info.file_type = 30,      \
           .encode_block = encode_iq4_xs)                                                          \
    FORMAT(TQ1_0, tq1_0, "tq1_0", 34, 54, 256, 32, false, 1, 2, .info.file_type = 36,              \
           .small_last = true, .encode_block = encode_tq1_0)                                       \
    FORMAT(TQ2_0, tq2_0, "tq2_0", 35, 66, 256, 32, false, 1, 3, .info.file_type = 37,              \
           .small_last = true, .encode_block = encode_tq2_0)                                       \
    FORMAT(MXFP4, mxfp4, "mxfp4", 39, 17, 32, 32, false, 12, 24, .info.file_type = 38,             \
           .encode_block = encode_mxfp4)                                                           \
    FORMAT(NVFP4, nvfp4, "nvfp4", 40, 36, 64, 16, false, 12, 24, .info.file_type = 39,             \
           .encode_block = encode_nvfp4)

/* Matrices of several tensors, numbers in one and their scales in another: identifier,
 * name, what the numbers' tensor is of, what else the row says. */
#define SCALED_FORMATS(FORMAT)                                                                     \
    FORMAT(F8_SCALED, "f8_scaled", F8_E4M3, .info.bits = 8, .value = e4m3_to_f32,                  \
           .matrix = &matrix_of_scaled_f8)                                                         \
    FORMAT(MLX_AFFINE, "mlx_affine", U32, .info.mlx_mode = "affine", .info.bits = 4,               \
           .info.group_len = 64, .info.has_biases = true, .matrix = &matrix_of_mlx)                \
    FORMAT(MLX_MXFP4, "mlx_mxfp4", U32, .info.mlx_mode = "mxfp4", .info.bits = 4,                  \
           .info.group_len = 32, .value = e2m1_to_f32, .group_scale = e8m0_to_f32,                 \
           .matrix = &matrix_of_mlx)                                                               \
    FORMAT(MLX_MXFP8, "mlx_mxfp8", U32, .info.mlx_mode = "mxfp8", .info.bits = 8,                  \
           .info.group_len = 32, .value = e4m3_to_f32, .group_scale = e8m0_to_f32,                 \
           .matrix = &matrix_of_mlx_bytes)                                                         \
    FORMAT(MLX_NVFP4, "mlx_nvfp4", U32, .info.mlx_mode = "nvfp4", .info.bits = 4,                  \
           .info.group_len = 16, .value = e2m1_to_f32, .group_scale = e4m3_to_f32,                 \
           .matrix = &matrix_of_mlx)

#endif
