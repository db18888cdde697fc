/* weights_table.c - where each matrix of a model is kept, and what is done with all
 * of them: repacking and releasing. */
#include "model/weights.h"

#include <assert.h>
#include <stddef.h>

enum place_kind { PLACE_NONE, PLACE_GLOBAL, PLACE_LAYER, PLACE_EXPERTS };

/* packs: the kernels may repack it. The others are read by rows, or are small. */
struct place {
    enum place_kind kind;
    bool packs;
    size_t offset; /* in struct weights or struct layer */
};

#define GLOBAL(member, packs)                                                                      \
    {                                                                                              \
        PLACE_GLOBAL, packs, offsetof(struct weights, member)                                      \
    }
#define LAYER(member, packs)                                                                       \
    {                                                                                              \
        PLACE_LAYER, packs, offsetof(struct layer, member)                                         \
    }
#define EXPERTS(member)                                                                            \
    {                                                                                              \
        PLACE_EXPERTS, true, offsetof(struct layer, member)                                        \
    }

static const struct place places[WEIGHT_COUNT] = {
    [WEIGHT_TOKEN_EMBD] = GLOBAL(token_embd, false),
    [WEIGHT_TOKEN_TYPES] = GLOBAL(token_types, false),
    [WEIGHT_POSITION_EMBD] = GLOBAL(position_embd, false),
    [WEIGHT_OUTPUT] = GLOBAL(output, true),
    [WEIGHT_CLS] = GLOBAL(cls, false),
    [WEIGHT_CLS_OUT] = GLOBAL(cls_out, false),
    [WEIGHT_DENSE_1] = GLOBAL(dense[0], true),
    [WEIGHT_DENSE_2] = GLOBAL(dense[1], true),
    [WEIGHT_ATTN_QKV] = LAYER(qkv, true),
    [WEIGHT_ATTN_Q] = LAYER(q, true),
    [WEIGHT_ATTN_K] = LAYER(k, true),
    [WEIGHT_ATTN_V] = LAYER(v, true),
    [WEIGHT_ATTN_OUT] = LAYER(out, true),
    [WEIGHT_FFN_GATE_UP] = LAYER(gate_up, true),
    [WEIGHT_FFN_GATE] = LAYER(gate, true),
    [WEIGHT_FFN_UP] = LAYER(up, true),
    [WEIGHT_FFN_DOWN] = LAYER(down, true),
    [WEIGHT_ROUTER] = LAYER(router, true),
    [WEIGHT_SHARED_ROUTER] = LAYER(shared_router, false),
    [WEIGHT_GATE_SHARED] = LAYER(gate_shared, true),
    [WEIGHT_UP_SHARED] = LAYER(up_shared, true),
    [WEIGHT_DOWN_SHARED] = LAYER(down_shared, true),
    [WEIGHT_GATE_EXPS] = EXPERTS(gate_exps),
    [WEIGHT_UP_EXPS] = EXPERTS(up_exps),
    [WEIGHT_GATE_UP_EXPS] = EXPERTS(gate_up_exps),
    [WEIGHT_DOWN_EXPS] = EXPERTS(down_exps),
};

static void *at(void *holder, enum weight_id id, enum place_kind kind)
{
    assert(places[id].kind == kind);
    (void)kind;
    return (char *)holder + places[id].offset;
}

struct linear *weight_global(struct weights *w, enum weight_id id)
{
    return at(w, id, PLACE_GLOBAL);
}

struct linear *weight_linear(struct layer *l, enum weight_id id)
{
    return at(l, id, PLACE_LAYER);
}

struct experts *weight_experts(struct layer *l, enum weight_id id)
{
    return at(l, id, PLACE_EXPERTS);
}

/* ---- going through all ------------------------------------------------------------ */

typedef bool (*linear_fn)(struct linear *l, void *arg);

static bool each_expert(struct experts *x, int32_t n, linear_fn fn, void *arg)
{
    if (is_bound(&x->stacked))
        return fn(&x->stacked, arg);
    for (int32_t e = 0; x->each && e < n; e++)
        if (!fn(&x->each[e], arg))
            return false;
    return true;
}

/* The matrix or matrices of one row of the table; those of layers in layer l. */
static bool each_of(struct weights *w, struct layer *l, const struct hparams *h, enum weight_id id,
                    linear_fn fn, void *arg)
{
    enum place_kind kind = places[id].kind;
    if (kind == PLACE_EXPERTS)
        return each_expert(weight_experts(l, id), h->n_experts, fn, arg);
    struct linear *one = kind == PLACE_LAYER ? weight_linear(l, id) : weight_global(w, id);
    return !is_bound(one) || fn(one, arg);
}

/* The matrices of layer l, or those of no layer where it is NULL. */
static bool each_of_layer(struct weights *w, struct layer *l, const struct hparams *h,
                          bool packs_only, linear_fn fn, void *arg)
{
    for (int id = 0; id < WEIGHT_COUNT; id++) {
        enum place_kind kind = places[id].kind;
        bool wanted = l ? kind == PLACE_LAYER || kind == PLACE_EXPERTS : kind == PLACE_GLOBAL;
        if (wanted && (places[id].packs || !packs_only) &&
            !each_of(w, l, h, (enum weight_id)id, fn, arg))
            return false;
    }
    return true;
}

/* Every matrix, or every one that packs. A model that was not bound has no layers. */
static bool each_linear(struct weights *w, const struct hparams *h, bool packs_only, linear_fn fn,
                        void *arg)
{
    for (int32_t i = 0; w->layers && i < h->n_layers; i++)
        if (!each_of_layer(w, &w->layers[i], h, packs_only, fn, arg))
            return false;
    return each_of_layer(w, NULL, h, packs_only, fn, arg);
}

/* ---- repacking -------------------------------------------------------------------- */

struct prepare_arg {
    const struct model_file *file; /* NULL: weights that are in memory anyway */
    struct worker_pool *pool;
    struct error *err;
    atomic_int *progress; /* or NULL */
    size_t n, n_done;
};

/* A packed matrix is a copy: the mapped original need not stay in memory. */
static void release_original(const struct model_file *file, const struct matrix *w)
{
    for (size_t i = 0; i < model_file_n_tensors(file); i++) {
        const struct tensor_view *t = model_file_tensor_at(file, i);
        const char *begin = t->data, *data = w->data;
        if (data >= begin && data < begin + t->n_bytes) {
            model_file_release(file, t);
            return;
        }
    }
}

static bool prepare_one(struct linear *l, void *arg)
{
    struct prepare_arg *p = arg;
    if (!matrix_prepare(&l->matrix, p->pool, p->err))
        return false;
    if (p->file && l->matrix.packed)
        release_original(p->file, &l->matrix);
    p->n_done++;
    if (p->progress)
        atomic_store(p->progress, (int)(1000 * p->n_done / p->n));
    return true;
}

static bool count_one(struct linear *l, void *arg)
{
    (void)l;
    ++*(size_t *)arg;
    return true;
}

bool weights_prepare(struct weights *w, const struct hparams *h, const struct model_file *file,
                     struct worker_pool *pool, atomic_int *progress, struct error *err)
{
    struct prepare_arg arg = {file, pool, err, progress, 0, 0};
    each_linear(w, h, true, count_one, &arg.n);
    return each_linear(w, h, true, prepare_one, &arg);
}

static bool release_one(struct linear *l, void *arg)
{
    (void)arg;
    matrix_release(&l->matrix);
    return true;
}

void weights_release(struct weights *w, const struct hparams *h)
{
    each_linear(w, h, false, release_one, NULL);
}
