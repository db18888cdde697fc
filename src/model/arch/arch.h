/* arch.h - architectures as data: what differs between families of models. */
#ifndef MLXCEL_MODEL_ARCH_H
#define MLXCEL_MODEL_ARCH_H

#include "base/slice.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The weights that models have. Each may have a bias beside it; which of them a
 * file must have is the architecture's business. */
enum weight_id {
    WEIGHT_TOKEN_EMBD,
    WEIGHT_TOKEN_TYPES,
    WEIGHT_POSITION_EMBD,
    WEIGHT_EMBD_NORM,
    WEIGHT_OUTPUT_NORM,
    WEIGHT_OUTPUT,
    WEIGHT_ROPE_FREQS,
    WEIGHT_ROPE_LONG,
    WEIGHT_ROPE_SHORT,
    WEIGHT_CLS,
    WEIGHT_CLS_NORM,
    WEIGHT_CLS_OUT,
    WEIGHT_DENSE_1, /* of pooled vectors */
    WEIGHT_DENSE_2,
    WEIGHT_N_GLOBAL,
    /* one set per layer */
    WEIGHT_ATTN_NORM = WEIGHT_N_GLOBAL,
    WEIGHT_ATTN_Q,
    WEIGHT_ATTN_K,
    WEIGHT_ATTN_V,
    WEIGHT_ATTN_QKV, /* the three above, one after the other */
    WEIGHT_ATTN_OUT,
    WEIGHT_ATTN_Q_NORM,
    WEIGHT_ATTN_K_NORM,
    WEIGHT_ATTN_SINKS,
    WEIGHT_ATTN_POST_NORM,   /* after the attention's output projection */
    WEIGHT_ATTN_POST_NORM_2, /* after one more addition of the layer's input */
    WEIGHT_FFN_NORM,
    WEIGHT_FFN_GATE,
    WEIGHT_FFN_UP,
    WEIGHT_FFN_GATE_UP, /* gate rows, then up rows */
    WEIGHT_FFN_DOWN,
    WEIGHT_FFN_POST_NORM,
    WEIGHT_ROUTER,
    WEIGHT_ROUTER_BIAS, /* added to choose experts, not to weigh them */
    WEIGHT_GATE_EXPS,
    WEIGHT_UP_EXPS,
    WEIGHT_GATE_UP_EXPS,
    WEIGHT_DOWN_EXPS,
    WEIGHT_SHARED_ROUTER,
    WEIGHT_GATE_SHARED,
    WEIGHT_UP_SHARED,
    WEIGHT_DOWN_SHARED,
    WEIGHT_COUNT
};

_Static_assert(WEIGHT_COUNT <= 64, "sets of weights are 64 bits");

#define WEIGHT_BIT(id) (UINT64_C(1) << (id))

/* How a weight is called: in GGUF "blk.N.NAME", in a folder "model.layers.N.NAME"
 * ("{e}" stands for an expert's number); alternatives separated by '|'. */
struct weight_name {
    enum weight_id id;
    const char *gguf, *hf;
};

enum norm_kind { NORM_RMS, NORM_LAYER };
enum gating { GATING_NONE, GATING_SOFTMAX, GATING_SIGMOID, GATING_SOFTMAX_TOPK };

enum arch_trait {
    ARCH_PARALLEL = 1 << 0,         /* attention and FFN both read the layer's input */
    ARCH_QK_NORM_LATE = 1 << 1,     /* q/k norms come after rope */
    ARCH_NORM_PLUS_ONE = 1 << 2,    /* folders store norm weights less one */
    ARCH_EMBD_SCALE_SQRT = 1 << 3,  /* embeddings times sqrt(n_embd) */
    ARCH_BARE_NORM = 1 << 4,        /* norms without weights */
    ARCH_NO_GATE = 1 << 5,          /* the FFN is up, activation, down */
    ARCH_LOGIT_SCALE_DIV = 1 << 6,  /* logits are divided by the scale */
    ARCH_ROPE_ON_SWA_ONLY = 1 << 7, /* global layers have no positions */
    ARCH_SWA_DENSE_FIRST = 1 << 8,  /* of each period the first layer is global */
    ARCH_SWA_OWN_ROPE = 1 << 9,     /* sliding layers: rope without scaling */
    ARCH_MUST_TIE = 1 << 10,        /* output is the token embedding, always */
    ARCH_NORM_TOPK = 1 << 11,       /* chosen experts' weights add up to one */
    ARCH_NORM_TOPK_HF = 1 << 12,    /* ... where config.json's norm_topk_prob says so */
    ARCH_ENCODER = 1 << 13,         /* whole sequences, no cache, no logits */
    ARCH_ROPE_SWITCH = 1 << 14,     /* rope.scaling.finetuned false turns rope off */
    ARCH_SWA_IGNORED = 1 << 15,     /* a window in the file is not used */
    ARCH_SWIGLU_OAI = 1 << 16,      /* gpt-oss's clamped SwiGLU */
    ARCH_NO_ROPE = 1 << 17,         /* positions are learned, or there are none */
    ARCH_NORM_AFTER = 1 << 18,      /* bert: norms stand behind the additions */
    ARCH_ALIBI = 1 << 19,           /* attention falls with distance */
    ARCH_SWA_SYMMETRIC = 1 << 20,   /* the window reaches half its width both ways */
    ARCH_CLS_MEAN_GELU = 1 << 21,   /* classified: the mean, its dense layer with GELU */
    ARCH_MATRYOSHKA = 1 << 22,      /* embeddings may be cut short */
    ARCH_TURNED_EXPERTS = 1 << 23   /* folders store plain experts column by column */
};

enum { ARCH_HF_MAX = 12 };

struct arch {
    const char *name;            /* general.architecture */
    const char *hf[ARCH_HF_MAX]; /* config.json's architectures; NULL-terminated */
    const char *hf_layers;       /* "encoder.layer."; NULL: "layers." */
    enum norm_kind norm;
    enum rope_kind rope, rope_hf; /* GGUF permutes some q/k weights, folders do not */
    enum activation act;
    enum gating gating;
    uint32_t traits;
    uint64_t needs;      /* weights that must be there (biases never must) */
    uint64_t may;        /* weights that may be */
    int32_t swa_period;  /* default pattern; 0: no sliding window */
    int32_t swa_window;  /* where the file says none; 0: none then */
    int32_t swa_layers;  /* the size (by layers) that alone has windows; 0: all have */
    float swa_freq_base; /* rope of sliding layers where the file says none; 0: as the others */
    int32_t wide_query_layers;       /* the size (by layers) whose attention scale goes by
                                      * n_embd / n_heads, not by the head's width; 0: none */
    int32_t no_rope_step;            /* every n-th layer has no rope; 0: none */
    const struct weight_name *names; /* where the usual ones do not hold; ends with NULLs */
};

/* NULL when unknown. */
const struct arch *arch_by_name(const char *name, size_t len);
const struct arch *arch_by_hf(const char *name, size_t len);
/* By config.json's model_type, which is what a class is called in small letters. */
const struct arch *arch_by_model_type(struct slice type);
size_t arch_count(void);
const struct arch *arch_at(size_t i);

/* The architecture's names of a weight; always there, a part may be NULL. */
const struct weight_name *arch_weight_name(const struct arch *arch, enum weight_id id);

#endif
