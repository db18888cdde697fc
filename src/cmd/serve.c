/* serve.c - the life of the server process: options, log, engine, HTTP, until a
 * signal ends it. */
#include "cmd/serve.h"

#include "api/api.h"
#include "base/file.h"
#include "base/log.h"
#include "cmd/actions.h"
#include "cmd/cmd.h"
#include "http/http.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { STOP_GRACE_MS = 4000, LOADING_POLL_MS = 20 };

/* ---- signals ---- */

/* INT and TERM are taken by sigwait on the main thread alone; a peer that
 * closes its socket must not end the process. Before any thread starts. */
static void block_signals(sigset_t *stopping)
{
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(stopping);
    sigaddset(stopping, SIGINT);
    sigaddset(stopping, SIGTERM);
    pthread_sigmask(SIG_BLOCK, stopping, NULL);
}

/* A second signal ends the process at once. */
static void let_signals_kill(const sigset_t *stopping)
{
    pthread_sigmask(SIG_UNBLOCK, stopping, NULL);
}

/* Wait for a signal while the model loads; true when one came. */
static bool stopped_while_loading(struct engine *engine, const sigset_t *stopping)
{
    const struct timespec poll = {.tv_nsec = LOADING_POLL_MS * 1000000L};
    while (engine_state(engine) == ENGINE_LOADING)
        if (sigtimedwait(stopping, NULL, &poll) > 0)
            return true;
    return false;
}

static void wait_for_signal(const sigset_t *stopping)
{
    int signal_number;
    while (sigwait(stopping, &signal_number) != 0)
        ;
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

static bool start_parts(struct server *server, struct error *err)
{
    struct engine_settings settings;
    clean_slot_folder(server->options);
    if (!serve_engine_settings(server->options, &settings, err) ||
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

static int serve(struct options *options)
{
    sigset_t stopping;
    struct error err;
    struct server server = {.options = options};
    int exit_code = 1;
    block_signals(&stopping);
    if (!start_parts(&server, &err)) {
        log_error("%s", err.message);
        goto out;
    }
    log_info("listening on %s", http_server_address(server.http));
    if (stopped_while_loading(server.engine, &stopping)) {
        exit_code = 0;
        goto out;
    }
    if (engine_state(server.engine) == ENGINE_FAILED) {
        engine_load_error(server.engine, &err);
        log_error("%s", err.message);
        goto out;
    }
    if (!api_model_loaded(server.api, &err)) {
        log_error("%s", err.message);
        goto out;
    }
    http_server_ready(server.http);
    log_info("server is ready on %s", http_server_address(server.http));
    wait_for_signal(&stopping);
    log_info("stopping: running answers are ended; a second signal ends the process at once");
    exit_code = 0;
out:
    let_signals_kill(&stopping);
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
    if (!options_parse(argc, argv, environ, &options, &err))
        fprintf(stderr, "%s: %s\n", program, err.message);
    else if (options.action != ACTION_SERVE)
        exit_code = run_action(program, &options);
    else if (!set_up_log(&options, &err) || !resolve_model(&options, &err))
        fprintf(stderr, "%s: %s\n", program, err.message);
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
