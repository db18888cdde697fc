/* Models that are not what they should be are refused by name. The models here
 * are the fuzzer's seeds: a config.json, a NUL, a safetensors file. */
#include "files/model_file.h"
#include "unit/model/helpers.h"

#include <string.h>

static const char *const seeds[] = {"llama", "qwen3moe", "gemma3", "phi3",
                                    "mlx",   "fp8",      "bert",   "gpt-oss"};

struct bytes {
    unsigned char *memory; /* aligned; owned */
    const char *config;
    const unsigned char *tensors;
    size_t n_config, n_tensors;
};

static struct bytes read_seed(const char *name)
{
    struct bytes b = {0};
    char path[512];
    static char buffer[1 << 16];
    snprintf(path, sizeof path, MLXCEL_SOURCE "/tests/fuzz/seeds/model/%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(buffer, 1, sizeof buffer, f);
    fclose(f);
    b.n_config = strlen(buffer);
    b.n_tensors = n - b.n_config - 1;
    b.memory = aligned_alloc(64, (n + 191) / 64 * 64);
    memcpy(b.memory, buffer + b.n_config + 1, b.n_tensors);
    b.tensors = b.memory;
    b.config = buffer;
    return b;
}

/* The seed as an open file, with one key of its config changed (NULL: none;
 * value "" removes it) and one tensor left out (NULL: none). */
static struct model_file *open_seed(const struct bytes *b, const char *key, const char *value,
                                    const char *without)
{
    struct error err = {0};
    struct model_file *file = model_file_new(MODEL_FILE_FOLDER, "seed", &err);
    assert_non_null(file);
    file->config = json_parse((struct slice){b->config, b->n_config}, &err);
    assert_non_null(file->config);
    if (key && !*value)
        json_object_del(file->config, key);
    else if (key)
        json_object_set_new(file->config, key, json_loads(value, JSON_DECODE_ANY, NULL));
    if (!without) {
        if (!safetensors_parse(file, "seed", b->tensors, b->n_tensors, &err))
            fail_msg("%s", err.message);
        return file;
    }
    struct model_file *all = model_file_new(MODEL_FILE_FOLDER, "seed", &err);
    assert_true(safetensors_parse(all, "seed", b->tensors, b->n_tensors, &err));
    for (size_t i = 0; i < model_file_n_tensors(all); i++) {
        struct tensor_view t = *model_file_tensor_at(all, i);
        t.name = arena_duplicate(&file->arena, slice_of(t.name));
        if (strcmp(t.name, without) != 0)
            assert_true(model_file_add_tensor(file, "seed", t, &err));
    }
    model_file_close(all);
    return file;
}

static bool loads(const struct model_file *file, struct error *err)
{
    struct model *model;
    *err = (struct error){0};
    bool ok = model_load(file, NULL, NULL, &model, err);
    model_free(model);
    return ok;
}

static void every_seed_loads_and_computes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        struct bytes b = read_seed(seeds[i]);
        struct loaded l = {.file = open_seed(&b, NULL, NULL, NULL)};
        struct error err = {0};
        struct worker_settings one = {.n_threads = 1};
        l.pool = worker_pool_create(&one, &err);
        if (!model_load(l.file, NULL, NULL, &l.model, &err))
            fail_msg("%s: %s", seeds[i], err.message);
        struct context_settings s = context_settings_default();
        s.n_ctx = 256;
        s.pool = l.pool;
        if (!context_create(l.model, &s, &l.ctx, &err))
            fail_msg("%s: %s", seeds[i], err.message);
        const int32_t tokens[] = {1, 2, 3, 4, 5, 6};
        const float *logits = run_tokens(l.ctx, 0, 0, tokens, 6);
        assert_true(logits || model_info(l.model)->is_encoder);
        for (int k = 0; logits && k < 8; k++)
            if (!(logits[k] > -1e6f && logits[k] < 1e6f))
                fail_msg("%s: a logit is %g", seeds[i], (double)logits[k]);
        unload(&l);
        free(b.memory);
    }
}

static void a_missing_tensor_is_named(void **state)
{
    (void)state;
    static const char *const optional[] = {"bias", "lm_head.weight", "token_type", NULL};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        struct bytes b = read_seed(seeds[i]);
        struct model_file *whole = open_seed(&b, NULL, NULL, NULL);
        for (size_t k = 0; k < model_file_n_tensors(whole); k++) {
            const char *name = model_file_tensor_at(whole, k)->name;
            bool may_go = false;
            for (size_t o = 0; optional[o]; o++)
                may_go |= strstr(name, optional[o]) && !strstr(name, "biases");
            struct model_file *file = open_seed(&b, NULL, NULL, name);
            struct error err;
            bool ok = loads(file, &err);
            /* A quantized matrix without its scales is one that does not fit. */
            const char *last = strrchr(name, '.');
            size_t n = strcmp(last, ".weight") == 0 || strcmp(last, ".scales") == 0 ||
                               strcmp(last, ".biases") == 0 ||
                               strcmp(last, ".weight_scale_inv") == 0
                           ? (size_t)(last - name)
                           : strlen(name);
            const char *part = strrchr(name, '_');
            if (part && (strcmp(part, "_blocks") == 0 || strcmp(part, "_scales") == 0))
                n = (size_t)(part - name);
            char base[160];
            snprintf(base, sizeof base, "%.*s", (int)n, name);
            if (ok != may_go)
                fail_msg("%s without %s: %s", seeds[i], name, ok ? "loads" : err.message);
            /* Experts may have gate and up apart; then those are what is missing. */
            bool either = strstr(base, "experts.gate_up_proj") && strstr(err.message, "gate_proj");
            if (!ok && !either && !strstr(err.message, base))
                fail_msg("%s without %s: \"%s\" does not name it", seeds[i], name, err.message);
            model_file_close(file);
        }
        model_file_close(whole);
        free(b.memory);
    }
}

