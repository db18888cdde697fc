/* forward_test.c - a pass over the weights in parts: ranges of layers, each in a context of
 * its own as on a machine of its own, and rows that are given instead of tokens. Both give
 * the bits that a whole pass over the tokens gives. */
#include "unit/model/helpers.h"

#include "model/blocks/linear.h"
#include "model/context.h"

#include <math.h>
#include <string.h>

enum { N = 42 };

static const char *const models[] = {
    "tiny/llama.gguf",    "tiny/gemma2.gguf",     "tiny/gemma3.gguf",       "tiny/olmo2.gguf",
    "tiny/phi3.gguf",     "tiny/qwen3.gguf",      "tiny/qwen3moe.gguf",     "tiny/gpt-oss.gguf",
    "tiny/granite.gguf",  "tiny/bert.gguf",       "zoo/llama-scales.gguf",  "zoo/phi2.gguf",
    "zoo/command-r.gguf", "zoo/olmo.gguf",        "zoo/qwen2moe.gguf",      "zoo/granitemoe.gguf",
    "zoo/cohere2.gguf",   "zoo/modern-bert.gguf", "zoo/nomic-bert-moe.gguf"};
enum { N_MODELS = sizeof models / sizeof *models };

static struct loaded open_model(const char *folder, const char *path)
{
    struct context_settings s = context_settings_default();
    s.n_ctx = 512;
    return load_model(folder, path, &s, 2);
}

/* Everything that a pass could wrongly find there from before. */
static void poison(struct model_context *ctx)
{
    const struct hparams *h = &ctx->model->h;
    struct scratch *s = &ctx->s;
    size_t n = (size_t)ctx->settings.n_ubatch, n_embd = (size_t)h->n_embd;
    size_t n_rot = (size_t)h->n_rot;
    float *const rows[] = {s->x, s->h, s->y, s->qkv, s->attn, s->cos_sin, s->cos_sin_swa};
    const size_t widths[] = {
        n_embd, n_embd, n_embd, s->n_qkv, s->n_attn, n_rot, h->n_swa ? n_rot : 0};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (size_t i = 0; rows[k] && i < n * widths[k]; i++)
            rows[k][i] = NAN;
    for (size_t i = 0; i < (size_t)s->n_ffn_rows * s->n_ffn; i++)
        s->ffn[i] = NAN;
}

/* Tokens that every one of the vocabularies has. */
static int32_t token_of(const struct model *m, int32_t i)
{
    return long_prompt[i] % m->w.n_vocab;
}

/* The long prompt as one sequence, with cells for it. */
struct prompt {
    int32_t token[N], pos[N], seq[N], cell[N], window[N], out_rows[N];
    struct ubatch u;
};

static void prepare(struct model_context *ctx, struct prompt *p, int32_t n_out)
{
    memset(p, 0, sizeof *p);
    for (int32_t i = 0; i < N; i++) {
        p->pos[i] = i;
        p->token[i] = token_of(ctx->model, i);
        if (ctx->has_kv)
            p->cell[i] = kv_append(&ctx->kv, 0, i);
    }
    for (int32_t i = 0; i < n_out; i++)
        p->out_rows[i] = N - n_out + i;
    p->u = (struct ubatch){.n = N,
                           .token = p->token,
                           .pos = p->pos,
                           .seq = p->seq,
                           .cell = {ctx->has_kv ? p->cell : NULL},
                           .n_out = n_out,
                           .out_rows = p->out_rows};
    if (ctx->has_kv && ctx->kv.size.n_window) {
        assert_true(kv_place(&ctx->kv, p->seq, N, p->window));
        p->u.cell[KV_WINDOW] = p->window;
    }
}

static void run_range(struct loaded *l, const struct ubatch *u, int32_t first, int32_t end)
{
    struct error err = {0};
    struct compute compute = compute_on_cpu(l->pool);
    struct pass pass = {l->ctx, u, &compute};
    worker_pool_enter(l->pool);
    if (first == 0)
        embed(&pass);
    if (!forward(&pass, first, end, &err))
        fail_msg("%s", err.message);
    if (end == l->model->h.n_layers)
        norm_outputs(&pass);
}

