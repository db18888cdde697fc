/* conform_scenario.h - running one recorded scenario. */
#ifndef MLXCEL_CMD_CONFORM_SCENARIO_H
#define MLXCEL_CMD_CONFORM_SCENARIO_H

#include "base/json.h"

#include <stdbool.h>

struct conform_settings {
    const char *server; /* the program to start; NULL when url is given */
    const char *url;    /* a server that runs already */
    const char *models; /* {M} */
    /* {"SCENARIO" | "SCENARIO/STEP": reason}: what must differ still. */
    const json_t *pending;
    /* [{"scenario", "step", "reason", "response": {...}}]: what is answered
     * otherwise on purpose; members of response replace the recording's. */
    const json_t *by_design;
    bool record; /* note the answers instead of comparing them */
};

enum conform_outcome {
    CONFORM_PASSED,
    CONFORM_FAILED,
    CONFORM_PENDING, /* differs, as the list of pending ones says */
    CONFORM_SKIPPED  /* cannot be run this way (it wants to start a server) */
};

struct conform_result {
    enum conform_outcome outcome;
    size_t n_differences; /* those that count */
    size_t n_pending;     /* those that are listed */
    double seconds;
    struct str report; /* readable; the caller frees */
    json_t *recorded;  /* when recording: the scenario with its answers; owned */
};

/* Run the scenario. numerics: its recording wants the rules for
 * log-probabilities. Any thread. */
void conform_run(const struct conform_settings *settings, const json_t *scenario, bool numerics,
                 struct conform_result *result);

#endif
