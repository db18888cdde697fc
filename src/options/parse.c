/* parse.c - defaults, environment and command line, in rising precedence. */
#include "options/table.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const default_samplers[] = {
    "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"};
static const char *const default_breakers[] = {"\n", ":", "\"", "*"};

bool options_default(struct options *o, struct error *err)
{
    *o = (struct options){
        .model = {.repack = true},
        .context = {.n_batch = 2048,
                    .n_ubatch = 512,
                    .fit = true,
                    .fit_ctx = 4096,
                    .fit_target_mib = 1024,
                    .n_predict = -1,
                    .n_parallel = -1,
                    .kv_unified = OPTION_AUTO,
                    .cont_batching = true,
                    .flash_attn = OPTION_AUTO,
                    .cache_type_k = "f16",
                    .cache_type_v = "f16",
                    .warmup = true,
                    .pooling = -1,
                    .embd_normalize = 2,
                    .rope_scaling = -1,
                    .yarn_ext_factor = -1,
                    .yarn_attn_factor = -1,
                    .yarn_beta_slow = -1,
                    .yarn_beta_fast = -1},
        .cpu = {.n_threads = -1, .poll = 50},
        .cpu_batch = {.n_threads = -1, .poll = 50},
        .cache = {.cache_prompt = true,
                  .cache_ram_mib = 8192,
                  .cache_idle_slots = true,
                  .n_checkpoints = 32,
                  .checkpoint_min_step = 8192,
                  .slot_prompt_similarity = 0.1f},
        .sampling = {.seed = UINT32_MAX,
                     .temperature = 0.8f,
                     .top_k = 40,
                     .top_p = 0.95f,
                     .min_p = 0.05f,
                     .top_n_sigma = -1,
                     .xtc_threshold = 0.1f,
                     .typical_p = 1,
                     .repeat_last_n = 64,
                     .repeat_penalty = 1,
                     .dry_base = 1.75f,
                     .dry_allowed_length = 2,
                     .dry_penalty_last_n = 64,
                     .adaptive_target = -1,
                     .adaptive_decay = 0.9f,
                     .dynatemp_exponent = 1,
                     .mirostat_tau = 5,
                     .mirostat_eta = 0.1f},
        .http = {.hostname = "127.0.0.1",
                 .port = 8080,
                 .public_path = "",
                 .api_prefix = "",
                 .cors_origins = "*",
                 .cors_methods = "GET, POST, DELETE, OPTIONS",
                 .cors_headers = "*",
                 .cors_credentials = true,
                 .timeout = 3600,
                 .sse_ping_interval = 30,
                 .n_threads_http = -1,
                 .endpoint_slots = true,
                 .ui = true,
                 .sleep_idle_seconds = -1},
        .chat = {.use_jinja = true,
                 .reasoning_format = OPTION_REASONING_DEEPSEEK,
                 .enable_reasoning = OPTION_AUTO,
                 .reasoning_budget = -1,
                 .prefill_assistant = true},
        .generation = {.escape = true},
        .logging = {.verbosity = LOG_INFO,
                    .colors = LOG_COLORS_AUTO,
                    .prefix = true,
                    .timestamps = true},
    };
    o->chat.template_kwargs = json_object();
    bool ok = o->chat.template_kwargs != NULL;
    for (size_t i = 0; i < sizeof default_samplers / sizeof *default_samplers; i++)
        ok = ok && list_push(o, &o->sampling.samplers, slice_of(default_samplers[i]));
    for (size_t i = 0; i < sizeof default_breakers / sizeof *default_breakers; i++)
        ok = ok && list_push(o, &o->sampling.dry_sequence_breakers, slice_of(default_breakers[i]));
    return ok || error_memory(err);
}

void options_free(struct options *o)
{
    json_decref(o->chat.template_kwargs);
    arena_free(&o->arena);
    *o = (struct options){0};
}

/* ---- environment --------------------------------------------------------- */

static const char *env_get(char *const *environ, const char *name)
{
    size_t len = strlen(name);
    for (; environ && *environ; environ++)
        if (!strncmp(*environ, name, len) && (*environ)[len] == '=')
            return *environ + len + 1;
    return NULL;
}

