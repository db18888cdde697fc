/* The recordings' vectors and scores: encoders, and decoders as embedders. */
#include "base/json.h"
#include "text/text.h"
#include "unit/model/helpers.h"

#include <math.h>
#include <string.h>

struct embedder {
    struct loaded l;
    struct tokenizer *tok;
};

static struct embedder open_embedder(const char *folder, const char *path, enum pooling pooling,
                                     int32_t n_ubatch, int32_t n_threads)
{
    struct embedder e;
    struct error err = {0};
    struct context_settings s = context_settings_default();
    s.n_ctx = 512 * 8;
    s.n_seq_max = 8;
    s.n_ubatch = n_ubatch;
    s.embeddings = true;
    s.pooling = pooling;
    e.l = load_model(folder, path, &s, n_threads);
    if (!tokenizer_load(e.l.file, &e.tok, &err))
        fail_msg("%s", err.message);
    return e;
}

static void close_embedder(struct embedder *e)
{
    tokenizer_free(e->tok);
    unload(&e->l);
}

/* All texts in one batch, a sequence each. */
static void embed(struct embedder *e, const json_t *texts)
{
    struct error err = {0};
    struct token_vec tokens = {0};
    VEC(int32_t) pos = {0}, seq = {0};
    for (size_t i = 0; i < json_array_size(texts); i++) {
        size_t first = tokens.n;
        assert_true(text_encode(e->tok, json_slice(json_array_get(texts, i)),
                                TEXT_ADD_SPECIAL | TEXT_PARSE_SPECIAL, &tokens, &err));
        for (size_t k = first; k < tokens.n; k++) {
            assert_true(VEC_PUSH(&pos, (int32_t)(k - first)));
            assert_true(VEC_PUSH(&seq, (int32_t)i));
        }
    }
    bool *want = malloc(tokens.n);
    memset(want, true, tokens.n);
    struct batch b = {(int32_t)tokens.n, tokens.data, pos.data, seq.data, want, NULL, NULL};
    kv_seq_remove(e->l.ctx, -1, -1, -1);
    if (!model_decode(e->l.ctx, &b, &err))
        fail_msg("%s", err.message);
    free(want);
    VEC_FREE(&tokens);
    VEC_FREE(&pos);
    VEC_FREE(&seq);
}

static void compare(const char *name, const float *got, const json_t *want, bool normalized)
{
    size_t n = json_array_size(want);
    double length = 0.0;
    assert_non_null(got);
    for (size_t i = 0; i < n; i++)
        length += (double)got[i] * (double)got[i];
    length = normalized ? sqrt(length) : 1.0;
    for (size_t i = 0; i < n; i++) {
        double w = json_number_value(json_array_get(want, i)), g = got[i] / length;
        if (!(fabs(g - w) < (normalized ? 2e-3 : 2e-2)))
            fail_msg("%s: component %zu is %.5f, recorded %.5f", name, i, g, w);
    }
}

static json_t *recordings(const char *folder)
{
    struct error err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/conformance/numerics.json", folder);
    json_t *all = json_parse_file(path, &err);
    if (!all)
        fail_msg("%s", err.message);
    return all;
}

static const json_t *scenario(const json_t *all, const char *name)
{
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *s = json_array_get(all, i);
        if (strcmp(json_string_value(json_object_get(s, "name")), name) == 0)
            return s;
    }
    fail_msg("there is no scenario %s", name);
    return NULL;
}

/* The step's texts and the list of answers. */
static void step(const json_t *s, size_t i, const json_t **texts, const json_t **answer)
{
    const json_t *one = json_array_get(json_object_get(s, "steps"), i);
    const json_t *request = json_object_get(json_object_get(one, "request"), "json");
    *texts = json_object_get(request, "content");
    if (!*texts)
        *texts = json_object_get(request, "input");
    *answer = json_object_get(json_object_get(one, "response"), "json");
    if (json_object_get(*answer, "data"))
        *answer = json_object_get(*answer, "data");
}

static void check_pooled(const char *folder, const char *name, const char *path,
                         enum pooling pooling, int32_t n_ubatch)
{
    json_t *all = recordings(folder);
    const json_t *texts, *answer;
    step(scenario(all, name), 0, &texts, &answer);
    struct embedder e = open_embedder(folder, path, pooling, n_ubatch, 2);
    embed(&e, texts);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *v = json_object_get(json_array_get(answer, i), "embedding");
        if (json_is_array(json_array_get(v, 0)))
            v = json_array_get(v, 0);
        compare(name, model_embedding_seq(e.l.ctx, (int32_t)i), v, true);
    }
    close_embedder(&e);
    json_decref(all);
}

