/* Models from folders: the same weights give the same numbers as their GGUF. */
#include "unit/model/helpers.h"

#include <math.h>
#include <string.h>

static struct context_settings exact_settings(void)
{
    struct context_settings s = context_settings_default();
    s.n_ctx = 512;
    s.type_k = s.type_v = DTYPE_F32;
    return s;
}

static float largest_difference(const float *a, const float *b, int32_t n)
{
    float largest = 0.0f;
    for (int32_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(a[i] - b[i]));
    return largest;
}

static void compare(const char *folder, const char *gguf, const char *hf)
{
    struct context_settings s = exact_settings();
    struct loaded a = load_model(folder, gguf, &s, 1), b = load_model(folder, hf, &s, 1);
    int32_t n = model_info(a.model)->n_vocab;
    assert_int_equal(n, model_info(b.model)->n_vocab);
    assert_string_equal(model_info(a.model)->arch, model_info(b.model)->arch);
    assert_int_equal(model_info(a.model)->n_layers, model_info(b.model)->n_layers);
    const float *x = run_tokens(a.ctx, 0, 0, long_prompt, 42);
    const float *y = run_tokens(b.ctx, 0, 0, long_prompt, 42);
    float d = largest_difference(x, y, n);
    if (!(d <= 1e-4f))
        fail_msg("%s and %s differ by %g", gguf, hf, (double)d);
    unload(&a);
    unload(&b);
}

static void every_folder_gives_the_logits_of_its_gguf(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    static const char *const names[] = {
        "llama",      "llama-linear-rope", "llama-yarn", "qwen2",  "qwen3",
        "qwen3-hd32", "qwen3moe",          "gemma2",     "gemma3", "phi3",
        "olmo2",      "granite",           "smollm3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char gguf[64], hf[64];
        snprintf(gguf, sizeof gguf, "tiny/%s.gguf", names[i]);
        snprintf(hf, sizeof hf, "tiny/%s-hf", names[i]);
        compare(folder, gguf, hf);
    }
    compare(folder, "stories260k/stories260K.gguf", "stories260k/hf");
}

/* The quantized story model, and the values its words stand for as F32 in a
 * folder of their own, write the same story. */
static void write_exact_copy(const char *folder, const char *to);

static void generate(struct loaded *l, int32_t *out, int32_t n)
{
    int32_t n_vocab = model_info(l->model)->n_vocab;
    const float *logits = run_tokens(l->ctx, 0, 0, short_prompt, 5);
    for (int32_t i = 0; i < n; i++) {
        out[i] = arg_max(logits, n_vocab);
        logits = run_tokens(l->ctx, 0, 5 + i, &out[i], 1);
    }
}

static void the_mlx_story_model_writes_what_its_exact_values_write(void **state)
{
    (void)state;
    REQUIRE_SHARED(folder);
    enum { N = 12 };
    int32_t quantized[N], exact[N];
    struct loaded l = load_model(folder, "stories260k/mlx-4bit", NULL, 1);
    generate(&l, quantized, N);
    unload(&l);
    char copy[] = "/tmp/mlxcel-test-XXXXXX/models";
    char *slash = strrchr(copy, '/');
    *slash = '\0';
    assert_non_null(mkdtemp(copy));
    char root[64];
    snprintf(root, sizeof root, "%s", copy);
    *slash = '/';
    assert_int_equal(mkdir(copy, 0700), 0);
    write_exact_copy(folder, copy);
    l = load_model(root, "", NULL, 1);
    generate(&l, exact, N);
    unload(&l);
    for (int i = 0; i < N; i++)
        assert_int_equal(quantized[i], exact[i]);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

/* ---- writing the exact copy ------------------------------------------------ */

static float half_at(const void *data, size_t i)
{
    uint16_t h;
    memcpy(&h, (const char *)data + 2 * i, sizeof h);
    return f16_to_f32(h);
}

/* Affine, 4 bits, groups of 64: eight values a word, the first in the lowest
 * bits; value = q * scale + bias. Source: MLX's documentation of quantize. */
static size_t exact_values(const struct model_file *file, const struct tensor_view *t, float *out)
{
    size_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= (size_t)t->dims[i];
    if (t->dtype == DTYPE_F16) {
        for (size_t i = 0; i < n; i++)
            out[i] = half_at(t->data, i);
        return n;
    }
    assert_int_equal(t->dtype, DTYPE_U32);
    char name[160];
    int base = (int)strlen(t->name) - 7;
    snprintf(name, sizeof name, "%.*s.scales", base, t->name);
    const struct tensor_view *scales = model_file_find_tensor(file, name);
    snprintf(name, sizeof name, "%.*s.biases", base, t->name);
    const struct tensor_view *biases = model_file_find_tensor(file, name);
    assert_true(scales && biases);
    for (size_t i = 0; i < n * 8; i++) {
        uint32_t word;
        memcpy(&word, (const char *)t->data + i / 8 * 4, sizeof word);
        float q = (float)(word >> (4 * (i % 8)) & 15);
        out[i] = q * half_at(scales->data, i / 64) + half_at(biases->data, i / 64);
    }
    return n * 8;
}

static void write_exact_copy(const char *folder, const char *to)
{
    struct error err = {0};
    struct model_file *file;
    char path[512];
    snprintf(path, sizeof path, "%s/models/stories260k/mlx-4bit", folder);
    if (!model_file_open(path, NULL, &file, &err))
        fail_msg("%s", err.message);
    json_t *header = json_object();
    float *data = malloc(4u << 20);
    size_t total = 0;
    for (size_t i = 0; i < model_file_n_tensors(file); i++) {
        const struct tensor_view *t = model_file_tensor_at(file, i);
        size_t len = strlen(t->name);
        if (strcmp(t->name + len - 6, "scales") == 0 || strcmp(t->name + len - 6, "biases") == 0)
            continue;
        size_t n = exact_values(file, t, data + total);
        json_t *shape = json_array();
        for (int d = t->n_dims; d-- > 0;)
            json_array_append_new(
                shape, json_integer(t->dims[d] * (d == 0 && t->dtype == DTYPE_U32 ? 8 : 1)));
        json_object_set_new(header, t->name,
                            json_pack("{s:s,s:o,s:[i,i]}", "dtype", "F32", "shape", shape,
                                      "data_offsets", (int)(total * 4), (int)((total + n) * 4)));
        total += n;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_t *config = json_deep_copy(model_file_config(file));
    json_object_del(config, "quantization");
    json_object_del(config, "quantization_config");
    snprintf(path, sizeof path, "%s/config.json", to);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    uint64_t n_header = strlen(text);
    fwrite(&n_header, sizeof n_header, 1, out);
    fwrite(text, 1, n_header, out);
    fwrite(data, 4, total, out);
    assert_int_equal(fclose(out), 0);
    free(text);
    free(data);
    json_decref(header);
    json_decref(config);
    model_file_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_folder_gives_the_logits_of_its_gguf),
        cmocka_unit_test(the_mlx_story_model_writes_what_its_exact_values_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
