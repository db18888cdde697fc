/* Sliding windows: layers that have one keep little more than it, and nobody can
 * tell from the results. Each test runs one script with a cache that keeps every
 * cell and with one that does not. */
#include "unit/model/helpers.h"

#include <string.h>

enum { N_VOCAB = 300, WINDOW = 100, N_SEQ = 3, N_UBATCH = 37, BATCH = 512 };

static const char spec[] = "gemma2:10m:f32:embd=64:heads=4:kv_heads=2:ff=64:vocab=300:window=100";

/* The same model twice: [0] windowed, [1] with everything. */
struct pair {
    struct model *model;
    struct worker_pool *pool;
    struct model_context *ctx[2];
    int32_t end[N_SEQ]; /* positions in each sequence */
};

static struct pair make_pair(bool unified, int32_t n_ubatch)
{
    struct pair p = {0};
    struct error err = {0};
    struct worker_settings workers = {.n_threads = 1};
    p.pool = worker_pool_create(&workers, &err);
    if (!model_synthetic(spec, NULL, p.pool, &p.model, &err))
        fail_msg("%s", err.message);
    for (int i = 0; i < 2; i++) {
        struct context_settings s = context_settings_default();
        s.n_ctx = 4096 * (unified ? 1 : N_SEQ);
        s.n_seq_max = N_SEQ;
        s.n_batch = BATCH;
        s.n_ubatch = n_ubatch;
        s.kv_unified = unified;
        s.swa_full = i == 1;
        s.pool = p.pool;
        if (!context_create(p.model, &s, &p.ctx[i], &err))
            fail_msg("%s", err.message);
    }
    return p;
}

static void free_pair(struct pair *p)
{
    context_free(p->ctx[0]);
    context_free(p->ctx[1]);
    model_free(p->model);
    worker_pool_free(p->pool);
}

/* Tokens that depend on the sequence's text, so that no two prompts are alike. */
static int32_t token_at(int32_t text, int32_t pos)
{
    return 3 + (int32_t)((uint32_t)(text * 7919 + pos * 104729 + pos * pos * 31) % (N_VOCAB - 3));
}

/* n tokens of each listed sequence in one batch, one after the other; the logits of
 * the last of each must be the same to the bit. */
