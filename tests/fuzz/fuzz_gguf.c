/* fuzz_gguf.c - any bytes at all as a GGUF file: refused, or read to the last
 * item without a fault. */
#include "files/model_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sink;

static void touch_meta(const struct meta_value *value)
{
    struct slice text = meta_value_text(value);
    if (text.len)
        sink += (unsigned char)text.data[text.len - 1];
    sink += (unsigned)meta_value_i64(value) + (meta_value_f64(value) > 0);
    size_t n = meta_array_len(value);
    for (size_t i = 0; i < n; i += 1 + i / 64) {
        text = meta_array_text(value, i);
        if (text.len)
            sink += (unsigned char)text.data[text.len - 1];
        sink += (unsigned)meta_array_i64(value, i) + (meta_array_f64(value, i) > 0);
    }
    if (n) {
        text = meta_array_text(value, n - 1);
        if (text.len)
            sink += (unsigned char)text.data[text.len - 1];
    }
}

static void touch_tensor(const struct tensor_view *t)
{
    if (t->n_bytes)
        sink +=
            ((const unsigned char *)t->data)[0] + ((const unsigned char *)t->data)[t->n_bytes - 1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct model_file *file = model_file_new(MODEL_FILE_GGUF, "fuzz.gguf", &err);
    if (!file)
        return 0;
    struct gguf_split split;
    if (gguf_parse(file, "fuzz.gguf", data, size, &split, &err)) {
        for (size_t i = 0; i < model_file_n_meta(file); i++)
            touch_meta(model_file_meta_at(file, i));
        for (size_t i = 0; i < model_file_n_tensors(file); i++)
            touch_tensor(model_file_tensor_at(file, i));
    } else if (err.code == ERR_NONE || !err.message[0]) {
        abort(); /* a refusal says why */
    }
    model_file_close(file);
    return 0;
}
