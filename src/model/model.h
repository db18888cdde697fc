/* model.h - a language model: hyperparameters, weights, KV cache, forward pass.
 *
 * A struct model is immutable once loaded and may be shared by any number of
 * contexts. A struct model_context holds the KV cache and the scratch memory
 * of one forward pass; one thread at a time may use it (its worker pools do
 * the parallel part). The result of a sequence does not depend on who shares
 * the batch, on how a batch is split into micro-batches, or on the number of
 * threads.
 * Depends on: base, kernels, files. */
#ifndef MLXCEL_MODEL_MODEL_H
#define MLXCEL_MODEL_MODEL_H

#include "base/error.h"
#include "base/slice.h"
#include "base/str.h"
#include "files/files.h"
#include "kernels/kernels.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the model -------------------------------------------------------- */

struct model;

/* How token vectors become one vector; the numbers are the format's. */
enum pooling {
    POOLING_UNSPECIFIED = -1, /* the model's own default */
    POOLING_NONE = 0,
    POOLING_MEAN = 1,
    POOLING_CLS = 2,
    POOLING_LAST = 3,
    POOLING_RANK = 4
};

enum rope_scaling {
    ROPE_SCALING_UNSPECIFIED = -1, /* the model's own */
    ROPE_SCALING_NONE = 0,
    ROPE_SCALING_LINEAR = 1,
    ROPE_SCALING_YARN = 2,
    ROPE_SCALING_LONGROPE = 3
};

/* What users and routes ask about a model. All text lives as long as it. */
struct model_info {
    const char *arch;        /* "llama", "qwen3moe", as GGUF names it */
    const char *name;        /* the file's own general.name; "" when it has none */
    const char *size_label;  /* "7B" from the file or counted; "" when unknown */
    const char *ftype;       /* "Q4_K - Medium", as the reference prints it */
    const char *description; /* "llama 1B Q4_K - Medium" */
    int32_t n_vocab;
    int32_t n_ctx_train;
    int32_t n_embd;
    int32_t n_embd_out; /* components of an embedding (after dense layers) */
    int32_t n_layers;
    int32_t n_heads, n_kv_heads; /* of the first layer */
    int32_t n_experts, n_experts_used;
    int32_t n_swa;             /* sliding window in tokens; 0: none */
    uint64_t n_params;         /* elements of all tensors */
    uint64_t n_bytes;          /* bytes of all tensors as stored */
    bool is_encoder;           /* bert and its kind: no generation, no KV cache */
    bool has_decoder;          /* can generate */
    enum pooling pooling;      /* the model's default; NONE for plain decoders */
    bool is_matryoshka;        /* trained so that embeddings may be cut short, */
    const int32_t *dims;       /* to these widths, */
    size_t n_dims;             /* 0: to any */
    int32_t n_labels;          /* of a classification head; 0: none */
    const char *const *labels; /* n_labels names (may hold NULL) */
    float rope_freq_base, rope_freq_scale;
};

struct model_settings {
    bool repack;          /* let the kernels repack weights (more speed, more memory) */
    bool check_tensors;   /* refuse weights that hold NaN or infinity */
    atomic_int *progress; /* permille of the weights that are repacked; NULL: not asked for */
};

/* Bind the weights of an open file to an architecture. file must outlive the
 * model. pool (may be NULL) is used for repacking only and not kept.
 * Fails, naming the file's tensor or key: unknown architecture (the message
 * lists the supported ones), missing tensor, a shape that does not fit the
 * hyperparameters, hyperparameters out of their range. */
bool model_load(const struct model_file *file, const struct model_settings *settings,
                struct worker_pool *pool, struct model **out, struct error *err);

/* A model of random weights with no file behind it, for measuring.
 *   spec  "FAMILY:SIZE:DTYPE[:key=value...]", FAMILY "llama", "gemma2" or "bert", SIZE one
 *         of the names that model_synthetic_sizes() lists ("llama:1b": 2048
 *         wide, 16 layers, 32 heads, 8 KV heads, 8192 feed-forward, 32768
 *         tokens), DTYPE a dtype name or a mix ("q4_k_m"), any case
 * The weights repeat for the same spec. */
bool model_synthetic(const char *spec, const struct model_settings *settings,
                     struct worker_pool *pool, struct model **out, struct error *err);
/* The same model as a GGUF file, with a placeholder vocabulary. */
bool model_synthetic_write(const char *spec, const char *path, struct error *err);
/* "1b, 100m, ..." for messages and help. */
const char *model_synthetic_sizes(void);
/* The i-th DTYPE of a spec, "q4_k_m"; NULL behind the last. */
const char *model_synthetic_type(size_t i);

/* Frees NULL too. No context may be left. */
void model_free(struct model *model);

const struct model_info *model_info(const struct model *model);

/* Append "llama, qwen2, ...": every architecture model_load knows. */
bool model_supported_architectures(struct str *out);

/* ---- a context -------------------------------------------------------- */

struct model_context;

/* Sequences that one context can hold at most. */
enum { MODEL_SEQ_MAX = 256 };