static void run_both(struct pair *p, const int32_t *seqs, int32_t n_seqs, int32_t n, int32_t text)
{
    struct error err = {0};
    int32_t token[BATCH], pos[BATCH], seq[BATCH], rows = 0;
    bool want[BATCH] = {false};
    for (int32_t k = 0; k < n_seqs; k++) {
        for (int32_t i = 0; i < n; i++, rows++) {
            pos[rows] = p->end[seqs[k]]++;
            seq[rows] = seqs[k];
            token[rows] = token_at(text + seqs[k], pos[rows]);
            want[rows] = i == n - 1;
        }
    }
    struct batch b = {rows, token, pos, seq, want, NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (!model_decode(p->ctx[i], &b, &err))
            fail_msg("%s: %s", i ? "full" : "windowed", err.message);
    for (int32_t r = 0; r < rows; r++)
        if (want[r] && memcmp(model_logits(p->ctx[0], r), model_logits(p->ctx[1], r),
                              N_VOCAB * sizeof(float)) != 0)
            fail_msg("sequence %d differs at position %d", seq[r], pos[r]);
}

static void run_one(struct pair *p, int32_t seq, int32_t n, int32_t text)
{
    run_both(p, &seq, 1, n, text);
}

/* Prompts of many windows in batches of all sizes, several sequences at once and
 * alone, then some generation. */
static void long_texts(bool unified, int32_t n_ubatch)
{
    struct pair p = make_pair(unified, n_ubatch);
    static const int32_t all[N_SEQ] = {0, 1, 2};
    assert_true(context_kv_bytes(p.ctx[0]) < context_kv_bytes(p.ctx[1]) * 3 / 4);
    for (int32_t n = 1; n < BATCH / N_SEQ; n += 29)
        run_both(&p, all, N_SEQ, n, 0);
    run_one(&p, 1, 400, 0);
    for (int i = 0; i < 60; i++)
        run_both(&p, all, i % 3 + 1, 1, 0);
    assert_true(kv_seq_pos_min(p.ctx[0], 0) > 0);
    assert_int_equal(kv_seq_pos_min(p.ctx[1], 0), 0);
    assert_int_equal(kv_seq_pos_max(p.ctx[0], 0), kv_seq_pos_max(p.ctx[1], 0));
    free_pair(&p);
}

static void a_window_gives_the_same_logits_as_a_cache_that_keeps_everything(void **state)
{
    (void)state;
    long_texts(true, N_UBATCH);
    long_texts(false, N_UBATCH);
    long_texts(false, 1);
    long_texts(true, 256);
}

static void a_sequence_is_cut_only_where_its_window_is_still_there(void **state)
{
    (void)state;
    struct pair p = make_pair(false, N_UBATCH);
    for (int i = 0; i < 3; i++)
        run_one(&p, 0, 300, 0);
    int32_t first = kv_seq_pos_min(p.ctx[0], 0);
    assert_true(first > 0 && first <= 900 - WINDOW);
    /* The position behind the new end sees WINDOW - 1 before it. */
    assert_false(kv_seq_remove(p.ctx[0], 0, first + WINDOW - 2, -1));
    assert_int_equal(kv_seq_pos_max(p.ctx[0], 0), 899);
    assert_false(kv_seq_remove(p.ctx[0], -1, 10, -1));
    assert_int_equal(kv_seq_pos_max(p.ctx[0], 0), 899);
    assert_true(kv_seq_remove(p.ctx[0], 0, first + WINDOW - 1, -1));
    assert_true(kv_seq_remove(p.ctx[1], 0, first + WINDOW - 1, -1));
    p.end[0] = first + WINDOW - 1;
    run_one(&p, 0, 250, 5);
    assert_true(kv_seq_remove(p.ctx[0], 0, -1, -1));
    assert_int_equal(kv_seq_pos_min(p.ctx[0], 0), -1);
    assert_int_equal(kv_cells_used(p.ctx[0]), 0);
    assert_false(kv_can_shift(p.ctx[0]));
    assert_false(kv_seq_shift(p.ctx[0], 0, 0, -1, 1));
    assert_true(kv_can_shift(p.ctx[1]));
    free_pair(&p);
}

static void a_copied_sequence_goes_on_with_its_window(bool unified)
{
    struct pair p = make_pair(unified, N_UBATCH);
    static const int32_t both[] = {0, 2};
    run_one(&p, 0, 400, 0);
    run_one(&p, 2, 50, 0);
    for (int i = 0; i < 2; i++) {
        assert_true(kv_seq_remove(p.ctx[i], 2, -1, -1));
        assert_true(kv_seq_copy(p.ctx[i], 0, 2, -1, -1));
    }
    p.end[2] = 400;
    for (int i = 0; i < 4; i++)
        run_both(&p, both, 2, 60 + i, 0);
    /* One of them ends; the other has lost nothing. */
    for (int i = 0; i < 2; i++)
        assert_true(kv_seq_remove(p.ctx[i], 0, -1, -1));
    p.end[0] = 0;
    run_both(&p, both, 2, 200, 1);
    /* A beginning without its window is no sequence to go on with. */
    assert_true(kv_seq_copy(p.ctx[0], 2, 1, 0, 100));
    struct error err = {0};
    int32_t token = 5, pos = 100, seq = 1;
    struct batch b = {1, &token, &pos, &seq, NULL, NULL, NULL};
    assert_false(model_decode(p.ctx[0], &b, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(kv_seq_pos_max(p.ctx[0], 1), 99);
    free_pair(&p);
}

static void copies_share_or_have_what_they_see(void **state)
{
    (void)state;
    a_copied_sequence_goes_on_with_its_window(true);
    a_copied_sequence_goes_on_with_its_window(false);
}

static void a_saved_sequence_goes_on_in_another(void **state)
{
    (void)state;
    struct pair p = make_pair(true, N_UBATCH);
    struct error err = {0};
    struct str saved[2] = {{0}, {0}};
    run_one(&p, 0, 500, 0);
    run_one(&p, 0, 333, 0);
    for (int i = 0; i < 2; i++) {
        assert_true(kv_seq_save(p.ctx[i], 0, &saved[i]));
        assert_true(kv_seq_load(p.ctx[i], 1, str_slice(&saved[i]), &err));
    }
    assert_true(saved[0].len < saved[1].len);
    assert_int_equal(kv_seq_pos_min(p.ctx[0], 1), 833 - WINDOW);
    p.end[1] = 833;
    run_one(&p, 1, 120, 7);
    /* What is saved with every cell has no place here, nor the other way round. */
    assert_false(kv_seq_load(p.ctx[0], 2, str_slice(&saved[1]), &err));
    assert_false(kv_seq_load(p.ctx[1], 2, str_slice(&saved[0]), &err));
    for (size_t n = 0; n < saved[0].len; n += 9973) {
        assert_false(kv_seq_load(p.ctx[0], 2, (struct slice){saved[0].data, n}, &err));
        assert_int_equal(kv_seq_pos_max(p.ctx[0], 2), -1);
    }
    str_free(&saved[0]);
    str_free(&saved[1]);
    free_pair(&p);
}

static void a_saved_window_takes_a_sequence_back(bool unified)
{
    struct pair p = make_pair(unified, N_UBATCH);
    struct error err = {0};
    struct str window = {0}, full = {0};
    run_one(&p, 0, 451, 0);
    assert_true(kv_seq_save_window(p.ctx[0], 0, &window));
    assert_true(kv_seq_save(p.ctx[0], 0, &full));
    assert_true(window.len < full.len / 2);
    for (int i = 0; i < 3; i++)
        run_one(&p, 0, 301, 0);
    assert_false(kv_seq_remove(p.ctx[0], 0, 451, -1));
    for (int round = 0; round < 3; round++) {
        assert_true(kv_seq_load_window(p.ctx[0], 0, str_slice(&window), &err));
        assert_int_equal(kv_seq_pos_max(p.ctx[0], 0), 450);
        assert_int_equal(kv_seq_pos_min(p.ctx[0], 0), 451 - WINDOW);
        assert_true(kv_seq_remove(p.ctx[1], 0, 451, -1));
        p.end[0] = 451;
        run_one(&p, 0, 500, 11 + round);
    }
    /* Nothing changes where it does not belong. */
    int32_t last = kv_seq_pos_max(p.ctx[0], 0);
    assert_false(kv_seq_load_window(p.ctx[0], 1, str_slice(&window), &err));
    assert_int_equal(err.code, ERR_FORMAT);
    assert_false(kv_seq_load_window(p.ctx[0], 0, str_slice(&full), &err));
    assert_false(kv_seq_load(p.ctx[0], 1, str_slice(&window), &err));
    for (size_t n = 0; n < window.len; n += 997)
        assert_false(kv_seq_load_window(p.ctx[0], 0, (struct slice){window.data, n}, &err));
    assert_int_equal(kv_seq_pos_max(p.ctx[0], 0), last);
    run_one(&p, 0, 30, 13);
    str_free(&window);
    str_free(&full);
    free_pair(&p);
}

static void a_checkpoint_restores_the_window(void **state)
{
    (void)state;
    a_saved_window_takes_a_sequence_back(true);
    a_saved_window_takes_a_sequence_back(false);
}

static bool abort_late(void *arg)
{
    return ++*(int *)arg == 30;
}

/* What was pushed out is gone, and the next batch is not computed without it. */
static void a_cancelled_batch_leaves_no_sequence_with_holes(void **state)
{
    (void)state;
    struct pair p = make_pair(false, N_UBATCH);
    run_one(&p, 0, 300, 0);
    int32_t token[BATCH], pos[BATCH], seq[BATCH] = {0}, calls = 0;
    for (int32_t i = 0; i < BATCH; i++) {
        pos[i] = 300 + i;
        token[i] = token_at(0, pos[i]);
    }
    struct batch b = {BATCH, token, pos, seq, NULL, NULL, NULL};
    struct error err = {0};
    context_set_abort(p.ctx[0], abort_late, &calls);
    assert_false(model_decode(p.ctx[0], &b, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    context_set_abort(p.ctx[0], NULL, NULL);
    assert_int_equal(kv_seq_pos_max(p.ctx[0], 0), 299);
    assert_true(kv_seq_pos_min(p.ctx[0], 0) > 300 - WINDOW);
    assert_false(model_decode(p.ctx[0], &b, &err));
    assert_int_equal(err.code, ERR_INVALID);
    for (int i = 0; i < 2; i++)
        assert_true(kv_seq_remove(p.ctx[i], 0, -1, -1));
    p.end[0] = 0;
    run_one(&p, 0, 500, 0);
    free_pair(&p);
}

static uint32_t next_random(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

/* Everything that can be done to a cache, in any order. */
static void random_script(bool unified, uint32_t seed)
{
    struct pair p = make_pair(unified, N_UBATCH);
    struct str saved[2] = {{0}, {0}}, window = {0};
    struct error err = {0};
    int32_t end_saved = 0, end_window = -1, seq_window = 0;
    uint32_t x = seed;
    for (int i = 0; i < 100; i++) {
        int32_t seq = (int32_t)(next_random(&x) % N_SEQ), other = (seq + 1) % N_SEQ;
        int32_t n = 1 + (int32_t)(next_random(&x) % 120), cut = p.end[seq] - n;
        switch (next_random(&x) % 8) {
        case 0:
            for (int k = 0; k < 2; k++)
                assert_true(kv_seq_remove(p.ctx[k], other, -1, -1) &&
                            kv_seq_copy(p.ctx[k], seq, other, -1, -1));
            p.end[other] = p.end[seq];
            end_window = seq_window == other ? -1 : end_window;
            break;
        case 1:
            if (cut > 0 && kv_seq_remove(p.ctx[0], seq, cut, -1)) {
                assert_true(kv_seq_remove(p.ctx[1], seq, cut, -1));
                p.end[seq] = cut;
                end_window = seq_window == seq && cut < end_window ? -1 : end_window;
            }
            break;
        case 2:
            for (int k = 0; k < 2; k++) {
                str_clear(&saved[k]);
                assert_true(kv_seq_save(p.ctx[k], seq, &saved[k]));
            }
            end_saved = p.end[seq];
            break;
        case 3:
            for (int k = 0; k < 2 && end_saved; k++)
                assert_true(kv_seq_load(p.ctx[k], seq, str_slice(&saved[k]), &err));
            p.end[seq] = end_saved ? end_saved : p.end[seq];
            end_window = seq_window == seq ? -1 : end_window;
            break;
        case 4:
            if (end_window > 0) {
                assert_true(kv_seq_load_window(p.ctx[0], seq_window, str_slice(&window), &err));
                assert_true(kv_seq_remove(p.ctx[1], seq_window, end_window, -1));
                p.end[seq_window] = end_window;
            }
            str_clear(&window);
            end_window = p.end[seq] ? p.end[seq] : -1;
            seq_window = seq;
            assert_true(kv_seq_save_window(p.ctx[0], seq, &window));
            break;
        default:
            if (p.end[seq] + n < 1300)
                run_one(&p, seq, n, i);
        }
    }
    str_free(&saved[0]);
    str_free(&saved[1]);
    str_free(&window);
    free_pair(&p);
}

static void any_order_of_sharing_cutting_saving_and_loading_is_right(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 2; seed++) {
        random_script(true, seed);
        random_script(false, seed);
    }
}

/* The families of the miniatures look back 8 tokens; their kinds of layers differ. */
static void every_family_with_a_window_answers_the_same(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    static const char *const files[] = {"tiny/gemma2.gguf", "tiny/gemma3.gguf",
                                        "tiny/gpt-oss.gguf"};
    for (size_t m = 0; m < sizeof files / sizeof *files; m++) {
        struct loaded l[2];
        for (int i = 0; i < 2; i++) {
            struct context_settings s = context_settings_default();
            s.n_ctx = 1024;
            s.n_ubatch = 16;
            s.swa_full = i == 1;
            l[i] = load_model(folder, files[m], &s, 1);
        }
        assert_true(context_kv_bytes(l[0].ctx) < context_kv_bytes(l[1].ctx));
        for (int32_t pos = 0; pos < 900; pos += 42) {
            const float *a = run_tokens(l[0].ctx, 0, pos, long_prompt, 42);
            const float *b = run_tokens(l[1].ctx, 0, pos, long_prompt, 42);
            if (memcmp(a, b, 512 * sizeof *a) != 0)
                fail_msg("%s: other logits behind position %d", files[m], pos);
        }
        assert_true(kv_seq_pos_min(l[0].ctx, 0) > 0);
        unload(&l[0]);
        unload(&l[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_gives_the_same_logits_as_a_cache_that_keeps_everything),
        cmocka_unit_test(a_sequence_is_cut_only_where_its_window_is_still_there),
        cmocka_unit_test(copies_share_or_have_what_they_see),
        cmocka_unit_test(a_saved_sequence_goes_on_in_another),
        cmocka_unit_test(a_checkpoint_restores_the_window),
        cmocka_unit_test(a_cancelled_batch_leaves_no_sequence_with_holes),
        cmocka_unit_test(any_order_of_sharing_cutting_saving_and_loading_is_right),
        cmocka_unit_test(every_family_with_a_window_answers_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
