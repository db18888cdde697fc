/* company_test.c - a sequence's logits are the same bits whatever computes them: any
 * number of threads, any physical batch, alone or amid others; for every weight
 * format and every type of the cache. */
#include "unit/model/helpers.h"

#include <string.h>

enum { N_VOCAB = 512, N_SEQ = 8, OURS = 3, SHORT = 42, LONG = 300 };

/* Long ones go beyond the cells that attention takes at once. */
struct setting {
    const char *path;
    enum dtype k, v;
    int32_t n;
};

static const struct setting architectures[] = {
    {"tiny/llama.gguf", DTYPE_F16, DTYPE_F16, SHORT},
    {"tiny/qwen3moe.gguf", DTYPE_F16, DTYPE_F16, SHORT},
    {"tiny/gemma3.gguf", DTYPE_F16, DTYPE_F16, LONG},
    {"tiny/gpt-oss.gguf", DTYPE_F16, DTYPE_F16, LONG},
    {"stories260k/mlx-4bit", DTYPE_F16, DTYPE_F16, SHORT},
};

static const char *const formats[] = {
    "F16",    "BF16",   "Q8_0", "Q4_0",   "Q4_1",   "Q5_0",  "Q5_1",  "Q2_K",  "Q3_K_S", "Q3_K_M",
    "Q4_K_S", "Q4_K_M", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ3_S", "TQ1_0", "TQ2_0", "Q1_0",   "Q2_0"};

static const enum dtype cache_types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16,
                                         DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1,
                                         DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_IQ4_NL};

static int32_t token_at(int32_t seq, int32_t i)
{
    return 1 + (i * 37 + i * i % 11 + seq * 101) % 500;
}

static struct loaded load(const char *folder, const struct setting *setting, int32_t n_seqs,
                          int32_t n_threads, int32_t n_ubatch)
{
    struct context_settings s = context_settings_default();
    s.n_ctx = 512 * n_seqs;
    s.n_seq_max = n_seqs;
    s.n_ubatch = n_ubatch;
    s.type_k = setting->k;
    s.type_v = setting->v;
    return load_model(folder, setting->path, &s, n_threads);
}

static void alone(const char *folder, const struct setting *setting, bool wide, int32_t n_threads,
                  int32_t n_ubatch, float *out)
{
    struct loaded l = load(folder, setting, 1, n_threads, n_ubatch);
    int32_t tokens[LONG];
    for (int32_t i = 0; i < setting->n; i++)
        tokens[i] = token_at(OURS, i);
    memcpy(out, run_as(l.ctx, 0, 0, tokens, setting->n, wide), N_VOCAB * sizeof *out);
    unload(&l);
}

/* Eight sequences with their tokens interleaved in every batch; the others are wide and
 * not by turns. */
static void amid_seven_others(const char *folder, const struct setting *setting, bool wide,
                              float *out)
{
    enum { AT_ONCE = 6 };
    struct loaded l = load(folder, setting, N_SEQ, 2, 512);
    struct error err = {0};
    for (int32_t begin = 0; begin < setting->n; begin += AT_ONCE) {
        int32_t token[N_SEQ * AT_ONCE], pos[N_SEQ * AT_ONCE], seq[N_SEQ * AT_ONCE], n = 0;
        bool want[N_SEQ * AT_ONCE] = {false}, wides[N_SEQ * AT_ONCE];
        for (int32_t i = begin; i < begin + AT_ONCE; i++) {
            for (int32_t k = 0; k < N_SEQ; k++) {
                token[n] = token_at(k, i);
                pos[n] = i;
                want[n] = i == setting->n - 1;
                wides[n] = k == OURS ? wide : k % 2 == 0;
                seq[n++] = k;
            }
        }
        struct batch b = {n, token, pos, seq, want, wides, NULL};
        if (!model_decode(l.ctx, &b, &err))
            fail_msg("%s", err.message);
    }
    memcpy(out, model_logits(l.ctx, (AT_ONCE - 1) * N_SEQ + OURS), N_VOCAB * sizeof *out);
    unload(&l);
}

