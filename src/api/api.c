/* api.c - the routes' own state, from options and model. */
#include "api/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static const char *model_name(const struct options *options)
{
    const struct model_options *model = &options->model;
    if (model->aliases.n > 0)
        return model->aliases.data[0];
    if (model->hf_repo && *model->hf_repo)
        return model->hf_repo;
    if (model->docker_repo && *model->docker_repo)
        return model->docker_repo;
    return model->path ? model->path : "";
}

bool api_create(const struct options *options, struct engine *engine, struct api **out,
                struct error *err)
{
    struct api *api = calloc(1, sizeof *api);
    *out = api;
    if (!api)
        return error_memory(err);
    api->options = options;
    api->engine = engine;
    api->started_at = clock_unix_seconds();
    pthread_mutex_init(&api->metrics_lock, NULL);
    api->model_name = arena_duplicate(&api->arena, slice_of(model_name(options)));
    api->streams = streams_create();
    if (!api->model_name || !api->streams) {
        error_memory(err);
    } else if (prompt_log_open(options, err) && routes_build(api, err)) {
        return true;
    }
    api_free(api);
    *out = NULL;
    return false;
}

void api_free(struct api *api)
{
    if (!api)
        return;
    streams_free(api->streams);
    chat_templates_free(api->templates);
    pthread_mutex_destroy(&api->metrics_lock);
    free(api->routes);
    arena_free(&api->arena);
    free(api);
}

/* One worker a slot and some for what is quick, as many as there are cores at
 * the least. */
static int32_t n_workers(const struct api *api)
{
    const struct options *o = api->options;
    if (o->http.n_threads_http > 0)
        return o->http.n_threads_http;
    int32_t n_slots = o->context.n_parallel > 0 ? o->context.n_parallel : 4;
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN) - 1;
    int32_t n = n_slots + 4 > n_cores ? n_slots + 4 : (int32_t)n_cores;
    return n < 64 ? n : 64; /* waiting costs no worker */
}

/* Reached by this machine only. */
static bool is_local(const char *host)
{
    struct slice name = slice_of(host);
    return slice_equal_text(name, "localhost") || slice_equal_text(name, "::1") ||
           slice_starts_with(name, SLICE("127.")) || slice_ends_with(name, SLICE(".sock"));
}

bool api_http_settings(struct api *api, struct http_settings *out, struct error *err)
{
    const struct http_options *http = &api->options->http;
    *out = (struct http_settings){
        .shape_error = shape_error,
        .host = http->hostname,
        .port = http->port,
        .reuse_port = http->reuse_port,
        .n_workers = n_workers(api),
        .timeout_s = http->timeout,
        .prefix = http->api_prefix,
        .tls_key_file = http->ssl_key_file,
        .tls_cert_file = http->ssl_cert_file,
        .keys = http->api_keys.data,
        .n_keys = http->api_keys.n,
        .cors_origins = http->cors_origins,
        .cors_methods = http->cors_methods,
        .cors_headers = http->cors_headers,
        .cors_credentials = http->cors_credentials,
        .static_folder = http->ui ? http->public_path : NULL,
        .routes = api->routes,
        .n_routes = api->n_routes,
        .context = api,
    };
    const char *port = getenv("AIP_HTTP_PORT");
    const char *mode = getenv("AIP_MODE");
    if (mode && strcmp(mode, "PREDICTION") == 0) {
        char *end;
        long n = port && *port ? strtol(port, &end, 10) : 8080;
        if (port && *port && (*end || n < 0 || n > 65535))
            return error_set(err, ERR_INVALID, "AIP_HTTP_PORT=%s is not a port", port);
        out->port = (int32_t)n;
    }
    if (strcmp(http->cors_origins ? http->cors_origins : "*", "*") == 0 && http->api_keys.n == 0)
        log_warn(
            "no API key is set and CORS allows every origin: any web page you open can use this "
            "server. Set --api-key, or --cors-origins localhost");
    if (http->api_keys.n == 0 && !is_local(out->host))
        log_warn(
            "no API key is set and the server listens on %s: everybody who reaches this machine "
            "can use it. Set --api-key",
            out->host);
    return true;
}

