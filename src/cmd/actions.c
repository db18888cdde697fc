/* actions.c - --help, --version and their kind; finding the model. */
#include "cmd/actions.h"

#include "api/api.h"
#include "base/log.h"
#include "base/printable.h"
#include "cmd/build_info.h"
#include "cmd/cmd.h"
#include "files/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_WIDTH = 100, MIN_WIDTH = 40 };

static int print(struct str *text, bool ok)
{
    if (ok)
        fwrite(str_text(text), 1, text->len, stdout);
    else
        fprintf(stderr, "out of memory\n");
    str_free(text);
    return ok && fflush(stdout) == 0 ? 0 : 1;
}

static int terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return DEFAULT_WIDTH;
    return size.ws_col < MIN_WIDTH ? MIN_WIDTH : size.ws_col;
}

static int print_help(const char *program)
{
    struct str text = {0};
    return print(&text, options_help(program, terminal_width(), &text));
}

static int print_version(void)
{
    struct str text = {0};
    return print(&text, build_info_append(&text));
}

static int print_license(void)
{
    struct str text = {0};
    return print(&text,
                 str_append_text(&text, "mlxcel is free software under the MIT licence; the file "
                                        "LICENSE has its text.\n"
                                        "It links libcurl (curl), GnuTLS (LGPL-2.1+), jansson "
                                        "(MIT), PCRE2 (BSD),\n"
                                        "utf8proc (MIT) and zlib (Zlib).\n"));
}

static int print_devices(void)
{
    struct str text = {0};
    return print(&text, str_append_text(&text, "Available devices:\n  (none)\n"));
}

static int print_completion(void)
{
    struct str text = {0};
    return print(&text, options_completion_bash(cmd_names(), &text));
}

static int print_surface(void)
{
    struct str text = {0};
    json_t *surface = options_surface();
    json_t *live = api_surface();
    bool ok = surface && live && json_object_update(surface, live) == 0 &&
              json_append(&text, surface) && str_append_char(&text, '\n');
    json_decref(surface);
    json_decref(live);
    return print(&text, ok);
}

static int print_cache_list(const char *program)
{
    struct cached_models models;
    struct error err;
    if (!cache_list(&models, &err)) {
        error_print(program, &err);
        return 1;
    }
    struct str text = {0};
    str_append_format(&text, "number of models in cache: %zu\n", models.n);
    for (size_t i = 0; i < models.n; i++) {
        str_append_format(&text, "%4zu. ", i + 1);
        printable_append(&text, slice_of(models.names[i]));
        str_append_char(&text, '\n');
    }
    cached_models_free(&models);
    return print(&text, !text.failed);
}

int run_action(const char *program, const struct options *options)
{
    switch (options->action) {
    case ACTION_HELP:
        return print_help(program);
    case ACTION_VERSION:
        return print_version();
    case ACTION_LICENSE:
        return print_license();
    case ACTION_LIST_DEVICES:
        return print_devices();
    case ACTION_COMPLETION_BASH:
        return print_completion();
    case ACTION_DUMP_SURFACE:
        return print_surface();
    case ACTION_CACHE_LIST:
        return print_cache_list(program);
    case ACTION_SERVE:
        break;
    }
    return 1;
}

bool resolve_model(struct options *options, struct error *err)
{
    const struct model_options *model = &options->model;
    bool elsewhere = model->url || model->docker_repo || model->hf_repo;
    if (!model->path && !elsewhere)
        return error_set(err, ERR_INVALID,
                         "no model: name a GGUF file or a folder of safetensors with -m PATH, "
                         "or a repository with -hf USER/MODEL");
    if (!elsewhere)
        return true; /* what is wrong with a path is said by who opens it */
    if (model->path && !model->url)
        log_warn("-m is not looked at: the model comes from %s",
                 model->hf_repo ? model->hf_repo : model->docker_repo);
    struct model_source source = {
        .path = model->url ? model->path : NULL,
        .url = model->url,
        .docker_repo = model->docker_repo,
        .hf_repo = model->hf_repo,
        .hf_file = model->hf_file,
        .hf_token = model->hf_token,
        .offline = model->offline,
        .quiet = options->logging.disabled,
    };
    char *path;
    if (!model_source_fetch(&source, &path, err))
        return false;
    options->model.path = arena_duplicate(&options->arena, slice_of(path));
    free(path);
    return options->model.path || error_memory(err);
}
