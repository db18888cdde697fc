/* fuzz_preset.c - any bytes at all as an INI file of options, each setting
 * applied to the table. */
#include "options/preset.h"
#include "options/table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool apply(void *arg, size_t line, struct slice section, struct slice key,
                  struct slice value, struct error *err)
{
    (void)line, (void)section;
    char *name = slice_duplicate(key), *text = slice_duplicate(value);
    struct error refused = {0};
    if (name && text && !preset_apply(arg, "fuzz.ini", name, text, &refused) && !refused.message[0])
        abort(); /* a refusal says why */
    free(name);
    free(text);
    (void)err;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct options options, defaults;
    struct error err = {0};
    bool *given = calloc(option_count(), sizeof *given);
    bool *warned = calloc(option_count(), sizeof *warned);
    struct option_parser parser = {
        .options = &options, .defaults = &defaults, .given = given, .warned = warned};
    if (options_default(&options, &err) && options_default(&defaults, &err) &&
        !preset_parse((struct slice){(const char *)data, size}, "fuzz.ini", apply, &parser, &err) &&
        !err.message[0])
        abort();
    options_free(&options);
    options_free(&defaults);
    free(given);
    free(warned);
    return 0;
}
