/* budget.c - counting the work that one request causes. */
#include "base/budget.h"

/* Steps between two questions to stopped(): some microseconds to a millisecond
 * of work, so that asking costs nothing and the answer is soon enough. */
enum { STEPS_PER_QUESTION = 4096 };

static bool still_wanted(struct budget *b, uint64_t n, struct error *err)
{
    if (n < b->until_asked) {
        b->until_asked -= (uint32_t)n;
        return true;
    }
    b->until_asked = 0; /* whoever goes on after a stop is told again */
    if (b->stopped(b->arg))
        return error_set(err, ERR_CANCELLED, "the client is gone or the server is stopping");
    b->until_asked = STEPS_PER_QUESTION;
    return true;
}

bool budget_step(struct budget *b, uint64_t n, struct error *err)
{
    if (!b)
        return true;
    if (n > b->steps) {
        b->steps = 0;
        return error_set(err, ERR_LIMIT,
                         "this needs more steps of work than one request may cause; make the "
                         "schema, grammar, pattern or template simpler");
    }
    b->steps -= n;
    return !b->stopped || still_wanted(b, n, err);
}

bool budget_bytes(struct budget *b, uint64_t n, struct error *err)
{
    if (!b)
        return true;
    if (n > b->bytes) {
        b->bytes = 0;
        return error_set(err, ERR_LIMIT,
                         "this needs more memory than one request may take; make the schema, "
                         "grammar, pattern or template smaller");
    }
    b->bytes -= n;
    return true;
}

void budget_return(struct budget *b, uint64_t n)
{
    if (b)
        b->bytes += n;
}
