/* routes.c - the one table of routes. */
#include "api/internal.h"

#include <ctype.h>
#include <stdlib.h>

/* HTTP_BRIEF where the engine's locks are waited for, or a kept stream is copied. */
static const struct http_route table[] = {
    {HTTP_GET, "/health", handle_health, true, HTTP_INSTANT},
    {HTTP_GET, "/v1/health", handle_health, true, HTTP_INSTANT},
    {HTTP_GET, "/metrics", handle_metrics, false, HTTP_BRIEF},
    {HTTP_GET, "/props", handle_props, false, HTTP_BRIEF},
    {HTTP_POST, "/props", handle_set_props, false, HTTP_INSTANT},
    {HTTP_GET, "/models", handle_models, true, HTTP_INSTANT},
    {HTTP_GET, "/v1/models", handle_models, true, HTTP_INSTANT},
    {HTTP_POST, "/completion", handle_completion, false, HTTP_LONG},
    {HTTP_POST, "/completions", handle_completion, false, HTTP_LONG},
    {HTTP_POST, "/v1/completions", handle_completions, false, HTTP_LONG},
    {HTTP_POST, "/chat/completions", handle_chat, false, HTTP_LONG},
    {HTTP_POST, "/v1/chat/completions", handle_chat, false, HTTP_LONG},
    {HTTP_POST, "/v1/chat/completions/control", handle_control, false, HTTP_LONG},
    {HTTP_POST, "/v1/responses", handle_responses, false, HTTP_LONG},
    {HTTP_POST, "/responses", handle_responses, false, HTTP_LONG},
    {HTTP_POST, "/v1/audio/transcriptions", handle_transcriptions, false, HTTP_INSTANT},
    {HTTP_POST, "/audio/transcriptions", handle_transcriptions, false, HTTP_INSTANT},
    {HTTP_POST, "/v1/messages", handle_anthropic, false, HTTP_LONG},
    {HTTP_POST, "/v1/messages/count_tokens", handle_count_anthropic, false, HTTP_LONG},
    {HTTP_POST, "/infill", handle_infill, false, HTTP_LONG},
    {HTTP_POST, "/embedding", handle_embeddings, false, HTTP_LONG},
    {HTTP_POST, "/embeddings", handle_embeddings, false, HTTP_LONG},
    {HTTP_POST, "/v1/embeddings", handle_embeddings_openai, false, HTTP_LONG},
    {HTTP_POST, "/rerank", handle_rerank, false, HTTP_LONG},
    {HTTP_POST, "/reranking", handle_rerank, false, HTTP_LONG},
    {HTTP_POST, "/v1/rerank", handle_rerank, false, HTTP_LONG},
    {HTTP_POST, "/v1/reranking", handle_rerank, false, HTTP_LONG},
    {HTTP_POST, "/tokenize", handle_tokenize, false, HTTP_LONG},
    {HTTP_POST, "/detokenize", handle_detokenize, false, HTTP_LONG},
    {HTTP_POST, "/apply-template", handle_apply_template, false, HTTP_LONG},
    {HTTP_POST, "/chat/completions/input_tokens", handle_count_chat, false, HTTP_LONG},
    {HTTP_POST, "/v1/chat/completions/input_tokens", handle_count_chat, false, HTTP_LONG},
    {HTTP_POST, "/responses/input_tokens", handle_count_responses, false, HTTP_LONG},
    {HTTP_POST, "/v1/responses/input_tokens", handle_count_responses, false, HTTP_LONG},
    {HTTP_GET, "/lora-adapters", handle_lora_list, false, HTTP_INSTANT},
    {HTTP_POST, "/lora-adapters", handle_lora_set, false, HTTP_LONG},
    {HTTP_GET, "/slots", handle_slots, false, HTTP_BRIEF},
    {HTTP_POST, "/slots/:id_slot", handle_slot_action, false, HTTP_LONG},
    {HTTP_GET, "/v1/stream", handle_stream_read, false, HTTP_BRIEF},
    {HTTP_DELETE, "/v1/stream", handle_stream_delete, false, HTTP_BRIEF},
    {HTTP_POST, "/v1/streams/lookup", handle_streams_lookup, false, HTTP_LONG},
    {HTTP_GET, "/cors-proxy", handle_disabled, false, HTTP_INSTANT},
    {HTTP_POST, "/cors-proxy", handle_disabled, false, HTTP_INSTANT},
    {HTTP_GET, "/tools", handle_disabled, false, HTTP_INSTANT},
    {HTTP_POST, "/tools", handle_disabled, false, HTTP_INSTANT},
};

