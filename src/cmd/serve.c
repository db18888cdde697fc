/* serve.c - the life of the server process: options, log, engine, HTTP, until a
 * signal ends it. */
#include "cmd/serve.h"

#include "api/api.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/printable.h"
#include "cmd/actions.h"
#include "cmd/cmd.h"
#include "cmd/progress.h"
#include "cmd/signals.h"
#include "http/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { STOP_GRACE_MS = 4000, LOADING_POLL_MS = 20 };

/* Wait for a signal while the model loads; true when one came. */
static bool stopped_while_loading(struct engine *engine)
{
    struct progress progress;
    bool stopped = false;
    progress_begin(&progress, !log_enabled(LOG_INFO));
    while (!stopped && engine_state(engine) == ENGINE_LOADING) {
        progress_show(&progress, engine_load_progress(engine));
        stopped = signals_wait_stop(LOADING_POLL_MS);
    }
    progress_end(&progress);
    return stopped;
}

/* ---- the parts of a server ---- */

struct server {
    struct options *options;
    struct engine *engine;
    struct api *api;
    struct http_server *http;
};

/* What a server that was killed could not remove. */
static void clean_slot_folder(const struct options *options)
{
    const char *folder = options->cache.slot_save_path;
    int n = folder && *folder ? file_remove_left_behind(folder) : 0;
    if (n > 0)
        log_info("%s: removed %d unfinished files of a server that was killed", folder, n);
}

/* Before anything listens: the rest of the file is read in the background. */
static bool check_path(const char *path, struct error *err)
{
    return access(path, R_OK) == 0 ||
           error_set(err, ERR_NOT_FOUND, "%s: %s; check the path given with -m", path,
                     strerror(errno));
}

static bool start_parts(struct server *server, struct error *err)
{
    struct engine_settings settings;
    clean_slot_folder(server->options);
    if (!check_path(server->options->model.path, err) ||
        !serve_engine_settings(server->options, &settings, err) ||
        !engine_create(&settings, &server->engine, err) ||
        !api_create(server->options, server->engine, &server->api, err))
        return false;
    struct http_settings http;
    return api_http_settings(server->api, &http, err) &&
           http_server_start(&http, &server->http, err);
}

/* New connections are refused and streams end with an event, then everything
 * goes, the latest of what was built first. */
static void stop_parts(struct server *server)
{
    if (server->engine)
        engine_stop(server->engine);
    if (server->http)
        http_server_stop(server->http, STOP_GRACE_MS);
    api_free(server->api);
    engine_free(server->engine);
}

/* Loading has nothing to finish, and cannot be left in its middle: it may read or pack
 * weights for minutes, which nobody waits for any more. */
static void leave_loading(struct server *server)
{
    http_server_stop(server->http, 0);
    if (engine_state(server->engine) != ENGINE_LOADING)
        return;
    log_info("stopped while the model was loading");
    log_close();
    _exit(0);
}

/* Memory that runs out has no message of its own in many places. */
static void log_failure(const struct error *err)
{
    if (err->code == ERR_MEMORY && strcmp(err->message, "out of memory") == 0)
        log_error("out of memory while starting; lower -c, -np or -b, use -ctk q8_0 -ctv q8_0 or "
                  "--no-repack, or give the process more (ulimit -v, the container's limit)");
    else
        log_error("%s", err->message);
}

static int serve(struct options *options)
{
    struct error err;
    struct server server = {.options = options};
    int exit_code = 1;
    signals_hold();
    memory_set_up();
    if (!start_parts(&server, &err)) {
        log_failure(&err);
        goto out;
    }
    log_info("listening on %s", http_server_address(server.http));
    if (stopped_while_loading(server.engine)) {
        leave_loading(&server);
        server.http = NULL;
        exit_code = 0;
        goto out;
    }
    if (engine_state(server.engine) == ENGINE_FAILED) {
        engine_load_error(server.engine, &err);
        log_failure(&err);
        goto out;
    }
    if (!api_model_loaded(server.api, &err)) {
        log_failure(&err);
        goto out;
    }
    http_server_ready(server.http);
    log_info("server is ready on %s", http_server_address(server.http));
    signals_wait_stop(-1);
    log_info("shutting down, cancelling %zu request%s; press Ctrl-C again to quit immediately",
             http_server_n_exchanges(server.http),
             http_server_n_exchanges(server.http) == 1 ? "" : "s");
    exit_code = 0;
out:
    signals_let_kill();
    stop_parts(&server);
    return exit_code;
}

static bool set_up_log(const struct options *options, struct error *err)
{
    const struct logging_options *from = &options->logging;
    struct log_settings settings = {
        .verbosity = from->verbosity,
        .colors = (enum log_colors)from->colors,
        .prefix = from->prefix,
        .timestamps = from->timestamps,
        .file = from->file,
        .disabled = from->disabled,
        .json = from->format != 0,
    };
    if (!log_configure(&settings, err))
        return false;
    for (size_t i = 0; i < options->warnings.n; i++)
        log_warn("%s", options->warnings.data[i]);
    return true;
}

int serve_main(const char *program, int argc, char **argv)
{
    struct options options;
    struct error err;
    int exit_code = 1;
    signals_ignore();
    if (!options_parse(argc, argv, environ, &options, &err))
        error_print(program, &err);
    else if (options.action != ACTION_SERVE)
        exit_code = run_action(program, &options);
    else if (!set_up_log(&options, &err) || !resolve_model(&options, &err))
        error_print(program, &err);
    else
        exit_code = serve(&options);
    log_close();
    options_free(&options);
    return exit_code;
}

int cmd_serve(int argc, char **argv)
{
    return serve_main("mlxcel serve", argc, argv);
}
