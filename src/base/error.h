/* error.h - errors as values.
 *
 * A function that can fail returns false or NULL and fills a struct error.
 * The message says what is wrong, where, and what the user can do; whoever
 * passes it on may put context in front, nobody below cmd prints it. */
#ifndef MLXCEL_BASE_ERROR_H
#define MLXCEL_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

enum error_code {
    ERR_NONE = 0,
    ERR_MEMORY,      /* an allocation failed */
    ERR_IO,          /* the operating system refused; the message has strerror */
    ERR_NOT_FOUND,   /* a file, tensor, key or id that is not there */
    ERR_FORMAT,      /* a file or text that is not what it should be */
    ERR_INVALID,     /* an argument or request field that makes no sense */
    ERR_UNSUPPORTED, /* understood, but not something this program does */
    ERR_LIMIT,       /* larger, deeper or longer than a stated limit */
    ERR_CANCELLED,   /* the caller asked to stop */
    ERR_STATE,       /* right request, wrong moment (busy, loading, stopping) */
    ERR_INTERNAL     /* a bug of ours */
};

enum { ERROR_MESSAGE_MAX = 1024 };

struct error {
    enum error_code code;
    char message[ERROR_MESSAGE_MAX];
};

/* Fill *err (which may be NULL) and return false, so that a caller can write
 * "return error_set(...)". A message too long is cut at a UTF-8 boundary. */
#define error_set(...) (error_fill(__VA_ARGS__), error_false())
void error_fill(struct error *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with a va_list. */
bool error_set_va(struct error *err, enum error_code code, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Put context in front of the message: "context: message". Returns false. */
#define error_prefix(...) (error_prepend(__VA_ARGS__), error_false())
void error_prepend(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Out of memory, said the same way everywhere. Returns false. */
#define error_memory(err) error_set((err), ERR_MEMORY, "out of memory")

/* Macros and this, so that the compiler sees the false and knows that nobody
 * reads what a function that failed did not fill in. */
static inline bool error_false(void)
{
    return false;
}

#endif
