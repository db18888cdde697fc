/* jinja_builtin.h - filters, tests, methods and global functions by name. */
#ifndef MLXCEL_CHAT_JINJA_BUILTIN_H
#define MLXCEL_CHAT_JINJA_BUILTIN_H

#include "chat/jinja_value.h"

enum { /* bits of the types a filter or method takes */
       ON_UNDEFINED = 1 << JINJA_UNDEFINED,
       ON_NONE = 1 << JINJA_NONE,
       ON_BOOL = 1 << JINJA_BOOL,
       ON_INTEGER = 1 << JINJA_INTEGER,
       ON_FLOAT = 1 << JINJA_FLOAT,
       ON_NUMBER = ON_BOOL | ON_INTEGER | ON_FLOAT,
       ON_STRING = 1 << JINJA_STRING,
       ON_SEQUENCE = 1 << JINJA_LIST | 1 << JINJA_TUPLE,
       ON_DICT = 1 << JINJA_DICT,
       ON_ANY = 0xffff
};

struct jinja_builtin_row {
    const char *name;
    unsigned on;
    jinja_function *function;
    bool as_text;      /* other types are turned into text first */
    unsigned empty_on; /* types for which the answer is the empty value of... */
    uint8_t empty;     /* ...this type */
};

/* NULL when there is none of that name. */
const void *jinja_filter_of(struct slice name);
const void *jinja_test_of(struct slice name);
const void *jinja_method_of(struct slice name);
const void *jinja_global_of(struct slice name);
/* The global function of that row, as a new value; NULL without failing for NULL. */
struct jinja_value *jinja_global_value(struct jinja_run *run, const void *row);
/* Mappings show these methods before their keys, as Python's attributes do; the
 * others stand behind. */
bool jinja_shadows_keys(struct slice name);

/* Apply a row to args->self. */
struct jinja_value *jinja_apply_filter(struct jinja_run *run, const struct jinja_builtin_row *row,
                                       struct slice name, struct jinja_arguments *args);
bool jinja_apply_test(struct jinja_run *run, const struct jinja_builtin_row *row, struct slice name,
                      struct jinja_arguments *args, bool *result);
/* The method of v's type by that name; name_row is what jinja_method_of said. */
const struct jinja_builtin_row *jinja_method_row(const void *name_row, const struct jinja_value *v,
                                                 struct slice name);
/* The same, bound; NULL without failing when there
 * is none. */
struct jinja_value *jinja_bind_method(struct jinja_run *run, const void *name_row,
                                      struct jinja_value *v, struct slice name);

/* The argument called name, or the i-th positional one, or NULL. */
struct jinja_value *jinja_argument(const struct jinja_arguments *args, size_t i, const char *name);

/* The rows, by file. End with a NULL name. */
extern const struct jinja_builtin_row jinja_text_filters[], jinja_list_filters[], jinja_tests[],
    jinja_text_methods[], jinja_container_methods[];

#endif
