/* conform_process.c - starting and ending a server for one scenario. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "cmd/conform_process.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- Scratch ---------------------------------------------------------- */

static bool make_folders(const char *path)
{
    char *copy = slice_duplicate(slice_of(path));
    bool ok = copy != NULL;
    for (char *slash = copy; ok && (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        ok = mkdir(copy, 0700) == 0 || errno == EEXIST;
        *slash = '/';
    }
    free(copy);
    return ok;
}

static bool write_file(const char *folder, const char *name, struct slice content,
                       struct error *err)
{
    char *path = text_format("%s/%s", folder, name);
    FILE *stream = path && make_folders(path) ? fopen(path, "wb") : NULL;
    bool ok = stream && fwrite(content.data, 1, content.len, stream) == content.len;
    if (stream && fclose(stream) != 0)
        ok = false;
    if (!ok)
        error_set(err, ERR_IO, "%s: cannot be written: %s", path ? path : name, strerror(errno));
    free(path);
    return ok;
}

/* A port nobody uses now. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int port = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

bool conform_process_prepare(struct conform_process *p, const json_t *scenario, struct error *err)
{
    const char *base = getenv("TMPDIR");
    *p = (struct conform_process){0};
    p->folder = text_format("%s/mlxcel-conform-XXXXXX", base ? base : "/tmp");
    if (!p->folder || !mkdtemp(p->folder))
        return error_set(err, ERR_IO, "no scratch folder: %s", strerror(errno));
    p->scratch = text_format("%s/files", p->folder);
    if (!p->scratch || mkdir(p->scratch, 0700) != 0)
        return error_set(err, ERR_IO, "no scratch folder: %s", strerror(errno));
    p->port = free_port();
    json_t *files = json_object_get(scenario, "files"), *content;
    const char *name;
    json_object_foreach(files, name, content) if (!write_file(p->scratch, name, json_slice(content),
                                                              err)) return false;
    return p->port != 0 || error_set(err, ERR_IO, "no free port on loopback");
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

void conform_process_free(struct conform_process *p)
{
    if (p->folder)
        nftw(p->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(p->folder);
    free(p->scratch);
    *p = (struct conform_process){0};
}

/* ---- Starting --------------------------------------------------------- */

/* The text with its place-holders filled in; NULL when out of memory. */
static char *fill_in(const struct conform_process *p, const char *models, const char *text)
{
    struct str out = {0};
    for (; *text; text++) {
        if (strncmp(text, "{M}", 3) == 0) {
            str_append_text(&out, models);
            text += 2;
        } else if (strncmp(text, "{T}", 3) == 0) {
            str_append_text(&out, p->scratch);
            text += 2;
        } else if (strncmp(text, "{PORT}", 6) == 0) {
            str_append_format(&out, "%d", p->port);
            text += 5;
        } else {
            str_append_char(&out, *text);
        }
    }
    return str_detach(&out);
}

/* A NULL-terminated list that frees with its texts. */
struct text_list {
    char *items[256];
    size_t n;
};

static void push(struct text_list *list, char *text)
{
    if (text && list->n + 1 < sizeof list->items / sizeof *list->items)
        list->items[list->n++] = text;
    else
        free(text);
}

static void list_free(struct text_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
}

static void collect_args(struct conform_process *p, const char *binary, const char *models,
                         const json_t *scenario, struct text_list *args)
{
    const json_t *given = json_object_get(scenario, "args");
    push(args, slice_duplicate(slice_of(binary)));
    for (size_t i = 0; i < json_array_size(given); i++)
        push(args, fill_in(p, models, json_string_value(json_array_get(given, i))));
    if (json_is_true(json_object_get(scenario, "cli")))
        return;
    push(args, slice_duplicate(SLICE("--host")));
    push(args, slice_duplicate(SLICE("127.0.0.1")));
    push(args, slice_duplicate(SLICE("--port")));
    push(args, text_format("%d", p->port));
}

/* Our own environment without what would steer a server, then the scenario's. */
static void collect_env(struct conform_process *p, const char *models, const json_t *scenario,
                        struct text_list *env)
{
    static const char *const steering[] = {"LLAMA_", "HF_",   "HUGGING_FACE_",
                                           "MTMD_",  "GGML_", "MODEL_ENDPOINT"};
    for (char **entry = environ; *entry; entry++) {
        bool steers = false;
        for (size_t i = 0; i < sizeof steering / sizeof *steering; i++)
            steers = steers || strncmp(*entry, steering[i], strlen(steering[i])) == 0;
        if (!steers)
            push(env, slice_duplicate(slice_of(*entry)));
    }
    /* A command that goes on to serve must not take the port of another. */
    if (json_is_true(json_object_get(scenario, "cli")))
        push(env, text_format("LLAMA_ARG_PORT=%d", p->port));
    json_t *own = json_object_get(scenario, "env"), *value;
    const char *name;
    json_object_foreach(own, name, value)
    {
        char *filled = fill_in(p, models, json_string_value(value));
        push(env, filled ? text_format("%s=%s", name, filled) : NULL);
        free(filled);
    }
}

static int open_log(const struct conform_process *p, const char *which)
{
    char *path = text_format("%s/%s", p->folder, which);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    free(path);
    return fd;
}

bool conform_process_start(struct conform_process *p, const char *binary, const char *models,
                           const json_t *scenario, struct error *err)
{
    struct text_list args = {0}, env = {0};
    collect_args(p, binary, models, scenario, &args);
    collect_env(p, models, scenario, &env);
    int out = open_log(p, "out"), log = open_log(p, "err");
    int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    p->pid = fork();
    if (p->pid == 0) {
        dup2(none, 0);
        dup2(out, 1);
        dup2(log, 2);
        execve(binary, args.items, env.items);
        dprintf(2, "%s: %s\n", binary, strerror(errno));
        _exit(127);
    }
    if (out >= 0)
        close(out);
    if (log >= 0)
        close(log);
    if (none >= 0)
        close(none);
    list_free(&args);
    list_free(&env);
    if (p->pid > 0)
        return true;
    p->pid = 0;
    return error_set(err, ERR_IO, "cannot start %s: %s", binary, strerror(errno));
}

/* ---- Ending ----------------------------------------------------------- */

bool conform_process_is_running(struct conform_process *p)
{
    int status;
    if (p->pid == 0)
        return false;
    if (waitpid(p->pid, &status, WNOHANG) != p->pid)
        return true;
    p->pid = 0;
    p->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return false;
}

bool conform_process_wait(struct conform_process *p, int milliseconds)
{
    uint64_t end = clock_monotonic_us() + (uint64_t)milliseconds * 1000;
    while (conform_process_is_running(p)) {
        if (clock_monotonic_us() >= end)
            return false;
        clock_sleep_ms(5);
    }
    return true;
}

void conform_process_stop(struct conform_process *p)
{
    if (!conform_process_is_running(p))
        return;
    kill(p->pid, SIGTERM);
    if (conform_process_wait(p, 10000))
        return;
    kill(p->pid, SIGKILL);
    conform_process_wait(p, 10000);
}

bool conform_process_output(const struct conform_process *p, const char *which, size_t last,
                            struct str *out)
{
    char *path = text_format("%s/%s", p->folder, which);
    FILE *stream = path ? fopen(path, "rb") : NULL;
    free(path);
    if (!stream)
        return false;
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, stream)) > 0;) {
        str_append(out, chunk, n);
        if (out->len > last)
            str_drop_front(out, out->len - last);
    }
    fclose(stream);
    return !out->failed;
}
