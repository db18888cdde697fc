/* attention.c - causal attention within documents, forward and backward.
 *
 * Nothing of size length squared is kept: the backward pass computes the
 * probabilities again from the logarithm of their sum (Dao et al. 2022). Each
 * output row is one thread's, so the sums do not depend on their number. */
#include "isas.h"
#include "net.h"

#include "kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONTEXT = 4096, GRAIN = 16 };

struct pass {
    const struct net *net;
    const struct net_batch *batch;
    struct layer_state s;
    const float *d_out;
    float *d_q, *d_k, *d_v;
    float *d_sum; /* [n][n_heads]: d_out . out */
};

static float dot(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(float *to, const float *from, float scale, int n)
{
    for (int i = 0; i < n; i++)
        to[i] += scale * from[i];
}

/* e to the x for x <= 0, to about seven digits, in a form that compilers turn
 * into vector code: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2] (Cody and
 * Waite 1980). */
static void exponentials(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        float z = x[i] > -87.0f ? x[i] : -87.0f;
        int32_t whole = (int32_t)(z * 1.44269504f - 0.5f);
        float r = z - (float)whole * 0.693359375f + (float)whole * 2.12194440e-4f;
        float p = 1.9875691500e-4f;
        p = p * r + 1.3981999507e-3f;
        p = p * r + 8.3334519073e-3f;
        p = p * r + 4.1665795894e-2f;
        p = p * r + 1.6666665459e-1f;
        p = p * r + 5.0000001201e-1f;
        p = p * r * r + r + 1.0f;
        union {
            int32_t bits;
            float value;
        } power = {(whole + 127) << 23};
        x[i] = p * power.value;
    }
}

MANY_ISAS static void attend_row(const struct pass *p, int32_t t, int32_t head)
{
    int32_t n_embd = p->net->config.n_embd, n_heads = p->net->config.n_heads;
    int32_t size = n_embd / n_heads, begin = p->batch->doc_begin[t];
    size_t at = (size_t)head * (size_t)size;
    const float *q = p->s.q + (size_t)t * (size_t)n_embd + at;
    float *out = p->s.attended + (size_t)t * (size_t)n_embd + at;
    float scale = 1.0f / sqrtf((float)size), highest = -INFINITY, sum = 0;
    float scores[MAX_CONTEXT];
    for (int32_t j = begin; j <= t; j++) {
        float score = scale * dot(q, p->s.k + (size_t)j * (size_t)n_embd + at, size);
        scores[j - begin] = score;
        highest = score > highest ? score : highest;
    }
    for (int32_t j = 0; j <= t - begin; j++)
        scores[j] -= highest;
    exponentials(scores, t - begin + 1);
    memset(out, 0, (size_t)size * sizeof *out);
    for (int32_t j = begin; j <= t; j++) {
        sum += scores[j - begin];
        add_scaled(out, p->s.v + (size_t)j * (size_t)n_embd + at, scores[j - begin], size);
    }
    for (int32_t i = 0; i < size; i++)
        out[i] /= sum;
    p->s.log_sum[(size_t)t * (size_t)n_heads + (size_t)head] = highest + logf(sum);
}

static void attend_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct pass *p = arg;
    for (size_t t = begin; t < end; t++)
        for (int32_t head = 0; head < p->net->config.n_heads; head++)
            attend_row(p, (int32_t)t, head);
}

void attend(const struct net *net, const struct net_batch *batch, struct layer_state *s)
{
    struct pass p = {.net = net, .batch = batch, .s = *s};
    worker_pool_each(net->pool, (size_t)batch->n, GRAIN, attend_rows, &p);
}

/* d_q of one row, and the sum the keys' pass needs. */
MANY_ISAS static void query_row(const struct pass *p, int32_t t, int32_t head)
{
    int32_t n_embd = p->net->config.n_embd, n_heads = p->net->config.n_heads;
    int32_t size = n_embd / n_heads, begin = p->batch->doc_begin[t];
    size_t at = (size_t)head * (size_t)size, row = (size_t)t * (size_t)n_embd + at;
    const float *q = p->s.q + row, *d_out = p->d_out + row;
    float *d_q = p->d_q + row, weights[MAX_CONTEXT];
    float scale = 1.0f / sqrtf((float)size);
    float log_sum = p->s.log_sum[(size_t)t * (size_t)n_heads + (size_t)head];
    float d_sum = dot(d_out, p->s.attended + row, size);
    p->d_sum[(size_t)t * (size_t)n_heads + (size_t)head] = d_sum;
    for (int32_t j = begin; j <= t; j++)
        weights[j - begin] =
            scale * dot(q, p->s.k + (size_t)j * (size_t)n_embd + at, size) - log_sum;
    exponentials(weights, t - begin + 1);
    memset(d_q, 0, (size_t)size * sizeof *d_q);
    for (int32_t j = begin; j <= t; j++) {
        const float *k = p->s.k + (size_t)j * (size_t)n_embd + at;
        const float *v = p->s.v + (size_t)j * (size_t)n_embd + at;
        add_scaled(d_q, k, scale * weights[j - begin] * (dot(d_out, v, size) - d_sum), size);
    }
}

