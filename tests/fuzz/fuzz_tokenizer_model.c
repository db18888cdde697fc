/* fuzz_tokenizer_model.c - any bytes as a tokenizer.model: refused with a
 * reason, or a tokenizer that encodes and decodes. */
#include "text/tokenizer_json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char sample[] = "Hello,  wor\xC3\xA9ld <s>'s 12345\n\n\xE6\x97\xA5\xE2\x96\x81 x";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct tokenizer *tok = tokenizer_new();
    struct tokenizer_files files = {0};
    struct slice model = {(const char *)data, size};
    if (tok && tokenizer_from_sentencepiece(model, &files, tok, &err)) {
        struct token_vec ids = {0};
        struct str text = {0};
        if (!text_encode(tok, SLICE(sample), TEXT_ADD_SPECIAL | TEXT_PARSE_SPECIAL, &ids, &err))
            abort();
        for (size_t i = 0; i < ids.n; i++)
            if (ids.data[i] < 0 || ids.data[i] >= tokenizer_n_vocab(tok))
                abort();
        text_decode(tok, ids.data, ids.n, TEXT_SHOW_SPECIAL, &text, &err);
        str_free(&text);
        VEC_FREE(&ids);
    } else if (err.code == ERR_NONE || !err.message[0]) {
        abort(); /* a refusal says why */
    }
    tokenizer_free(tok);
    return 0;
}
