/* net_test.c - the trainer's gradients are those of its loss, and it learns. */
#include "unit/unit.h"

#include "kernels/kernels.h"
#include "tale.h"

#include <math.h>

enum { N_TOKENS = 24, CHECKS = 60 };

static const struct net_config small = {40, 16, 2, 2, 32, 64, 1e-5f, 10000.0f};

/* Two documents with targets on some of their tokens. */
static struct net_batch make_batch(int32_t *token, int32_t *target, int32_t *doc_begin)
{
    struct random random;
    random_seed(&random, 11);
    for (int32_t i = 0; i < N_TOKENS; i++) {
        token[i] = (int32_t)below(&random, 40);
        target[i] = chance(&random, 60) ? (int32_t)below(&random, 40) : -1;
        doc_begin[i] = i < 10 ? 0 : 10;
    }
    return (struct net_batch){N_TOKENS, token, target, doc_begin};
}

/* Move random parameters by a little; the loss must move as the gradient says. */
static void check_gradients(struct net *net)
{
    int32_t token[N_TOKENS], target[N_TOKENS], doc_begin[N_TOKENS];
    struct net_batch batch = make_batch(token, target, doc_begin);
    struct random random;
    random_seed(&random, 12);
    size_t n;
    float *parameters = net_parameters(net, &n);
    float *gradients = malloc(n * sizeof *gradients);
    /* Larger weights than training starts with, so that nothing is near zero. */
    for (size_t i = 0; i < n; i++)
        parameters[i] += 0.3f * (float)(random_double(&random) - 0.5);
    net_loss(net, &batch, true);
    memcpy(gradients, net_gradients(net), n * sizeof *gradients);
    double worst = 0;
    for (int i = 0; i < CHECKS; i++) {
        size_t at = below(&random, (uint32_t)n);
        const float step = 1e-2f;
        float kept = parameters[at];
        parameters[at] = kept + step;
        double up = net_loss(net, &batch, false);
        parameters[at] = kept - step;
        double down = net_loss(net, &batch, false);
        parameters[at] = kept;
        double measured = (up - down) / (2.0 * step);
        double difference = fabs(measured - gradients[at]) / (fabs(measured) + 0.02);
        worst = difference > worst ? difference : worst;
    }
    free(gradients);
    assert_true(worst < 0.03);
}

static void gradients_agree_with_finite_differences(void **state)
{
    (void)state;
    struct net *net = net_create(&small, N_TOKENS, 3, NULL);
    assert_non_null(net);
    check_gradients(net);
    net_free(net);
}

static void adapter_gradients_agree_with_finite_differences(void **state)
{
    (void)state;
    struct net *net = net_create(&small, N_TOKENS, 3, NULL);
    assert_true(net_add_lora(net, 4, 8.0f, 5));
    check_gradients(net);
    net_free(net);
}

static struct bpe *learn_some(void)
{
    struct str text = {0};
    struct random random;
    random_seed(&random, 1);
    for (int i = 0; i < 300; i++) {
        struct arena arena = {0};
        struct conversation c = {0};
        struct segment segments[MAX_SEGMENTS];
        make_conversation(&random, &arena, &c);
        int n = render(&c, segments);
        for (int k = 0; k < n; k++)
            str_append_text(&text, segments[k].text);
        arena_free(&arena);
    }
    struct bpe *bpe = bpe_learn(str_slice(&text));
    str_free(&text);
    return bpe;
}

/* Fifty steps of a small model bring the loss down, the same way every time and
 * with any number of threads. */
static void fifty_steps_lower_the_loss_and_repeat(void **state)
{
    (void)state;
    const struct net_config config = {VOCAB_SIZE, 32, 2, 2, 64, 1024, 1e-5f, 10000.0f};
    const struct training training = {
        .n_steps = 50, .n_tokens = 1024, .learning_rate = 1e-2f, .seed = 1, .quiet = true};
    struct bpe *bpe = learn_some();
    float last[2];
    for (int run = 0; run < 2; run++) {
        struct error err;
        struct worker_settings workers = {.n_threads = run + 1};
        struct worker_pool *pool = worker_pool_create(&workers, &err);
        struct net *net = net_create(&config, training.n_tokens, 1, pool);
        float first;
        assert_true(train(net, bpe, &training, &first, &last[run], &err));
        print_message("loss %.3f, then %.3f\n", (double)first, (double)last[run]);
        assert_true(first > 5.0f);
        assert_true(last[run] < first - 2.0f);
        net_free(net);
        worker_pool_free(pool);
    }
    assert_true(last[0] == last[1]);
    bpe_free(bpe);
}

/* Text survives encoding and decoding, whatever bytes it has. */
static void tokens_spell_the_text_they_came_from(void **state)
{
    (void)state;
    struct bpe *bpe = learn_some();
    struct random random;
    random_seed(&random, 9);
    for (int i = 0; i < 200; i++) {
        char text[64];
        size_t len = below(&random, sizeof text);
        for (size_t k = 0; k < len; k++)
            text[k] = i % 2 ? (char)below(&random, 256) : " \n a1'sb<"[below(&random, 9)];
        struct token_vec tokens = {0};
        struct str back = {0};
        assert_true(bpe_encode(bpe, (struct slice){text, len}, &tokens));
        bpe_decode(bpe, tokens.data, tokens.n, &back);
        assert_int_equal(back.len, len);
        if (len)
            assert_memory_equal(str_text(&back), text, len);
        VEC_FREE(&tokens);
        str_free(&back);
    }
    bpe_free(bpe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_finite_differences),
        cmocka_unit_test(adapter_gradients_agree_with_finite_differences),
        cmocka_unit_test(fifty_steps_lower_the_loss_and_repeat),
        cmocka_unit_test(tokens_spell_the_text_they_came_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
