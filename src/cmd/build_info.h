/* build_info.h - what was built, from what, by what. */
#ifndef MLXCEL_CMD_BUILD_INFO_H
#define MLXCEL_CMD_BUILD_INFO_H

#include "base/str.h"

/* Append what --version prints: version and commit, compiler, machine and the instruction
 * sets that are used and known. False when out of memory. */
bool build_info_append(struct str *out);

#endif
