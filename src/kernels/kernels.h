/* kernels.h - numbers: formats of weights, and what is computed with them.
 *
 * Formats (struct dtype_info), weight matrices (struct matrix), the worker
 * pool, and the operations of a transformer: matmul, norms, rope, activations,
 * softmax, attention over a cache. The fastest instruction set the processor
 * has is chosen at first use; the environment variable MLXCEL_ISA (generic;
 * avx2, avx512 on x86-64; neon, neon_dot on AArch64) limits it. Constant after
 * that: everything here may be called from any thread, except that a worker pool, and so every
 * function that takes one, serves one caller at a time.
 *
 * All arithmetic is in F32. Weights in a block format are multiplied with
 * activations rounded to 8 bits per block of 32 (of 256, where the weights come
 * in such blocks); F32, F16, BF16 and the other
 * plain formats with the activations as they are. The value of an output never
 * depends on how many rows share a call or on the number of threads.
 *
 * Depends on: base. */
#ifndef MLXCEL_KERNELS_KERNELS_H
#define MLXCEL_KERNELS_KERNELS_H

#include "base/error.h"
#include "kernels/format_rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- formats ---------------------------------------------------------- */

/* How numbers are stored: DTYPE_F32, DTYPE_Q4_K and so on, one for each row of
 * format_rows.h. The numbering is our own; dtype_from_ggml maps the file format's. The last
 * ones are formats of weight matrices alone, whose scales are a tensor of their own:
 * DTYPE_F8_SCALED (F8_E4M3, a scale per block_rows x block_cols), DTYPE_MLX_AFFINE (U32
 * words of bits 2, 3, 4, 5, 6 or 8; a scale and a bias per group), DTYPE_MLX_MXFP4 (E2M1, an
 * E8M0 scale per 32), DTYPE_MLX_MXFP8 (E4M3, likewise), DTYPE_MLX_NVFP4 (E2M1, an E4M3 scale
 * per 16). */
enum dtype {
#define NUMBER(ID, ...) DTYPE_##ID,
    PLAIN_FORMATS(NUMBER) BLOCK_FORMATS(NUMBER) SCALED_FORMATS(NUMBER)
#undef NUMBER
        DTYPE_COUNT
};

/* The longest block of any format, in elements. */
enum { DTYPE_MAX_BLOCK = 256 };

struct dtype_info {
    const char *name;        /* as the file format's community writes it: "f32", "q4_K" */
    const char *safetensors; /* in safetensors files: "F32"; NULL: not there */
    int32_t ggml_type;       /* its number in a GGUF file, -1: none */
    int32_t file_type;       /* GGUF's number of files that are of it throughout, -1: none */
    uint16_t block_len;      /* elements of a block; rows hold whole blocks */
    uint16_t block_bytes;    /* bytes of a block */
    bool can_decode;         /* dtype_decode knows it: all but the scaled ones */
    bool is_quantized;       /* a block format */
    bool is_cache;           /* a KV cache may hold it */

    bool is_scaled;       /* no tensor is of it: a matrix of several tensors, and then: */
    enum dtype stored;    /* what the numbers' tensor is of */
    const char *mlx_mode; /* as config.json's "quantization" calls it; NULL: not MLX's */
    int32_t bits;         /* of a number (MLX_AFFINE: if config.json does not say) */
    int32_t group_len;    /* numbers that share a scale (likewise); 0: by block_rows, _cols */
    bool has_biases;      /* a bias beside each scale */
};

/* Never NULL for a valid dtype. */
const struct dtype_info *dtype_info(enum dtype dtype);
/* Whether dtype_encode knows it. */
bool dtype_can_encode(enum dtype dtype);
/* A GGUF type number; false when there is no such type (or it was removed). */
bool dtype_from_ggml(uint32_t type, enum dtype *dtype);
/* A name, in upper or lower case. */
bool dtype_from_name(const char *name, enum dtype *dtype);
/* Bytes of n elements; false when n is no whole number of blocks or the product
 * overflows. */
bool dtype_bytes(enum dtype dtype, uint64_t n, size_t *bytes);

/* Decode n elements (whole blocks) into out[n]. The truth about a format: plain
 * C, short. Source: the GGUF formats' definition; OCP Microscaling v1.0; OCP
 * 8-bit floating point v1.0. */
