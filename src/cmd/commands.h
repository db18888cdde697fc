/* commands.h - the table of mlxcel's subcommands. */
#ifndef MLXCEL_CMD_COMMANDS_H
#define MLXCEL_CMD_COMMANDS_H

#include <stdio.h>

struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

/* NULL when there is none of that name. */
const struct command *command_find(const char *name);
/* A line for each. */
void commands_print(FILE *stream);

#endif
