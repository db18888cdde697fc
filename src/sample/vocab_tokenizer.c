/* vocab_tokenizer.c - a vocab whose facts come from a tokenizer. */
#include "sample/vocab.h"

#include "text/text.h"

static struct slice piece(const void *context, int32_t token)
{
    return text_piece(context, token, true);
}

static bool is_eog(const void *context, int32_t token)
{
    return tokenizer_is_eog(context, token);
}

static bool is_hidden(const void *context, int32_t token)
{
    return text_piece(context, token, false).len == 0;
}

static bool encode(const void *context, struct slice text, bool parse_special,
                   struct token_vec *out)
{
    return text_encode(context, text, parse_special ? TEXT_PARSE_SPECIAL : 0, out, NULL);
}

static bool text_alone(const void *context, int32_t token, struct str *out)
{
    return text_decode(context, &token, 1, TEXT_SHOW_SPECIAL, out, NULL);
}

struct vocab *vocab_from_tokenizer(const struct tokenizer *tok, struct error *err)
{
    const struct special_tokens *special = tokenizer_special(tok);
    struct vocab_source source = {.context = tok,
                                  .n_tokens = tokenizer_n_vocab(tok),
                                  .eot = special->eot,
                                  .eos = special->eos,
                                  .piece = piece,
                                  .is_eog = is_eog,
                                  .is_hidden = is_hidden,
                                  .encode = encode,
                                  .text_alone = text_alone};
    source.suppressed = tokenizer_suppressed(tok, &source.n_suppressed);
    return vocab_create(&source, err);
}
