/* rope.c - which rotation a context uses, and re-rotating cached keys.
 *
 * Sources: Su et al. 2021 (RoPE), Peng et al. 2023 (YaRN). */
#include "model/context.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float yarn_magnitude(float factor, float scale)
{
    return factor <= 1.0f ? 1.0f : 0.1f * scale * logf(factor) + 1.0f;
}

void context_rope(struct model_context *ctx)
{
    const struct context_settings *s = &ctx->settings;
    const struct hparams *h = &ctx->model->h;
    const struct weights *w = &ctx->model->w;
    const struct rope_hparams *r = &h->rope;
    enum rope_scaling scaling =
        s->rope_scaling == ROPE_SCALING_UNSPECIFIED ? r->scaling : s->rope_scaling;
    int32_t n_ctx_orig = s->yarn_orig_ctx ? s->yarn_orig_ctx : r->n_ctx_orig;
    float ext = s->yarn_ext_factor >= 0.0f ? s->yarn_ext_factor : r->ext_factor;
    if (ext < 0.0f)
        ext = scaling == ROPE_SCALING_YARN ? 1.0f : 0.0f;
    struct rope_params p = {
        .n_dims = h->n_rot,
        .freq_base = s->rope_freq_base > 0.0f ? s->rope_freq_base : r->freq_base,
        .freq_scale = s->rope_freq_scale > 0.0f ? s->rope_freq_scale : r->freq_scale,
        .ext_factor = ext,
        .attn_factor = s->yarn_attn_factor > 0.0f ? s->yarn_attn_factor : r->attn_factor,
        .beta_fast = s->yarn_beta_fast >= 0.0f ? s->yarn_beta_fast : r->beta_fast,
        .beta_slow = s->yarn_beta_slow >= 0.0f ? s->yarn_beta_slow : r->beta_slow,
        .n_ctx_orig = n_ctx_orig,
        .fractions = r->yarn_fractions,
    };
    if (scaling == ROPE_SCALING_NONE)
        p.freq_scale = 1.0f;
    if (ext != 0.0f) {
        /* The kernels multiply by 1 + 0.1 ln(factor) where YaRN is on; what is
         * wanted is the model's own magnitude, so that one is taken out. */
        float factor = 1.0f / p.freq_scale;
        p.attn_factor = r->yarn_magnitude != 0.0f ? r->yarn_magnitude
                        : r->log_mul != 0.0f
                            ? yarn_magnitude(factor, 1.0f) / yarn_magnitude(factor, r->log_mul)
                            : yarn_magnitude(factor, 1.0f);
        p.attn_factor /= 1.0f + 0.1f * logf(factor);
    }
    p.attn_factor *= r->attn_factor_long;
    if (w->rope_freqs)
        p.freq_factors = w->rope_freqs;
    else if (w->rope_long)
        p.freq_factors = context_n_ctx_seq(ctx) > n_ctx_orig ? w->rope_long : w->rope_short;
    ctx->rope = p;
    ctx->rope_swa = p;
    ctx->rope_swa.freq_base = r->freq_base_swa;
    ctx->rope_swa.freq_scale = r->freq_scale_swa;
    if (h->swa_own_rope) {
        ctx->rope_swa.ext_factor = 0.0f;
        ctx->rope_swa.attn_factor = 1.0f;
        ctx->rope_swa.freq_factors = NULL;
    }
}

static void rotation_by(const struct rope_params *p, int32_t delta, float *cos_sin)
{
    rope_angles(p, 0, cos_sin);
    float magnitude = p->n_dims > 0 && cos_sin[0] > 0.0f ? cos_sin[0] : 1.0f;
    rope_angles(p, delta, cos_sin);
    for (int32_t i = 0; i < p->n_dims; i++)
        cos_sin[i] /= magnitude;
}

bool kv_rotate(struct model_context *ctx, int32_t seq, int32_t begin, int32_t end, int32_t delta)
{
    const struct hparams *h = &ctx->model->h;
    struct kv_cache *kv = &ctx->kv;
    const struct kv_seq *s = &kv->seqs[seq];
    size_t n = (size_t)(h->n_rot > 0 ? h->n_rot : 1), dim = (size_t)h->head_dim_k;
    float *cos_sin = malloc((2 * n + dim) * sizeof *cos_sin);
    if (!cos_sin)
        return false;
    float *swa = cos_sin + n, *key = swa + n;
    rotation_by(&ctx->rope, delta, cos_sin);
    rotation_by(&ctx->rope_swa, delta, swa);
    for (int32_t i = 0; i < h->n_layers; i++) {
        const struct layer_hparams *lh = &h->layers[i];
        const struct kv_layer *l = &kv->layers[i];
        for (int32_t c = begin; lh->use_rope && c < end; c++) {
            for (int32_t head = 0; head < l->n_kv_heads; head++) {
                unsigned char *row = l->k + (size_t)head * l->k_head_bytes +
                                     (size_t)s->cells[KV_ALL][c] * kv->k_row_bytes;
                dtype_decode(kv->type_k, row, key, dim);
                rope_apply(h->rope_kind, key, 1, dim, h->n_rot, lh->is_swa ? swa : cos_sin);
                dtype_encode(kv->type_k, key, row, dim);
            }
        }
    }
    free(cos_sin);
    return true;
}