/* ---- once the model is there ---------------------------------------------------------- */

static bool take_samplers(const struct option_list *names, struct sampler_settings *s)
{
    s->n_samplers = 0;
    for (size_t i = 0; i < names->n && s->n_samplers < SAMPLER_ORDER_MAX; i++)
        if (sampler_kind_from_name(slice_of(names->data[i]), &s->samplers[s->n_samplers]))
            s->n_samplers++;
    return true;
}

static bool take_texts(struct api *api, const struct option_list *list, const struct slice **out,
                       size_t *n)
{
    struct slice *texts = arena_alloc_array(&api->arena, list->n + 1, sizeof *texts);
    if (!texts)
        return false;
    for (size_t i = 0; i < list->n; i++)
        texts[i] = slice_of(list->data[i]);
    *out = texts;
    *n = list->n;
    return true;
}

/* Bans of every end of generation, which ignore_eos asks for. */
static bool take_eog(struct api *api)
{
    const struct tokenizer *tok = engine_tokenizer(api->engine);
    int32_t n_vocab = tokenizer_n_vocab(tok);
    for (int32_t id = 0; id < n_vocab; id++)
        api->n_eog_bias += tokenizer_is_eog(tok, id);
    api->eog_bias = arena_alloc_array(&api->arena, api->n_eog_bias + 1, sizeof *api->eog_bias);
    if (!api->eog_bias)
        return false;
    size_t n = 0;
    for (int32_t id = 0; id < n_vocab; id++)
        if (tokenizer_is_eog(tok, id))
            api->eog_bias[n++] = (struct logit_bias){id, -INFINITY};
    return true;
}

/* --logit-bias, and what --ignore-eos adds. */
static bool take_biases(struct api *api)
{
    const struct sampling_options *from = &api->options->sampling;
    size_t n = from->logit_bias.n, n_eog = from->ignore_eos ? api->n_eog_bias : 0;
    struct logit_bias *biases = arena_alloc_array(&api->arena, n + n_eog + 1, sizeof *biases);
    if (!biases)
        return false;
    for (size_t i = 0; i < n; i++)
        biases[i] =
            (struct logit_bias){from->logit_bias.data[i].token, from->logit_bias.data[i].bias};
    for (size_t i = 0; i < n_eog; i++)
        biases[n + i] = api->eog_bias[i];
    api->sampling.logit_bias = biases;
    api->sampling.n_logit_bias = n + n_eog;
    return true;
}

static bool take_grammar(struct api *api, struct error *err)
{
    const struct sampling_options *from = &api->options->sampling;
    if (from->grammar) {
        api->sampling.grammar = slice_of(from->grammar);
    } else if (from->json_schema) {
        struct str gbnf = {0};
        json_t *schema = json_parse(slice_of(from->json_schema), err);
        bool ok = schema && schema_to_grammar(schema, NULL, &gbnf, NULL, err);
        json_decref(schema);
        const char *copy = ok ? arena_duplicate(&api->arena, str_slice(&gbnf)) : NULL;
        api->sampling.grammar = (struct slice){copy, copy ? gbnf.len : 0};
        api->sampling.grammar_prefilled = true;
        str_free(&gbnf);
        if (!ok)
            return error_prefix(err, "--json-schema");
        if (!copy)
            return error_memory(err);
    }
    return true;
}

