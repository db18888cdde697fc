/* log.c - levelled lines to standard error and a file. */
#include "base/log.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    struct log_settings settings;
    FILE *file;
    char *path; /* of the file; owned */
    uint64_t start_us;
} logger = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .settings = {.verbosity = LOG_INFO, .colors = LOG_COLORS_AUTO}};

static const struct {
    char letter;
    const char *color;
} level_looks[] = {
    [LOG_ALWAYS] = {' ', ""},        [LOG_ERROR] = {'E', "\x1b[31m"},
    [LOG_WARN] = {'W', "\x1b[35m"},  [LOG_INFO] = {'I', "\x1b[32m"},
    [LOG_DEBUG] = {'D', "\x1b[33m"}, [LOG_TRACE] = {'T', "\x1b[90m"},
};

static FILE *open_file(const char *path, struct error *err)
{
    FILE *file = fopen(path, "ae");
    if (!file)
        error_set(err, ERR_IO, "cannot open the log file '%s': %s", path, strerror(errno));
    return file;
}

/* Takes both over; those of before are closed and freed. */
static void take_file(FILE *file, char *path)
{
    if (logger.file)
        fclose(logger.file);
    if (logger.path != path)
        free(logger.path);
    logger.file = file;
    logger.path = path;
}

bool log_configure(const struct log_settings *settings, struct error *err)
{
    FILE *file = NULL;
    char *path = NULL;
    if (settings->file && settings->file[0]) {
        path = slice_duplicate(slice_of(settings->file));
        if (!path)
            return error_memory(err);
        file = open_file(path, err);
        if (!file) {
            free(path);
            return false;
        }
    }
    pthread_mutex_lock(&logger.lock);
    take_file(file, path);
    logger.settings = *settings;
    logger.settings.file = NULL;
    if (!logger.start_us)
        logger.start_us = clock_monotonic_us();
    pthread_mutex_unlock(&logger.lock);
    return true;
}

bool log_reopen(bool *has_file, struct error *err)
{
    bool ok = true;
    pthread_mutex_lock(&logger.lock);
    *has_file = logger.path != NULL;
    FILE *file = *has_file ? open_file(logger.path, err) : NULL;
    if (file)
        take_file(file, logger.path);
    ok = file || !*has_file;
    pthread_mutex_unlock(&logger.lock);
    return ok;
}

void log_close(void)
{
    pthread_mutex_lock(&logger.lock);
    take_file(NULL, NULL);
    pthread_mutex_unlock(&logger.lock);
}

bool log_enabled(enum log_level level)
{
    return !logger.settings.disabled && (int)level <= logger.settings.verbosity;
}

/* In one piece, so that whoever reads along never sees half a line. */
static void write_whole(FILE *out, struct str *line)
{
    if (!line->failed)
        fwrite(line->data, 1, line->len, out);
    str_free(line);
}

static void write_text(FILE *out, bool color, enum log_level level, const char *text)
{
    const struct log_settings *s = &logger.settings;
    struct str line = {0};
    if (color) /* whatever bar stands on the terminal's line makes room */
        str_append_format(&line, "%s%s", isatty(fileno(out)) ? "\r\x1b[K" : "",
                          level_looks[level].color);
    if (s->timestamps) {
        uint64_t us = clock_monotonic_us() - logger.start_us;
        str_append_format(&line, "%" PRIu64 ".%02d.%03d.%03d ", us / 60000000,
                          (int)(us / 1000000 % 60), (int)(us / 1000 % 1000), (int)(us % 1000));
    }
    if (s->prefix)
        str_append_format(&line, "%c ", level_looks[level].letter);
    printable_append(&line, slice_of(text));
    str_append_text(&line, color ? "\x1b[0m\n" : "\n");
    if (line.failed) { /* no memory, no decoration */
        printable_write(out, slice_of(text));
        fputc('\n', out);
    }
    write_whole(out, &line);
}

static void write_json(FILE *out, enum log_level level, const char *message, const char *members)
{
    static const char *const names[] = {"output", "error", "warning", "info", "debug", "trace"};
    struct timespec now;
    struct str line = {0};
    json_t *value = json_string_from(slice_of(message));
    clock_gettime(CLOCK_REALTIME, &now);
    str_append_format(&line, "{\"time_ms\":%" PRId64 ",\"level\":\"%s\",\"message\":",
                      (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, names[level]);
    json_append(&line, value);
    str_append_format(&line, "%s}\n", members);
    json_decref(value);
    write_whole(out, &line);
}

static void write_line(FILE *out, bool color, enum log_level level, const char *message,
                       const char *text, const char *members)
{
    if (logger.settings.json)
        write_json(out, level, message, members);
    else
        write_text(out, color, level, text);
    fflush(out);
}

void log_event(enum log_level level, const char *message, const char *text, const char *members)
{
    if (!log_enabled(level))
        return;
    pthread_mutex_lock(&logger.lock);
    bool color = logger.settings.colors == LOG_COLORS_ON ||
                 (logger.settings.colors == LOG_COLORS_AUTO && isatty(STDERR_FILENO));
    write_line(stderr, color, level, message, text, members);
    if (logger.file)
        write_line(logger.file, false, level, message, text, members);
    pthread_mutex_unlock(&logger.lock);
}

void log_line(enum log_level level, const char *format, ...)
{
    if (!log_enabled(level))
        return;
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_event(level, text, text, "");
}
