/* synthetic.h - a model made up from a description: its tensors in memory. */
#ifndef MLXCEL_MODEL_SYNTHETIC_H
#define MLXCEL_MODEL_SYNTHETIC_H

#include "model/hparams.h"

enum { SYNTHETIC_NAME_MAX = 96, SYNTHETIC_WINDOW = 4096 };
#define SYNTHETIC_EPS       1e-6f /* of a gemma2's norms; its caps */
#define SYNTHETIC_ATTN_CAP  50.0f
#define SYNTHETIC_FINAL_CAP 30.0f
#define SYNTHETIC_BERT_EPS  1e-12f /* of its norms */

struct synthetic_tensor {
    char name[SYNTHETIC_NAME_MAX];
    struct tensor_view view; /* data points into memory once filled */
    size_t offset;           /* of its data from the first tensor's */
    float amplitude;         /* values lie within; 0: all are 1 (norms) */
};

struct synthetic {
    const char *family, *size, *type; /* "llama", "1b", "q4_k_m": as the tables spell them */
    int32_t n_layers, n_embd, n_heads, n_kv_heads, n_ff, n_vocab, n_ctx;
    int32_t n_window;                 /* of a gemma2's every other layer */
    int32_t mlx_bits;                 /* 0: GGUF's types; else an MLX folder's, groups of 64 */
    uint32_t ftype;                   /* general.file_type */
    struct synthetic_tensor *tensors; /* owned */
    size_t n_tensors, n_bytes;
};

/* Read "FAMILY:SIZE:TYPE[:key=value...]" and lay the tensors out. */
bool synthetic_parse(const char *spec, struct synthetic *s, struct error *err);
/* Fill n_bytes at memory with the weights. */
void synthetic_fill(struct synthetic *s, unsigned char *memory, struct worker_pool *pool);
void synthetic_free(struct synthetic *s);
bool synthetic_is_bert(const struct synthetic *s);
bool synthetic_is_gemma(const struct synthetic *s);

/* model.c: fill in the info of a model that is bound. */
struct model;
void model_describe(struct model *m, const char *name, const char *size_label, const char *ftype);

#endif
