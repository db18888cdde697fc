/* scale_test.c - factors beside matrices (NAME.scale), and windows that only one size of
 * a family has. Files are written anew with what a test wants of them. */
#include "unit/model/helpers.h"

#include "base/arena.h"
#include "base/file.h"

#include <string.h>
#include <unistd.h>

enum { N_TENSORS_MAX = 1024, GGUF_HEAD = 24, GGUF_UINT32 = 4 };

struct tensor {
    char name[96];
    int64_t dims[TENSOR_MAX_DIMS];
    enum dtype dtype;
    const void *data;
    size_t n_bytes;
};

/* A GGUF file taken apart; data points into the opened file or into `owned`. */
struct parts {
    struct model_file *file;
    struct str keys; /* the section of metadata */
    uint64_t n_keys;
    struct tensor tensors[N_TENSORS_MAX];
    size_t n;
    struct arena owned;
};

static void put_u64(struct str *out, uint64_t value)
{
    str_append(out, &value, sizeof value);
}

static void put_u32(struct str *out, uint32_t value)
{
    str_append(out, &value, sizeof value);
}

static void put_name(struct str *out, const char *name)
{
    put_u64(out, strlen(name));
    str_append_text(out, name);
}

static void put_key_u32(struct parts *p, const char *key, uint32_t value)
{
    put_name(&p->keys, key);
    put_u32(&p->keys, GGUF_UINT32);
    put_u32(&p->keys, value);
    p->n_keys++;
}

/* Overwrite the number of a key that is there. */
static void change_key_u32(struct parts *p, const char *key, uint32_t value)
{
    size_t at = slice_find(str_slice(&p->keys), 0, slice_of(key));
    assert_true(at != SLICE_NOT_FOUND);
    memcpy(p->keys.data + at + strlen(key) + sizeof(uint32_t), &value, sizeof value);
}