static void vectors_are_as_recorded(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    for (int32_t n_ubatch = 64; n_ubatch <= 512; n_ubatch *= 8) {
        check_pooled(folder, "embed-bert", "tiny/bert.gguf", POOLING_UNSPECIFIED, n_ubatch);
        check_pooled(folder, "embed-bert-mean", "tiny/bert.gguf", POOLING_MEAN, n_ubatch);
        check_pooled(folder, "embed-bert-last", "tiny/bert.gguf", POOLING_LAST, n_ubatch);
    }
}

/* Only the first of the recorded pair: the recorded vector of the longer text
 * is that of its last token alone, where it shared a batch with the shorter. */
static void a_decoder_embeds_the_mean_of_its_tokens_whoever_shares_the_batch(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    json_t *all = recordings(folder);
    const json_t *texts, *answer;
    const char *path = "stories260k/stories260K.gguf";
    step(scenario(all, "embed-llama-mean"), 0, &texts, &answer);
    struct embedder e = open_embedder(folder, path, POOLING_MEAN, 512, 2);
    embed(&e, texts);
    compare("embed-llama-mean", model_embedding_seq(e.l.ctx, 0),
            json_object_get(json_array_get(answer, 0), "embedding"), true);
    float together[64];
    memcpy(together, model_embedding_seq(e.l.ctx, 1), sizeof together);
    json_t *alone = json_pack("[O]", json_array_get(texts, 1));
    embed(&e, alone);
    const float *v = model_embedding_seq(e.l.ctx, 0);
    for (int i = 0; i < 64; i++)
        assert_true(fabsf(v[i] - together[i]) < 1e-5f);
    json_decref(alone);
    close_embedder(&e);
    json_decref(all);
}

static void without_pooling_every_token_has_its_vector(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    json_t *all = recordings(folder);
    const json_t *texts, *answer;
    step(scenario(all, "embed-bert-none"), 0, &texts, &answer);
    struct embedder e = open_embedder(folder, "tiny/bert.gguf", POOLING_NONE, 512, 1);
    embed(&e, texts);
    int32_t row = 0;
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *v = json_object_get(json_array_get(answer, i), "embedding");
        for (size_t k = 0; k < json_array_size(v); k++)
            compare("embed-bert-none", model_embedding(e.l.ctx, row++), json_array_get(v, k),
                    false);
    }
    assert_null(model_embedding(e.l.ctx, row));
    assert_null(model_logits(e.l.ctx, 0));
    close_embedder(&e);
    json_decref(all);
}

static void scores_are_as_recorded(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    struct embedder e = open_embedder(folder, "tiny/bert-rerank.gguf", POOLING_UNSPECIFIED, 512, 1);
    struct error err = {0};
    /* [CLS] a [SEP] b, and c: how a query and a document are put together. */
    int32_t token[] = {101, 1037, 102, 1038, 101, 1037, 102, 1039};
    int32_t pos[] = {0, 1, 2, 3, 0, 1, 2, 3}, seq[] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct batch b = {8, token, pos, seq, NULL, NULL, NULL};
    assert_int_equal(context_pooling(e.l.ctx), POOLING_RANK);
    assert_true(model_decode(e.l.ctx, &b, &err));
    assert_true(fabsf(model_embedding_seq(e.l.ctx, 0)[0] - 4.2236f) < 2e-2f);
    assert_true(fabsf(model_embedding_seq(e.l.ctx, 1)[0] - 2.8194f) < 2e-2f);
    assert_null(model_embedding_seq(e.l.ctx, 2));
    close_embedder(&e);
}

static void a_text_longer_than_the_physical_batch_is_refused(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    struct embedder e = open_embedder(folder, "tiny/bert.gguf", POOLING_UNSPECIFIED, 16, 1);
    struct error err = {0};
    int32_t token[20], pos[20], seq[20] = {0};
    for (int32_t i = 0; i < 20; i++) {
        token[i] = 1037;
        pos[i] = i;
    }
    struct batch b = {20, token, pos, seq, NULL, NULL, NULL};
    assert_false(model_decode(e.l.ctx, &b, &err));
    assert_int_equal(err.code, ERR_INVALID);
    pos[0] = 512; /* beyond the learned positions */
    b.n_tokens = 1;
    assert_false(model_decode(e.l.ctx, &b, &err));
    close_embedder(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_as_recorded),
        cmocka_unit_test(a_decoder_embeds_the_mean_of_its_tokens_whoever_shares_the_batch),
        cmocka_unit_test(without_pooling_every_token_has_its_vector),
        cmocka_unit_test(scores_are_as_recorded),
        cmocka_unit_test(a_text_longer_than_the_physical_batch_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
