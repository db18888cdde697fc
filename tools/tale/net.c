/* net.c - a llama: forward, backward, AdamW.
 *
 * The same definitions as the engine's: RMS norm (Zhang and Sennrich 2019),
 * rotary positions, SwiGLU (Shazeer 2020), tied embeddings. */
#include "net.h"

#include "gemm.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 32 };

static const float adam_beta1 = 0.9f, adam_beta2 = 0.95f, adam_epsilon = 1e-8f;
static const float largest_gradient_norm = 1.0f, first_deviation = 0.02f;

/* ---- making it ---- */

static struct tensor_place place(size_t *offset, int32_t rows, int32_t columns)
{
    struct tensor_place p = {*offset, rows, columns};
    *offset += (size_t)rows * (size_t)columns;
    return p;
}

static void lay_out(struct net *net)
{
    const struct net_config *c = &net->config;
    size_t offset = 0;
    net->embedding = place(&offset, c->n_vocab, c->n_embd);
    for (int32_t l = 0; l < c->n_layers; l++)
        for (int t = 0; t < LAYER_TENSORS; t++) {
            int32_t rows = t == T_GATE || t == T_UP ? c->n_ff : c->n_embd;
            int32_t columns = t == T_DOWN ? c->n_ff : c->n_embd;
            net->layers[l][t] = place(&offset, is_projection(t) ? rows : 1, columns);
        }
    net->final_norm = place(&offset, 1, c->n_embd);
    net->n_parameters = offset;
}