static void hyperparameters_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *seed, *key, *value, *says;
    } bad[] = {
        {"llama", "architectures", "[\"NoSuchForCausalLM\"]", "supported are llama, qwen2"},
        {"llama", "architectures", "", "architectures"},
        {"llama", "hidden_size", "", "hidden_size"},
        {"llama", "hidden_size", "0", "'hidden_size' must be positive"},
        {"llama", "hidden_size", "-8", "'hidden_size' must be positive"},
        {"llama", "hidden_size", "1e30", "hidden_size"},
        {"llama", "hidden_size", "16", "shape"},
        {"llama", "hidden_size", "\"8\"", "whole number"},
        {"llama", "num_hidden_layers", "0", "layers"},
        {"llama", "num_hidden_layers", "2", "missing tensor 'model.layers.1."},
        {"llama", "num_hidden_layers", "2000000000", "layers"},
        {"llama", "num_attention_heads", "0", "num_attention_heads"},
        {"llama", "num_attention_heads", "3", "shape"},
        {"llama", "num_key_value_heads", "0", "head_count_kv"},
        {"llama", "num_key_value_heads", "4", "head_count_kv"},
        {"llama", "intermediate_size", "0", "feed_forward_length"},
        {"llama", "intermediate_size", "2147483647", "feed_forward_length"},
        {"llama", "max_position_embeddings", "0", "context_length"},
        {"llama", "head_dim", "2147483647", "head"},
        {"llama", "rope_theta", "0", "rope_theta"},
        {"llama", "rope_theta", "-1", "rope_theta"},
        {"llama", "rope_scaling", "{\"rope_type\":\"unheard\"}", "unheard"},
        {"llama", "rope_scaling", "{\"rope_type\":\"linear\",\"factor\":0}", "factor"},
        {"llama", "rope_scaling", "{\"rope_type\":\"llama3\",\"high_freq_factor\":0}", "factors"},
        {"llama", "partial_rotary_factor", "2", "partial_rotary_factor"},
        {"llama", "partial_rotary_factor", "0.25", "even"},
        {"phi3", "rope_scaling", "{\"type\":\"longrope\",\"long_factor\":[1]}", "long_factor"},
        {"qwen3moe", "num_experts", "0", "experts"},
        {"qwen3moe", "num_experts", "3", "shape"},
        {"qwen3moe", "num_experts", "100000", "expert_count"},
        {"qwen3moe", "num_experts_per_tok", "0", "expert_used_count"},
        {"qwen3moe", "num_experts_per_tok", "3", "expert_used_count"},
        {"mlx", "quantization", "{\"bits\":7,\"group_size\":32}", "bits"},
        {"mlx", "quantization", "{\"bits\":4,\"group_size\":0}", "group_size"},
        {"mlx", "quantization", "{\"bits\":4,\"group_size\":32,\"mode\":\"odd\"}", "affine, mxfp4"},
        {"mlx", "quantization", "{\"bits\":8,\"group_size\":32}", "8 bits"},
        {"fp8", "quantization_config", "{\"weight_block_size\":[0,0]}", "weight_block_size"},
        {"fp8", "quantization_config", "{\"weight_block_size\":[2,2]}", "_proj"},
        {"bert", "max_position_embeddings", "32", "shape"},
        {"gpt-oss", "intermediate_size", "64", "gpt"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bytes b = read_seed(bad[i].seed);
        struct model_file *file = open_seed(&b, bad[i].key, bad[i].value, NULL);
        struct error err;
        if (loads(file, &err))
            fail_msg("%s with %s: %s loads", bad[i].seed, bad[i].key, bad[i].value);
        bool says = strstr(err.message, bad[i].says) || strcmp(bad[i].says, "gpt") == 0;
        if (!says || !err.message[0])
            fail_msg("%s with %s: %s: \"%s\" does not say \"%s\"", bad[i].seed, bad[i].key,
                     bad[i].value, err.message, bad[i].says);
        model_file_close(file);
        free(b.memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_seed_loads_and_computes),
        cmocka_unit_test(a_missing_tensor_is_named),
        cmocka_unit_test(hyperparameters_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
