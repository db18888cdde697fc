/* cmocka.h - as much of cmocka as the kernels' tests use.
 *
 * There is no cmocka for a processor that is only emulated here; with this
 * header the same tests are compiled for it. The first failure ends the
 * program. */
#ifndef MLXCEL_TESTS_SMALL_CMOCKA_H
#define MLXCEL_TESTS_SMALL_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test(f)                                                                        \
    {                                                                                              \
#f, f                                                                                      \
    }

#define fail_msg(...)                                                                              \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        exit(1);                                                                                   \
    } while (0)

#define assert_true(c)                                                                             \
    do {                                                                                           \
        if (!(c))                                                                                  \
            fail_msg("does not hold: %s", #c);                                                     \
    } while (0)
#define assert_false(c)              assert_true(!(c))
#define assert_null(p)               assert_true((p) == NULL)
#define assert_non_null(p)           assert_true((p) != NULL)
#define assert_int_equal(a, b)       assert_true((a) == (b))
#define assert_memory_equal(a, b, n) assert_true(memcmp((a), (b), (n)) == 0)

static inline int run_each(const struct CMUnitTest *tests, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *state = NULL;
        tests[i].run(&state);
        fprintf(stderr, "ok %s\n", tests[i].name);
    }
    return n == 0;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    ((void)(setup), (void)(teardown), run_each((tests), sizeof(tests) / sizeof *(tests)))

#endif
