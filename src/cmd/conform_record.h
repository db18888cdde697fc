/* conform_record.h - what differs from run to run is not recorded. */
#ifndef MLXCEL_CMD_CONFORM_RECORD_H
#define MLXCEL_CMD_CONFORM_RECORD_H

#include "base/json.h"

/* Replace values that vary (times, ids, paths, names of builds) by {"$any":
 * TYPE}, in place, except under the keys that the request says to keep. */
void conform_forget_varying(json_t *response, const json_t *keep);

#endif
