/* conform_process.h - a server in a scratch folder of its own. */
#ifndef MLXCEL_CMD_CONFORM_PROCESS_H
#define MLXCEL_CMD_CONFORM_PROCESS_H

#include "base/json.h"

#include <sys/types.h>

struct conform_process {
    char *folder;  /* scratch: {T} is folder/files; the logs lie beside it */
    char *scratch; /* folder/files */
    int port;
    pid_t pid;     /* 0: not running */
    int exit_code; /* once it has ended; 128 + the signal's number when killed */
};

/* Make the scratch folder with the scenario's files and choose a free port. */
bool conform_process_prepare(struct conform_process *p, const json_t *scenario, struct error *err);

/* Start binary with the scenario's args and env, where {M} is the models
 * folder, {T} the scratch folder, {PORT} the port. Unless it is a "cli"
 * scenario, --host and --port are added. */
bool conform_process_start(struct conform_process *p, const char *binary, const char *models,
                           const json_t *scenario, struct error *err);

/* True while it runs; else exit_code is set. */
bool conform_process_is_running(struct conform_process *p);
/* Wait at most so long for it to end; true when it has. */
bool conform_process_wait(struct conform_process *p, int milliseconds);
/* End it: SIGTERM, and SIGKILL when that does not help within 10 seconds. */
void conform_process_stop(struct conform_process *p);

/* What it wrote, the last bytes of it. which is "out" or "err". */
bool conform_process_output(const struct conform_process *p, const char *which, size_t last,
                            struct str *out);
/* Remove the scratch folder. */
void conform_process_free(struct conform_process *p);

#endif