struct context_settings {
    int32_t n_ctx;     /* KV cells in all; 0: the model's n_ctx_train. Rounded up to a
                        * multiple of 256, and so is each sequence's share */
    int32_t n_seq_max; /* sequences 0 .. n_seq_max-1 (at most MODEL_SEQ_MAX); 0: 1 */
    int32_t n_shares;  /* equal parts of n_ctx that one sequence may fill one of, where
                        * kv_unified is off; 0: n_seq_max */
    int32_t n_batch;   /* most tokens of one model_decode; 0: 2048 */
    int32_t n_ubatch;  /* most tokens of one pass over the weights; 0: 512 */
    /* dtypes of the KV cache: F32 F16 BF16 Q8_0 Q4_0 Q4_1 IQ4_NL Q5_0 Q5_1 */
    enum dtype type_k, type_v;
    bool kv_unified; /* all sequences draw on one budget of n_ctx cells; else
                      * each has at most n_ctx / n_shares */
    bool swa_full;   /* sliding-window layers keep every cell; else, where embeddings is
                      * off, little more than the windows of all sequences */
    bool embeddings; /* embeddings are wanted and no logits are computed; always so
                      * with encoders */
    bool causal;     /* false: every token sees its whole sequence (embedding
                      * with a decoder) ; ignored by encoders */
    enum pooling pooling;
    /* Overrides of the model's own; 0 (scaling: UNSPECIFIED) keeps it. */
    enum rope_scaling rope_scaling;
    float rope_freq_base, rope_freq_scale;
    /* YaRN; negative keeps the model's own (attn_factor: 0 keeps it too). */
    float yarn_ext_factor, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
    int32_t yarn_orig_ctx; /* 0 keeps the model's own */
    /* The pools outlive the context. pool runs generation (one token per
     * sequence), pool_batch prompts; NULL pool_batch: pool does both. */
    struct worker_pool *pool, *pool_batch;
};

/* Settings that mean "as the model says": f16 cache, causal, nothing overridden. */
struct context_settings context_settings_default(void);

/* What context_create would reserve, from arithmetic alone: nothing is reserved. Bytes
 * are UINT64_MAX where they are too many to count. Fails with ERR_INVALID as it does. */
struct context_needs {
    int32_t n_ctx;       /* cells in all */
    uint64_t kv_bytes;   /* of the cache and its lists */
    uint64_t work_bytes; /* to compute with, as batches need it */
};
bool context_measure(const struct model *model, const struct context_settings *settings,
                     struct context_needs *out, struct error *err);

/* Fails with ERR_INVALID for settings that make no sense (which one), with
 * ERR_MEMORY (how much was wanted). KV memory is touched only as cells fill. */
bool context_create(const struct model *model, const struct context_settings *settings,
                    struct model_context **out, struct error *err);
void context_free(struct model_context *ctx);

int32_t context_n_ctx(const struct model_context *ctx);     /* cells in all */
int32_t context_n_ctx_seq(const struct model_context *ctx); /* most of one sequence */
int32_t context_n_batch(const struct model_context *ctx);
int32_t context_n_ubatch(const struct model_context *ctx);
enum pooling context_pooling(const struct model_context *ctx);
size_t context_kv_bytes(const struct model_context *ctx); /* reserved for the cache */
/* Tokens that layers with a sliding window look back; 0: none has one, or swa_full. */
int32_t context_n_swa(const struct model_context *ctx);

/* Ask now and then (between layers) whether to give up; true ends model_decode
 * with ERR_CANCELLED, the batch's cells freed again. NULL: never. Set while no
 * decode runs; the callback is called on the decoding thread. */
void context_set_abort(struct model_context *ctx, bool (*should_abort)(void *), void *arg);

/* A GGUF file of control vectors: tensors "direction.N", F32 [n_embd], N from 1. */
struct control_source {
    const char *path;
    float scale;
};

/* Layers first..last (counted from 0, both included; first <= 0: 1, last <= 0: the
 * model's last) add the sum of the sources' directions, each times its scale, to
 * what they pass on. Layer 0 has none, and encoders take none. Replaces what was
 * set before; n 0: none. Set while no decode runs. Fails with nothing changed: a
 * file that cannot be read, a tensor that is no direction of this model. */
bool context_set_control(struct model_context *ctx, const struct control_source *sources, size_t n,
                         int32_t first, int32_t last, struct error *err);

/* ---- the forward pass -------------------------------------------------- */

/* Tokens of any mix of sequences. A sequence's positions must go up within the
 * batch and lie beyond what the cache holds of it. All arrays are the
 * caller's, n_tokens long. */
struct batch {
    int32_t n_tokens; /* 1 .. n_batch */
    const int32_t *token;
    const int32_t *pos;      /* >= 0 */
    const int32_t *seq;      /* 0 .. n_seq_max-1 */
    const bool *want_logits; /* NULL: the last token only */
    /* Tokens whose attention is summed in F32, as a prompt's that is at least
     * MODEL_LONG_PROMPT long: faster for many in a row. NULL: none. What a token gives
     * depends on its own flag, never on its company. Encoders do so always. */
    const bool *wide;
};

enum { MODEL_LONG_PROMPT = 64 };

