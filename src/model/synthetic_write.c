/* synthetic_write.c - a synthetic model as a GGUF file that other programs read.
 *
 * Source: the GGUF specification (ggml docs/gguf.md), version 3. */
#include "model/synthetic.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64 }; /* as synthetic_parse lays tensors out */

static void put_u32(struct str *s, uint32_t v)
{
    str_append(s, &v, sizeof v);
}

static void put_u64(struct str *s, uint64_t v)
{
    str_append(s, &v, sizeof v);
}

static void put_text(struct str *s, const char *text)
{
    put_u64(s, strlen(text));
    str_append_text(s, text);
}

static void put_key(struct str *s, uint64_t *n, const char *key, enum meta_type type)
{
    ++*n;
    put_text(s, key);
    put_u32(s, (uint32_t)type);
}

static void key_u32(struct str *s, uint64_t *n, const char *key, uint32_t value)
{
    put_key(s, n, key, META_U32);
    put_u32(s, value);
}

static void key_f32(struct str *s, uint64_t *n, const char *key, float value)
{
    put_key(s, n, key, META_F32);
    str_append(s, &value, sizeof value);
}

static void key_text(struct str *s, uint64_t *n, const char *key, const char *value)
{
    put_key(s, n, key, META_TEXT);
    put_text(s, value);
}

static void key_array(struct str *s, uint64_t *n, const char *key, enum meta_type type, size_t len)
{
    put_key(s, n, key, META_ARRAY);
    put_u32(s, (uint32_t)type);
    put_u64(s, len);
}

/* A vocabulary that decodes anything: three control tokens, the bytes, words. */
static void put_vocabulary(struct str *s, uint64_t *n, int32_t n_vocab)
{
    enum { FIRST_BYTE = 3, FIRST_WORD = FIRST_BYTE + 256 };
    static const char *const control[] = {"<unk>", "<s>", "</s>"};
    char text[32];
    key_text(s, n, "tokenizer.ggml.model", "llama");
    key_array(s, n, "tokenizer.ggml.tokens", META_TEXT, (size_t)n_vocab);
    for (int32_t i = 0; i < n_vocab; i++) {
        if (i >= FIRST_WORD)
            snprintf(text, sizeof text, "\xE2\x96\x81w%d", i);
        else if (i >= FIRST_BYTE)
            snprintf(text, sizeof text, "<0x%02X>", i - FIRST_BYTE);
        put_text(s, i < FIRST_BYTE ? control[i] : text);
    }
    key_array(s, n, "tokenizer.ggml.scores", META_F32, (size_t)n_vocab);
    for (int32_t i = 0; i < n_vocab; i++)
        str_append(s, &(float){(float)-i}, sizeof(float));
    key_array(s, n, "tokenizer.ggml.token_type", META_I32, (size_t)n_vocab);
    for (int32_t i = 0; i < n_vocab; i++)
        put_u32(s, i == 0 ? 2u : i < FIRST_BYTE ? 3u : i < FIRST_WORD ? 6u : 1u);
    key_u32(s, n, "tokenizer.ggml.bos_token_id", 1);
    key_u32(s, n, "tokenizer.ggml.eos_token_id", 2);
    key_u32(s, n, "tokenizer.ggml.unknown_token_id", 0);
}

/* Word pieces that stand for whole words. */
static void put_wordpiece(struct str *s, uint64_t *n, int32_t n_vocab)
{
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    enum { N_SPECIAL = sizeof special / sizeof *special };
    char text[32];
    key_text(s, n, "tokenizer.ggml.model", "bert");
    key_array(s, n, "tokenizer.ggml.tokens", META_TEXT, (size_t)n_vocab);
    for (int32_t i = 0; i < n_vocab; i++) {
        snprintf(text, sizeof text, "\xE2\x96\x81w%d", i);
        put_text(s, i < N_SPECIAL ? special[i] : text);
    }
    key_array(s, n, "tokenizer.ggml.token_type", META_I32, (size_t)n_vocab);
    for (int32_t i = 0; i < n_vocab; i++)
        put_u32(s, i < N_SPECIAL ? 3u : 1u);
    key_u32(s, n, "tokenizer.ggml.token_type_count", 2);
    key_u32(s, n, "tokenizer.ggml.padding_token_id", 0);
    key_u32(s, n, "tokenizer.ggml.unknown_token_id", 1);
    key_u32(s, n, "tokenizer.ggml.bos_token_id", 2);
    key_u32(s, n, "tokenizer.ggml.cls_token_id", 2);
    key_u32(s, n, "tokenizer.ggml.seperator_token_id", 3);
    key_u32(s, n, "tokenizer.ggml.mask_token_id", 4);
}

