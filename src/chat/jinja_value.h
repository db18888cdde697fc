/* jinja_value.h - what expressions evaluate to, and the run they live in. */
#ifndef MLXCEL_CHAT_JINJA_VALUE_H
#define MLXCEL_CHAT_JINJA_VALUE_H

#include "chat/jinja.h"
#include "chat/jinja_ast.h"

enum jinja_type {
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INTEGER,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_FUNCTION,
    JINJA_LOOP
};

/* A string's bytes; marks says which came from a user, one byte each, NULL when
 * all are alike (marked says which). */
struct jinja_string {
    const char *data;
    size_t len;
    const uint8_t *marks;
    bool marked;
};

/* Lists, slices of them and loops over them share their items: nothing is written
 * below n but to a copy of one's own, and past it only with room of one's own. */
struct jinja_items {
    struct jinja_value **data;
    size_t n, capacity;
};

struct jinja_entry {
    struct jinja_value *key, *value;
    uint32_t hash;
};

/* Entries in the order they came; slots is a hash table over them once there
 * are more than a few. */
struct jinja_dict {
    struct jinja_entry *entries;
    size_t n, capacity;
    uint32_t *slots; /* entry index + 1; 0 free */
    size_t n_slots;
    bool is_namespace;
};

struct jinja_loop {
    const struct jinja_node *node; /* for recursion */
    struct jinja_items items;
    size_t i;
    uint32_t depth;
    struct jinja_value *changed;
};

struct jinja_scope {
    struct jinja_scope *parent;
    struct jinja_binding {
        int32_t symbol;
        struct jinja_value *value;
    } * bindings;
    size_t n, capacity;
};

struct jinja_arguments;
typedef struct jinja_value *jinja_function(struct jinja_run *run, struct jinja_arguments *args);

enum jinja_callable { CALL_BUILTIN, CALL_MACRO, CALL_CALLER, CALL_LOOP, CALL_CYCLER, CALL_JOINER };

struct jinja_callable_data {
    enum jinja_callable kind;
    const char *name;
    jinja_function *function;
    struct jinja_value *self;      /* of a bound method */
    const struct jinja_node *node; /* a macro or call block */
    struct jinja_scope *scope;     /* of a call block */
    size_t count;                  /* of a cycler or joiner */
};

struct jinja_value {
    uint8_t type;
    bool used, used_as_list; /* for probing */
    uint32_t hash;           /* of a STRING that was a key or stands in the template; 0: unknown */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct jinja_string string; /* UNDEFINED: data is the name that was missing */
        struct jinja_items items;
        struct jinja_dict *dict;
        struct jinja_loop *loop;
        struct jinja_callable_data *callable;
    } as;
};

/* Arguments of a call, filter or test. self is the filtered or tested value, or
 * the method's object. */
struct jinja_arguments {
    const char *name;
    struct jinja_value *self;
    struct jinja_items positional;
    struct jinja_keyword {
        struct slice name;
        struct jinja_value *value;
    } * keywords;
    size_t n_keywords, keywords_capacity;
};

/* Text being built, with its marks. */
struct jinja_builder {
    char *data;
    size_t len, capacity;
    struct jinja_span *spans;
    size_t n_spans, spans_capacity;
};

enum { JINJA_SMALL = 256, JINJA_GROWING = 4, JINJA_GROWING_MIN = 256 };

/* Memory by the block: values in one pool, the bytes of texts in another, so that
 * a text that grows at the end of its pool grows in place. */
struct jinja_pool {
    struct jinja_block *blocks; /* newest first */
    char *at, *end;             /* what is free of the newest */
};

/* A text that has grown piece by piece and left the end of its pool: it lies here
 * with as much room again, so that growing on costs what is added. Made when a
 * longer text is copied; the few that grew last are kept in mind, by the bytes
 * that are in use. */
struct jinja_growing {
    char *data;
    size_t begin, end, capacity; /* in use: [begin, end) */
    uint8_t *marks;              /* as many; NULL while all bytes are alike */
    bool marked;                 /* then: how */
};

struct jinja_run {
    const struct jinja_template *t;
    struct jinja_pool values, bytes, marks;
    struct jinja_growing growing[JINJA_GROWING];
    unsigned next_growing; /* the one to forget next */
    size_t allocated;
    struct jinja_limits limits;
    struct budget *budget;
    uint64_t paid; /* steps, taken of it */
    size_t paid_bytes;
    int64_t now;
    bool watch;
    uint64_t steps, check_at, deadline_us; /* check_at: look at the limits again */
    uint32_t depth;
    struct jinja_value **globals; /* by symbol */
    struct jinja_scope *scope;    /* innermost; NULL at the top */
    struct jinja_builder output;  /* what the template itself writes */
    struct jinja_builder *out;    /* or, within macros and their kind, one of theirs */
    struct jinja_value *undefined, *none, *yes, *no;
    struct jinja_value *small[JINJA_SMALL]; /* integers from 0 */
    struct error error;
    struct jinja_kept {
        struct jinja_kept *next;
        json_t *json;
    } * kept;             /* what values' texts lie in */
    uint64_t mutations;   /* changes to lists and mappings that were there before */
    bool failed, located; /* located: error has its place already */
};