static bool take_sampling(struct api *api, struct error *err)
{
    const struct sampling_options *from = &api->options->sampling;
    struct sampler_settings *s = &api->sampling;
    *s = sampler_settings_defaults();
    s->seed = from->seed;
    s->temperature = from->temperature;
    s->top_k = from->top_k;
    s->top_p = from->top_p;
    s->min_p = from->min_p;
    s->top_n_sigma = from->top_n_sigma;
    s->xtc_probability = from->xtc_probability;
    s->xtc_threshold = from->xtc_threshold;
    s->typical_p = from->typical_p;
    s->repeat_last_n = from->repeat_last_n;
    s->repeat_penalty = from->repeat_penalty;
    s->presence_penalty = from->presence_penalty;
    s->frequency_penalty = from->frequency_penalty;
    s->dry_multiplier = from->dry_multiplier;
    s->dry_base = from->dry_base;
    s->dry_allowed_length = from->dry_allowed_length;
    s->dry_penalty_last_n = from->dry_penalty_last_n;
    s->adaptive_target = from->adaptive_target;
    s->adaptive_decay = from->adaptive_decay;
    s->dynatemp_range = from->dynatemp_range;
    s->dynatemp_exponent = from->dynatemp_exponent;
    s->mirostat = from->mirostat;
    s->mirostat_tau = from->mirostat_tau;
    s->mirostat_eta = from->mirostat_eta;
    s->reasoning_budget_tokens = api->options->chat.reasoning_budget;
    api->ignore_eos = from->ignore_eos;
    if (!take_samplers(&from->samplers, s) ||
        (from->dry_sequence_breakers.n > 0 &&
         !take_texts(api, &from->dry_sequence_breakers, &s->dry_sequence_breakers,
                     &s->n_dry_sequence_breakers)) ||
        !take_eog(api) || !take_biases(api))
        return error_memory(err);
    return take_grammar(api, err);
}

/* What the model recommends for sampling, where the operator said nothing. */
static void take_recommendations(struct api *api)
{
    const struct {
        const char *key, *name;
        float *real;
        int32_t *integer;
    } rows[] = {
        {"general.sampling.top_k", "top_k", NULL, &api->sampling.top_k},
        {"general.sampling.top_p", "top_p", &api->sampling.top_p, NULL},
        {"general.sampling.min_p", "min_p", &api->sampling.min_p, NULL},
        {"general.sampling.xtc_probability", "xtc_probability", &api->sampling.xtc_probability,
         NULL},
        {"general.sampling.xtc_threshold", "xtc_threshold", &api->sampling.xtc_threshold, NULL},
        {"general.sampling.temp", "temperature", &api->sampling.temperature, NULL},
        {"general.sampling.penalty_last_n", "repeat_last_n", NULL, &api->sampling.repeat_last_n},
        {"general.sampling.penalty_repeat", "repeat_penalty", &api->sampling.repeat_penalty, NULL},
        {"general.sampling.mirostat", "mirostat", NULL, &api->sampling.mirostat},
        {"general.sampling.mirostat_tau", "mirostat_tau", &api->sampling.mirostat_tau, NULL},
        {"general.sampling.mirostat_eta", "mirostat_eta", &api->sampling.mirostat_eta, NULL},
    };
    const struct model_file *file = engine_model_file(api->engine);
    const struct option_list *set = &api->options->sampling.set_by_user;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && file; i++) {
        bool by_user = false;
        for (size_t k = 0; k < set->n; k++)
            by_user = by_user || strcmp(set->data[k], rows[i].name) == 0;
        if (by_user)
            continue;
        if (rows[i].real)
            *rows[i].real = meta_f32(file, rows[i].key, *rows[i].real);
        else
            *rows[i].integer = meta_i32(file, rows[i].key, *rows[i].integer);
    }
}

/* ---- chat templates ---------------------------------------------------------------------- */

static const char *piece_text(struct api *api, int32_t id)
{
    struct slice piece = {"", 0};
    if (id >= 0)
        piece = text_piece(engine_tokenizer(api->engine), id, true);
    return arena_duplicate(&api->arena, piece);
}

