/* main_mlxcel.c - the program mlxcel: a table of subcommands. */
#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"conform", "replay recorded requests against a server and compare the answers", cmd_conform},
    {"manifest", "what is claimed about compatibility, and whether it is true", cmd_manifest},
    {"tokenize", "print the token ids of a text", cmd_tokenize},
    {"detokenize", "print the text of token ids", cmd_detokenize},
};

static void print_usage(FILE *stream)
{
    fprintf(stream, "usage: mlxcel COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(stream, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(stream, "\nmlxcel COMMAND --help says more about each.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 1;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
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
