/* front_page.c - what a browser sees at "/" where no interface is served: that the server is
 * there, its model, and how to ask it. */
#include "api/internal.h"

static const char *const state_names[] = {[ENGINE_LOADING] = "loading the model",
                                          [ENGINE_READY] = "ready",
                                          [ENGINE_SLEEPING] = "asleep until the next request",
                                          [ENGINE_FAILED] = "the model could not be loaded",
                                          [ENGINE_STOPPED] = "stopping"};

static const struct {
    const char *path, *purpose;
} shown_routes[] = {
    {"POST /v1/chat/completions", "chat, as OpenAI's API"},
    {"POST /v1/responses", "chat, as OpenAI's Responses API"},
    {"POST /v1/messages", "chat, as Anthropic's API"},
    {"POST /v1/completions, POST /completion", "plain completion"},
    {"POST /infill", "text between a prefix and a suffix"},
    {"POST /v1/embeddings, POST /reranking", "vectors and scores (--embeddings, --reranking)"},
    {"POST /tokenize, POST /detokenize, POST /apply-template", "tokens and templates"},
    {"GET /v1/models, GET /props, GET /slots, GET /health", "the model and the server's state"},
};

static void append_escaped(struct str *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (strchr("<>&\"'", c))
            str_append_format(out, "&#%d;", c);
        else
            str_append_char(out, c);
    }
}

/* Chat where there is chat, else the vectors. */
static void append_curl(struct str *out, const struct api *api, struct slice host, bool ready)
{
    bool embeds = ready && api_embeds(api);
    str_append_text(out, "<pre>curl http://");
    append_escaped(out, host.len ? host : SLICE("127.0.0.1:8080"));
    append_escaped(out, slice_of(api->options->http.api_prefix));
    if (embeds)
        str_append_text(out, "/v1/embeddings -d '{\"input\": \"a text\"}'");
    else
        str_append_text(out, "/v1/chat/completions -d '{\n"
                             "  \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'");
    if (api->options->http.api_keys.n)
        str_append_text(out, " \\\n  -H 'Authorization: Bearer YOUR_KEY'");
    str_append_text(out, "</pre>");
}

/* Browsers say that they want HTML; programs get what the reference says without an
 * interface. */
static bool wants_html(const struct http_exchange *x)
{
    static const char html[] = "text/html";
    struct slice accept = http_header(x, "Accept");
    for (size_t i = 0; i + sizeof html - 1 <= accept.len; i++)
        if (memcmp(accept.data + i, html, sizeof html - 1) == 0)
            return true;
    return false;
}

void handle_front_page(struct http_exchange *x, void *context)
{
    const struct api *api = context;
    if (!wants_html(x)) {
        http_reply_error(x, 404, "not_found_error", "File Not Found");
        return;
    }
    enum engine_state state = engine_state(api->engine);
    struct str out = {0};
    str_append_text(
        &out, "<!doctype html><html lang=en><meta charset=utf-8><title>mlxcel</title>"
              "<meta name=viewport content=\"width=device-width\">"
              "<style>body{font:16px system-ui,sans-serif;max-width:46em;margin:2em auto;"
              "padding:0 1em}pre{padding:1em;background:#8882;overflow:auto}td{padding:.2em 1em "
              ".2em 0;vertical-align:top}:root{color-scheme:light dark}</style>"
              "<h1>mlxcel</h1><p>Model: <b>");
    append_escaped(&out, slice_of(api->model_name));
    str_append_format(&out, "</b><br>State: %s</p><p>Try it:</p>", state_names[state]);
    append_curl(&out, api, http_header(x, "Host"), state == ENGINE_READY);
    str_append_text(&out, "<table>");
    for (size_t i = 0; i < sizeof shown_routes / sizeof *shown_routes; i++)
        str_append_format(&out, "<tr><td><code>%s</code><td>%s", shown_routes[i].path,
                          shown_routes[i].purpose);
    str_append_text(&out, "</table><p>No web interface is built in; --path FOLDER serves one, and "
                          "--no-ui takes this page away.</p></html>\n");
    http_answer_header(x, "Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'");
    http_reply_str(x, 200, "text/html; charset=utf-8", &out);
    str_free(&out);
}