/* The text of chat_template.jinja, empty where there is none; arena memory. */
static bool template_beside(struct api *api, const struct model_file *file, struct slice *out,
                            struct error *err)
{
    struct str text = {0};
    bool found = model_file_sidecar(file, "chat_template.jinja", &text, err);
    bool ok = found || err->code == ERR_NONE;
    if (found && text.len > 0) {
        *out = (struct slice){arena_duplicate(&api->arena, str_slice(&text)), text.len};
        ok = out->data || error_memory(err);
    }
    str_free(&text);
    return ok;
}

/* What tokenizer_config.json says: one template, or a list of named ones. */
static struct slice template_of_config(const json_t *config, const char *variant)
{
    const json_t *value = json_object_get(config, "chat_template"), *entry;
    size_t i;
    if (json_is_string(value) && !variant)
        return json_slice(value);
    json_array_foreach(value, i, entry)
    {
        if (slice_equal_text(member_text(entry, "name"), variant ? variant : "default"))
            return member_text(entry, "template");
    }
    return SLICE("");
}

/* The model's own template from wherever its file keeps it, empty where it has none;
 * the model's or arena memory. A file that is there and cannot be read is an error. */
static bool model_template(struct api *api, const char *variant, struct slice *out,
                           struct error *err)
{
    const struct model_file *file = engine_model_file(api->engine);
    *out = SLICE("");
    if (!file)
        return true;
    if (model_file_kind(file) == MODEL_FILE_GGUF) {
        struct slice found = meta_text(file, variant ? "tokenizer.chat_template.tool_use"
                                                     : "tokenizer.chat_template");
        if (found.data)
            *out = found;
        return true;
    }
    if (!variant && !template_beside(api, file, out, err))
        return false;
    if (out->len > 0)
        return true;
    const json_t *config = model_file_json(file, "tokenizer_config.json", err);
    if (config)
        *out = template_of_config(config, variant);
    return config || err->code == ERR_NONE;
}

/* How a model that ranks by what it would say is asked: a text with {query} and
 * {document} in it. */
static bool take_rerank_template(struct api *api)
{
    /* The question Qwen3's reranker was trained with; folders do not hold it. */
    static const char usual[] =
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        "and the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
        "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
        "answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n";
    const struct model_file *file = engine_model_file(api->engine);
    const struct model_info *info = engine_model_info(api->engine);
    bool says_yes = model_file_kind(file) == MODEL_FILE_FOLDER && !info->is_encoder &&
                    info->pooling == POOLING_RANK && info->n_labels == 2;
    struct slice text =
        says_yes ? slice_of(usual) : meta_text(file, "tokenizer.chat_template.rerank");
    api->rerank_template = (struct slice){arena_duplicate(&api->arena, text), text.len};
    return api->rerank_template.data != NULL;
}

/* A text without anything to fill in would be every prompt: it is a name misspelt, or a
 * path where --chat-template-file was meant. */
static bool check_template_text(struct slice text, struct error *err)
{
    for (size_t i = 0; i + 1 < text.len; i++)
        if (text.data[i] == '{' && strchr("{%#", text.data[i + 1]))
            return true;
    struct str names = {0};
    bool known = false;
    for (const char *const *name = chat_template_names(); *name; name++) {
        known = known || slice_equal_text(text, *name);
        str_append_format(&names, "%s%s", names.len ? ", " : "", *name);
    }
    if (!known)
        error_set(
            err, ERR_INVALID,
            "--chat-template: '%.*s' is neither a template (it has no {{ or {%%) nor the name "
            "of one; use --chat-template-file for a file, or one of %s",
            (int)(text.len < 60 ? text.len : 60), text.data, str_text(&names));
    str_free(&names);
    return known;
}

