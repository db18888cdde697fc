/* main_mlxcel.c - the program mlxcel: a table of subcommands. */
#include "cmd/build_info.h"
#include "cmd/commands.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void print_usage(FILE *stream)
{
    fprintf(stream, "usage: mlxcel COMMAND [OPTIONS]\n\n");
    commands_print(stream);
    fprintf(stream, "\nmlxcel help COMMAND says more about each.\n");
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
    bool is_help = strcmp(argv[1], "help") == 0;
    if (is_help && argc > 2 && (command = command_find(argv[2]))) {
        char *words[] = {argv[2], (char *)(uintptr_t) "--help", NULL};
        return command->run(2, words);
    }
    if ((is_help && argc == 2) || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        struct str text = {0};
        bool ok = build_info_append(&text);
        printf("mlxcel %s", str_text(&text));
        str_free(&text);
        return !ok;
    }
    fprintf(stderr, "mlxcel: unknown command '%s'\n\n", is_help ? argv[2] : argv[1]);
    print_usage(stderr);
    return 1;
}
