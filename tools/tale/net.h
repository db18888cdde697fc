/* net.h - the network's parts that its files share. */
#ifndef MLXCEL_TOOLS_NET_H
#define MLXCEL_TOOLS_NET_H

#include "tale.h"

/* The matrices of a layer, in the order they stand in memory. */
enum layer_tensor { T_NORM1, T_Q, T_K, T_V, T_O, T_NORM2, T_GATE, T_UP, T_DOWN, LAYER_TENSORS };

struct tensor_place {
    size_t offset;         /* in the array of all parameters */
    int32_t rows, columns; /* a norm has one row */
};

struct lora_pair {
    size_t a, b; /* offsets: A [rank][columns], B [rows][rank] */
};

/* What the forward pass keeps of a layer for the backward pass; [n][...]. */
struct layer_state {
    float *x_in, *normed1, *inverse_rms1;
    float *q, *k, *v, *attended, *log_sum; /* log_sum: [n][n_heads] */
    float *x_mid, *normed2, *inverse_rms2;
    float *gate, *up, *hidden;
};

struct net {
    struct net_config config;
    struct worker_pool *pool;
    int32_t n_max; /* tokens of a batch */

    float *parameters, *gradients; /* of the base model */
    size_t n_parameters;
    struct tensor_place embedding, final_norm;
    struct tensor_place (*layers)[LAYER_TENSORS];

    /* The adapter; its A and B are what learns then. */
    int32_t lora_rank;
    float lora_alpha;
    struct lora_pair (*lora)[LAYER_TENSORS];
    float *lora_parameters, *lora_gradients, *effective;
    size_t n_lora;

    float *adam_m, *adam_v;
    unsigned char *is_norm; /* [n_parameters]: a norm's weight, which does not decay */
    int64_t n_updates;

    struct layer_state *states;
    float *x, *final_normed, *final_inverse_rms;
    float *logits; /* [targets][n_vocab] */
    float *picked; /* final_normed of the rows with targets */
    int32_t *picked_row;
    float *d_x, *d_a, *d_b, *d_c, *d_hidden, *d_gate, *d_up, *turned, *weight_turned;
};

static inline bool is_projection(int tensor)
{
    return tensor != T_NORM1 && tensor != T_NORM2;
}

/* Names as Hugging Face writes them, without "model.layers.N." and ".weight". */
extern const char *const layer_tensor_names[LAYER_TENSORS];

/* The values the forward pass uses: the base, or the base with the adapter. */
static inline const float *net_weight(const struct net *net, const struct tensor_place *place)
{
    return (net->effective ? net->effective : net->parameters) + place->offset;
}

/* effective = base + alpha / rank * B A; after each change of A or B. */
void net_merge_lora(struct net *net);

/* ---- attention.c ---- */

/* Causal attention within documents. q, k, v, out: [n][n_embd], log_sum:
 * [n][n_heads]. Rotated already. */
void attend(const struct net *net, const struct net_batch *batch, struct layer_state *s);
/* d_out -> d_q, d_k, d_v (all [n][n_embd]). */
void attend_backward(const struct net *net, const struct net_batch *batch,
                     const struct layer_state *s, const float *d_out, float *d_q, float *d_k,
                     float *d_v);
/* Rotary positions (Su et al. 2021), halves paired; direction -1 undoes it. */
void rotate(const struct net *net, const struct net_batch *batch, float *x, int direction);

#endif
