/* serve.h - the serving command, which both programs share. */
#ifndef MLXCEL_CMD_SERVE_H
#define MLXCEL_CMD_SERVE_H

#include "base/error.h"
#include "engine/engine.h"
#include "options/options.h"

/* Serve until a signal says stop, or do what --help and its kind ask.
 *   program  the name to print in messages ("mlxcel-server", "mlxcel serve")
 *   argv     options begin at argv[1]
 * Returns the exit code: 0 after a clean stop, 1 when something was wrong. */
int serve_main(const char *program, int argc, char **argv);

/* Translate options into the engine's settings; what they point to lives in
 * the options. */
bool serve_engine_settings(struct options *options, struct engine_settings *out, struct error *err);

#endif
