/* hparams.h - what a model file says about the model's shape. */
#ifndef MLXCEL_MODEL_HPARAMS_H
#define MLXCEL_MODEL_HPARAMS_H

#include "base/arena.h"
#include "files/files.h"
#include "model/arch/arch.h"
#include "model/model.h"

enum { MODEL_MAX_LAYERS = 1024, MODEL_MAX_EXPERTS = 1024 };

struct layer_hparams {
    int32_t n_heads, n_kv_heads, n_ff;
    bool is_swa, use_rope;
};

struct rope_hparams {
    enum rope_scaling scaling;
    float freq_base, freq_scale;         /* freq_scale: 1 / factor */
    float freq_base_swa, freq_scale_swa; /* of sliding-window layers */
    float ext_factor;                    /* -1: follows scaling */
    float attn_factor, beta_fast, beta_slow, log_mul;
    float attn_factor_long; /* longrope's, where the file says so; 1 */
    float yarn_magnitude;   /* a folder's: queries and keys are multiplied by it; 0: not said */
    bool yarn_fractions;    /* the bounds of YaRN's ramp are not rounded */
    int32_t n_ctx_orig;
    /* A folder's factors [n_rot/2], NULL: none; a GGUF file has tensors. */
    const float *factors, *factors_long, *factors_short;
};

struct hparams {
    const struct arch *arch;
    bool is_hf; /* from a folder */
    int32_t n_ctx_train, n_embd, n_layers;
    int32_t n_heads, n_kv_heads, n_ff; /* of layers that say nothing of their own */
    int32_t head_dim_k, head_dim_v, n_rot;
    int32_t n_experts, n_experts_used, n_ff_exp, n_ff_shared;
    int32_t n_swa, swa_period; /* n_swa 0: no window */
    bool layers_know_windows;  /* is_swa is settled, whatever the architecture's pattern */
    int32_t n_token_types, n_labels;
    int32_t pooling, gating_func;
    float norm_eps, expert_scale, clamp_qkv;
    float attn_soft_cap, final_soft_cap;           /* 0: none */
    float attn_scale;                              /* of the logits */
    float embd_scale, residual_scale, logit_scale; /* 1: none */
    bool causal, norm_topk, rope_finetuned;
    bool is_matryoshka;
    bool classifies_mean; /* a classifier reads the mean of the tokens, not one of them */
    int32_t n_pos_offset; /* position 0 is this row of the position embedding */
    int32_t n_dense[2];   /* outputs of the dense layers behind pooling; 0: none */
    enum activation act;
    const float *alibi;  /* [n_heads] slopes, or NULL */
    int32_t yes_no[2];   /* rows of the output layer that rank; [0] < 0: none do */
    const int32_t *dims; /* [n_dims] widths embeddings were trained to be cut to */
    size_t n_dims;       /* 0: any, where is_matryoshka */
    struct rope_hparams rope;
    struct layer_hparams *layers; /* [n_layers], in the arena */
    const char *const *labels;
};

/* Read and check everything. Fails naming the key and what it may be. */
bool hparams_read(const struct model_file *file, const struct arch *arch, struct arena *arena,
                  struct hparams *out, struct error *err);
/* The part that the two sources share: derived values and ranges; called by
 * hparams_read and for synthetic models. */
bool hparams_finish(struct hparams *h, struct error *err);
/* What holds where a file says nothing. */
void hparams_defaults(struct hparams *h, const struct arch *arch);

/* What config files call an activation; false for an unknown name. */
bool hparams_activation(struct slice name, enum activation *act);

/* ---- the keys, shared by the readers ------------------------------------- */

enum key_type { KEY_INT, KEY_REAL, KEY_BOOL };

struct hparam_key {
    const char *gguf; /* after "ARCH." */
    const char *hf;   /* alternatives separated by '|'; NULL: not in folders */
    enum key_type type;
    bool required;
    size_t offset; /* in struct hparams: int32_t, float or bool */
};

extern const struct hparam_key hparam_keys[];
extern const size_t hparam_n_keys;

/* Fill *h from a folder's config.json (defaults already there). */
bool hparams_read_hf(const struct model_file *file, struct arena *arena, struct hparams *h,
                     struct error *err);
/* What modules.json and config.json say about embedding. */
bool hparams_read_modules(const struct model_file *file, const json_t *config, struct arena *arena,
                          struct hparams *h, struct error *err);
/* The part of config.json that describes the language model. */
const json_t *hf_text_config(const json_t *config);

#endif
