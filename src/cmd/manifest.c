/* manifest.c - mlxcel manifest: what is claimed, and whether it is true. */
#include "cmd/manifest.h"
#include "cmd/resources.h"

#include "base/printable.h"
#include "cmd/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: mlxcel manifest [check | --markdown [FILE]] [--root DIR] [--build DIR] "
    "[--server BINARY]\n\n"
    "Without an action: a summary of what is claimed about compatibility.\n"
    "  check            hold every claim against the tests and the server's own tables\n"
    "  --markdown FILE  write the claims as a document; docs/compatibility.md without FILE,\n"
    "                   to standard output with -\n"
    "  --root DIR       the project (default: this folder, else what comes with\n"
    "                   the program)\n"
    "  --build DIR      a configured build, for the names of the tests\n"
    "                   (default: the folder above this program's)\n"
    "  --server BINARY  the server to ask (default: mlxcel-server beside this program)\n";

struct settings {
    const char *root, *build, *server, *markdown;
    bool check, print_markdown;
    char program_folder[4096];
};

static int complain(const struct error *err)
{
    error_print("mlxcel manifest", err);
    return 1;
}

static bool read_arguments(int argc, char **argv, struct settings *s, struct error *err)
{
    for (int i = 1; i < argc; i++) {
        const char **value = !strcmp(argv[i], "--root")     ? &s->root
                             : !strcmp(argv[i], "--build")  ? &s->build
                             : !strcmp(argv[i], "--server") ? &s->server
                                                            : NULL;
        if (value) {
            if (i + 1 >= argc)
                return error_set(err, ERR_INVALID, "%s: a value is missing", argv[i]);
            *value = argv[++i];
        } else if (!strcmp(argv[i], "--markdown")) {
            s->print_markdown = true;
            if (i + 1 < argc && (argv[i + 1][0] != '-' || !argv[i + 1][1]))
                s->markdown = argv[++i];
        } else if (!strcmp(argv[i], "check")) {
            s->check = true;
        } else {
            return error_set(err, ERR_INVALID, "unknown option '%s'; --help lists all", argv[i]);
        }
    }
    return true;
}

/* The folder this program lies in; "." when the system does not tell. */
static void find_program(struct settings *s)
{
    ssize_t n = readlink("/proc/self/exe", s->program_folder, sizeof s->program_folder - 1);
    s->program_folder[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(s->program_folder, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(s->program_folder, sizeof s->program_folder, ".");
}

static bool read_all(int fd, struct str *out)
{
    char chunk[8192];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) > 0)
        str_append(out, chunk, (size_t)n);
    return n == 0 && !out->failed;
}

/* What the server says of itself. */
static json_t *ask_server(const char *binary, struct error *err)
{
    int ends[2];
    if (pipe(ends) != 0) {
        error_set(err, ERR_IO, "cannot make a pipe: %s", strerror(errno));
        return NULL;
    }
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(binary, binary, "--dump-surface", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    struct str text = {0};
    bool ok = pid > 0 && read_all(ends[0], &text);
    close(ends[0]);
    int status = 0;
    if (pid > 0)
        waitpid(pid, &status, 0);
    json_t *surface = NULL;
    if (!ok || status != 0)
        error_set(err, ERR_IO, "'%s --dump-surface' failed; name the server with --server", binary);
    else
        surface = json_parse(str_slice(&text), err);
    str_free(&text);
    return surface;
}

static int run_check(const struct settings *s, const struct manifest *m)
{
    struct error err;
    char build[4200], server[4200];
    snprintf(build, sizeof build, "%s/..", s->program_folder);
    snprintf(server, sizeof server, "%s/mlxcel-server", s->program_folder);
    json_t *tests = manifest_tests(s->build ? s->build : build, &err);
    json_t *surface = tests ? ask_server(s->server ? s->server : server, &err) : NULL;
    int exit_code = 1;
    if (!surface) {
        complain(&err);
    } else {
        struct str report = {0};
        size_t n = manifest_check(m, surface, tests, &report);
        fputs(str_text(&report), stdout);
        printf("%zu entries, %zu finding%s\n", json_array_size(m->entries), n, n == 1 ? "" : "s");
        exit_code = n != 0 || report.failed;
        str_free(&report);
    }
    json_decref(surface);
    json_decref(tests);
    return exit_code;
}

static int write_markdown(const struct settings *s, const struct manifest *m)
{
    struct error err;
    struct str text = {0};
    char path[4200];
    snprintf(path, sizeof path, "%s/docs/compatibility.md", s->root ? s->root : ".");
    const char *name = s->markdown ? s->markdown : path;
    bool ok = manifest_markdown(m, &text) || error_memory(&err);
    FILE *file = NULL;
    if (ok)
        file = strcmp(name, "-") ? fopen(name, "wb") : stdout;
    if (ok && !file)
        ok = error_set(&err, ERR_IO, "cannot write '%s': %s", name, strerror(errno));
    if (ok && (fwrite(text.data, 1, text.len, file) != text.len || fflush(file) != 0))
        ok = error_set(&err, ERR_IO, "cannot write '%s': %s", name, strerror(errno));
    if (file && file != stdout)
        fclose(file);
    str_free(&text);
    return ok ? 0 : complain(&err);
}

static int print_summary(const struct manifest *m)
{
    struct str text = {0};
    bool ok = manifest_summary(m, &text);
    fputs(str_text(&text), stdout);
    str_free(&text);
    return ok ? 0 : 1;
}

int cmd_manifest(int argc, char **argv)
{
    struct settings s = {0};
    struct manifest m = {0};
    struct error err;
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(usage, stdout);
        return 0;
    }
    find_program(&s);
    if (!read_arguments(argc, argv, &s, &err))
        return complain(&err);
    char folder[4200];
    char *found = s.root ? NULL : resource_find(MANIFEST_FOLDER);
    if (s.root || !found)
        snprintf(folder, sizeof folder, "%s/" MANIFEST_FOLDER, s.root ? s.root : ".");
    else
        snprintf(folder, sizeof folder, "%s", found);
    free(found);
    int exit_code = 1;
    if (!manifest_load(folder, &m, &err))
        complain(&err);
    else if (s.check)
        exit_code = run_check(&s, &m);
    else if (s.print_markdown)
        exit_code = write_markdown(&s, &m);
    else
        exit_code = print_summary(&m);
    manifest_free(&m);
    return exit_code;
}
