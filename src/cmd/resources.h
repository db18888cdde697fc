/* resources.h - files that come with the program. */
#ifndef MLXCEL_CMD_RESOURCES_H
#define MLXCEL_CMD_RESOURCES_H

/* Where a file or folder of the project is ("compat/llama-server/..."): in the working
 * folder, in the checkout that the program was built in, or beside an installed program in
 * ../share/mlxcel. The caller frees. NULL: nowhere. */
char *resource_find(const char *relative);

#endif
