/* rwkv.c - RWKV's "world" tokenizer: always the longest token that fits.
 *
 * Its vocabulary file writes bytes with backslash escapes. */
#include "text/tokenizer.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 0;
}

bool rwkv_unescape(struct slice text, struct str *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '\\' && i + 1 < text.len) {
            c = text.data[++i];
            if (c == 't')
                c = '\t';
            else if (c == 'n')
                c = '\n';
            else if (c == 'r')
                c = '\r';
            else if (c == 'x') {
                if (i + 2 >= text.len)
                    break;
                c = (char)(hex_value(text.data[i + 1]) << 4 | hex_value(text.data[i + 2]));
                i += 2;
            }
        }
        str_append_char(out, c);
    }
    return !out->failed;
}

bool rwkv_finish(struct tokenizer *tok, struct error *err)
{
    struct trie_key *keys = calloc((size_t)tok->n_vocab + 1, sizeof *keys);
    struct str bytes = {0};
    bool ok = keys != NULL;
    for (int32_t i = 0; ok && i < tok->n_vocab; i++) {
        size_t begin = bytes.len;
        ok = rwkv_unescape(tokenizer_text(tok, i), &bytes);
        /* The offset for now: the bytes still move. */
        keys[i] = (struct trie_key){{(const char *)NULL, bytes.len - begin}, i};
    }
    size_t at = 0;
    for (int32_t i = 0; ok && i < tok->n_vocab; i++) {
        keys[i].text.data = str_text(&bytes) + at;
        at += keys[i].text.len;
    }
    ok = ok && trie_build(&tok->trie, keys, (size_t)tok->n_vocab);
    free(keys);
    str_free(&bytes);
    return ok || error_memory(err);
}

bool rwkv_encode(struct encoder *e, struct slice piece)
{
    while (piece.len) {
        size_t len = 1;
        int32_t id = trie_longest(&e->tok->trie, piece, SIZE_MAX, &len);
        if (id < 0)
            id = e->tok->special.unk;
        if (id >= 0 && !emit(e, id))
            return false;
        piece = slice_from(piece, len);
    }
    return true;
}
