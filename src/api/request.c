/* request.c - whether anybody still waits for a request, and what it may cost. */
#include "api/internal.h"

/* Its answer is kept, and read over other connections: it outlives its own. */
static bool is_resumable(const struct http_exchange *x)
{
    return http_header(x, "X-Conversation-Id").len > 0;
}

static bool is_stopping(void *exchange)
{
    return http_is_stopping(exchange);
}

bool request_is_unwanted(struct http_exchange *x)
{
    return is_resumable(x) ? is_stopping(x) : http_is_unwanted(x);
}

void request_end_unwanted(struct http_exchange *x)
{
    if (http_client_gone(x))
        http_abandon(x);
    else
        reply_failure(x, FAIL_UNAVAILABLE, "the server is shutting down");
}

struct budget request_budget(struct http_exchange *x, const json_t *body)
{
    bool outlives = is_resumable(x) && json_is_true(json_object_get(body, "stream"));
    return (struct budget){.steps = BUDGET_REQUEST_STEPS,
                           .bytes = BUDGET_REQUEST_BYTES,
                           .stopped = outlives ? is_stopping : http_is_unwanted,
                           .arg = x};
}
