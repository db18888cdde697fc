/* resources.c - finding files that come with the program. */
#include "cmd/resources.h"

#include "base/slice.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *existing(char *path)
{
    if (path && access(path, R_OK) == 0)
        return path;
    free(path);
    return NULL;
}

char *resource_find(const char *relative)
{
    /* From the folder of the program: an installation, then build/NAME/bin. */
    static const char *const places[] = {"../share/mlxcel", "../../.."};
    char program[4096];
    char *found = existing(slice_duplicate(slice_of(relative)));
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = NULL;
    if (n > 0) {
        program[n] = '\0';
        slash = strrchr(program, '/');
    }
    for (size_t i = 0; !found && slash && i < sizeof places / sizeof *places; i++)
        found = existing(
            text_format("%.*s/%s/%s", (int)(slash - program), program, places[i], relative));
    return found;
}
