/* helpers.h - an engine on a small synthetic model, and its answers. */
#ifndef MLXCEL_TESTS_UNIT_ENGINE_HELPERS_H
#define MLXCEL_TESTS_UNIT_ENGINE_HELPERS_H

#include "unit/unit.h"

#include "engine/engine.h"

enum { TEST_N_CTX = 256, TEST_N_SLOTS = 4 };

/* A model file that lives as long as the test program. */
const char *test_model_path(void);

/* Settings for test_model_path: TEST_N_SLOTS slots of TEST_N_CTX tokens. */
struct engine_settings test_settings(void);
struct engine *test_engine_start(const struct engine_settings *settings);
/* For a group of tests: *state is an engine with these settings. */
int test_start(void **state);
int test_stop(void **state);

/* A greedy request with the prompt first, first + 1, ... of n_prompt tokens. */
struct engine_request *test_request(int32_t first, int32_t n_prompt, int32_t n_predict);

/* The last event of the request with that index; earlier ones are freed. Fails
 * the test when none comes within 30 s. */
struct engine_event *test_wait(struct engine_mailbox *mailbox);

/* Submit and wait for the end. */
struct engine_event *test_run(struct engine *engine, struct engine_request *request);

#endif