static struct tensor *add(struct parts *p, const char *name, const struct tensor *like)
{
    assert_true(p->n < N_TENSORS_MAX);
    struct tensor *t = &p->tensors[p->n++];
    *t = *like;
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static void take_apart(const char *path, struct parts *p)
{
    struct error err;
    struct model_file_settings settings = {.loading = FILE_READ};
    memset(p, 0, sizeof *p);
    if (!model_file_open(path, &settings, &p->file, &err))
        fail_msg("%s", err.message);
    for (size_t i = 0; i < model_file_n_tensors(p->file); i++) {
        const struct tensor_view *v = model_file_tensor_at(p->file, i);
        struct tensor t = {.dtype = v->dtype, .data = v->data, .n_bytes = v->n_bytes};
        memcpy(t.dims, v->dims, sizeof t.dims);
        add(p, v->name, &t);
    }
    /* The metadata ends where the first tensor's name begins. */
    struct str whole = {0}, first = {0};
    assert_true(file_read_whole(path, 64 << 20, &whole, &err));
    put_name(&first, p->tensors[0].name);
    size_t end = slice_find(str_slice(&whole), 0, str_slice(&first));
    assert_true(end != SLICE_NOT_FOUND);
    memcpy(&p->n_keys, whole.data + 16, sizeof p->n_keys);
    str_append(&p->keys, whole.data + GGUF_HEAD, end - GGUF_HEAD);
    str_free(&whole);
    str_free(&first);
}

static uint32_t alignment_of(const struct parts *p)
{
    static const char key[] = "general.alignment";
    uint32_t value = 32;
    size_t at = slice_find(str_slice(&p->keys), 0, slice_of(key));
    if (at != SLICE_NOT_FOUND)
        memcpy(&value, p->keys.data + at + strlen(key) + sizeof value, sizeof value);
    return value;
}

static void pad(struct str *out, uint32_t alignment)
{
    while (out->len % alignment)
        str_append_char(out, 0);
}

static void put_together(const struct parts *p, const char *path)
{
    struct str out = {0}, data = {0};
    struct error err;
    str_append_text(&out, "GGUF");
    put_u32(&out, 3);
    put_u64(&out, p->n);
    put_u64(&out, p->n_keys);
    str_append_slice(&out, str_slice(&p->keys));
    for (size_t i = 0; i < p->n; i++) {
        const struct tensor *t = &p->tensors[i];
        uint32_t n_dims = TENSOR_MAX_DIMS;
        while (n_dims > 1 && t->dims[n_dims - 1] == 1)
            n_dims--;
        put_name(&out, t->name);
        put_u32(&out, n_dims);
        for (uint32_t d = 0; d < n_dims; d++)
            put_u64(&out, (uint64_t)t->dims[d]);
        assert_int_equal(t->dtype, DTYPE_F32);
        put_u32(&out, 0); /* F32 */
        put_u64(&out, data.len);
        str_append(&data, t->data, t->n_bytes);
        pad(&data, alignment_of(p));
    }
    pad(&out, alignment_of(p));
    str_append_slice(&out, str_slice(&data));
    if (!file_replace(path, str_slice(&out), 0600, &err))
        fail_msg("%s", err.message);
    str_free(&out);
    str_free(&data);
}

static void drop(struct parts *p)
{
    model_file_close(p->file);
    str_free(&p->keys);
    arena_free(&p->owned);
}

/* ---- scales ---- */

static const char *const scaled[] = {
    "attn_q.",   "attn_k.",        "attn_v.",      "attn_output.",   "ffn_gate.", "ffn_up.",
    "ffn_down.", "ffn_gate_exps.", "ffn_up_exps.", "ffn_down_exps.", "output.",
};

/* The rest of the name behind "blk.N.". */
static const char *behind_block(const char *name)
{
    const char *dot = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    return dot ? dot + 1 : name;
}

static bool has_scale(const char *name)
{
    for (size_t i = 0; i < sizeof scaled / sizeof *scaled; i++)
        if (strncmp(behind_block(name), scaled[i], strlen(scaled[i])) == 0)
            return strcmp(name + strlen(name) - 7, ".weight") == 0;
    return false;
}

static float *numbers(struct parts *p, size_t n)
{
    float *out = arena_alloc_array(&p->owned, n, sizeof *out);
    assert_non_null(out);
    return out;
}

/* Give every matrix a factor, or multiply its weights by it. Powers of two change no
 * digit, wherever they are multiplied. */
static size_t scale_all(struct parts *p, bool beside)
{
    static const float factors[] = {0.5f, 2.0f, 0.25f, 1.0f, 4.0f};
    size_t n_before = p->n, n_scaled = 0;
    for (size_t i = 0; i < n_before; i++) {
        struct tensor *t = &p->tensors[i];
        if (!has_scale(t->name))
            continue;
        size_t n = (size_t)t->dims[2], width = t->n_bytes / sizeof(float) / n;
        float *scale = numbers(p, n), *weights = numbers(p, n * width);
        memcpy(weights, t->data, t->n_bytes);
        for (size_t e = 0; e < n; e++) {
            scale[e] = factors[(n_scaled + e) % (sizeof factors / sizeof *factors)];
            for (size_t k = 0; k < width; k++)
                weights[e * width + k] *= scale[e];
        }
        n_scaled++;
        if (!beside) {
            t->data = weights;
            continue;
        }
        struct tensor like = {.dims = {(int64_t)n, 1, 1, 1},
                              .dtype = DTYPE_F32,
                              .data = scale,
                              .n_bytes = n * sizeof(float)};
        char name[96];
        snprintf(name, sizeof name, "%.*sscale", (int)strlen(t->name) - 6, t->name);
        add(p, name, &like);
    }
    return n_scaled;
}

enum { N_RUN = 24, N_VOCAB_MAX = 1024 };

static char made[64];

static void run_file(const char *path, float *logits)
{
    struct context_settings s = context_settings_default();
    s.n_ctx = 256;
    s.type_k = s.type_v = DTYPE_F32;
    struct loaded l = load_file(path, &s, 2);
    int32_t tokens[N_RUN], n_vocab = model_info(l.model)->n_vocab;
    assert_true(n_vocab <= N_VOCAB_MAX);
    for (int32_t i = 0; i < N_RUN; i++)
        tokens[i] = 3 + i * 7 % (n_vocab - 3);
    memcpy(logits, run_tokens(l.ctx, 0, 0, tokens, N_RUN), (size_t)n_vocab * sizeof *logits);
    unload(&l);
}

static void compare_scaled(const char *path)
{
    static float beside[N_VOCAB_MAX], folded[N_VOCAB_MAX], plain[N_VOCAB_MAX];
    for (int folds = 0; folds < 2; folds++) {
        static struct parts p;
        take_apart(path, &p);
        assert_true(scale_all(&p, folds == 0) > 12);
        put_together(&p, made);
        drop(&p);
        run_file(made, folds ? folded : beside);
    }
    run_file(path, plain);
    assert_memory_equal(beside, folded, sizeof beside);
    assert_memory_not_equal(beside, plain, sizeof beside);
}

static char synthetic[64];

static void a_factor_beside_a_matrix_is_as_one_in_it(void **state)
{
    (void)state;
    struct error err;
    if (!model_synthetic_write("llama:10m:f32:layers=2:embd=64:heads=4:kv_heads=2:ff=96:vocab=300",
                               synthetic, &err))
        fail_msg("%s", err.message);
    compare_scaled(synthetic);
}

static void each_expert_has_a_factor_of_its_own(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    char path[512];
    snprintf(path, sizeof path, "%s/models/tiny/qwen3moe.gguf", folder);
    compare_scaled(path);
}

static void a_factor_of_another_shape_is_refused(void **state)
{
    (void)state;
    static struct parts p;
    struct error err = {0};
    float two[2] = {1.0f, 1.0f};
    struct tensor like = {
        .dims = {2, 1, 1, 1}, .dtype = DTYPE_F32, .data = two, .n_bytes = sizeof two};
    assert_true(model_synthetic_write("llama:10m:f32:layers=1:embd=64:heads=4:ff=96:vocab=300",
                                      synthetic, &err));
    take_apart(synthetic, &p);
    add(&p, "blk.0.attn_q.scale", &like);
    put_together(&p, made);
    drop(&p);
    struct model_file *file;
    struct model *model;
    struct worker_settings one = {.n_threads = 1};
    struct worker_pool *pool = worker_pool_create(&one, &err);
    assert_true(model_file_open(made, NULL, &file, &err));
    assert_false(model_load(file, NULL, pool, &model, &err));
    assert_non_null(strstr(err.message, "blk.0.attn_q.scale"));
    model_file_close(file);
    worker_pool_free(pool);
}

/* ---- exaone4: windows in the size of 64 layers alone ---- */

static int32_t window_of(const char *path)
{
    struct context_settings s = context_settings_default();
    s.n_ctx = 256;
    struct loaded l = load_file(path, &s, 2);
    int32_t n = context_n_swa(l.ctx);
    unload(&l);
    return n;
}

static void only_one_size_of_exaone4_has_windows(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    enum { LAYERS = 64, HAS = 4, WINDOW = 8 };
    static struct parts p;
    static float with[N_VOCAB_MAX], without[N_VOCAB_MAX];
    char path[512];
    snprintf(path, sizeof path, "%s/models/zoo/exaone4.gguf", folder);
    run_file(path, without);
    take_apart(path, &p);
    put_key_u32(&p, "exaone4.attention.sliding_window", WINDOW);
    put_together(&p, made);
    run_file(made, with);
    assert_int_equal(window_of(made), 0);
    assert_memory_equal(with, without, sizeof with);

    size_t n = p.n;
    for (int32_t i = HAS; i < LAYERS; i++) {
        for (size_t k = 0; k < n; k++) {
            char name[96];
            const char *rest = behind_block(p.tensors[k].name);
            if (rest == p.tensors[k].name || atoi(p.tensors[k].name + 4) != i % HAS)
                continue;
            snprintf(name, sizeof name, "blk.%d.%s", (int)i, rest);
            add(&p, name, &p.tensors[k]);
        }
    }
    change_key_u32(&p, "exaone4.block_count", LAYERS);
    put_together(&p, made);
    drop(&p);
    assert_int_equal(window_of(made), WINDOW);
}

static int begin(void **state)
{
    (void)state;
    snprintf(made, sizeof made, "/tmp/mlxcel-scale-%ld.gguf", (long)getpid());
    snprintf(synthetic, sizeof synthetic, "/tmp/mlxcel-scale-from-%ld.gguf", (long)getpid());
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(made);
    unlink(synthetic);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_factor_beside_a_matrix_is_as_one_in_it),
        cmocka_unit_test(each_expert_has_a_factor_of_its_own),
        cmocka_unit_test(a_factor_of_another_shape_is_refused),
        cmocka_unit_test(only_one_size_of_exaone4_has_windows),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