void dtype_decode(enum dtype dtype, const void *blocks, float *out, size_t n);
/* Encode n elements (whole blocks). False when the format has no encoder. The
 * rounding of f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 iq4_nl (the cache's
 * formats) is the usual one; the others are simple and meant for synthetic
 * models. */
bool dtype_encode(enum dtype dtype, const float *x, void *blocks, size_t n);
/* n elements (whole blocks) of random valid bytes whose values lie about
 * evenly within +-amplitude; any format. *state is the generator's state, any
 * non-zero start; the same start gives the same bytes. */
void dtype_fill_random(enum dtype dtype, void *blocks, size_t n, float amplitude, uint64_t *state);

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* to nearest, ties to even */
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f); /* to nearest, ties to even; a NaN stays one */

/* "generic", "avx2", "avx512", "neon", "neon_dot": what runs. */
const char *kernels_isa(void);

/* ---- the worker pool -------------------------------------------------- */

enum { WORKER_MAX_CPUS = 1024, WORKER_MAX_THREADS = 512 };

struct worker_settings {
    int32_t n_threads;                       /* the caller counts; at least 1 */
    uint64_t cpu_mask[WORKER_MAX_CPUS / 64]; /* all zero: anywhere */
    bool strict;                             /* thread i on the i-th CPU of the mask alone */
    int32_t priority;                        /* -1 low, 0 normal, 1 medium, 2 high, 3 realtime */
    int32_t poll;                            /* 0 park at once .. 100 spin long before parking */
};

struct worker_pool;
typedef void (*worker_fn)(void *arg, int32_t thread, int32_t n_threads);

/* Start n_threads - 1 threads. Priorities and affinities that the system
 * refuses are ignored. NULL with *err on failure. */
struct worker_pool *worker_pool_create(const struct worker_settings *settings, struct error *err);
/* Not while a run is on. NULL is fine. */
void worker_pool_free(struct worker_pool *pool);
int32_t worker_pool_n_threads(const struct worker_pool *pool);
/* The calling thread becomes thread 0 of the pool for good: it takes that thread's
 * CPUs and the priority. A pool without a mask gives it the CPUs that the maker of
 * the pool had. */
void worker_pool_enter(const struct worker_pool *pool);
/* Call fn(arg, thread, n_threads) once on every thread (the caller is thread 0)
 * and return when all are through. A pool of NULL is a pool of one thread. Not
 * from within fn. */
void worker_pool_run(struct worker_pool *pool, worker_fn fn, void *arg);
/* Call fn(arg, begin, end, thread) for pieces of 0..n_items of at most grain
 * items each: every thread has a stretch of them, and helps others when it is done. */
typedef void (*worker_items_fn)(void *arg, size_t begin, size_t end, int32_t thread);
void worker_pool_each(struct worker_pool *pool, size_t n_items, size_t grain, worker_items_fn fn,
                      void *arg);
/* All threads of a run wait for each other; only within fn, by every thread. */
void worker_pool_barrier(struct worker_pool *pool);
/* Memory that functions of this room use between themselves: make it at least
 * so many bytes. It grows by itself; reserving ahead makes failure impossible
 * later. */
bool worker_pool_reserve(struct worker_pool *pool, size_t bytes, struct error *err);

/* ---- weight matrices -------------------------------------------------- */

/* n_experts matrices of n_rows (outputs) x n_cols (inputs), each row
 * contiguous, one after another. Borrows all data but .packed. Fill in what the
 * format needs and call matrix_check; or matrix_plain. */
struct matrix {
    enum dtype dtype;
    int32_t n_rows, n_cols;
    int32_t n_experts; /* 1: a plain matrix */
    const void *data;
    size_t n_bytes; /* of data */

    /* the scaled formats: */
    enum dtype scale_dtype;         /* F32, F16, BF16; U8 for MLX's MX and NV formats */
    const void *scales;             /* [n_experts][n_rows][n_cols / group_size], or blocks' */
    const void *biases;             /* MLX_AFFINE: same shape and dtype as scales */
    int32_t bits;                   /* MLX_AFFINE; else what the format says */
    int32_t group_size;             /* MLX_AFFINE: 32, 64, 128 */
    int32_t block_rows, block_cols; /* F8_SCALED; scales [experts][ceil rows][ceil cols] */
    float scale;                    /* MLX_NVFP4 and F8_SCALED: one more factor; 0 means 1 */

