/* unit.h - what every unit test includes. */
#ifndef MLXCEL_TESTS_UNIT_H
#define MLXCEL_TESTS_UNIT_H

/* cmocka wants these first, in this order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/**/
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* The folder of reference data, or NULL. A test that needs it and does not
 * find it says so and is skipped; in CI that is a failure. */
static inline const char *shared_folder(void)
{
    const char *folder = getenv("MLXCEL_SHARED");
    struct stat info;
    if (folder && stat(folder, &info) == 0 && S_ISDIR(info.st_mode))
        return folder;
    return NULL;
}

/* First line of a test that reads the reference data. */
#define REQUIRE_SHARED(folder)                                                                     \
    const char *folder = shared_folder();                                                          \
    if (!folder) {                                                                                 \
        fprintf(stderr,                                                                            \
                "SKIPPED %s: the reference data (../shared or $MLXCEL_SHARED) is absent\n",        \
                __func__);                                                                         \
        if (getenv("CI"))                                                                          \
            fail_msg("in CI the reference data must be there");                                    \
        skip();                                                                                    \
    }

#endif
