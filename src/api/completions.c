/* completions.c - the handlers that generate: each reads its surface's body and
 * hands native fields on. */
#include "api/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Whether this server generates; else the exchange is answered. */
static bool generates_text(struct http_exchange *x, const struct api *api)
{
    const struct context_options *context = &api->options->context;
    if (!context->embedding)
        return true;
    reply_failure(x, FAIL_NOT_SUPPORTED,
                  context->pooling == POOLING_RANK
                      ? "This server ranks and generates no text. Start it without `--reranking`"
                      : "This server computes embeddings and generates no text. Start it without "
                        "`--embeddings`");
    return false;
}

static void complete(struct http_exchange *x, struct api *api, enum surface surface)
{
    struct error err;
    struct prompts prompts;
    if (!generates_text(x, api))
        return;
    json_t *body = body_object(x);
    if (!body)
        return;
    const json_t *prompt = json_object_get(body, "prompt");
    struct budget budget = request_budget(x, body);
    if (prompt)
        prompt_log_write(api, prompt);
    if (!prompt)
        reply_failure(x, FAIL_INVALID, "key 'prompt' not found: say what to continue");
    else if (!prompts_read(api, prompt, true, true, &budget, &prompts, &err))
        reply_error(x, &err);
    else
        generate(x, api, surface, body, &budget, &prompts, NULL);
    json_decref(body);
}

void handle_completion(struct http_exchange *x, void *context)
{
    complete(x, context, SURFACE_NATIVE);
}

void handle_completions(struct http_exchange *x, void *context)
{
    complete(x, context, SURFACE_COMPLETIONS);
}

/* ---- chat surfaces -------------------------------------------------------------- */

/* A surface's body as an OpenAI chat body; NULL with the exchange answered. */
typedef json_t *converter(const json_t *body, struct error *err);

static json_t *as_it_is(const json_t *body, struct error *err)
{
    (void)err;
    return json_incref((json_t *)body);
}

static json_t *chat_body_of(struct http_exchange *x, converter *convert)
{
    struct error err;
    json_t *body = body_object(x);
    if (!body)
        return NULL;
    json_t *converted = convert(body, &err);
    json_decref(body);
    if (!converted)
        reply_error(x, &err);
    return converted;
}

static void chat(struct http_exchange *x, struct api *api, enum surface surface, converter *convert)
{
    json_t *body = generates_text(x, api) ? chat_body_of(x, convert) : NULL;
    if (!body)
        return;
    generate_chat(x, api, surface, body);
    json_decref(body);
}

void handle_chat(struct http_exchange *x, void *context)
{
    chat(x, context, SURFACE_CHAT, as_it_is);
}

void handle_responses(struct http_exchange *x, void *context)
{
    chat(x, context, SURFACE_RESPONSES, convert_responses);
}

void handle_anthropic(struct http_exchange *x, void *context)
{
    chat(x, context, SURFACE_ANTHROPIC, convert_anthropic);
}

void handle_apply_template(struct http_exchange *x, void *context)
{
    struct error err;
    struct chat_body read;
    json_t *body = body_object(x);
    if (!body)
        return;
    struct budget budget = request_budget(x, body);
    if (!chat_body_read(context, body, &budget, &read, &err)) {
        reply_error(x, &err);
    } else {
        reply_json(x, json_pack("{s:o}", "prompt", json_string_from(str_slice(&read.prompt.text))));
        chat_body_free(&read);
    }
    json_decref(body);
}

static void count(struct http_exchange *x, struct api *api, converter *convert, bool is_openai)
{
    struct error err;
    struct chat_body read;
    struct token_vec tokens = {0};
    json_t *body = chat_body_of(x, convert);
    if (!body)
        return;
    struct budget budget = request_budget(x, body);
    if (!chat_body_read(api, body, &budget, &read, &err)) {
        reply_error(x, &err);
        json_decref(body);
        return;
    }
    if (chat_body_tokens(api, &read, &budget, &tokens, &err)) {
        json_t *answer = json_pack("{s:I}", "input_tokens", (json_int_t)tokens.n);
        if (is_openai)
            put(answer, "object", json_string("response.input_tokens"));
        reply_json(x, answer);
    } else {
        reply_error(x, &err);
    }
    VEC_FREE(&tokens);
    chat_body_free(&read);
    json_decref(body);
}

void handle_count_chat(struct http_exchange *x, void *context)
{
    count(x, context, as_it_is, true);
}

void handle_count_responses(struct http_exchange *x, void *context)
{
    count(x, context, convert_responses, true);
}

void handle_count_anthropic(struct http_exchange *x, void *context)
{
    count(x, context, convert_anthropic, false);
}

/* ---- infill ------------------------------------------------------------------------ */

static bool infill_supported(struct http_exchange *x, const struct api *api)
{
    const struct special_tokens *special = tokenizer_special(engine_tokenizer(api->engine));
    char message[256];
    if (special->fim_pre >= 0 && special->fim_suf >= 0 && special->fim_mid >= 0)
        return true;
    snprintf(message, sizeof message, "Infill is not supported by this model: %s%s%s",
             special->fim_pre < 0 ? "prefix token is missing. " : "",
             special->fim_suf < 0 ? "suffix token is missing. " : "",
             special->fim_mid < 0 ? "middle token is missing. " : "");
    reply_failure(x, FAIL_NOT_SUPPORTED, message);
    return false;
}

/* What is wrong with an infill body; NULL: nothing. */
static const char *infill_fault(const json_t *body)
{
    const json_t *extra = json_object_get(body, "input_extra");
    size_t i;
    json_t *chunk;
    if (json_object_get(body, "prompt") && !json_is_string(json_object_get(body, "prompt")))
        return "\"prompt\" must be a string";
    if (!json_object_get(body, "input_prefix"))
        return "\"input_prefix\" is required";
    if (!json_object_get(body, "input_suffix"))
        return "\"input_suffix\" is required";
    if (extra && !json_is_array(extra))
        return "\"input_extra\" must be an array of {\"filename\": string, \"text\": string}";
    json_array_foreach(extra, i, chunk)
    {
        const json_t *filename = json_object_get(chunk, "filename");
        if (!json_is_string(json_object_get(chunk, "text")))
            return "extra_context chunk must contain a \"text\" field with a string value";
        if (filename && !json_is_string(filename))
            return "extra_context chunk's \"filename\" field must be a string";
    }
    return NULL;
}

void handle_infill(struct http_exchange *x, void *context)
{
    struct api *api = context;
    struct error err;
    if (!generates_text(x, api) || !infill_supported(x, api))
        return;
    json_t *body = body_object(x);
    if (!body)
        return;
    const char *fault = infill_fault(body);
    struct budget budget = request_budget(x, body);
    struct prompts prompts = {.data = calloc(1, sizeof *prompts.data), .n = 1};
    if (fault)
        reply_failure(x, FAIL_INVALID, fault);
    else if (!prompts.data)
        reply_failure(x, FAIL_SERVER, "out of memory");
    else if (!infill_prompt(api, body, &budget, &prompts.data[0], &err))
        reply_error(x, &err);
    else {
        generate(x, api, SURFACE_NATIVE, body, &budget, &prompts, NULL);
        json_decref(body);
        return;
    }
    if (prompts.data)
        prompts_free(&prompts);
    json_decref(body);
}
