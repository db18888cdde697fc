/* printable.h - text from anywhere, shown on one line.
 *
 * Names and texts in files and answers may hold line ends, which would forge lines of
 * a log, and control sequences, which a terminal obeys. Shown here are control
 * characters (C0 but the tab, DEL, C1), what ends lines or turns the direction of
 * writing in Unicode as \n, \r, \xNN or \uNNNN, and bytes that are not UTF-8 as U+FFFD;
 * all else stays as it is. Depends on: the C library. */
#ifndef MLXCEL_BASE_PRINTABLE_H
#define MLXCEL_BASE_PRINTABLE_H

#include "base/error.h"
#include "base/str.h"

#include <stdio.h>

/* Without allocating; for logs and messages. */
void printable_write(FILE *out, struct slice text);
bool printable_append(struct str *out, struct slice text);

/* "WHO: MESSAGE" and a line end, on standard error: what ends a program. */
void error_print(const char *who, const struct error *err);

#endif