    void *packed; /* matrix_prepare's, owned */
    size_t row_bytes;
};

/* A plain matrix over n_bytes of data. */
bool matrix_plain(struct matrix *w, enum dtype dtype, int32_t n_rows, int32_t n_cols,
                  int32_t n_experts, const void *data, size_t n_bytes, struct error *err);
/* Check shapes, sizes and formats, and fill in row_bytes. scales_bytes and
 * biases_bytes are the sizes of what w->scales and w->biases point at. */
bool matrix_check(struct matrix *w, size_t scales_bytes, size_t biases_bytes, struct error *err);
/* Repack for speed where that pays (a copy: w->packed, then w->data is not read
 * by matmul any more, only by matrix_row). True when nothing was to be done. */
bool matrix_prepare(struct matrix *w, struct worker_pool *pool, struct error *err);
/* Free what matrix_prepare made. */
void matrix_release(struct matrix *w);
/* Row `row` of expert `expert`, decoded: out[n_cols]. */
void matrix_row(const struct matrix *w, int32_t expert, int32_t row, float *out);

/* One product of a call: y[i][0..n_rows) = w x[i] + bias. */
struct matmul_term {
    const struct matrix *w; /* n_experts 1 */
    const float *bias;      /* [n_rows] or NULL */
    float *y;               /* [n_x][y_stride] */
    size_t y_stride;        /* in floats, at least n_rows */
    bool add;               /* add to y instead of overwriting it */
};

/* The pool may not be NULL here. y = w x for n_x rows of x [n_x][x_stride]. False when out of
 * memory (see worker_pool_reserve; matmul_scratch says how much). */
bool matmul(struct worker_pool *pool, const struct matrix *w, const float *x, size_t x_stride,
            size_t n_x, float *y, size_t y_stride);
/* Several matrices of the same n_cols over the same x (q, k and v; gate and
 * up): the activations are prepared once. */
bool matmul_many(struct worker_pool *pool, const struct matmul_term *terms, size_t n_terms,
                 const float *x, size_t x_stride, size_t n_x);
/* Mixture of experts: for each j of n, y[j] = w[expert[j]] x[x_row[j]] (+
 * bias[expert[j]], bias [n_experts][n_rows] or NULL). Groups the rows by expert
 * itself, so that each expert's weights are read once. x has n_x rows. */
bool matmul_gathered(struct worker_pool *pool, const struct matrix *w, const float *bias,
                     const int32_t *expert, const int32_t *x_row, size_t n, const float *x,
                     size_t x_stride, size_t n_x, float *y, size_t y_stride);
/* Scratch bytes that a call with n_x rows (or n assignments) of n_cols needs. */
size_t matmul_scratch(const struct worker_pool *pool, size_t n_x, size_t n_cols);

/* ---- rows ------------------------------------------------------------- */

/* Each works on rows of n floats on the calling thread; y may be x. */

/* y = x / sqrt(mean(x^2) + eps) * weight (NULL: ones). Zhang, Sennrich 2019. */
void rms_norm(const float *x, const float *weight, float eps, size_t n, float *y);
/* y = (x - mean) / sqrt(var + eps) * weight + bias (each may be NULL). */
void layer_norm(const float *x, const float *weight, const float *bias, float eps, size_t n,
                float *y);
void vec_add(const float *a, const float *b, size_t n, float *y);
void vec_mul(const float *a, const float *b, size_t n, float *y);
void vec_scale(const float *x, float scale, size_t n, float *y);
/* y += scale * x */
void vec_add_scaled(float *y, const float *x, float scale, size_t n);
float vec_dot(const float *a, const float *b, size_t n);
/* y = cap * tanh(x / cap) */
void soft_cap(const float *x, float cap, size_t n, float *y);
/* y = softmax(x * scale + mask); mask may be NULL; sink, when not NULL, is one
 * more logit that takes part of the sum and gets no output. */
void softmax(const float *x, const float *mask, float scale, const float *sink, size_t n, float *y);

