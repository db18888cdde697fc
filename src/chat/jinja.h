/* jinja.h - the template language: parse once, render often.
 *
 * Private to the room. Syntax and meaning are Jinja2's (with trim_blocks,
 * lstrip_blocks, loop controls and the extras that Hugging Face's chat
 * templates use); where chat servers agree on something more lenient
 * (undefined + "text", "for k, v in mapping"), so are we.
 *
 * A parsed template is immutable and may be rendered by several threads at
 * once; a run belongs to one thread. */
#ifndef MLXCEL_CHAT_JINJA_H
#define MLXCEL_CHAT_JINJA_H

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct jinja_template;
struct jinja_run;
struct jinja_value;

/* A template nests no deeper, source is no longer. */
enum { JINJA_PARSE_DEPTH = 200, JINJA_SOURCE_MAX = 4 << 20 };

/* What one rendering may use; 0 takes the default. */
struct jinja_limits {
    uint64_t steps;   /* nodes evaluated; 20 million */
    size_t memory;    /* bytes, values and output together; 512 MiB */
    uint32_t depth;   /* nested evaluations; 1000 */
    uint32_t time_ms; /* 10000 */
};

/* Parse source (copied). The error says the line. */
bool jinja_parse(struct slice source, struct jinja_template **out, struct error *err);
void jinja_template_free(struct jinja_template *t);
struct slice jinja_source(const struct jinja_template *t);

/* A run: variables, their memory, the clock. now: seconds since 1970.
 * watch: note which values the template looks at (for probing).
 * budget: taken from besides the limits, for runs that share one; it must outlive
 * the run, and may be NULL. Its bytes come back when the run is freed. */
struct jinja_run *jinja_run_create(const struct jinja_template *t, int64_t now, bool watch,
                                   const struct jinja_limits *limits, struct budget *budget);
void jinja_run_free(struct jinja_run *run);

/* Values live as long as the run. NULL when its memory is spent. marked: this
 * text came from a user. The run keeps a reference to json, whose texts the values
 * show; nobody may change it before the run is freed. */
struct jinja_value *jinja_from_json(struct jinja_run *run, const json_t *json, bool marked);
struct jinja_value *jinja_bool(struct jinja_run *run, bool value);
struct jinja_value *jinja_text(struct jinja_run *run, struct slice text, bool marked);
/* An empty list, and adding to it. */
struct jinja_value *jinja_list(struct jinja_run *run);
bool jinja_list_add(struct jinja_run *run, struct jinja_value *list, struct jinja_value *item);
bool jinja_set(struct jinja_run *run, const char *name, struct jinja_value *value);

/* A run of output bytes that came from marked values. */
struct jinja_span {
    size_t begin, end;
};

struct jinja_output {
    struct str text;
    struct jinja_span *spans; /* ascending; owned */
    size_t n_spans;
};

void jinja_output_free(struct jinja_output *out);

/* Render once. out starts zeroed. ERR_INVALID for a fault of the template or its
 * limits, ERR_LIMIT or ERR_CANCELLED when the budget ends the work. */
bool jinja_render(struct jinja_run *run, struct jinja_output *out, struct error *err);

/* Render with the variable name set to value, and without. What stands before the
 * first statement that has the name in it runs once. Not *both: the template
 * changed what the second rendering would need; it takes a run of its own. */
bool jinja_render_both(struct jinja_run *run, const char *name, struct jinja_value *value,
                       struct jinja_output *with, struct jinja_output *without, bool *both,
                       struct error *err);

/* ---- For probing, after a rendering with watch ---- */

/* object[key] or list[index]; NULL when there is none. */
const struct jinja_value *jinja_key(const struct jinja_value *object, const char *key);
const struct jinja_value *jinja_item(const struct jinja_value *list, size_t index);
bool jinja_was_used(const struct jinja_value *value);
/* Iterated over, indexed by a number, or filtered by selectattr. */
bool jinja_was_used_as_list(const struct jinja_value *value);

#endif
