/* tokens.c - text to tokens and back, for clients. */
#include "api/internal.h"

static json_t *piece_to_json(struct slice piece)
{
    if (utf8_is_valid(piece))
        return json_string_from(piece);
    json_t *bytes = json_array();
    for (size_t i = 0; i < piece.len; i++)
        push(bytes, json_integer((unsigned char)piece.data[i]));
    return bytes;
}

static json_t *tokens_to_json(const struct tokenizer *tok, const struct token_vec *tokens,
                              bool with_pieces)
{
    json_t *list = json_array();
    for (size_t i = 0; i < tokens->n; i++) {
        int32_t id = tokens->data[i];
        if (!push(list, with_pieces ? json_pack("{s:i,s:o}", "id", (int)id, "piece",
                                                piece_to_json(text_piece(tok, id, true)))
                                    : json_integer(id))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

void handle_tokenize(struct http_exchange *x, void *context)
{
    const struct api *api = context;
    const struct tokenizer *tok = engine_tokenizer(api->engine);
    struct token_vec tokens = {0};
    struct error err;
    json_t *body = body_object(x);
    if (!body)
        return;
    const json_t *content = json_object_get(body, "content");
    struct budget budget = request_budget(x, body);
    if (content &&
        !tokenize_mixed(tok, content, member_bool(body, "add_special", false),
                        member_bool(body, "parse_special", true), &budget, &tokens, &err)) {
        error_prefix(&err, "Field 'content'");
        reply_error(x, &err);
    } else {
        json_t *list = tokens_to_json(tok, &tokens, member_bool(body, "with_pieces", false));
        reply_json(x, json_pack("{s:o}", "tokens", list));
    }
    VEC_FREE(&tokens);
    json_decref(body);
}

static bool read_ids(const struct tokenizer *tok, const json_t *list, struct token_vec *out,
                     struct error *err)
{
    size_t i;
    json_t *id;
    if (!json_is_array(list))
        return error_set(err, ERR_INVALID, "Field 'tokens': type must be array, but is %s",
                         json_type_name(list));
    json_array_foreach(list, i, id)
    {
        if (!json_is_number(id))
            return error_set(err, ERR_INVALID, "Field 'tokens': type must be number, but is %s",
                             json_type_name(id));
        double value = json_number_value(id);
        if (!(value >= 0 && value < tokenizer_n_vocab(tok)))
            return error_set(err, ERR_INVALID, "Field 'tokens': the vocabulary has no token %.0f",
                             value);
        if (!VEC_PUSH(out, (int32_t)value))
            return error_memory(err);
    }
    return true;
}

void handle_detokenize(struct http_exchange *x, void *context)
{
    const struct api *api = context;
    const struct tokenizer *tok = engine_tokenizer(api->engine);
    struct token_vec tokens = {0};
    struct str text = {0};
    struct error err;
    json_t *body = body_object(x);
    if (!body)
        return;
    const json_t *list = json_object_get(body, "tokens");
    if (list && !read_ids(tok, list, &tokens, &err))
        reply_error(x, &err);
    else if (!tokens_to_text(tok, tokens.data, tokens.n, &text))
        reply_failure(x, FAIL_SERVER, "out of memory");
    else
        reply_json(x, json_pack("{s:o}", "content", json_string_from(str_slice(&text))));
    VEC_FREE(&tokens);
    str_free(&text);
    json_decref(body);
}