enum activation {
    ACT_SILU,
    ACT_GELU,       /* the tanh approximation */
    ACT_GELU_ERF,   /* exact */
    ACT_GELU_QUICK, /* x sigmoid(1.702 x) */
    ACT_RELU,
    ACT_RELU_SQR,
    ACT_TANH,
    ACT_SIGMOID
};
void activate(enum activation act, const float *x, size_t n, float *y);
/* y = act(gate) * up: SwiGLU, GeGLU and their kind. Shazeer 2020. */
void activate_gated(enum activation act, const float *gate, const float *up, size_t n, float *y);
/* gpt-oss: gate <= limit, |up| <= limit, y = gate sigmoid(alpha gate) (up + 1). */
void swiglu_oai(const float *gate, const float *up, float alpha, float limit, size_t n, float *y);

/* ---- rope ------------------------------------------------------------- */

enum rope_kind {
    ROPE_NORMAL, /* pairs (2i, 2i+1) */
    ROPE_NEOX    /* pairs (i, i + n_dims/2) */
};

/* Su et al. 2021; YaRN: Peng et al. 2023. */
struct rope_params {
    int32_t n_dims;             /* rotated dimensions, even; the rest of a head passes through */
    float freq_base;            /* 10000 */
    float freq_scale;           /* 1; linear scaling by s: 1/s */
    float ext_factor;           /* 0: no YaRN */
    float attn_factor;          /* 1 */
    float beta_fast, beta_slow; /* 32, 1 */
    int32_t n_ctx_orig;
    const float *freq_factors; /* [n_dims/2], each frequency is divided by its own; or NULL */
    bool fractions;            /* YaRN's ramp begins and ends between dimensions */
};

/* The rotation of position pos: cos_sin[n_dims] = cos, sin, cos, sin... One per
 * token serves all heads and all layers with these parameters. */
void rope_angles(const struct rope_params *p, int32_t pos, float *cos_sin);
/* Rotate the first n_dims of each of n_heads heads, in place. */
void rope_apply(enum rope_kind kind, float *x, int32_t n_heads, size_t head_stride, int32_t n_dims,
                const float *cos_sin);

/* ---- attention -------------------------------------------------------- */

enum attention_window {
    WINDOW_NONE,
    WINDOW_SLIDING,  /* q_pos - pos < window */
    WINDOW_CHUNKED,  /* pos in the same chunk of `window` positions as q_pos */
    WINDOW_SYMMETRIC /* |q_pos - pos| <= window / 2 */
};

/* The cells that one sequence sees, and its queries. List the cells by
 * position: results are then the same wherever they lie. */
struct attention_sequence {
    const int32_t *cells; /* [n_cells] cell numbers in the cache */
    const int32_t *pos;   /* [n_cells] their positions */
    int32_t n_cells;
    int32_t first_query; /* its queries are rows first_query.. of q and out */
    int32_t n_queries;
    /* Sum in F32 throughout, which is faster for many queries that follow each other;
     * else queries and sums of values are rounded as the cache's formats are. Either
     * gives the same bits for one query as for many. */
    bool wide;
};

/* Keys and values: cell c, head h begins at k + c * k_cell_bytes + h *
 * k_head_bytes and holds head_dim_k elements of k_dtype. */
struct attention {
    int32_t n_heads, n_kv_heads;    /* n_heads a multiple of n_kv_heads */
    int32_t head_dim_k, head_dim_v; /* whole blocks of their dtypes */
    enum dtype k_dtype, v_dtype;    /* F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL */
    const void *k, *v;
    size_t k_cell_bytes, k_head_bytes, v_cell_bytes, v_head_bytes;
    float scale;    /* of the logits, 1/sqrt(head_dim) usually */
    float soft_cap; /* 0: none */
    bool causal;    /* pos <= q_pos only */
    enum attention_window window_kind;
    int32_t window;
    const float *sinks;  /* [n_heads] or NULL */
    const float *slopes; /* [n_heads] ALiBi: logit -= slope * |pos - q_pos|; or NULL */
};

/* out[query][n_heads * head_dim_v] = attention of q[query][n_heads * head_dim_k]
 * at positions q_pos[query]. A query that sees no cell gives zeros. False when
 * out of memory. The pool may not be NULL. Dao et al. 2022 (blocked online softmax). */
bool attention(struct worker_pool *pool, const struct attention *a,
               const struct attention_sequence *sequences, size_t n_sequences, const float *q,
               size_t q_stride, const int32_t *q_pos, float *out, size_t out_stride);
/* Scratch bytes it needs. */
size_t attention_scratch(const struct attention *a, int32_t n_threads);

#endif
