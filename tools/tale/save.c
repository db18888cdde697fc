/* save.c - the network as files, and back. */
#include "net.h"

#include "base/json.h"
#include "files/files.h"
#include "kernels/kernels.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const layer_tensor_names[LAYER_TENSORS] = {
    [T_NORM1] = "input_layernorm", [T_Q] = "self_attn.q_proj",
    [T_K] = "self_attn.k_proj",    [T_V] = "self_attn.v_proj",
    [T_O] = "self_attn.o_proj",    [T_NORM2] = "post_attention_layernorm",
    [T_GATE] = "mlp.gate_proj",    [T_UP] = "mlp.up_proj",
    [T_DOWN] = "mlp.down_proj",
};

/* A safetensors file being put together, all of it F16. */
struct tensor_file {
    json_t *header;
    struct str data;
};

static void add_tensor(struct tensor_file *file, const char *name, int32_t rows, int32_t columns,
                       const float *values)
{
    size_t begin = file->data.len, n = (size_t)rows * (size_t)columns;
    for (size_t i = 0; i < n; i++) {
        uint16_t half = f32_to_f16(values[i]);
        char bytes[2] = {(char)(half & 0xFF), (char)(half >> 8)};
        str_append(&file->data, bytes, sizeof bytes);
    }
    json_t *shape = rows == 1 && strstr(name, "norm")
                        ? json_pack("[i]", (int)columns)
                        : json_pack("[i, i]", (int)rows, (int)columns);
    json_object_set_new(file->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F16", "shape", shape,
                                  "data_offsets", (json_int_t)begin, (json_int_t)file->data.len));
}

static bool write_file(const char *folder, const char *name, const struct str *parts, size_t n,
                       struct error *err)
{
    char *path = text_format("%s/%s", folder, name);
    FILE *out = path ? fopen(path, "wb") : NULL;
    bool ok = out != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = !parts[i].failed && fwrite(str_text(&parts[i]), 1, parts[i].len, out) == parts[i].len;
    if (out)
        ok = fclose(out) == 0 && ok;
    if (!ok)
        error_set(err, ERR_IO, "%s: %s", path ? path : name, strerror(errno));
    free(path);
    return ok;
}

static bool write_tensors(struct tensor_file *file, const char *folder, const char *name,
                          struct error *err)
{
    struct str parts[3] = {{0}};
    json_append(&parts[1], file->header);
    while (parts[1].len % 8)
        str_append_char(&parts[1], ' ');
    for (int i = 0; i < 8; i++)
        str_append_char(&parts[0], (char)((uint64_t)parts[1].len >> 8 * i));
    parts[2] = file->data;
    bool ok = write_file(folder, name, parts, 3, err);
    for (int i = 0; i < 3; i++)
        str_free(&parts[i]);
    json_decref(file->header);
    return ok;
}

static bool write_json(json_t *value, const char *folder, const char *name, struct error *err)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    json_decref(value);
    if (!text)
        return error_memory(err);
    struct str part = {0};
    str_append_text(&part, text);
    str_append_char(&part, '\n');
    free(text);
    bool ok = write_file(folder, name, &part, 1, err);
    str_free(&part);
    return ok;
}

bool net_save(const struct net *net, const char *folder, struct error *err)
{
    const struct net_config *c = &net->config;
    struct tensor_file file = {.header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt")};
    add_tensor(&file, "model.embed_tokens.weight", c->n_vocab, c->n_embd,
               net_weight(net, &net->embedding));
    for (int32_t l = 0; l < c->n_layers; l++)
        for (int t = 0; t < LAYER_TENSORS; t++) {
            const struct tensor_place *w = &net->layers[l][t];
            char name[96];
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", (int)l, layer_tensor_names[t]);
            add_tensor(&file, name, w->rows, w->columns, net_weight(net, w));
        }
    add_tensor(&file, "model.norm.weight", 1, c->n_embd, net_weight(net, &net->final_norm));
    if (!write_tensors(&file, folder, "model.safetensors", err))
        return false;
    return write_json(
        json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:b, "
                  "s:s, s:i, s:i}",
                  "architectures", "LlamaForCausalLM", "model_type", "llama", "hidden_act", "silu",
                  "vocab_size", (int)c->n_vocab, "hidden_size", (int)c->n_embd, "intermediate_size",
                  (int)c->n_ff, "num_hidden_layers", (int)c->n_layers, "num_attention_heads",
                  (int)c->n_heads, "num_key_value_heads", (int)c->n_heads, "head_dim",
                  (int)(c->n_embd / c->n_heads), "max_position_embeddings", (int)c->n_ctx,
                  "rms_norm_eps", (double)c->norm_eps, "rope_theta", (double)c->rope_freq_base,
                  "tie_word_embeddings", 1, "attention_bias", 0, "torch_dtype", "float16",
                  "bos_token_id", (int)TOKEN_END_OF_TEXT, "eos_token_id", (int)TOKEN_IM_END),
        folder, "config.json", err);
}

static void lora_name(char name[128], int32_t layer, int tensor, char which)
{
    snprintf(name, 128, "base_model.model.model.layers.%d.%s.lora_%c.weight", (int)layer,
             layer_tensor_names[tensor], which);
}

