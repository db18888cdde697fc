/* progress.h - what is shown while the model loads. */
#ifndef MLXCEL_CMD_PROGRESS_H
#define MLXCEL_CMD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool bar; /* on a terminal; else a line in the log every few seconds */
    uint64_t t_begin_us, t_shown_us;
};

/* quiet: show nothing (the log is off or below information). */
void progress_begin(struct progress *p, bool quiet);
/* permille: of the whole. Shows what is due. */
void progress_show(struct progress *p, int permille);
/* Take the bar away. */
void progress_end(struct progress *p);

#endif
