/* main_server.c - mlxcel-server: the server under the name scripts know. */
#include "cmd/serve.h"

int main(int argc, char **argv)
{
    return serve_main("mlxcel-server", argc, argv);
}