/* Run the batch: cells are filled, logits computed where wanted.
 * Fails with nothing changed: ERR_INVALID (token id, position or sequence out
 * of range; a sliding window whose cells are given up; which), ERR_LIMIT (no KV
 * cell free: free some or send a smaller batch), ERR_CANCELLED (abort). What a
 * cancelled batch pushed out of sliding windows stays out: see kv_seq_pos_min. */
bool model_decode(struct model_context *ctx, const struct batch *batch, struct error *err);

/* Logits [n_vocab] of batch index i (0 .. n_tokens-1) of the last decode,
 * NULL when they were not wanted. i < 0 counts wanted rows from the end: -1 is
 * the last. Valid until the next decode; the caller may change them. */
float *model_logits(struct model_context *ctx, int32_t i);

/* Final hidden state [n_embd_out] of batch index i: pooling NONE, embeddings
 * on, where want_logits. NULL otherwise. */
const float *model_embedding(struct model_context *ctx, int32_t i);
/* The pooled vector of a sequence of the last decode: [n_embd_out], or
 * [n_labels] scores (at least one) with pooling RANK. NULL when the sequence
 * had no token in it. A pooled sequence must be whole within one n_ubatch. */
const float *model_embedding_seq(struct model_context *ctx, int32_t seq);

/* Touch all weights once (one token through an empty sequence, then forgotten),
 * so that the first request does not pay for it. */
bool model_warmup(struct model_context *ctx, struct error *err);

/* ---- the KV cache ------------------------------------------------------ */
/* Ranges are positions [p0, p1); p0 < 0 means 0, p1 < 0 means to the end. */

/* Forget a range of one sequence, or of all with seq < 0. false (nothing
 * changed) when the cache cannot (a sliding window that has given up what the
 * position behind the new end would see). */
bool kv_seq_remove(struct model_context *ctx, int32_t seq, int32_t p0, int32_t p1);
/* dst gets src's cells too, in place of its own at these positions: shared, no
 * data is copied but that of sliding windows where each sequence has a share of its
 * own. What src has given up in windows dst has not either. false when they are
 * more than dst may hold. */
bool kv_seq_copy(struct model_context *ctx, int32_t src, int32_t dst, int32_t p0, int32_t p1);
/* Move positions by delta; keys are re-rotated. Cells that another sequence
 * shares are not changed: the range is copied for seq first. false when
 * kv_can_shift is (sliding windows that keep no more than they must), when a position would be
 * negative, or when no cell is free for a copy; nothing is changed then. */
bool kv_seq_shift(struct model_context *ctx, int32_t seq, int32_t p0, int32_t p1, int32_t delta);
bool kv_can_shift(const struct model_context *ctx);
/* Smallest position that all layers hold, with all that follow it, and largest
 * position; -1 when the sequence is empty. */
int32_t kv_seq_pos_min(const struct model_context *ctx, int32_t seq);
int32_t kv_seq_pos_max(const struct model_context *ctx, int32_t seq);
/* Cells in use by any sequence. */
int32_t kv_cells_used(const struct model_context *ctx);

/* Append a sequence's cells to out (positions, keys, values, with the shapes
 * they belong to). false when out of memory. */
bool kv_seq_save(const struct model_context *ctx, int32_t seq, struct str *out);
/* Replace a sequence by what kv_seq_save wrote. Fails (sequence empty then):
 * ERR_FORMAT (cut, or of another model or cache type), ERR_LIMIT (no room). */
bool kv_seq_load(struct model_context *ctx, int32_t seq, struct slice saved, struct error *err);

/* What saved sequences of a context look like. It outlives the context, so that what
 * was saved can be looked at by any thread, without the context. */
struct kv_layout {
    int32_t type_k, type_v; /* enum dtype */
    int32_t head_dim_k, head_dim_v, n_layers, n_window;
    int32_t n_kv_heads[2]; /* summed over layers that keep all, and windowed ones */
};
void context_kv_layout(const struct model_context *ctx, struct kv_layout *out);

enum { KV_SAVED_HEAD_BYTES = 56 };

/* From the first KV_SAVED_HEAD_BYTES of what kv_seq_save wrote: how many bytes it has
 * in all. Fails ERR_FORMAT unless it is of this layout and has n_tokens cells. */
bool kv_saved_bytes(const struct kv_layout *layout, const void *head, int32_t n_tokens,
                    uint64_t *bytes, struct error *err);
/* Whether its positions are 0 .. n_tokens - 1; for as many bytes as kv_saved_bytes
 * said. */
bool kv_saved_is_dense(struct slice saved, int32_t n_tokens);

/* The same for sliding windows alone: what the position behind a sequence's last
 * sees in them. Loading it takes the sequence back to that position, as long as it
 * still holds those before it. Fails with nothing changed: ERR_FORMAT (also for a
 * window of positions that the sequence does not have), ERR_LIMIT. */
bool kv_seq_save_window(const struct model_context *ctx, int32_t seq, struct str *out);
bool kv_seq_load_window(struct model_context *ctx, int32_t seq, struct slice saved,
                        struct error *err);

#endif
