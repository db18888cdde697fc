/* signals.h - what signals do to a running server. Private to the room. */
#ifndef MLXCEL_CMD_SIGNALS_H
#define MLXCEL_CMD_SIGNALS_H

#include <stdbool.h>

/* Signals that must not end or stop a server are ignored from here on; as early as
 * possible. */
void signals_ignore(void);
/* The others that it answers wait to be taken, instead of doing what they do by
 * themselves. Before any thread starts, so that all inherit this. */
void signals_hold(void);
/* Take signals until one says that the server is to stop: true. The rest are
 * answered: SIGHUP opens the log file anew. timeout_ms < 0 waits for as long as it
 * takes; false when the time is over. On the main thread. */
bool signals_wait_stop(int timeout_ms);
/* From now on a signal to stop ends the process at once. */
void signals_let_kill(void);

#endif
