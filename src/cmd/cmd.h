/* cmd.h - the subcommands of the program mlxcel.
 *
 * Each takes what follows its own name (argv[0] is the name) and returns the
 * exit code. Only these print and decide about exit codes. */
#ifndef MLXCEL_CMD_CMD_H
#define MLXCEL_CMD_CMD_H

int cmd_serve(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_conform(int argc, char **argv);
int cmd_manifest(int argc, char **argv);
int cmd_detokenize(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);

/* The names of all subcommands, with blanks between. */
const char *cmd_names(void);

#endif
