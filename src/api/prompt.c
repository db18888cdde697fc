/* prompt.c - what "prompt" may be, as tokens. */
#include "api/internal.h"

#include <stdlib.h>

/* As many prompts as one request may hold. */
enum { PROMPTS_MAX = 4096 };

static bool is_token(const json_t *value)
{
    return json_is_number(value);
}

/* A number as a token id; what fits no id becomes one that no vocabulary has. */
static int32_t token_of(const json_t *value)
{
    double id = json_number_value(value);
    return id >= INT32_MIN && id <= INT32_MAX ? (int32_t)id : -1;
}

static bool append_text(const struct tokenizer *tok, struct slice text, bool add_special,
                        bool parse_special, struct budget *budget, struct token_vec *out,
                        struct error *err)
{
    unsigned flags =
        (add_special ? TEXT_ADD_SPECIAL : 0u) | (parse_special ? TEXT_PARSE_SPECIAL : 0u);
    return text_encode_within(tok, text, flags, NULL, 0, budget, out, err);
}

bool tokenize_mixed(const struct tokenizer *tok, const json_t *value, bool add_special,
                    bool parse_special, struct budget *budget, struct token_vec *out,
                    struct error *err)
{
    if (json_is_string(value))
        return append_text(tok, json_slice(value), add_special, parse_special, budget, out, err);
    if (!json_is_array(value))
        return error_set(err, ERR_INVALID, "type must be string, but is %s", json_type_name(value));
    size_t i;
    json_t *part;
    json_array_foreach(value, i, part)
    {
        if (json_is_string(part)) {
            if (!append_text(tok, json_slice(part), add_special && i == 0, parse_special, budget,
                             out, err))
                return false;
        } else if (is_token(part)) {
            if (!VEC_PUSH(out, token_of(part)))
                return error_memory(err);
        } else {
            return error_set(err, ERR_INVALID, "type must be number, but is %s",
                             json_type_name(part));
        }
    }
    return true;
}

bool tokens_to_text(const struct tokenizer *tok, const int32_t *tokens, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++)
        if (!str_append_slice(out, text_piece(tok, tokens[i], true)))
            return false;
    return true;
}

static bool holds_only_texts_and_tokens(const json_t *list)
{
    size_t i;
    json_t *part;
    json_array_foreach(list, i, part) if (!json_is_string(part) && !is_token(part)) return false;
    return true;
}

static bool holds_a_token(const json_t *list)
{
    size_t i;
    json_t *part;
    json_array_foreach(list, i, part) if (is_token(part)) return true;
    return false;
}

static bool read_one(const struct api *api, const json_t *value, bool add_special,
                     bool parse_special, struct budget *budget, struct token_vec *out,
                     struct error *err)
{
    const struct tokenizer *tok = engine_tokenizer(api->engine);
    if (json_is_string(value) || (json_is_array(value) && holds_only_texts_and_tokens(value)))
        return tokenize_mixed(tok, value, add_special, parse_special, budget, out, err);
    const json_t *inner = json_object_get(value, "prompt_string");
    if (!inner)
        return error_set(err, ERR_INVALID,
                         "\"prompt\" elements must be a string, a list of tokens, a JSON object "
                         "containing a prompt string, or a list of mixed strings & tokens.");
    if (json_object_get(value, "multimodal_data"))
        return error_set(
            err, ERR_INVALID,
            "Multimodal data provided, but model does not support multimodal requests.");
    return tokenize_mixed(tok, inner, add_special, parse_special, budget, out, err);
}

bool prompts_read(const struct api *api, const json_t *value, bool add_special, bool parse_special,
                  struct budget *budget, struct prompts *out, struct error *err)
{
    bool is_list = json_is_array(value) && !holds_a_token(value);
    size_t n = is_list ? json_array_size(value) : 1;
    *out = (struct prompts){0};
    if (n == 0)
        return error_set(err, ERR_INVALID, "\"prompt\" must not be empty");
    if (n > PROMPTS_MAX)
        return error_set(err, ERR_INVALID, "\"prompt\" holds %zu prompts; at most %d are taken", n,
                         PROMPTS_MAX);
    out->data = calloc(n, sizeof *out->data);
    if (!out->data)
        return error_memory(err);
    out->n = n;
    for (size_t i = 0; i < n; i++) {
        if (!read_one(api, is_list ? json_array_get(value, i) : value, add_special, parse_special,
                      budget, &out->data[i], err)) {
            prompts_free(out);
            return false;
        }
    }
    return true;
}

void prompts_free(struct prompts *prompts)
{
    for (size_t i = 0; i < prompts->n; i++)
        VEC_FREE(&prompts->data[i]);
    free(prompts->data);
    *prompts = (struct prompts){0};
}

/* ---- infill ---------------------------------------------------------------------- */