/* ---- Failing: all give NULL (or false) ---- */
struct jinja_value *jinja_fail(struct jinja_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void *jinja_alloc(struct jinja_run *run, size_t size);
/* Not zeroed. */
void *jinja_alloc_raw(struct jinja_run *run, size_t size);
/* Bytes of text: len of them, not zeroed. */
char *jinja_alloc_bytes(struct jinja_run *run, size_t len);
/* Make len bytes at data, the newest of the pool, wanted bytes long where they
 * are. False when they are not the newest or there is no room. */
bool jinja_extend(struct jinja_pool *pool, const void *data, size_t len, size_t wanted);
/* x followed by y, both texts. */
struct jinja_value *jinja_join(struct jinja_run *run, struct jinja_value *x, struct jinja_value *y);
/* Which bytes of a text are marked, one byte each. */
uint8_t *jinja_alloc_marks(struct jinja_run *run, size_t len);
/* A NUL-terminated copy. */
char *jinja_copy_text(struct jinja_run *run, struct slice text);
/* Give a run's memory back to its template. */
void jinja_pools_release(struct jinja_run *run);

/* ---- Making ---- */
struct jinja_value *jinja_new(struct jinja_run *run, enum jinja_type type);
struct jinja_value *jinja_integer(struct jinja_run *run, int64_t value);
struct jinja_value *jinja_float(struct jinja_run *run, double value);
struct jinja_value *jinja_undefined(struct jinja_run *run, struct slice name);
struct jinja_value *jinja_dict(struct jinja_run *run);
struct jinja_value *jinja_builtin(struct jinja_run *run, const char *name, jinja_function *function,
                                  struct jinja_value *self);
bool jinja_dict_set(struct jinja_run *run, struct jinja_value *dict, struct jinja_value *key,
                    struct jinja_value *value);
/* Room for n items at once. */
bool jinja_items_reserve(struct jinja_run *run, struct jinja_items *items, size_t n);
/* Make items that may be shared one's own, to be written to. */
bool jinja_items_own(struct jinja_run *run, struct jinja_items *items);
uint32_t jinja_hash_text(struct slice text);
bool jinja_items_add(struct jinja_run *run, struct jinja_items *items, struct jinja_value *item);
/* text[begin, end) with its marks. */
struct jinja_value *jinja_substring(struct jinja_run *run, const struct jinja_value *text,
                                    size_t begin, size_t end);

/* ---- Asking ---- */
const char *jinja_type_name(const struct jinja_value *v);
bool jinja_truth(const struct jinja_value *v);
bool jinja_equal(const struct jinja_value *a, const struct jinja_value *b, unsigned depth);
/* -1, 0, 1; 2 when they cannot be ordered. */
int jinja_order(const struct jinja_value *a, const struct jinja_value *b, unsigned depth);
bool jinja_is_sequence(const struct jinja_value *v); /* list or tuple */
bool jinja_is_number(const struct jinja_value *v);   /* bool, integer, float */
double jinja_as_double(const struct jinja_value *v);
int64_t jinja_as_integer(const struct jinja_value *v);
struct slice jinja_bytes(const struct jinja_value *v); /* of a string */
struct jinja_entry *jinja_dict_find(const struct jinja_dict *dict, const struct jinja_value *key);
struct jinja_value *jinja_dict_get(const struct jinja_dict *dict, struct slice key);
bool jinja_dict_remove(struct jinja_run *run, struct jinja_dict *dict,
                       const struct jinja_value *key);
bool jinja_hashable(const struct jinja_value *v);
void jinja_mark_used(struct jinja_run *run, struct jinja_value *v, bool deep);

/* ---- Text ---- */
bool jinja_put(struct jinja_run *run, struct jinja_builder *b, struct slice text, bool marked);
bool jinja_put_string(struct jinja_run *run, struct jinja_builder *b,
                      const struct jinja_value *text, size_t begin, size_t end);
/* As {{ v }} shows it: nothing for undefined and none, a list's items run
 * together. */
bool jinja_put_output(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v,
                      unsigned depth);
/* As str(v), as repr(v). */
bool jinja_put_str(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v);
bool jinja_put_repr(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v,
                    unsigned depth);
struct jinja_value *jinja_built(struct jinja_run *run, struct jinja_builder *b);
/* v itself when a string, else str(v). */
struct jinja_value *jinja_to_string(struct jinja_run *run, struct jinja_value *v);

struct jinja_json_style {
    int indent; /* -1: on one line */
    struct slice item_separator, key_separator;
    bool ensure_ascii, sort_keys;
};
bool jinja_put_json(struct jinja_run *run, struct jinja_builder *b, const struct jinja_value *v,
                    const struct jinja_json_style *style, unsigned level);

/* ---- Calling (jinja_eval.c) ---- */
struct jinja_value *jinja_call(struct jinja_run *run, struct jinja_value *callee,
                               struct jinja_arguments *args);
/* Run the template's own statements [from, to) into run->out. */
bool jinja_exec_body(struct jinja_run *run, size_t from, size_t to);
/* Work was done up to check_at: are the limits kept? */
bool jinja_check(struct jinja_run *run);
/* Take the steps since the last time, and bytes, of the budget. */
bool jinja_pay(struct jinja_run *run, size_t bytes);
/* Steps of work; false when a limit is reached. */
static inline bool jinja_step(struct jinja_run *run, uint64_t weight)
{
    run->steps += weight;
    return run->steps < run->check_at ? !run->failed : jinja_check(run);
}
/* The attribute or item of v, by name; never NULL unless failed. */
struct jinja_value *jinja_attribute(struct jinja_run *run, struct jinja_value *v,
                                    struct slice name);
struct jinja_value *jinja_subscript(struct jinja_run *run, struct jinja_value *v,
                                    struct jinja_value *key);

#endif
