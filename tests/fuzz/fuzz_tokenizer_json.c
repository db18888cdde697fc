/* fuzz_tokenizer_json.c - any text as a tokenizer.json: refused with a reason,
 * or a tokenizer that encodes and decodes. */
#include "base/json.h"
#include "text/tokenizer_json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char sample[] = "Hello,  wor\xC3\xA9ld <s>'s 12345\n\n\xE6\x97\xA5\xE2\x96\x81 x";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    json_t *root = json_parse((struct slice){(const char *)data, size}, &err);
    struct tokenizer *tok = root ? tokenizer_new() : NULL;
    struct tokenizer_files files = {.tokenizer_config = root, .generation_config = root};
    if (tok && tokenizer_from_json(root, &files, tok, &err)) {
        struct token_vec ids = {0};
        struct str text = {0};
        unsigned flags = TEXT_ADD_SPECIAL | TEXT_PARSE_SPECIAL;
        if (!text_encode(tok, SLICE(sample), flags, &ids, &err) && err.code != ERR_LIMIT)
            abort(); /* only a pattern may give up */
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
    json_decref(root);
    return 0;
}