enum { N_TABLE = sizeof table / sizeof *table, N_ADAPTER = 2, N_FRONT = 1 };

json_t *routes_surface(void)
{
    static const char *const methods[] = {
        [HTTP_GET] = "GET", [HTTP_POST] = "POST", [HTTP_DELETE] = "DELETE"};
    json_t *list = json_array();
    for (size_t i = 0; i < N_TABLE; i++)
        push(list,
             json_pack("{s:s,s:s}", "method", methods[table[i].method], "path", table[i].path));
    /* Those that only settings open: Vertex AI's adapter, and --path. */
    push(list, json_pack("{s:s,s:s}", "method", "GET", "path", "{AIP_HEALTH_ROUTE}"));
    push(list, json_pack("{s:s,s:s}", "method", "POST", "path", "{AIP_PREDICT_ROUTE}"));
    push(list, json_pack("{s:s,s:s}", "method", "GET", "path", "/{file}"));
    return list;
}

static const char *variable(const char *name, const char *fallback)
{
    const char *value = getenv(name);
    return value && *value ? value : fallback;
}

/* A path from the environment, with its slash. */
static const char *path_variable(struct api *api, const char *name, const char *fallback)
{
    const char *value = variable(name, fallback);
    if (*value == 0 || *value == '/')
        return arena_duplicate(&api->arena, slice_of(value));
    struct str path = {0};
    str_append_format(&path, "/%s", value);
    const char *copy = arena_duplicate(&api->arena, str_slice(&path));
    str_free(&path);
    return copy;
}

bool routes_build(struct api *api, struct error *err)
{
    api->routes = calloc(N_TABLE + N_ADAPTER + N_FRONT, sizeof *api->routes);
    if (!api->routes)
        return error_memory(err);
    memcpy(api->routes, table, sizeof table);
    api->n_routes = N_TABLE;
    if (api->options->http.ui)
        api->routes[api->n_routes++] =
            (struct http_route){HTTP_GET, "/", handle_front_page, true, HTTP_INSTANT};
    if (strcmp(variable("AIP_MODE", ""), "PREDICTION") != 0)
        return true;
    const char *health = path_variable(api, "AIP_HEALTH_ROUTE", "");
    const char *predict = path_variable(api, "AIP_PREDICT_ROUTE", "/predict");
    if (!health || !predict)
        return error_memory(err);
    for (size_t i = 0; i < N_TABLE; i++)
        if (strcmp(table[i].path, predict) == 0)
            return error_set(err, ERR_INVALID,
                             "AIP_PREDICT_ROUTE=%s conflicts with an existing route", predict);
    if (*health)
        api->routes[api->n_routes++] =
            (struct http_route){HTTP_GET, health, handle_health, true, HTTP_INSTANT};
    api->routes[api->n_routes++] =
        (struct http_route){HTTP_POST, predict, handle_predict, false, HTTP_LONG};
    return true;
}

/* "/v1/chat/completions" is "chatCompletions". */
static bool is_format_of(const char *path, struct slice format)
{
    size_t n = 0;
    bool raise = false;
    if (strncmp(path, "/v1", 3) == 0)
        path += 3;
    if (*path == '/')
        path++;
    for (; *path && *path != ':'; path++) {
        if (*path == '/' || *path == '-' || *path == '_') {
            raise = true;
            continue;
        }
        char c = raise ? (char)toupper((unsigned char)*path) : *path;
        raise = false;
        if (n == format.len || format.data[n++] != c)
            return false;
    }
    return n == format.len && n > 0;
}

const char *route_of_format(const struct api *api, struct slice format, enum http_method *method)
{
    const struct http_route *found = NULL;
    for (size_t i = 0; i < api->n_routes; i++) {
        const struct http_route *route = &api->routes[i];
        if (route->handler == handle_predict)
            continue;
        /* Of a short name's two routes the one under /v1 is meant. */
        bool is_v1 = strncmp(route->path, "/v1/", 4) == 0;
        if (slice_equal_text(format, route->path)) {
            found = route;
            break;
        }
        if (is_format_of(route->path, format) &&
            (!found || (is_v1 && strncmp(found->path, "/v1/", 4) != 0)))
            found = route;
    }
    if (!found)
        return NULL;
    *method = found->method;
    return found->path;
}
