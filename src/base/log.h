/* log.h - what the process tells its operator.
 *
 * Lines go to standard error, and to a file where one was opened. Any thread
 * may log. Nothing a user sends (prompts, keys) is logged below LOG_TRACE. */
#ifndef MLXCEL_BASE_LOG_H
#define MLXCEL_BASE_LOG_H

#include "base/error.h"

#include <stdbool.h>

/* The verbosity at which a line shows; the numbers are the user's. */
enum log_level {
    LOG_ALWAYS = 0, /* what the program was asked to print */
    LOG_ERROR = 1,
    LOG_WARN = 2,
    LOG_INFO = 3,
    LOG_DEBUG = 4,
    LOG_TRACE = 5
};

enum log_colors { LOG_COLORS_AUTO = -1, LOG_COLORS_OFF, LOG_COLORS_ON };

struct log_settings {
    int verbosity;          /* lines above it are dropped; LOG_INFO by default */
    enum log_colors colors; /* AUTO: on a terminal */
    bool prefix;            /* "I name: " before each line */
    bool timestamps;        /* minutes.seconds.ms.us since start */
    const char *file;       /* NULL: none; appended to */
    bool disabled;
    bool json; /* each line an object: {"time_ms", "level", "message", ...} */
};

/* Set up once, before other threads start. Fails when the file cannot be
 * opened. */
bool log_configure(const struct log_settings *settings, struct error *err);
/* Open the file at its path anew, after somebody renamed or removed it. Any thread.
 * *has_file tells whether there is one. When that fails the old one stays open. */
bool log_reopen(bool *has_file, struct error *err);
void log_close(void);
bool log_enabled(enum log_level level);
/* One line, whatever the text holds: control characters are shown, see printable.h. */
/* The same as a line of text, or where lines are JSON as an object with this message and
 * these members (",\"name\":value,..." or ""). */
void log_event(enum log_level level, const char *message, const char *text, const char *members);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_trace(...) log_line(LOG_TRACE, __VA_ARGS__)

#endif
