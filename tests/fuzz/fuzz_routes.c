/* fuzz_routes.c - whatever a client sends to a route, and whatever a slot file
 * holds, is answered: no crash, no hang.
 *
 * The first line is a method and a target, the rest the body; a line that names no
 * route of the server's table stands for one of them, so that every route gets
 * bodies. After "SLOT FILE" comes the content of a slot file that is restored. A
 * whole server runs in this process on the story model, so the reference data is
 * needed. Seeds are the requests of the recordings (seeds_routes.py). */
#include "api/api.h"
#include "base/log.h"
#include "engine/engine.h"
#include "http/http.h"
#include "options/options.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ANSWER_MS = 20000 };

static const struct http_route *routes; /* n_routes: all that the server has */
static size_t n_routes;
static struct options options;
static struct engine *engine;
static struct http_server *server;
static char folder[] = "/tmp/mlxcel-fuzz-XXXXXX";
static char address[64];

static bool start(const char *model, struct error *err)
{
    char slots[64];
    snprintf(address, sizeof address, "%s/x.sock", folder);
    snprintf(slots, sizeof slots, "%s/", folder);
    char *argv[] = {"fuzz",
                    "-m",
                    (char *)model,
                    "--host",
                    address,
                    "-np",
                    "2",
                    "-n",
                    "4",
                    "--props",
                    "-c",
                    "256",
                    "--slots",
                    "--metrics",
                    "-ub",
                    "64",
                    "-b",
                    "64",
                    "--slot-save-path",
                    slots,
                    NULL};
    setenv("AIP_MODE", "PREDICTION", 1);
    if (!options_parse((int)(sizeof argv / sizeof *argv) - 1, argv, NULL, &options, err))
        return false;
    struct engine_settings settings = {.model_path = model,
                                       .context = context_settings_default(),
                                       .n_parallel = 2,
                                       .n_predict = 4,
                                       .continuous_batching = true,
                                       .sleep_idle_seconds = -1};
    settings.context.n_ctx = 256;
    settings.context.n_seq_max = 2;
    settings.context.n_batch = settings.context.n_ubatch = 64;
    settings.pool.n_threads = settings.pool_batch.n_threads = 1;
    struct api *api = NULL;
    struct http_settings http;
    if (!engine_create(&settings, &engine, err) || engine_wait_loaded(engine) != ENGINE_READY ||
        !api_create(&options, engine, &api, err) || !api_model_loaded(api, err) ||
        !api_http_settings(api, &http, err) || !http_server_start(&http, &server, err))
        return false;
    http_server_ready(server);
    routes = http.routes;
    n_routes = http.n_routes;
    return true;
}

/* Send a request and read its answer to the end; false when none came in time. */
static bool ask(const char *route, const char *headers, const uint8_t *body, size_t len)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s", address);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&name, sizeof name) != 0)
        abort();
    char head[512];
    int n = snprintf(head, sizeof head,
                     "%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n",
                     route, headers, len);
    ssize_t sent = send(fd, head, (size_t)n, MSG_NOSIGNAL);
    sent = len ? send(fd, body, len, MSG_NOSIGNAL) : sent;
    (void)sent; /* the server may answer before it has read everything */
    char answer[4096];
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    bool in_time = true;
    for (;;) {
        /* The fuzzer's own timer interrupts system calls. */
        int ready = poll(&poll_fd, 1, ANSWER_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        in_time = ready > 0;
        ssize_t got = in_time ? recv(fd, answer, sizeof answer, 0) : 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
    }
    close(fd);
    return in_time;
}

static const char *const methods[] = {
    [HTTP_GET] = "GET", [HTTP_POST] = "POST", [HTTP_DELETE] = "DELETE"};

/* Whether a target, up to its query, is that path; ":name" stands for a segment. */
static bool is_target_of(const char *target, const char *path)
{
    while (*path && *target && *target != '?') {
        if (*path == ':') {
            path += strcspn(path, "/");
            target += strcspn(target, "/?");
        } else if (*path++ != *target++) {
            return false;
        }
    }
    return *path == 0 && (*target == 0 || *target == '?');
}

static bool is_printable(const char *text)
{
    while (*text > ' ' && *text < 0x7F)
        text++;
    return *text == 0;
}

/* The request line's beginning for what the input says: its own where that is a
 * route with printable bytes, else one that it stands for. */
static void choose(const char *line, char *out, size_t size)
{
    unsigned sum = 0;
    for (const char *p = line; *p; p++)
        sum = sum * 31 + (unsigned char)*p;
    for (size_t i = 0; i < n_routes; i++) {
        size_t n = strlen(methods[routes[i].method]);
        const char *target = line + n + 1;
        if (strncmp(line, methods[routes[i].method], n) != 0 || line[n] != ' ' ||
            !is_target_of(target, routes[i].path))
            continue;
        if (!is_printable(target))
            break;
        snprintf(out, size, "%s", line);
        return;
    }
    const struct http_route *route = &routes[sum % n_routes];
    const char *param = strchr(route->path, ':');
    snprintf(out, size, "%s %.*s%s", methods[route->method],
             (int)(param ? param - route->path : (long)strlen(route->path)), route->path,
             param ? "0?action=erase" : "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool started;
    const char *shared = getenv("MLXCEL_SHARED");
    if (!shared)
        return 0;
    if (!started) {
        struct error err = {0};
        char model[512];
        snprintf(model, sizeof model, "%s/models/stories260k/stories260K.gguf", shared);
        if (access(model, R_OK) != 0)
            return 0;
        if (!mkdtemp(folder) || !start(model, &err)) {
            fprintf(stderr, "%s\n", err.message);
            abort();
        }
        started = true;
    }
    if (size == 0 || size > 65536)
        return 0;
    char line[256] = "", route[512];
    const uint8_t *end = memchr(data, '\n', size < sizeof line ? size : sizeof line - 1);
    size_t n_line = end ? (size_t)(end - data) : 0;
    memcpy(line, data, n_line);
    data += n_line + (end != NULL);
    size -= n_line + (end != NULL);
    bool answered;
    if (strcmp(line, "SLOT FILE") != 0) {
        choose(line, route, sizeof route);
        answered = ask(route, "", data, size);
    } else {
        char path[64];
        snprintf(path, sizeof path, "%s/file", folder);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
            abort();
        static const uint8_t body[] = "{\"filename\":\"file\"}";
        answered = ask("POST /slots/0?action=restore", "", body, sizeof body - 1);
    }
    if (!answered) {
        fprintf(stderr, "no answer within %d ms\n", ANSWER_MS);
        abort();
    }
    return 0;
}
