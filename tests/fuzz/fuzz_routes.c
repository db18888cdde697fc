/* fuzz_routes.c - whatever a client sends to a route, and whatever a slot file
 * holds, is answered: no crash, no hang.
 *
 * The first byte chooses the route, the rest is the body; for the route after the
 * last one it is the content of a slot file that is restored. A whole server runs
 * in this process on the story model, so the reference data is needed. */
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

static const char *const routes[] = {
    "POST /completion",
    "POST /v1/completions",
    "POST /v1/chat/completions",
    "POST /v1/responses",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1/chat/completions/input_tokens",
    "POST /v1/responses/input_tokens",
    "POST /v1/chat/completions/control",
    "POST /apply-template",
    "POST /tokenize",
    "POST /detokenize",
    "POST /infill",
    "POST /lora-adapters",
    "POST /slots/0?action=save",
    "POST /slots/0?action=erase",
    "POST /v1/streams/lookup",
    "POST /predict",
    "POST /embedding",
    "POST /rerank",
    "POST /props",
};

enum { N_ROUTES = sizeof routes / sizeof *routes, ANSWER_MS = 20000 };

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
    size_t choice = data[0] % (N_ROUTES + 1);
    data++;
    size--;
    bool answered;
    if (choice < N_ROUTES) {
        answered = ask(routes[choice], "", data, size);
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
