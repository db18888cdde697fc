/* custom_gpu.c - options about GPUs, as a build without one takes them: values are checked,
 * and one warning says that they have no effect. */
#include "options/table.h"

#include <math.h>
#include <stdlib.h>

/* Remember that this one was given, for the warning. */
static bool note_given(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct str all = {0};
    const char *before = p->no_effect;
    str_append_format(&all, "%s%s%s %s", before ? before : "", before ? ", " : "", use->source,
                      use->value);
    p->no_effect = all.failed ? NULL : options_text(p->options, str_slice(&all));
    str_free(&all);
    return p->no_effect || error_memory(err);
}

bool apply_gpu_layers(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int64_t n = 0;
    if (text_is_auto(use->value))
        return true;
    if (strcmp(use->value, "all") != 0 && !read_int(use, INT32_MIN, INT32_MAX, &n, err))
        return bad_value(use, err, "a number of layers, auto or all");
    bool none = n == 0 && strcmp(use->value, "all") != 0;
    return none || note_given(p, use, err);
}

bool apply_split_mode(struct option_parser *p, const struct option_use *use, struct error *err)
{
    static const char *const modes[] = {"none", "layer", "row", "tensor"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(use->value, modes[i]))
            return i < 2 || note_given(p, use, err);
    return bad_value(use, err, "none, layer, row or tensor");
}

bool apply_tensor_split(struct option_parser *p, const struct option_use *use, struct error *err)
{
    size_t n = 0;
    for (const char *part = use->value;; part++) {
        char *end;
        double share = strtod(part, &end);
        if (end == part || !isfinite(share) || share < 0 || !strchr(",/", *end))
            return bad_value(use, err, "shares of GPUs, e.g. 3,1");
        n++;
        if (!*end)
            break;
        part = end;
    }
    return n < 2 || note_given(p, use, err);
}

bool apply_main_gpu(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int64_t n;
    return read_int(use, INT32_MIN, INT32_MAX, &n, err) && (n == 0 || note_given(p, use, err));
}

bool warn_of_no_effect(struct option_parser *p)
{
    return !p->no_effect ||
           option_warn(p, "%s: no effect, mlxcel runs on the CPU only", p->no_effect);
}