static bool append_tokens(struct token_vec *out, const int32_t *tokens, size_t n, struct error *err)
{
    if (!VEC_RESERVE(out, n))
        return error_memory(err);
    if (n)
        memcpy(out->data + out->n, tokens, n * sizeof *tokens);
    out->n += n;
    return true;
}

static bool append_token(struct token_vec *out, int32_t token, struct error *err)
{
    return VEC_PUSH(out, token) || error_memory(err);
}

/* The files around the one being edited, as a repository is written for models
 * that know one (Qwen 2.5 Coder, arXiv 2409.12186), else between lines. */
static bool append_extra(const struct tokenizer *tok, const json_t *extra, struct budget *budget,
                         struct token_vec *out, struct error *err)
{
    const struct special_tokens *special = tokenizer_special(tok);
    size_t i;
    json_t *chunk;
    if (special->fim_rep >= 0 && (!append_token(out, special->fim_rep, err) ||
                                  !text_encode(tok, SLICE("myproject\n"), 0, out, err)))
        return false;
    json_array_foreach(extra, i, chunk)
    {
        if (special->fim_sep >= 0) {
            struct str name = {0};
            struct slice filename = member_text(chunk, "filename");
            str_append_slice(&name, filename.len ? filename : SLICE("tmp"));
            str_append_char(&name, '\n');
            bool ok = append_token(out, special->fim_sep, err) &&
                      text_encode(tok, str_slice(&name), 0, out, err);
            str_free(&name);
            if (!ok)
                return false;
        } else if (!text_encode(tok, SLICE("\n\n--- snippet ---\n\n"), 0, out, err)) {
            return false;
        }
        if (!append_text(tok, member_text(chunk, "text"), false, false, budget, out, err))
            return false;
    }
    return special->fim_sep < 0 || (append_token(out, special->fim_sep, err) &&
                                    text_encode(tok, SLICE("filename\n"), 0, out, err));
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct infill {
    struct token_vec prefix, suffix, prompt, extra;
};

/* Three quarters of a batch for what stands before, one for what follows, and
 * what is left of the context for the other files. */
static bool assemble(const struct api *api, const struct infill *in, struct token_vec *out,
                     struct error *err)
{
    const struct special_tokens *special = tokenizer_special(engine_tokenizer(api->engine));
    const struct context_options *context = &api->options->context;
    int64_t quarter = context->n_batch / 4;
    int64_t n_prefix = least((int64_t)in->prefix.n, 3 * quarter);
    int64_t room = quarter - (2 + (int64_t)in->prompt.n);
    int64_t n_suffix = least((int64_t)in->suffix.n, room > 0 ? room : 0);
    int64_t left = (int64_t)engine_slot_n_ctx(api->engine) - context->n_batch -
                   2 * (int64_t)context->n_predict;
    int64_t n_extra = least(left > 0 ? left : 0, (int64_t)in->extra.n);

    struct token_vec before = {0}, after = {0};
    bool ok = append_token(&before, special->fim_pre, err) &&
              append_tokens(&before, in->prefix.data + (in->prefix.n - (size_t)n_prefix),
                            (size_t)n_prefix, err) &&
              append_tokens(&before, in->prompt.data, in->prompt.n, err) &&
              append_token(&after, special->fim_suf, err) &&
              append_tokens(&after, in->suffix.data, (size_t)n_suffix, err);
    const struct token_vec *first = &before, *second = &after;
    if (api->options->generation.spm_infill) {
        first = &after;
        second = &before;
    }
    ok = ok &&
         append_tokens(out, in->extra.data + (in->extra.n - (size_t)n_extra), (size_t)n_extra, err);
    if (ok && special->add_bos)
        ok = append_token(out, special->bos, err);
    ok = ok && append_tokens(out, first->data, first->n, err) &&
         append_tokens(out, second->data, second->n, err) &&
         append_token(out, special->fim_mid, err);
    VEC_FREE(&before);
    VEC_FREE(&after);
    return ok;
}

bool infill_prompt(const struct api *api, const json_t *body, struct budget *budget,
                   struct token_vec *out, struct error *err)
{
    const struct tokenizer *tok = engine_tokenizer(api->engine);
    struct infill in = {0};
    bool ok = append_text(tok, member_text(body, "prompt"), false, true, budget, &in.prompt, err) &&
              tokenize_mixed(tok, json_object_get(body, "input_prefix"), false, false, budget,
                             &in.prefix, err) &&
              tokenize_mixed(tok, json_object_get(body, "input_suffix"), false, false, budget,
                             &in.suffix, err) &&
              append_extra(tok, json_object_get(body, "input_extra"), budget, &in.extra, err) &&
              assemble(api, &in, out, err);
    VEC_FREE(&in.prefix);
    VEC_FREE(&in.suffix);
    VEC_FREE(&in.prompt);
    VEC_FREE(&in.extra);
    return ok;
}