/* Box and Muller 1958. */
static float normal(struct random *random)
{
    double u = 1.0 - random_double(random), v = random_double(random);
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

static void fill_normal(float *to, size_t n, float deviation, struct random *random)
{
    for (size_t i = 0; i < n; i++)
        to[i] = deviation * normal(random);
}

static void fill_ones(float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = 1.0f;
}

static void initialize(struct net *net, uint32_t seed)
{
    const struct net_config *c = &net->config;
    struct random random;
    random_seed(&random, seed);
    fill_normal(net->parameters + net->embedding.offset, (size_t)c->n_vocab * (size_t)c->n_embd,
                first_deviation, &random);
    /* What adds to the residual stream starts smaller, by its depth. */
    float residual = first_deviation / sqrtf(2.0f * (float)c->n_layers);
    for (int32_t l = 0; l < c->n_layers; l++)
        for (int t = 0; t < LAYER_TENSORS; t++) {
            struct tensor_place *p = &net->layers[l][t];
            size_t n = (size_t)p->rows * (size_t)p->columns;
            if (!is_projection(t)) {
                fill_ones(net->parameters + p->offset, n);
                memset(net->is_norm + p->offset, 1, n);
            } else {
                fill_normal(net->parameters + p->offset, n,
                            t == T_O || t == T_DOWN ? residual : first_deviation, &random);
            }
        }
    fill_ones(net->parameters + net->final_norm.offset, (size_t)c->n_embd);
    memset(net->is_norm + net->final_norm.offset, 1, (size_t)c->n_embd);
}

static float *floats(size_t n)
{
    return calloc(n, sizeof(float));
}

static bool allocate_states(struct net *net)
{
    const struct net_config *c = &net->config;
    size_t n = (size_t)net->n_max, e = (size_t)c->n_embd, f = (size_t)c->n_ff;
    size_t largest = f > e ? f : e;
    bool ok = true;
    net->states = calloc((size_t)c->n_layers, sizeof *net->states);
    for (int32_t l = 0; net->states && l < c->n_layers; l++) {
        struct layer_state *s = &net->states[l];
        float **rows_e[] = {&s->x_in, &s->normed1,  &s->q,     &s->k,
                            &s->v,    &s->attended, &s->x_mid, &s->normed2};
        float **rows_f[] = {&s->gate, &s->up, &s->hidden};
        for (size_t i = 0; i < sizeof rows_e / sizeof *rows_e; i++)
            ok = (*rows_e[i] = floats(n * e)) && ok;
        for (size_t i = 0; i < sizeof rows_f / sizeof *rows_f; i++)
            ok = (*rows_f[i] = floats(n * f)) && ok;
        ok = (s->inverse_rms1 = floats(n)) && (s->inverse_rms2 = floats(n)) && ok;
        ok = (s->log_sum = floats(n * (size_t)c->n_heads)) && ok;
    }
    float **buffers_e[] = {&net->x,   &net->final_normed, &net->picked, &net->d_x,
                           &net->d_a, &net->d_b,          &net->d_c};
    for (size_t i = 0; i < sizeof buffers_e / sizeof *buffers_e; i++)
        ok = (*buffers_e[i] = floats(n * e)) && ok;
    float **buffers_f[] = {&net->d_hidden, &net->d_gate, &net->d_up};
    for (size_t i = 0; i < sizeof buffers_f / sizeof *buffers_f; i++)
        ok = (*buffers_f[i] = floats(n * f)) && ok;
    size_t widest = (size_t)c->n_vocab > largest ? (size_t)c->n_vocab : largest;
    ok = (net->final_inverse_rms = floats(n)) && ok;
    ok = (net->logits = floats(n * (size_t)c->n_vocab)) && ok;
    ok = (net->turned = floats(n * widest)) && ok;
    ok = (net->weight_turned = floats(widest * largest)) && ok;
    net->picked_row = calloc(n, sizeof *net->picked_row);
    return ok && net->states && net->picked_row;
}

struct net *net_create(const struct net_config *config, int32_t n_batch_max, uint32_t seed,
                       struct worker_pool *pool)
{
    struct net *net = calloc(1, sizeof *net);
    if (!net)
        return NULL;
    net->config = *config;
    net->pool = pool;
    net->n_max = n_batch_max;
    net->layers = calloc((size_t)config->n_layers, sizeof *net->layers);
    if (!net->layers) {
        net_free(net);
        return NULL;
    }
    lay_out(net);
    net->parameters = floats(net->n_parameters);
    net->gradients = floats(net->n_parameters);
    net->adam_m = floats(net->n_parameters);
    net->adam_v = floats(net->n_parameters);
    net->is_norm = calloc(net->n_parameters, 1);
    if (!net->is_norm || !net->parameters || !net->gradients || !net->adam_m || !net->adam_v ||
        !allocate_states(net)) {
        net_free(net);
        return NULL;
    }
    initialize(net, seed);
    return net;
}

void net_free(struct net *net)
{
    if (!net)
        return;
    for (int32_t l = 0; net->states && l < net->config.n_layers; l++) {
        struct layer_state *s = &net->states[l];
        float *all[] = {s->x_in,  s->normed1, s->inverse_rms1, s->q,
                        s->k,     s->v,       s->attended,     s->log_sum,
                        s->x_mid, s->normed2, s->inverse_rms2, s->gate,
                        s->up,    s->hidden};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            free(all[i]);
    }
    float *all[] = {net->parameters,
                    net->gradients,
                    net->lora_parameters,
                    net->lora_gradients,
                    net->effective,
                    net->adam_m,
                    net->adam_v,
                    net->x,
                    net->final_normed,
                    net->final_inverse_rms,
                    net->logits,
                    net->picked,
                    net->d_x,
                    net->d_a,
                    net->d_b,
                    net->d_c,
                    net->d_hidden,
                    net->d_gate,
                    net->d_up,
                    net->turned,
                    net->weight_turned};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(net->picked_row);
    free(net->is_norm);
    free(net->states);
    free(net->layers);
    free(net->lora);
    free(net);
}

const struct net_config *net_config(const struct net *net)
{
    return &net->config;
}

float *net_parameters(struct net *net, size_t *n)
{
    *n = net->lora_rank ? net->n_lora : net->n_parameters;
    return net->lora_rank ? net->lora_parameters : net->parameters;
}

const float *net_gradients(const struct net *net)
{
    return net->lora_rank ? net->lora_gradients : net->gradients;
}

/* ---- products with weights ---- */

/* y[n][rows] = x[n][columns] w^T */
static void project(struct net *net, const struct tensor_place *w, size_t n, const float *x,
                    float *y)
{
    size_t rows = (size_t)w->rows, columns = (size_t)w->columns;
    transpose(net->pool, rows, columns, net_weight(net, w), net->weight_turned);
    gemm(net->pool, n, rows, columns, x, net->weight_turned, y, 0);
}

/* d_x (+)= d_y w, and the weight's gradient += d_y^T x. */
static void project_backward(struct net *net, const struct tensor_place *w, size_t n,
                             const float *x, const float *d_y, float *d_x, int add)
{
    size_t rows = (size_t)w->rows, columns = (size_t)w->columns;
    gemm(net->pool, n, columns, rows, d_y, net_weight(net, w), d_x, add);
    transpose(net->pool, n, rows, d_y, net->turned);
    gemm(net->pool, rows, columns, n, net->turned, x, net->gradients + w->offset, 1);
}

/* ---- norms, activations ---- */

static void normalize(const struct net *net, size_t n, const float *x, const float *weight,
                      float *y, float *inverse_rms)
{
    size_t e = (size_t)net->config.n_embd;
    for (size_t t = 0; t < n; t++) {
        const float *row = x + t * e;
        float squares = 0;
        for (size_t i = 0; i < e; i++)
            squares += row[i] * row[i];
        inverse_rms[t] = 1.0f / sqrtf(squares / (float)e + net->config.norm_eps);
        for (size_t i = 0; i < e; i++)
            y[t * e + i] = row[i] * inverse_rms[t] * weight[i];
    }
}

/* d_x += the norm's share of d_y; the weight's gradient too. */
static void normalize_backward(struct net *net, const struct tensor_place *w, size_t n,
                               const float *x, const float *inverse_rms, const float *d_y,
                               float *d_x)
{
    size_t e = (size_t)net->config.n_embd;
    const float *weight = net_weight(net, w);
    float *d_weight = net->gradients + w->offset;
    for (size_t t = 0; t < n; t++) {
        const float *row = x + t * e, *d_row = d_y + t * e;
        float r = inverse_rms[t], sum = 0;
        for (size_t i = 0; i < e; i++) {
            d_weight[i] += d_row[i] * row[i] * r;
            sum += d_row[i] * weight[i] * row[i];
        }
        float pull = sum * r * r * r / (float)e;
        for (size_t i = 0; i < e; i++)
            d_x[t * e + i] += d_row[i] * weight[i] * r - row[i] * pull;
    }
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

struct gating {
    const float *gate, *up, *d_hidden;
    float *hidden, *d_gate, *d_up;
};

static void activate_range(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct gating *a = arg;
    for (size_t i = begin; i < end; i++)
        a->hidden[i] = a->gate[i] * sigmoid(a->gate[i]) * a->up[i];
}

static void activate_backward_range(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct gating *a = arg;
    for (size_t i = begin; i < end; i++) {
        float s = sigmoid(a->gate[i]), silu = a->gate[i] * s;
        a->d_up[i] = a->d_hidden[i] * silu;
        a->d_gate[i] = a->d_hidden[i] * a->up[i] * (s + silu * (1.0f - s));
    }
}

static void add_to(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* ---- forward ---- */

static void forward_layer(struct net *net, const struct net_batch *batch, int32_t l)
{
    struct layer_state *s = &net->states[l];
    struct tensor_place *w = net->layers[l];
    size_t n = (size_t)batch->n, e = (size_t)net->config.n_embd, f = (size_t)net->config.n_ff;
    memcpy(s->x_in, net->x, n * e * sizeof(float));
    normalize(net, n, s->x_in, net_weight(net, &w[T_NORM1]), s->normed1, s->inverse_rms1);
    project(net, &w[T_Q], n, s->normed1, s->q);
    project(net, &w[T_K], n, s->normed1, s->k);
    project(net, &w[T_V], n, s->normed1, s->v);
    rotate(net, batch, s->q, 1);
    rotate(net, batch, s->k, 1);
    attend(net, batch, s);
    project(net, &w[T_O], n, s->attended, s->x_mid);
    add_to(s->x_mid, s->x_in, n * e);
    normalize(net, n, s->x_mid, net_weight(net, &w[T_NORM2]), s->normed2, s->inverse_rms2);
    project(net, &w[T_GATE], n, s->normed2, s->gate);
    project(net, &w[T_UP], n, s->normed2, s->up);
    struct gating a = {.gate = s->gate, .up = s->up, .hidden = s->hidden};
    worker_pool_each(net->pool, n * f, 4096, activate_range, &a);
    project(net, &w[T_DOWN], n, s->hidden, net->x);
    add_to(net->x, s->x_mid, n * e);
}

/* Softmax of each row, less one at the target and divided by their number: the
 * gradient of the mean cross entropy. Returns the sum of the losses. */
static double softmax_loss(struct net *net, const struct net_batch *batch, size_t n_targets)
{
    size_t v = (size_t)net->config.n_vocab;
    double loss = 0;
    for (size_t i = 0; i < n_targets; i++) {
        float *row = net->logits + i * v, highest = row[0], sum = 0;
        int32_t target = batch->target[net->picked_row[i]];
        for (size_t k = 1; k < v; k++)
            highest = row[k] > highest ? row[k] : highest;
        for (size_t k = 0; k < v; k++)
            sum += row[k] = expf(row[k] - highest);
        for (size_t k = 0; k < v; k++)
            row[k] /= sum;
        loss -= log(row[target] > 1e-30f ? (double)row[target] : 1e-30);
        row[target] -= 1.0f;
        for (size_t k = 0; k < v; k++)
            row[k] /= (float)n_targets;
    }
    return loss;
}

static size_t pick_targets(struct net *net, const struct net_batch *batch)
{
    size_t e = (size_t)net->config.n_embd, n = 0;
    for (int32_t t = 0; t < batch->n; t++) {
        if (batch->target[t] < 0)
            continue;
        memcpy(net->picked + n * e, net->final_normed + (size_t)t * e, e * sizeof(float));
        net->picked_row[n++] = t;
    }
    return n;
}

/* ---- backward ---- */

static void backward_layer(struct net *net, const struct net_batch *batch, int32_t l)
{
    struct layer_state *s = &net->states[l];
    struct tensor_place *w = net->layers[l];
    size_t n = (size_t)batch->n, f = (size_t)net->config.n_ff;
    /* d_x is the gradient of the layer's output, and of both residual paths. */
    project_backward(net, &w[T_DOWN], n, s->hidden, net->d_x, net->d_hidden, 0);
    struct gating a = {s->gate, s->up, net->d_hidden, NULL, net->d_gate, net->d_up};
    worker_pool_each(net->pool, n * f, 4096, activate_backward_range, &a);
    project_backward(net, &w[T_GATE], n, s->normed2, net->d_gate, net->d_a, 0);
    project_backward(net, &w[T_UP], n, s->normed2, net->d_up, net->d_a, 1);
    normalize_backward(net, &w[T_NORM2], n, s->x_mid, s->inverse_rms2, net->d_a, net->d_x);

    /* The wide buffers serve for q, k and v, which are narrower. */
    float *d_attended = net->d_a, *d_q = net->d_b, *d_k = net->d_c, *d_v = net->d_hidden;
    project_backward(net, &w[T_O], n, s->attended, net->d_x, d_attended, 0);
    attend_backward(net, batch, s, d_attended, d_q, d_k, d_v);
    rotate(net, batch, d_q, -1);
    rotate(net, batch, d_k, -1);
    project_backward(net, &w[T_Q], n, s->normed1, d_q, net->d_a, 0);
    project_backward(net, &w[T_K], n, s->normed1, d_k, net->d_a, 1);
    project_backward(net, &w[T_V], n, s->normed1, d_v, net->d_a, 1);
    normalize_backward(net, &w[T_NORM1], n, s->x_in, s->inverse_rms1, net->d_a, net->d_x);
}

static void backward(struct net *net, const struct net_batch *batch, size_t n_targets)
{
    size_t e = (size_t)net->config.n_embd, n = (size_t)batch->n;
    /* Through the tied head: d_a holds the picked rows' gradients. */
    project_backward(net, &net->embedding, n_targets, net->picked, net->logits, net->d_a, 0);
    memset(net->d_b, 0, n * e * sizeof(float));
    for (size_t i = 0; i < n_targets; i++)
        memcpy(net->d_b + (size_t)net->picked_row[i] * e, net->d_a + i * e, e * sizeof(float));
    memset(net->d_x, 0, n * e * sizeof(float));
    normalize_backward(net, &net->final_norm, n, net->x, net->final_inverse_rms, net->d_b,
                       net->d_x);
    for (int32_t l = net->config.n_layers; l-- > 0;)
        backward_layer(net, batch, l);
    for (size_t t = 0; t < n; t++)
        add_to(net->gradients + net->embedding.offset + (size_t)batch->token[t] * e,
               net->d_x + t * e, e);
}

/* ---- the adapter ---- */

void net_merge_lora(struct net *net)
{
    memcpy(net->effective, net->parameters, net->n_parameters * sizeof(float));
    float scale = net->lora_alpha / (float)net->lora_rank;
    size_t rank = (size_t)net->lora_rank;
    for (int32_t l = 0; l < net->config.n_layers; l++)
        for (int t = 0; t < LAYER_TENSORS; t++) {
            if (!is_projection(t))
                continue;
            struct tensor_place *w = &net->layers[l][t];
            const float *a = net->lora_parameters + net->lora[l][t].a;
            const float *b = net->lora_parameters + net->lora[l][t].b;
            size_t columns = (size_t)w->columns;
            for (size_t i = 0; i < (size_t)w->rows; i++)
                for (size_t r = 0; r < rank; r++)
                    for (size_t k = 0; k < columns; k++)
                        net->effective[w->offset + i * columns + k] +=
                            scale * b[i * rank + r] * a[r * columns + k];
        }
}

/* From the gradient of the effective weights to those of A and B. */
static void lora_backward(struct net *net)
{
    float scale = net->lora_alpha / (float)net->lora_rank;
    size_t rank = (size_t)net->lora_rank;
    memset(net->lora_gradients, 0, net->n_lora * sizeof(float));
    for (int32_t l = 0; l < net->config.n_layers; l++)
        for (int t = 0; t < LAYER_TENSORS; t++) {
            if (!is_projection(t))
                continue;
            struct tensor_place *w = &net->layers[l][t];
            const struct lora_pair *at = &net->lora[l][t];
            const float *a = net->lora_parameters + at->a, *b = net->lora_parameters + at->b;
            float *d_a = net->lora_gradients + at->a, *d_b = net->lora_gradients + at->b;
            size_t columns = (size_t)w->columns;
            for (size_t i = 0; i < (size_t)w->rows; i++) {
                const float *d_w = net->gradients + w->offset + i * columns;
                for (size_t r = 0; r < rank; r++) {
                    float sum = 0;
                    for (size_t k = 0; k < columns; k++) {
                        sum += d_w[k] * a[r * columns + k];
                        d_a[r * columns + k] += scale * b[i * rank + r] * d_w[k];
                    }
                    d_b[i * rank + r] += scale * sum;
                }
            }
        }
}

bool net_add_lora(struct net *net, int32_t rank, float alpha, uint32_t seed)
{
    struct random random;
    random_seed(&random, seed);
    net->lora = calloc((size_t)net->config.n_layers, sizeof *net->lora);
    if (!net->lora)
        return false;
    for (int32_t l = 0; l < net->config.n_layers; l++)
        for (int t = 0; t < LAYER_TENSORS; t++) {
            if (!is_projection(t))
                continue;
            net->lora[l][t].a = net->n_lora;
            net->n_lora += (size_t)rank * (size_t)net->layers[l][t].columns;
            net->lora[l][t].b = net->n_lora;
            net->n_lora += (size_t)rank * (size_t)net->layers[l][t].rows;
        }
    net->lora_parameters = floats(net->n_lora);
    net->lora_gradients = floats(net->n_lora);
    net->effective = floats(net->n_parameters);
    if (!net->lora_parameters || !net->lora_gradients || !net->effective)
        return false;
    /* A is random, B zero: the adapter begins as nothing. */
    for (int32_t l = 0; l < net->config.n_layers; l++)
        for (int t = 0; t < LAYER_TENSORS; t++)
            if (is_projection(t))
                fill_normal(net->lora_parameters + net->lora[l][t].a,
                            (size_t)rank * (size_t)net->layers[l][t].columns, first_deviation,
                            &random);
    net->lora_rank = rank;
    net->lora_alpha = alpha;
    net_merge_lora(net);
    net->n_updates = 0;
    memset(net->adam_m, 0, net->n_parameters * sizeof(float));
    memset(net->adam_v, 0, net->n_parameters * sizeof(float));
    return net->n_lora <= net->n_parameters;
}

/* ---- loss and update ---- */

float net_loss(struct net *net, const struct net_batch *batch, bool with_backward)
{
    size_t e = (size_t)net->config.n_embd, n = (size_t)batch->n;
    if (net->lora_rank)
        net_merge_lora(net);
    const float *embedding = net_weight(net, &net->embedding);
    for (size_t t = 0; t < n; t++)
        memcpy(net->x + t * e, embedding + (size_t)batch->token[t] * e, e * sizeof(float));
    for (int32_t l = 0; l < net->config.n_layers; l++)
        forward_layer(net, batch, l);
    normalize(net, n, net->x, net_weight(net, &net->final_norm), net->final_normed,
              net->final_inverse_rms);
    size_t n_targets = pick_targets(net, batch);
    if (n_targets == 0)
        return 0;
    project(net, &net->embedding, n_targets, net->picked, net->logits);
    double loss = softmax_loss(net, batch, n_targets);
    if (with_backward) {
        memset(net->gradients, 0, net->n_parameters * sizeof(float));
        backward(net, batch, n_targets);
        if (net->lora_rank)
            lora_backward(net);
    }
    return (float)(loss / (double)n_targets);
}

void net_update(struct net *net, float learning_rate, float weight_decay)
{
    size_t n;
    float *parameters = net_parameters(net, &n);
    const float *gradients = net_gradients(net);
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)gradients[i] * gradients[i];
    float norm = (float)sqrt(squares);
    float clip = norm > largest_gradient_norm ? largest_gradient_norm / norm : 1.0f;
    net->n_updates++;
    float correct1 = 1.0f - powf(adam_beta1, (float)net->n_updates);
    float correct2 = 1.0f - powf(adam_beta2, (float)net->n_updates);
    for (size_t i = 0; i < n; i++) {
        float g = gradients[i] * clip;
        net->adam_m[i] = adam_beta1 * net->adam_m[i] + (1.0f - adam_beta1) * g;
        net->adam_v[i] = adam_beta2 * net->adam_v[i] + (1.0f - adam_beta2) * g * g;
        float step = net->adam_m[i] / correct1 / (sqrtf(net->adam_v[i] / correct2) + adam_epsilon);
        bool decays = net->lora_rank || !net->is_norm[i];
        parameters[i] -= learning_rate * (step + (decays ? weight_decay * parameters[i] : 0));
    }
}
