/* commands.c - the table of mlxcel's subcommands. */
#include "cmd/commands.h"

#include "cmd/cmd.h"

#include <stdio.h>
#include <string.h>

static const struct command commands[] = {
#ifdef MLXCEL_SERVE
    {"serve", "serve a model over HTTP; takes the options of mlxcel-server", cmd_serve},
#endif
    {"bench", "how fast a model reads prompts and writes text", cmd_bench},
    {"conform", "replay recorded requests against a server and compare the answers", cmd_conform},
    {"manifest", "what is claimed about compatibility, and whether it is true", cmd_manifest},
    {"tokenize", "print the token ids of a text", cmd_tokenize},
    {"detokenize", "print the text of token ids", cmd_detokenize},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

void commands_print(FILE *stream)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(stream, "  %-12s %s\n", commands[i].name, commands[i].summary);
}

const char *cmd_names(void)
{
    static char names[N_COMMANDS * 32];
    size_t used = 0;
    for (size_t i = 0; i < N_COMMANDS; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? " " : "",
                                 commands[i].name);
    return names;
}
