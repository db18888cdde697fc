/* fuzz_safetensors.c - any bytes at all as a safetensors file: refused, or
 * every tensor's bytes can be read. */
#include "files/model_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct model_file *file = model_file_new(MODEL_FILE_FOLDER, "fuzz", &err);
    if (!file)
        return 0;
    if (safetensors_parse(file, "fuzz/model.safetensors", data, size, &err)) {
        for (size_t i = 0; i < model_file_n_tensors(file); i++) {
            const struct tensor_view *t = model_file_tensor_at(file, i);
            if (t->n_bytes)
                sink += ((const unsigned char *)t->data)[0] +
                        ((const unsigned char *)t->data)[t->n_bytes - 1];
        }
    } else if (err.code == ERR_NONE || !err.message[0]) {
        abort(); /* a refusal says why */
    }
    model_file_close(file);
    return 0;
}
