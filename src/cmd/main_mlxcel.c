/* main_mlxcel.c - the program mlxcel: a table of subcommands. */
#include "cmd/commands.h"

#include <stdio.h>
#include <string.h>

static void print_usage(FILE *stream)
{
    fprintf(stream, "usage: mlxcel COMMAND [OPTIONS]\n\n");
    commands_print(stream);
    fprintf(stream, "\nmlxcel COMMAND --help says more about each.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 1;
    }
    const struct command *command = command_find(argv[1]);
    if (command)
        return command->run(argc - 1, argv + 1);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("mlxcel %s\n", MLXCEL_VERSION);
        return 0;
    }
    fprintf(stderr, "mlxcel: there is no command '%s'\n\n", argv[1]);
    print_usage(stderr);
    return 1;
}
