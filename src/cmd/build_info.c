/* build_info.c - the text of --version. MLXCEL_COMMIT comes from the build. */
#include "cmd/build_info.h"

#include "base/version.h"
#include "kernels/kernels.h"

#ifndef MLXCEL_COMMIT
#define MLXCEL_COMMIT "unknown"
#endif

#if defined(__x86_64__)
#define MACHINE    "Linux x86_64"
#define KNOWN_SETS "generic, avx2, avx512"
#elif defined(__aarch64__)
#define MACHINE    "Linux aarch64"
#define KNOWN_SETS "generic, neon"
#else
#define MACHINE    "an unnamed machine"
#define KNOWN_SETS "generic"
#endif

#if defined(__clang__)
#define COMPILER "clang"
#else
#define COMPILER "gcc"
#endif

bool build_info_append(struct str *out)
{
    return str_append_format(out,
                             "version: %s, commit %s (answers as llama-server %s)\n"
                             "built with %s %s for %s\n"
                             "instruction set: %s (of %s)\n",
                             MLXCEL_VERSION, MLXCEL_COMMIT, REFERENCE_RELEASE, COMPILER,
                             __VERSION__, MACHINE, kernels_isa(), KNOWN_SETS);
}
