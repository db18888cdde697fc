/* chat_body.c - from an OpenAI chat body to the native fields. */
#include "api/internal.h"

static json_t *texts_to_json(const struct chat_texts *texts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < texts->n; i++)
        push(list, json_string_from(slice_of(texts->data[i])));
    return list;
}

static json_t *triggers_to_json(const struct chat_prompt *prompt)
{
    static const int kinds[] = {[CHAT_TRIGGER_WORD] = TRIGGER_WORD,
                                [CHAT_TRIGGER_PATTERN] = TRIGGER_PATTERN,
                                [CHAT_TRIGGER_PATTERN_FULL] = TRIGGER_PATTERN_FULL};
    json_t *list = json_array();
    for (size_t i = 0; i < prompt->n_triggers; i++) {
        json_t *entry = json_object();
        put(entry, "type", json_integer(kinds[prompt->triggers[i].kind]));
        put(entry, "value", json_string_from(slice_of(prompt->triggers[i].value)));
        push(list, entry);
    }
    return list;
}

static json_t *delimiters_to_json(const struct chat_prompt *prompt)
{
    json_t *list = json_array();
    for (size_t i = 0; i < prompt->n_delimiters; i++) {
        json_t *entry = json_object();
        put(entry, "role", json_string(prompt->delimiters[i].role));
        put(entry, "delimiter", json_string_from(slice_of(prompt->delimiters[i].text)));
        push(list, entry);
    }
    return list;
}

/* The request's stop strings, then the template's. */
static json_t *stops(const json_t *body, const struct chat_prompt *prompt)
{
    const json_t *asked = member(body, "stop");
    json_t *list = json_is_string(asked)  ? json_pack("[O]", asked)
                   : json_is_array(asked) ? json_copy((json_t *)asked)
                                          : json_array();
    for (size_t i = 0; i < prompt->stops.n; i++)
        push(list, json_string_from(slice_of(prompt->stops.data[i])));
    return list;
}

static void put_reasoning(const struct api *api, const json_t *body,
                          const struct chat_prompt *prompt, json_t *fields)
{
    const struct chat_options *options = &api->options->chat;
    if (prompt->thinking_end.n == 0)
        return;
    int64_t budget = member_integer(body, "reasoning_budget_tokens",
                                    member_integer(body, "thinking_budget_tokens", -1));
    const char *message =
        options->reasoning_budget_message ? options->reasoning_budget_message : "";
    struct slice asked = member_text(body, "reasoning_budget_message");
    put(fields, "reasoning_budget_tokens",
        json_integer(budget == -1 ? options->reasoning_budget : budget));
    put(fields, "reasoning_budget_start_tag", json_string_from(str_slice(&prompt->thinking_start)));
    put(fields, "reasoning_budget_end_tags", texts_to_json(&prompt->thinking_end));
    put(fields, "reasoning_budget_message",
        json_string_from(asked.data && asked.len ? asked : slice_of(message)));
    put(fields, "reasoning_control", json_boolean(member_bool(body, "reasoning_control", false)));
}

static bool put_logprobs(const json_t *body, json_t *fields, struct error *err)
{
    if (member_bool(body, "logprobs", false)) {
        bool has_tools = json_array_size(member(body, "tools")) > 0;
        if (has_tools && member_bool(body, "stream", false))
            return error_set(err, ERR_INVALID, "logprobs is not supported with tools + stream");
        put(fields, "n_probs", json_integer(member_integer(body, "top_logprobs", 20)));
    } else if (member(body, "top_logprobs")) {
        return error_set(err, ERR_INVALID, "top_logprobs requires logprobs to be set to true");
    }
    return true;
}

/* The body with what the chat room decided laid over it. */
static bool make_fields(const struct api *api, const json_t *body, struct chat_body *out,
                        struct error *err)
{
    const struct chat_prompt *prompt = &out->prompt;
    json_t *fields = out->fields = json_copy((json_t *)body);
    if (!fields)
        return error_memory(err);
    put(fields, "stop", stops(body, prompt));
    put(fields, "chat_format", json_integer(prompt->format));
    if (prompt->grammar.len > 0) {
        put(fields, "grammar", json_string_from(str_slice(&prompt->grammar)));
        put(fields, "grammar_type", json_string("tool_calls"));
    }
    put(fields, "grammar_lazy", json_boolean(prompt->grammar_lazy));
    put(fields, "grammar_triggers", triggers_to_json(prompt));
    put(fields, "preserved_tokens", texts_to_json(&prompt->preserved_tokens));
    put(fields, "message_delimiters", delimiters_to_json(prompt));
    put(fields, "generation_prompt", json_string_from(str_slice(&prompt->generation_prompt)));
    put(fields, "parse_tool_calls", json_boolean(prompt->parse_tool_calls));
    json_object_del(fields, "chat_parser");
    put_reasoning(api, body, prompt, fields);
    return put_logprobs(body, fields, err);
}

bool chat_body_read(const struct api *api, const json_t *body, struct budget *budget,
                    struct chat_body *out, struct error *err)
{
    struct chat_request request = {0};
    *out = (struct chat_body){0};
    bool ok = budget_step(budget, 1, err) &&
              chat_request_parse(body, api->templates, &api->chat_defaults, &request, err);
    request.budget = budget;
    ok = ok && chat_apply(api->templates, &request, &out->prompt, err) &&
         make_fields(api, body, out, err);
    chat_request_free(&request);
    /* Whatever is wrong here, the client can mend it. */
    if (!ok && err->code != ERR_MEMORY && err->code != ERR_INTERNAL && err->code != ERR_CANCELLED)
        err->code = ERR_INVALID;
    if (!ok)
        chat_body_free(out);
    return ok;
}

bool chat_body_tokens(const struct api *api, const struct chat_body *chat, struct budget *budget,
                      struct token_vec *out, struct error *err)
{
    const struct chat_prompt *prompt = &chat->prompt;
    return text_encode_within(engine_tokenizer(api->engine), str_slice(&prompt->text),
                              TEXT_ADD_SPECIAL | TEXT_PARSE_SPECIAL, prompt->user, prompt->n_user,
                              budget, out, err);
}

void chat_body_free(struct chat_body *chat)
{
    json_decref(chat->fields);
    chat_prompt_free(&chat->prompt);
    *chat = (struct chat_body){0};
}