/* A variable that stands for an option without a value. */
static bool env_switch(struct option_parser *p, struct option_use *use, const char *value,
                       struct error *err)
{
    bool on = text_is_true(value);
    if (use->option->names_off) {
        if (!on && !text_is_false(value)) {
            use->value = value;
            return bad_value(use, err, "1, on, true, enabled or 0, off, false, disabled");
        }
        use->on = on;
        return option_apply(p, use, err);
    }
    if (on) {
        use->on = true;
        return option_apply(p, use, err);
    }
    return text_is_false(value) || !*value ||
           option_warn(p, "%s: '%s' is neither on nor off and taken as off", use->source, value) ||
           error_memory(err);
}

static bool apply_environment(struct option_parser *p, char *const *environ, struct error *err)
{
    const struct option *o;
    for (size_t i = 0; (o = option_at(i)); i++) {
        char negative[96];
        if (!o->env)
            continue;
        struct option_use use = {.option = o, .source = o->env, .on = true};
        if (option_negative_env(o, negative, sizeof negative) && env_get(environ, negative)) {
            /* Its presence counts, whatever it says. */
            use.source = negative;
            use.on = false;
            if (!option_apply(p, &use, err))
                return false;
            continue;
        }
        const char *value = env_get(environ, o->env);
        if (!value)
            continue;
        if (o->value)
            use.value = value;
        if (o->value ? !option_apply(p, &use, err) : !env_switch(p, &use, value, err))
            return false;
    }
    return true;
}

static bool env_has(const struct option *o, char *const *environ)
{
    char negative[96];
    return o->env &&
           (env_get(environ, o->env) ||
            (option_negative_env(o, negative, sizeof negative) && env_get(environ, negative)));
}

/* Settings of the machine and of the user, where the reference looks too. */
static bool apply_config_files(struct option_parser *p, char *const *environ, struct error *err)
{
    if (!preset_apply_file(p, "/etc/llama.cpp/config.ini", err))
        return false;
    const char *config = env_get(environ, "XDG_CONFIG_HOME"), *home = env_get(environ, "HOME");
    struct str path = {0};
    if (config && *config)
        str_append_format(&path, "%s/llama.cpp/config.ini", config);
    else if (home && *home)
        str_append_format(&path, "%s/.config/llama.cpp/config.ini", home);
    bool ok = !path.failed || error_memory(err);
    if (ok && path.len)
        ok = preset_apply_file(p, str_text(&path), err);
    str_free(&path);
    return ok;
}

/* ---- command line --------------------------------------------------------- */

static bool accumulates(const struct option *o)
{
    static const char *const names[] = {"--reverse-prompt", "--dry-sequence-breaker",
                                        "--logit-bias",     "--override-kv",
                                        "--api-key",        "--api-key-file",
                                        "--alias",          "--tags",
                                        "--spec-type",      "--chat-template-kwargs",
                                        "--control-vector", "--control-vector-scaled"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_equal_text(option_id(o), names[i]))
            return true;
    return false;
}

static bool unknown_option(const char *word, struct error *err)
{
    const char *equals = strchr(word, '=');
    bool on;
    char name[128];
    if (equals && (size_t)(equals - word) < sizeof name) {
        snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
        if (option_find(name, &on))
            return error_set(err, ERR_INVALID, "%s: the value follows as a word of its own: %s %s",
                             word, name, equals + 1);
    }
    return option_explain_unknown(word, err);
}

static bool next_value(int argc, char *const *argv, int *i, const struct option_use *use,
                       const char *what, const char **value, struct error *err)
{
    if (*i + 1 >= argc)
        return error_set(err, ERR_INVALID, "%s: a value is missing; expected %s %s", use->source,
                         use->source, what);
    *value = argv[++*i];
    return true;
}