/* The rows that n_out outputs have behind the last layer, of a pass in two ranges. */
static float *in_ranges(const char *folder, const char *path, int32_t split, int32_t n_out)
{
    struct loaded one = open_model(folder, path), two = open_model(folder, path);
    struct prompt p, q;
    int32_t n_layers = one.model->h.n_layers;
    size_t n_embd = (size_t)one.model->h.n_embd;
    float *out = calloc((size_t)n_out * n_embd, sizeof *out);
    assert_non_null(out);
    assert_true(split < n_layers);
    prepare(one.ctx, &p, n_out);
    prepare(two.ctx, &q, n_out);
    poison(one.ctx);
    poison(two.ctx);
    if (split > 0) {
        run_range(&one, &p.u, 0, split);
        memcpy(two.ctx->s.x, one.ctx->s.x, N * n_embd * sizeof *out);
    }
    run_range(&two, &q.u, split, n_layers);
    memcpy(out, two.ctx->s.x, (size_t)n_out * n_embd * sizeof *out);
    unload(&one);
    unload(&two);
    return out;
}

static void layers_run_in_ranges_give_the_same_bits(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    for (size_t m = 0; m < N_MODELS; m++) {
        struct loaded l = open_model(folder, models[m]);
        int32_t n_layers = l.model->h.n_layers;
        size_t n_embd = (size_t)l.model->h.n_embd;
        unload(&l);
        assert_true(n_layers >= 2);
        for (int32_t n_out = 1; n_out <= N; n_out += N - 1) {
            float *whole = in_ranges(folder, models[m], 0, n_out);
            for (size_t i = 0; i < (size_t)n_out * n_embd; i++)
                if (!isfinite(whole[i]))
                    fail_msg("%s: row %zu is made of what no one wrote", models[m], i / n_embd);
            for (int32_t split = 1; split < n_layers; split++) {
                float *parts = in_ranges(folder, models[m], split, n_out);
                if (memcmp(whole, parts, (size_t)n_out * n_embd * sizeof *whole) != 0)
                    fail_msg("%s: layers from %d on give other rows", models[m], split);
                free(parts);
            }
            free(whole);
        }
    }
}

/* What the tokens' embeddings are, scaled. */
static float *rows_of_tokens(const struct model *m)
{
    size_t n_embd = (size_t)m->h.n_embd;
    float *rows = calloc(N * n_embd, sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < N; i++) {
        matrix_row(&m->w.token_embd.matrix, 0, token_of(m, (int32_t)i), rows + i * n_embd);
        for (size_t k = 0; k < n_embd; k++)
            rows[i * n_embd + k] *= m->h.embd_scale;
    }
    return rows;
}

static const float *decode_rows(struct loaded *l, const float *input)
{
    struct error err = {0};
    int32_t token[N], pos[N], seq[N] = {0};
    for (int32_t i = 0; i < N; i++) {
        token[i] = token_of(l->model, i);
        pos[i] = i;
    }
    kv_seq_remove(l->ctx, 0, -1, -1);
    struct batch b = {
        .n_tokens = N, .token = input ? NULL : token, .pos = pos, .seq = seq, .input = input};
    if (!model_decode(l->ctx, &b, &err))
        fail_msg("%s", err.message);
    const float *out = model_logits(l->ctx, -1);
    return out                           ? out
           : model_embedding(l->ctx, -1) ? model_embedding(l->ctx, -1)
                                         : model_embedding_seq(l->ctx, 0);
}

static void rows_instead_of_tokens_give_the_same_bits(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    for (size_t m = 0; m < N_MODELS; m++) {
        struct loaded l = open_model(folder, models[m]);
        float *rows = rows_of_tokens(l.model);
        size_t n = (size_t)(is_encoder(l.model) ? l.model->h.n_embd : l.model->w.n_vocab);
        float *expected = calloc(n, sizeof *expected);
        assert_non_null(expected);
        memcpy(expected, decode_rows(&l, NULL), n * sizeof *expected);
        if (memcmp(expected, decode_rows(&l, rows), n * sizeof *expected) != 0)
            fail_msg("%s: rows give another result than their tokens", models[m]);
        rows[0] += 1.0f; /* and they are what is read */
        if (memcmp(expected, decode_rows(&l, rows), n * sizeof *expected) == 0)
            fail_msg("%s: the rows are not read", models[m]);
        free(rows);
        free(expected);
        unload(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_run_in_ranges_give_the_same_bits),
        cmocka_unit_test(rows_instead_of_tokens_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