static bool take_chat(struct api *api, struct error *err)
{
    const struct chat_options *options = &api->options->chat;
    const struct special_tokens *special = tokenizer_special(engine_tokenizer(api->engine));
    api->bos = piece_text(api, special->bos);
    api->eos = piece_text(api, special->eos);
    if (!api->bos || !api->eos)
        return error_memory(err);
    struct slice source = slice_of(options->chat_template), tool_use = SLICE("");
    if (options->chat_template && !check_template_text(source, err))
        return false;
    if (!options->chat_template && (!model_template(api, NULL, &source, err) ||
                                    !model_template(api, "tool_use", &tool_use, err)))
        return false;
    struct chat_template_settings settings = {
        .source = source,
        .tool_use_source = tool_use,
        .bos = slice_of(api->bos),
        .eos = slice_of(api->eos),
        .add_bos = special->add_bos,
        .add_eos = special->add_eos,
        .use_jinja = options->use_jinja,
    };
    if (!chat_templates_load(&settings, &api->templates, err))
        return error_prefix(err, "chat template");
    static const enum chat_reasoning_format formats[] = {
        [OPTION_REASONING_NONE] = CHAT_REASONING_NONE,
        [OPTION_REASONING_AUTO] = CHAT_REASONING_AUTO,
        [OPTION_REASONING_DEEPSEEK_LEGACY] = CHAT_REASONING_DEEPSEEK_LEGACY,
        [OPTION_REASONING_DEEPSEEK] = CHAT_REASONING_DEEPSEEK,
    };
    api->chat_defaults = (struct chat_defaults){
        .reasoning_format = formats[options->reasoning_format],
        .enable_thinking = options->enable_reasoning != OPTION_OFF &&
                           (options->enable_reasoning == OPTION_ON ||
                            chat_templates_support_thinking(api->templates)),
        .prefill_assistant = options->prefill_assistant,
        .force_pure_content = options->skip_chat_parsing,
        .kwargs = options->template_kwargs,
    };
    return true;
}

bool api_embeds(const struct api *api)
{
    return api->options->context.embedding || engine_model_info(api->engine)->is_encoder;
}

bool api_ranks(const struct api *api)
{
    const struct context_options *o = &api->options->context;
    if (o->embedding)
        return o->pooling == POOLING_RANK;
    return api_embeds(api) && engine_pooling(api->engine) == POOLING_RANK;
}

/* Which template is used, and what was not asked for. */
static void log_settings_in_use(const struct api *api, bool has_own)
{
    const struct options *o = api->options;
    const struct {
        bool is_off;
        const char *what;
    } parts[] = {{!o->http.endpoint_metrics, "/metrics (--metrics)"},
                 {!o->http.endpoint_props, "POST /props (--props)"},
                 {!o->http.endpoint_slots, "/slots (--slots)"},
                 {!o->cache.slot_save_path, "saving slots (--slot-save-path)"},
                 {!o->context.context_shift, "context shift (--context-shift)"},
                 {!o->cache.cache_prompt, "prompt caching (--cache-prompt)"}};
    struct str off = {0};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].is_off)
            str_append_format(&off, "%s%s", off.len ? ", " : "", parts[i].what);
    if (!api_embeds(api))
        log_info("chat template: %s", o->chat.chat_template ? "as given by an option"
                                      : has_own             ? "the model's own"
                                                            : "none in the model; chatml is used");
    if (off.len && !off.failed)
        log_info("off: %s", str_text(&off));
    str_free(&off);
}

bool api_model_loaded(struct api *api, struct error *err)
{
    if (api_embeds(api) && !api->options->context.embedding)
        log_info("the model is an encoder: it serves %s, as with %s",
                 api_ranks(api) ? "ranking" : "embeddings",
                 api_ranks(api) ? "--reranking" : "--embeddings");
    if (!take_sampling(api, err))
        return false;
    take_recommendations(api);
    if (!take_rerank_template(api))
        return error_memory(err);
    if (!take_chat(api, err))
        return false;
    struct slice own = {0};
    struct error ignored;
    bool has_own = model_template(api, NULL, &own, &ignored) && own.len > 0;
    log_settings_in_use(api, has_own);
    return true;
}

json_t *api_surface(void)
{
    return json_pack("{s:o,s:o}", "routes", routes_surface(), "fields", fields_surface());
}