static void same(const struct setting *setting, const char *what, const float *a, const float *b)
{
    for (int i = 0; i < N_VOCAB; i++)
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0)
            fail_msg("%s, cache %s %s: %s: logit %d is %.9g instead of %.9g", setting->path,
                     dtype_info(setting->k)->name, dtype_info(setting->v)->name, what, i,
                     (double)b[i], (double)a[i]);
}

static void check_as(const char *folder, const struct setting *setting, bool wide)
{
    float one[N_VOCAB], other[N_VOCAB];
    alone(folder, setting, wide, 1, 512, one);
    for (int i = 1; i < N_VOCAB; i++)
        assert_true(one[i] - one[i] == 0); /* a number */
    alone(folder, setting, wide, 3, 7, other);
    same(setting, "three threads, seven at once", one, other);
    alone(folder, setting, wide, 1, 1, other);
    same(setting, "token by token", one, other);
    amid_seven_others(folder, setting, wide, other);
    same(setting, "amid seven others", one, other);
}

static void check(const char *folder, const struct setting *setting)
{
    check_as(folder, setting, false);
    check_as(folder, setting, true);
}

static void logits_do_not_depend_on_company_in_any_architecture(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        check(folder, &architectures[i]);
}

static void logits_do_not_depend_on_company_in_any_format(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char path[64];
        snprintf(path, sizeof path, "quants/wide-%s.gguf", formats[i]);
        struct setting setting = {path, DTYPE_F16, DTYPE_F16, SHORT};
        check(folder, &setting);
    }
}

/* Every type of keys, with every type of values once. */
static void logits_do_not_depend_on_company_with_any_cache(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    enum { N = sizeof cache_types / sizeof *cache_types };
    for (size_t i = 0; i < N; i++) {
        struct setting setting = {"tiny/qwen3-hd32.gguf", cache_types[i],
                                  cache_types[(i * 2 + 1) % N], LONG};
        check(folder, &setting);
    }
}

/* Rows that nobody asked for have no logits, and leave those of the others as they
 * are. Without a list it is the last row alone. */
static void only_wanted_rows_have_logits(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    enum { N = 9 };
    static const bool wanted[][N] = {{[N - 1] = true}, {[0] = true, [4] = true}, {false}};
    int32_t token[N], pos[N], seq[N] = {0};
    for (int32_t i = 0; i < N; i++) {
        token[i] = token_at(OURS, i);
        pos[i] = i;
    }
    struct loaded l = load(folder, &architectures[0], 1, 2, 4);
    struct error err = {0};
    static float all[N][N_VOCAB];
    bool every[N];
    memset(every, true, sizeof every);
    struct batch b = {N, token, pos, seq, every, NULL, NULL};
    assert_true(model_decode(l.ctx, &b, &err));
    for (int32_t i = 0; i < N; i++)
        memcpy(all[i], model_logits(l.ctx, i), sizeof all[i]);
    for (size_t k = 0; k < 4; k++) {
        const bool *want = k < 3 ? wanted[k] : wanted[0];
        b.want_logits = k < 3 ? want : NULL;
        assert_true(kv_seq_remove(l.ctx, 0, -1, -1));
        assert_true(model_decode(l.ctx, &b, &err));
        int32_t n_wanted = 0;
        for (int32_t i = 0; i < N; i++) {
            const float *logits = model_logits(l.ctx, i);
            assert_int_equal(logits != NULL, want[i]);
            if (want[i])
                same(&architectures[0], "wanted", all[i], logits);
            n_wanted += want[i];
        }
        assert_int_equal(model_logits(l.ctx, -n_wanted) != NULL, n_wanted > 0);
        assert_null(model_logits(l.ctx, -n_wanted - 1));
    }
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_do_not_depend_on_company_in_any_architecture),
        cmocka_unit_test(logits_do_not_depend_on_company_in_any_format),
        cmocka_unit_test(logits_do_not_depend_on_company_with_any_cache),
        cmocka_unit_test(only_wanted_rows_have_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
