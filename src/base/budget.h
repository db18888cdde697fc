/* budget.h - limits on the work that one request may cause.
 *
 * A request of a few hundred bytes can ask for exponential work: a schema
 * whose references double at every level, a template with nested loops.
 * Code that works on what a client or a file gave takes a step for every
 * piece of it that it looks at, and bytes for what it keeps. A step is a few
 * to some hundred nanoseconds of one core.
 *
 * A budget belongs to one thread at a time. Wherever a function takes a
 * struct budget *, NULL means no limit, for tools and tests. */
#ifndef MLXCEL_BASE_BUDGET_H
#define MLXCEL_BASE_BUDGET_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* What one request may cause: steps of about a second or two in all, and
 * memory that a server has to spare for each of its workers. */
#define BUDGET_REQUEST_STEPS UINT64_C(200000000)
#define BUDGET_REQUEST_BYTES (UINT64_C(512) << 20)

struct budget {
    uint64_t steps;             /* left */
    uint64_t bytes;             /* left */
    bool (*stopped)(void *arg); /* asked every few thousand steps: is the client gone, or
                                   the server stopping? NULL: never */
    void *arg;
    uint32_t until_asked; /* private; 0 at first */
};

/* Take n steps. False with *err when they are used up (ERR_LIMIT, then and
 * ever after) or stopped() said so (ERR_CANCELLED). */
bool budget_step(struct budget *b, uint64_t n, struct error *err);
/* Take n bytes. False with *err (ERR_LIMIT, then and ever after) when they are
 * used up. */
bool budget_bytes(struct budget *b, uint64_t n, struct error *err);
/* Give back bytes that are free again, of work that succeeded: after a failure
 * they stay used up. */
void budget_return(struct budget *b, uint64_t n);

#endif