static bool apply_command_line(struct option_parser *p, int argc, char *const *argv,
                               char *const *environ, bool *seen, struct error *err)
{
    for (int i = 1; i < argc && !p->stop; i++) {
        struct option_use use = {.source = argv[i]};
        use.option = option_find(argv[i], &use.on);
        if (!use.option)
            return unknown_option(argv[i], err);
        const struct option *o = use.option;
        size_t index = option_index(o);
        if (o->value && !next_value(argc, argv, &i, &use, o->value, &use.value, err))
            return false;
        if (o->value2 && !next_value(argc, argv, &i, &use, o->value2, &use.value2, err))
            return false;
        bool ok = true;
        if (seen[index] && !accumulates(o))
            ok = option_warn(p, "%s is given more than once; the last one counts", use.source);
        if (!seen[index] && env_has(o, environ))
            ok = ok && option_warn(p, "%s is set too; %s on the command line overrules it", o->env,
                                   use.source);
        seen[index] = true;
        if (!ok)
            return error_memory(err);
        if (!option_apply(p, &use, err))
            return false;
    }
    return true;
}

static bool warn_of_load_modes(struct option_parser *p, const bool *seen)
{
    bool on, mode = seen[option_index(option_find("--load-mode", &on))];
    bool old = seen[option_index(option_find("--mlock", &on))] ||
               seen[option_index(option_find("--mmap", &on))] ||
               seen[option_index(option_find("--direct-io", &on))];
    return !mode || !old ||
           option_warn(p, "--load-mode conflicts with --mlock, --mmap and --direct-io; "
                          "the last one counts");
}

/* ---- the end --------------------------------------------------------------- */

static bool resolve_list(struct options *o, struct option_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (!(list->data[i] = resolve_escapes(o, list->data[i])))
            return false;
    return true;
}

/* An empty text means "not given" where the default is none, so that nobody
 * has to ask twice. */
static void forget_empty_texts(struct option_parser *p)
{
    const struct option *o;
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (o->type != OPT_TEXT)
            continue;
        const char **text = (const char **)(void *)((char *)p->options + o->field);
        const char *const *fallback =
            (const char *const *)(const void *)((const char *)p->defaults + o->field);
        if (*text && !**text && !*fallback)
            *text = NULL;
    }
}

/* The reference's rule: values of the cache can be quantized only where
 * attention reads them in blocks. */
static bool check_cache_types(const struct options *o, struct error *err)
{
    const char *v = o->context.cache_type_v;
    bool quantized = strcmp(v, "f32") && strcmp(v, "f16") && strcmp(v, "bf16");
    if (o->context.flash_attn != OPTION_OFF || !quantized)
        return true;
    return error_set(err, ERR_INVALID, "--cache-type-v %s needs --flash-attn on or auto; it is off",
                     v);
}

static bool finish(struct option_parser *p, struct error *err)
{
    struct options *o = p->options;
    forget_empty_texts(p);
    if (o->action == ACTION_SERVE && !check_cache_types(o, err))
        return false;
    if (o->generation.escape && (!resolve_list(o, &o->generation.reverse_prompts) ||
                                 !resolve_list(o, &o->sampling.dry_sequence_breakers)))
        return error_memory(err);
    if (!options_finish_cpu(p, err))
        return false;
    if (o->action == ACTION_SERVE && p->refused.code != ERR_NONE) {
        if (err)
            *err = p->refused;
        return false;
    }
    return true;
}

bool options_parse(int argc, char *const *argv, char *const *environ, struct options *options,
                   struct error *err)
{
    struct options defaults = {0};
    struct option_parser p = {.options = options, .defaults = &defaults};
    size_t n = option_count();
    bool *seen = calloc(n, sizeof *seen);
    p.given = calloc(n, sizeof *p.given);
    p.warned = calloc(n, sizeof *p.warned);
    bool ok = options_default(options, err) && options_default(&defaults, err) &&
              ((seen && p.given && p.warned) || error_memory(err));
    if (ok && environ)
        ok = apply_config_files(&p, environ, err) && apply_environment(&p, environ, err);
    ok = ok && apply_command_line(&p, argc, argv, environ, seen, err);
    ok = ok && ((warn_of_load_modes(&p, seen) && warn_of_no_effect(&p)) || error_memory(err));
    ok = ok && finish(&p, err);
    free(seen);
    free(p.given);
    free(p.warned);
    options_free(&defaults);
    return ok;
}
