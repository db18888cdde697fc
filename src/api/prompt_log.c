/* prompt_log.c - --log-prompts-dir: every prompt as a file, for debugging. The
 * only place that a prompt is written to without a slot file being asked for. */
#include "api/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TRIES = 1000 };

bool prompt_log_open(const struct options *options, struct error *err)
{
    const char *folder = options->logging.prompts_dir;
    if (!folder)
        return true;
    /* Each missing folder on the way, private to the operator. */
    char *path = slice_duplicate(slice_of(folder));
    if (!path)
        return error_memory(err);
    bool ok = true;
    for (char *c = path + 1; ok && *path; c++) {
        char ended = *c;
        if (ended != '/' && ended != '\0')
            continue;
        *c = '\0';
        ok = mkdir(path, 0700) == 0 || errno == EEXIST ||
             error_set(err, ERR_IO, "--log-prompts-dir: cannot create '%s': %s", path,
                       strerror(errno));
        if (ended == '\0')
            break;
        *c = ended;
    }
    struct stat info;
    if (ok && (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode)))
        ok = error_set(err, ERR_IO, "--log-prompts-dir: '%s' is not a folder", folder);
    free(path);
    return ok;
}

/* A new file named after the moment; requests of the same one get a number. */
static int create_file(const char *folder, char *path, size_t size)
{
    long long ms = (long long)(clock_monotonic_us() / 1000);
    for (int i = 0; i < MAX_TRIES; i++) {
        if (i == 0)
            snprintf(path, size, "%s/%012lld.txt", folder, ms);
        else
            snprintf(path, size, "%s/%012lld-%d.txt", folder, ms, i);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

void prompt_log_write(const struct api *api, const json_t *prompt)
{
    const char *folder = api->options->logging.prompts_dir;
    if (!folder)
        return;
    char *dumped = json_is_string(prompt) ? NULL : json_dumps(prompt, JSON_INDENT(2));
    struct slice text = dumped ? slice_of(dumped) : json_slice(prompt);
    char path[4200] = "";
    int fd = create_file(folder, path, sizeof path);
    bool ok = fd >= 0;
    while (ok && text.len) {
        ssize_t n = write(fd, text.data, text.len);
        ok = n > 0 || (n < 0 && errno == EINTR);
        text = slice_from(text, n > 0 ? (size_t)n : 0);
    }
    if (!ok)
        log_warn("cannot write a prompt to '%s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(dumped);
}
