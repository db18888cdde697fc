/* actions.h - what a server command line may ask for besides serving, and
 * finding the model it names. */
#ifndef MLXCEL_CMD_ACTIONS_H
#define MLXCEL_CMD_ACTIONS_H

#include "base/error.h"
#include "options/options.h"

/* Do what options->action asks (--help, --version, ...); returns the exit code. */
int run_action(const char *program, const struct options *options);

/* Make options->model.path the path of a model on this machine, whatever way
 * the operator named it. */
bool resolve_model(struct options *options, struct error *err);

#endif