bool net_save_lora(const struct net *net, const char *folder, struct error *err)
{
    struct tensor_file file = {.header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt")};
    json_t *modules = json_array();
    for (int t = 0; t < LAYER_TENSORS; t++)
        if (is_projection(t))
            json_array_append_new(modules, json_string(strchr(layer_tensor_names[t], '.') + 1));
    for (int32_t l = 0; l < net->config.n_layers; l++)
        for (int t = 0; t < LAYER_TENSORS; t++) {
            if (!is_projection(t))
                continue;
            const struct tensor_place *w = &net->layers[l][t];
            const struct lora_pair *pair = &net->lora[l][t];
            char name[128];
            lora_name(name, l, t, 'A');
            add_tensor(&file, name, net->lora_rank, w->columns, net->lora_parameters + pair->a);
            lora_name(name, l, t, 'B');
            add_tensor(&file, name, w->rows, net->lora_rank, net->lora_parameters + pair->b);
        }
    if (!write_tensors(&file, folder, "adapter_model.safetensors", err)) {
        json_decref(modules);
        return false;
    }
    return write_json(json_pack("{s:s, s:s, s:i, s:f, s:f, s:s, s:o, s:s}", "peft_type", "LORA",
                                "task_type", "CAUSAL_LM", "r", (int)net->lora_rank, "lora_alpha",
                                (double)net->lora_alpha, "lora_dropout", 0.0, "bias", "none",
                                "target_modules", modules, "base_model_name_or_path",
                                "models/tale"),
                      folder, "adapter_config.json", err);
}

/* An F16 tensor of rows x columns into the array to. */
static bool read_tensor(const struct model_file *file, const char *name, int32_t rows,
                        int32_t columns, float *to, struct error *err)
{
    const struct tensor_view *tensor = model_file_find_tensor(file, name);
    size_t n = (size_t)rows * (size_t)columns;
    if (!tensor || tensor->dtype != DTYPE_F16 || tensor->n_bytes != 2 * n)
        return error_set(err, ERR_FORMAT, "%s: no F16 tensor '%s' of %d x %d",
                         model_file_path(file), name, (int)rows, (int)columns);
    dtype_decode(tensor->dtype, tensor->data, to, n);
    return true;
}

bool net_load(struct net *net, const char *folder, struct error *err)
{
    struct model_file *file;
    if (!model_file_open(folder, NULL, &file, err))
        return false;
    const struct net_config *c = &net->config;
    bool ok = read_tensor(file, "model.embed_tokens.weight", c->n_vocab, c->n_embd,
                          net->parameters + net->embedding.offset, err) &&
              read_tensor(file, "model.norm.weight", 1, c->n_embd,
                          net->parameters + net->final_norm.offset, err);
    for (int32_t l = 0; ok && l < c->n_layers; l++)
        for (int t = 0; ok && t < LAYER_TENSORS; t++) {
            const struct tensor_place *w = &net->layers[l][t];
            char name[96];
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", (int)l, layer_tensor_names[t]);
            ok = read_tensor(file, name, w->rows, w->columns, net->parameters + w->offset, err);
        }
    model_file_close(file);
    return ok;
}

/* A whole file; the caller frees. */
static bool read_bytes(const char *path, struct str *out, struct error *err)
{
    FILE *file = fopen(path, "rb");
    char buffer[4096];
    size_t n;
    while (file && (n = fread(buffer, 1, sizeof buffer, file)) > 0)
        str_append(out, buffer, n);
    bool ok = file && !ferror(file) && !out->failed;
    if (!ok)
        error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    if (file)
        fclose(file);
    return ok;
}

/* An F16 tensor of a safetensors file in memory. Only what write_tensors writes
 * is read. */
static bool take_tensor(const struct str *bytes, size_t data_begin, json_t *header,
                        const char *name, size_t n, float *to, struct error *err)
{
    json_t *offsets = json_object_get(json_object_get(header, name), "data_offsets");
    json_int_t begin = json_integer_value(json_array_get(offsets, 0));
    json_int_t end = json_integer_value(json_array_get(offsets, 1));
    size_t room = bytes->len - data_begin;
    if (begin < 0 || end < begin || (size_t)end > room || (size_t)(end - begin) != 2 * n)
        return error_set(err, ERR_FORMAT, "no F16 tensor '%s' of %zu values", name, n);
    dtype_decode(DTYPE_F16, (const unsigned char *)bytes->data + data_begin + begin, to, n);
    return true;
}

static bool take_adapter(struct net *net, const struct str *bytes, struct error *err)
{
    uint64_t header_len = 0;
    for (size_t i = 0; bytes->len >= 8 && i < 8; i++)
        header_len |= (uint64_t)(unsigned char)bytes->data[i] << 8 * i;
    if (bytes->len < 8 || header_len > bytes->len - 8)
        return error_set(err, ERR_FORMAT, "the header is cut off");
    json_t *header = json_parse((struct slice){bytes->data + 8, header_len}, err);
    size_t data_begin = 8 + (size_t)header_len, rank = (size_t)net->lora_rank;
    bool ok = header != NULL;
    for (int32_t l = 0; ok && l < net->config.n_layers; l++)
        for (int t = 0; ok && t < LAYER_TENSORS; t++) {
            if (!is_projection(t))
                continue;
            const struct tensor_place *w = &net->layers[l][t];
            char name[128];
            lora_name(name, l, t, 'A');
            ok = take_tensor(bytes, data_begin, header, name, rank * (size_t)w->columns,
                             net->lora_parameters + net->lora[l][t].a, err);
            lora_name(name, l, t, 'B');
            ok = ok && take_tensor(bytes, data_begin, header, name, rank * (size_t)w->rows,
                                   net->lora_parameters + net->lora[l][t].b, err);
        }
    json_decref(header);
    return ok;
}

bool net_load_lora(struct net *net, const char *folder, struct error *err)
{
    char *path = text_format("%s/adapter_model.safetensors", folder);
    struct str bytes = {0};
    struct error why;
    bool ok = path ? read_bytes(path, &bytes, err) : error_memory(err);
    if (ok && !take_adapter(net, &bytes, &why))
        ok = error_set(err, ERR_FORMAT, "%s: %s", path, why.message);
    if (ok)
        net_merge_lora(net);
    str_free(&bytes);
    free(path);
    return ok;
}
