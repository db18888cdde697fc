/* progress.c - a bar on a terminal, a line now and then elsewhere. What is quick shows
 * nothing. */
#include "cmd/progress.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <unistd.h>

enum { WIDTH = 40, FIRST_US = 500000, BAR_US = 100000, LINE_US = 5000000 };

void progress_begin(struct progress *p, bool quiet)
{
    uint64_t now = clock_monotonic_us();
    *p = (struct progress){!quiet && isatty(STDERR_FILENO), now, 0};
}

void progress_show(struct progress *p, int permille)
{
    uint64_t now = clock_monotonic_us();
    if (now - p->t_begin_us < FIRST_US)
        return;
    if (!p->bar) {
        uint64_t since = p->t_shown_us ? p->t_shown_us : p->t_begin_us;
        if (now - since < LINE_US)
            return;
        p->t_shown_us = now;
        log_info("loading the model: %d%% (Ctrl-C stops)", permille / 10);
    } else if (now - p->t_shown_us >= BAR_US) {
        int filled = permille * WIDTH / 1000;
        p->t_shown_us = now;
        fprintf(stderr, "\rloading the model [%.*s%*s] %3d%%, Ctrl-C stops\x1b[K", filled,
                "########################################", WIDTH - filled, "", permille / 10);
        fflush(stderr);
    }
}

void progress_end(struct progress *p)
{
    if (p->bar && p->t_shown_us)
        fputs("\r\x1b[K", stderr);
}