/* d_k and d_v of one row: all later rows of the document look at it. */
MANY_ISAS static void key_row(const struct pass *p, int32_t j, int32_t head)
{
    int32_t n_embd = p->net->config.n_embd, n_heads = p->net->config.n_heads;
    int32_t size = n_embd / n_heads, begin = p->batch->doc_begin[j], end = j;
    size_t at = (size_t)head * (size_t)size, row = (size_t)j * (size_t)n_embd + at;
    const float *k = p->s.k + row, *v = p->s.v + row;
    float *d_k = p->d_k + row, *d_v = p->d_v + row, weights[MAX_CONTEXT];
    float scale = 1.0f / sqrtf((float)size);
    for (; end < p->batch->n && p->batch->doc_begin[end] == begin; end++) {
        const float *q = p->s.q + (size_t)end * (size_t)n_embd + at;
        weights[end - j] =
            scale * dot(q, k, size) - p->s.log_sum[(size_t)end * (size_t)n_heads + (size_t)head];
    }
    exponentials(weights, end - j);
    memset(d_k, 0, (size_t)size * sizeof *d_k);
    memset(d_v, 0, (size_t)size * sizeof *d_v);
    for (int32_t t = j; t < end; t++) {
        size_t other = (size_t)t * (size_t)n_embd + at;
        size_t sums = (size_t)t * (size_t)n_heads + (size_t)head;
        const float *q = p->s.q + other, *d_out = p->d_out + other;
        float weight = weights[t - j];
        add_scaled(d_v, d_out, weight, size);
        add_scaled(d_k, q, scale * weight * (dot(d_out, v, size) - p->d_sum[sums]), size);
    }
}

static void query_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct pass *p = arg;
    for (size_t t = begin; t < end; t++)
        for (int32_t head = 0; head < p->net->config.n_heads; head++)
            query_row(p, (int32_t)t, head);
}

static void key_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct pass *p = arg;
    for (size_t j = begin; j < end; j++)
        for (int32_t head = 0; head < p->net->config.n_heads; head++)
            key_row(p, (int32_t)j, head);
}

void attend_backward(const struct net *net, const struct net_batch *batch,
                     const struct layer_state *s, const float *d_out, float *d_q, float *d_k,
                     float *d_v)
{
    /* The logits are through by now; their memory serves. */
    struct pass p = {net, batch, *s, d_out, d_q, d_k, d_v, net->logits};
    worker_pool_each(net->pool, (size_t)batch->n, GRAIN, query_rows, &p);
    worker_pool_each(net->pool, (size_t)batch->n, GRAIN, key_rows, &p);
}

struct rotation {
    const struct net *net;
    const struct net_batch *batch;
    float *x;
    int direction;
};

static void rotate_rows(void *arg, size_t begin, size_t end, int32_t thread)
{
    (void)thread;
    const struct rotation *r = arg;
    const struct net_config *c = &r->net->config;
    int32_t size = c->n_embd / c->n_heads, half = size / 2;
    for (size_t t = begin; t < end; t++) {
        float position = (float)((int32_t)t - r->batch->doc_begin[t]);
        for (int32_t i = 0; i < half; i++) {
            float angle = position * powf(c->rope_freq_base, -2.0f * (float)i / (float)size);
            float cosine = cosf(angle), sine = sinf(angle) * (float)r->direction;
            for (int32_t head = 0; head < c->n_heads; head++) {
                float *a = r->x + t * (size_t)c->n_embd + (size_t)(head * size + i);
                float *b = a + half;
                float turned = *a * cosine - *b * sine;
                *b = *a * sine + *b * cosine;
                *a = turned;
            }
        }
    }
}

void rotate(const struct net *net, const struct net_batch *batch, float *x, int direction)
{
    struct rotation r = {net, batch, x, direction};
    worker_pool_each(net->pool, (size_t)batch->n, GRAIN, rotate_rows, &r);
}
