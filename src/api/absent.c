/* absent.c - routes whose feature is off: what they say then. */
#include "api/internal.h"

void handle_disabled(struct http_exchange *x, void *context)
{
    (void)context;
    http_reply(x, 403, HTTP_JSON,
               SLICE("{\"error\":{\"message\":\"this feature is disabled\","
                     "\"type\":\"feature_disabled\"}}"));
}

void handle_transcriptions(struct http_exchange *x, void *context)
{
    (void)context;
    reply_failure(x, FAIL_NOT_SUPPORTED, "The current model does not support audio input.");
}

void handle_lora_list(struct http_exchange *x, void *context)
{
    (void)context;
    reply_json(x, json_array());
}

void handle_lora_set(struct http_exchange *x, void *context)
{
    (void)context;
    json_t *body = body_json(x);
    if (!body)
        return;
    if (!json_is_array(body))
        reply_failure(x, FAIL_INVALID, "Request body must be an array");
    else if (json_array_size(body) > 0)
        reply_failure(x, FAIL_INVALID, "no LoRA adapter is loaded, so none can be scaled");
    else
        reply_json(x, json_pack("{s:b}", "success", 1));
    json_decref(body);
}