static void put_bert(struct str *s, uint64_t *n, const struct synthetic *m)
{
    key_u32(s, n, "bert.context_length", (uint32_t)m->n_ctx);
    key_u32(s, n, "bert.embedding_length", (uint32_t)m->n_embd);
    key_u32(s, n, "bert.block_count", (uint32_t)m->n_layers);
    key_u32(s, n, "bert.feed_forward_length", (uint32_t)m->n_ff);
    key_u32(s, n, "bert.attention.head_count", (uint32_t)m->n_heads);
    key_u32(s, n, "bert.vocab_size", (uint32_t)m->n_vocab);
    key_u32(s, n, "bert.pooling_type", POOLING_CLS);
    key_f32(s, n, "bert.attention.layer_norm_epsilon", SYNTHETIC_BERT_EPS);
    put_key(s, n, "bert.attention.causal", META_BOOL);
    str_append_char(s, '\0');
    put_wordpiece(s, n, m->n_vocab);
}

/* Keys of decoders, "ARCH.NAME". */
static void put_decoder(struct str *s, uint64_t *n, const struct synthetic *m)
{
    const struct {
        const char *name;
        int32_t value;
    } sizes[] = {{"context_length", m->n_ctx},
                 {"embedding_length", m->n_embd},
                 {"block_count", m->n_layers},
                 {"feed_forward_length", m->n_ff},
                 {"attention.head_count", m->n_heads},
                 {"attention.head_count_kv", m->n_kv_heads},
                 {"rope.dimension_count", m->n_embd / m->n_heads},
                 {"vocab_size", m->n_vocab},
                 {"attention.key_length", m->n_embd / m->n_heads},
                 {"attention.value_length", m->n_embd / m->n_heads},
                 {"attention.sliding_window", m->n_window}};
    const struct {
        const char *name;
        float value;
    } reals[] = {
        {"attention.layer_norm_rms_epsilon", synthetic_is_gemma(m) ? SYNTHETIC_EPS : 1e-5f},
        {"rope.freq_base", 10000.0f},
        {"attn_logit_softcapping", SYNTHETIC_ATTN_CAP},
        {"final_logit_softcapping", SYNTHETIC_FINAL_CAP}};
    size_t n_sizes = sizeof sizes / sizeof *sizes, n_reals = sizeof reals / sizeof *reals;
    if (!synthetic_is_gemma(m)) { /* the last ones are its own */
        n_sizes -= 3;
        n_reals -= 2;
    }
    char key[64];
    for (size_t i = 0; i < n_sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", m->family, sizes[i].name);
        key_u32(s, n, key, (uint32_t)sizes[i].value);
    }
    for (size_t i = 0; i < n_reals; i++) {
        snprintf(key, sizeof key, "%s.%s", m->family, reals[i].name);
        key_f32(s, n, key, reals[i].value);
    }
    put_vocabulary(s, n, m->n_vocab);
}

static void put_meta(struct str *s, uint64_t *n, const struct synthetic *m)
{
    key_text(s, n, "general.architecture", m->family);
    key_text(s, n, "general.name", "synthetic");
    key_u32(s, n, "general.alignment", ALIGNMENT);
    key_u32(s, n, "general.quantization_version", 2);
    key_u32(s, n, "general.file_type", m->ftype);
    (synthetic_is_bert(m) ? put_bert : put_decoder)(s, n, m);
}

static void put_tensors(struct str *s, const struct synthetic *m)
{
    for (size_t i = 0; i < m->n_tensors; i++) {
        const struct tensor_view *t = &m->tensors[i].view;
        put_text(s, t->name);
        put_u32(s, (uint32_t)t->n_dims);
        for (int32_t d = 0; d < t->n_dims; d++)
            put_u64(s, (uint64_t)t->dims[d]);
        put_u32(s, (uint32_t)dtype_info(t->dtype)->ggml_type);
        put_u64(s, m->tensors[i].offset);
    }
    while (s->len % ALIGNMENT)
        str_append_char(s, '\0');
}

static bool write_file(const char *path, const struct str *head, const void *data, size_t n,
                       struct error *err)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
    bool ok = fwrite(head->data, 1, head->len, f) == head->len && fwrite(data, 1, n, f) == n;
    ok = fclose(f) == 0 && ok;
    return ok || error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
}

bool model_synthetic_write(const char *spec, const char *path, struct error *err)
{
    struct synthetic s;
    struct str head = {0}, meta = {0};
    uint64_t n_meta = 0;
    bool ok = false;
    if (!synthetic_parse(spec, &s, err))
        return false;
    void *memory =
        mmap(NULL, s.n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s.mlx_bits) {
        error_set(err, ERR_UNSUPPORTED, "an MLX-quantized model is not a GGUF file");
        goto out;
    }
    if (memory == MAP_FAILED) {
        error_memory(err);
        goto out;
    }
    synthetic_fill(&s, memory, NULL);
    put_meta(&meta, &n_meta, &s);
    str_append_text(&head, "GGUF");
    put_u32(&head, 3);
    put_u64(&head, s.n_tensors);
    put_u64(&head, n_meta);
    str_append_slice(&head, str_slice(&meta));
    put_tensors(&head, &s);
    ok = head.failed || meta.failed ? error_memory(err)
                                    : write_file(path, &head, memory, s.n_bytes, err);
out:
    if (memory != MAP_FAILED)
        munmap(memory, s.n_bytes);
    str_free(&head);
    str_free(&meta);
    synthetic_free(&s);
    return ok;
}
