/* preset.h - the INI parser behind presets. Private to the room. */
#ifndef MLXCEL_OPTIONS_PRESET_H
#define MLXCEL_OPTIONS_PRESET_H

#include "base/error.h"
#include "base/slice.h"

struct option_parser;

/* Called for each setting; section is empty before the first header. Returning
 * false ends the parse with *err. */
typedef bool preset_setting(void *arg, size_t line, struct slice section, struct slice key,
                            struct slice value, struct error *err);

/* name appears in messages. Any bytes may stand in text. */
bool preset_parse(struct slice text, const char *name, preset_setting *setting, void *arg,
                  struct error *err);

/* One setting into the table; source names it in messages. */
bool preset_apply(struct option_parser *p, const char *source, const char *key, const char *value,
                  struct error *err);

#endif
