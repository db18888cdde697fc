/* models.c - what is served: /health, /models, /props. */
#include "api/internal.h"

#include "base/clock.h"
#include "base/version.h"

void handle_health(struct http_exchange *x, void *context)
{
    (void)context;
    http_reply(x, 200, HTTP_JSON, SLICE("{\"status\":\"ok\"}"));
}

static json_t *texts(const struct option_list *list)
{
    json_t *array = json_array();
    for (size_t i = 0; i < list->n; i++)
        push(array, json_string_from(slice_of(list->data[i])));
    return array;
}

static json_t *text(const char *value)
{
    return json_string_from(slice_of(value ? value : ""));
}

/* An entry of "models", which another family of clients reads. */
static json_t *ollama_entry(const struct api *api)
{
    json_t *details =
        json_pack("{s:s,s:s,s:s,s:[s],s:s,s:s}", "parent_model", "", "format", "gguf", "family", "",
                  "families", "", "parameter_size", "", "quantization_level", "");
    json_t *o = json_object();
    put(o, "name", text(api->model_name));
    put(o, "model", text(api->model_name));
    put(o, "modified_at", text(""));
    put(o, "size", text(""));
    put(o, "digest", text(""));
    put(o, "type", text("model"));
    put(o, "description", text(""));
    put(o, "tags", json_pack("[s]", ""));
    put(o, "capabilities", json_pack("[s]", "completion"));
    put(o, "parameters", text(""));
    put(o, "details", details);
    return o;
}

static json_t *meta(const struct api *api)
{
    const struct model_info *info = engine_model_info(api->engine);
    const struct tokenizer *tok = engine_tokenizer(api->engine);
    json_t *o = json_object();
    put(o, "vocab_type", json_integer(tokenizer_vocab_type(tok)));
    put(o, "n_vocab", json_integer(tokenizer_n_vocab(tok)));
    put(o, "n_ctx", json_integer(engine_slot_n_ctx(api->engine)));
    put(o, "n_ctx_train", json_integer(info->n_ctx_train));
    put(o, "n_embd", json_integer(info->n_embd));
    put(o, "n_params", json_integer((json_int_t)info->n_params));
    put(o, "size", json_integer((json_int_t)info->n_bytes));
    put(o, "ftype", text(info->ftype));
    return o;
}

static json_t *openai_entry(const struct api *api)
{
    const struct model_options *model = &api->options->model;
    json_t *o = json_object();
    put(o, "id", text(api->model_name));
    put(o, "aliases",
        model->aliases.n > 0 ? texts(&model->aliases) : json_pack("[s]", api->model_name));
    put(o, "tags", texts(&model->tags));
    put(o, "object", text("model"));
    put(o, "created", json_integer(clock_unix_seconds()));
    put(o, "owned_by", text("llamacpp"));
    put(o, "meta", meta(api));
    return o;
}

void handle_models(struct http_exchange *x, void *context)
{
    const struct api *api = context;
    reply_json(x, json_pack("{s:[o],s:s,s:[o]}", "models", ollama_entry(api), "object", "list",
                            "data", openai_entry(api)));
}

static json_t *ui_settings(const struct api *api)
{
    const char *config = api->options->http.ui_config_json;
    json_t *value = config ? json_parse(slice_of(config), NULL) : NULL;
    return json_is_object(value) ? value : json_object();
}

void handle_props(struct http_exchange *x, void *context)
{
    const struct api *api = context;
    const struct options *options = api->options;
    struct chat_caps caps = chat_templates_caps(api->templates);
    json_t *o = json_object();
    put(o, "default_generation_settings",
        json_pack("{s:o,s:i}", "params", generation_defaults_to_json(api), "n_ctx",
                  (int)engine_slot_n_ctx(api->engine)));
    put(o, "total_slots", json_integer(engine_n_slots(api->engine)));
    put(o, "model_alias", text(api->model_name));
    put(o, "model_ftype", text(engine_model_info(api->engine)->ftype));
    put(o, "model_path", text(options->model.path));
    put(o, "modalities", json_pack("{s:b,s:b,s:b}", "vision", 0, "video", 0, "audio", 0));
    put(o, "media_marker", text("<__media__>"));
    put(o, "endpoint_slots", json_boolean(options->http.endpoint_slots));
    put(o, "endpoint_props", json_boolean(options->http.endpoint_props));
    put(o, "endpoint_metrics", json_boolean(options->http.endpoint_metrics));
    put(o, "ui", json_boolean(options->http.ui));
    put(o, "ui_settings", ui_settings(api));
    put(o, "chat_template", json_string_from(chat_templates_source(api->templates, false)));
    put(o, "chat_template_caps", chat_caps_to_json(&caps));
    put(o, "bos_token", text(api->bos));
    put(o, "eos_token", text(api->eos));
    put(o, "build_info", text(SYSTEM_FINGERPRINT));
    put(o, "is_sleeping", json_boolean(engine_state(api->engine) == ENGINE_SLEEPING));
    put(o, "cors_proxy_enabled", json_boolean(options->http.ui_mcp_proxy));
    struct slice tool_use = chat_templates_source(api->templates, true);
    if (options->chat.use_jinja && tool_use.len > 0)
        put(o, "chat_template_tool_use", json_string_from(tool_use));
    reply_json(x, o);
}

void handle_set_props(struct http_exchange *x, void *context)
{
    const struct api *api = context;
    if (!api->options->http.endpoint_props) {
        reply_failure(x, FAIL_NOT_SUPPORTED,
                      "This server does not support changing global properties. Start it with "
                      "`--props`");
        return;
    }
    reply_json(x, json_pack("{s:b}", "success", 1));
}
