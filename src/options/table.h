/* table.h - the shape of THE table of options. Private to the room.
 *
 * One row per option; everything that knows options (parsing, environment,
 * presets, --help, completion, the manifest check) reads rows and nothing
 * else. The rows stand in table_*.c, one file per section of --help. */
#ifndef MLXCEL_OPTIONS_TABLE_H
#define MLXCEL_OPTIONS_TABLE_H

#include "options/options.h"

enum option_section {
    SECTION_COMMON,
    SECTION_SAMPLING,
    SECTION_SPECULATIVE,
    SECTION_SERVER,
    SECTION_COUNT
};

/* What we do with an option of the reference; the manifest claims the same. */
enum option_state {
    STATE_SERVED,         /* means what it means there */
    STATE_ALIASED,        /* is another spelling of other options: note = which */
    STATE_NOT_APPLICABLE, /* about hardware that is not used here: inert values pass */
    STATE_DEFERRED,       /* not served yet: inert values pass, others are refused; note = what
                             to do instead */
    STATE_BY_DESIGN       /* differs on purpose: note = how */
};

/* How the value is read and where it goes (field: an offset in struct options). */
enum option_type {
    OPT_ACTION,      /* no value; number = enum options_action */
    OPT_FLAG,        /* no value; bool = true */
    OPT_SWITCH,      /* no value; bool = true, by names_off false */
    OPT_SWITCH_AUTO, /* no value; int = OPTION_ON or OPTION_OFF; AUTO when not given */
    OPT_INT,         /* int32_t in [min, max] */
    OPT_FLOAT,       /* float, finite, in [min, max] */
    OPT_TEXT,        /* const char * */
    OPT_TRISTATE,    /* int: on, off, auto */
    OPT_CHOICE,      /* int: one of choices, "name=number ..." */
    OPT_CUSTOM,      /* apply() */
    OPT_EXPANDS,     /* no value; the words of note are read as a command line */
    OPT_REMOVED,     /* refused; note names the successor */
    OPT_REFUSED      /* by state: refused, or only inert values pass */
};

struct option;

/* One use of an option: from where, with what. */
struct option_use {
    const struct option *option;
    const char *source; /* as the operator wrote it: "-c", "LLAMA_ARG_CTX_SIZE" */
    const char *value;  /* NULL for one that takes none */
    const char *value2; /* of a pair */
    bool on;            /* of a switch: not its negative */
};

struct option_parser {
    struct options *options;
    bool *given;  /* per row: used by operator or preset */
    bool *warned; /* per row: deprecation said */
    const struct options *defaults;
    bool breakers_cleared;
    bool stop;             /* an action that ends parsing was met */
    struct error refused;  /* the first refusal; reported unless an action wins */
    const char *no_effect; /* the options about GPUs that were given; NULL: none */
};

struct option {
    const char *names;     /* spellings as in the reference's help, space between */
    const char *names_off; /* the negatives of a switch */
    const char *env;
    const char *value, *value2; /* how help names the value */
    const char *fallback;       /* the default as help shows it; NULL: none to show */
    const char *help;
    const char *note;     /* see enum option_state */
    const char *inert;    /* values of a NOT_APPLICABLE or DEFERRED option that pass, because
                           * they say "off", "nothing" or what holds anyway; space between,
                           * '' the empty one, numbers by value; "*" all (also without a
                           * value), "off" of a switch only the negative */
    const char *choices;  /* of OPT_CHOICE */
    const char *user_key; /* request field to record in sampling.set_by_user */
    bool (*apply)(struct option_parser *p, const struct option_use *use, struct error *err);
    size_t field;
    double min, max; /* both 0: the type's own range */
    int number;
    enum option_type type;
    enum option_state state;
    bool deprecated;
    bool hidden; /* ours: not in the reference, not in --help's sections */
};

struct option_rows {
    const struct option *rows;
    size_t n;
    const char *title;
};

extern const struct option_rows options_common, options_sampling, options_speculative,
    options_server;

/* All rows as one sequence; NULL past the end. */
const struct option *option_at(size_t i);
size_t option_count(void);
enum option_section option_section_of(size_t i);
const char *option_section_title(enum option_section section);

/* Walk a space-separated list: false at the end. */
bool next_word(const char **rest, struct slice *word);

/* The name an option is known by: its first long spelling, else its first. */
struct slice option_id(const struct option *option);
/* Find by a spelling as on the command line ("-c", "--ctx_size"). *on tells a
 * negative spelling. NULL: unknown. */
const struct option *option_find(const char *spelling, bool *on);
/* Why a spelling is not an option, and which is meant (other_versions.c); always false. */
bool option_explain_unknown(const char *word, struct error *err);
/* LLAMA_ARG_X -> LLAMA_ARG_NO_X; false when the option has no such variable. */
bool option_negative_env(const struct option *option, char *out, size_t size);

/* ---- applying (apply.c) -------------------------------------------------- */

size_t option_index(const struct option *option);
bool option_apply(struct option_parser *p, const struct option_use *use, struct error *err);
/* A warning for the operator, printf-like; kept in options->warnings. */
bool option_warn(struct option_parser *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* "SOURCE: 'VALUE' ...": the refusal of a value, always false. */
bool bad_value(const struct option_use *use, struct error *err, const char *accepted);

const char *options_text(struct options *o, struct slice text);
bool list_push(struct options *o, struct option_list *list, struct slice text);
/* Keep a sorted list without doubles. */
bool list_insert(struct options *o, struct option_list *list, struct slice text);

/* Readings shared by custom options. */
bool read_int(const struct option_use *use, int64_t min, int64_t max, int64_t *out,
              struct error *err);
bool text_is_true(const char *text);
bool text_is_false(const char *text);
bool text_is_auto(const char *text);
/* A value that is an enum option_tristate. */
bool read_tristate(const struct option_use *use, int *out, struct error *err);
/* Fields of a comma-separated row, quotes as in CSV, each handed to each(). */
bool csv_each(struct option_parser *p, const struct option_use *use,
              bool (*each)(struct option_parser *, const struct option_use *, struct slice,
                           struct error *),
              struct error *err);
/* A file's bytes as text in the arena. */
const char *read_text_file(struct option_parser *p, const struct option_use *use,
                           struct error *err);

/* Custom options, by the file that holds them. */
/* custom_cpu.c */
bool apply_threads(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_cpu_mask(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_cpu_range(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_zero_one(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_poll(struct option_parser *p, const struct option_use *use, struct error *err);
/* Fill what the operator left open: thread counts, and the batch's from the
 * other. */
bool options_finish_cpu(struct option_parser *p, struct error *err);
/* custom_model.c */
bool apply_override_kv(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_control(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_control_scaled(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_control_range(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_load_switch(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_cache_type(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_rope_scale(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_name_set(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_parallel(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_ctx_size(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_fit(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_fit_target(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_rerank(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_tensor_placement(struct option_parser *p, const struct option_use *use,
                            struct error *err);
bool apply_nothing(struct option_parser *p, const struct option_use *use, struct error *err);
/* custom_gpu.c */
bool apply_gpu_layers(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_split_mode(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_tensor_split(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_main_gpu(struct option_parser *p, const struct option_use *use, struct error *err);
/* One warning for all of them. */
bool warn_of_no_effect(struct option_parser *p);
/* custom_sampling.c */
bool apply_samplers(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_sampler_seq(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_seed(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_temperature(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_repeat_penalty(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_dry_base(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_dry_breaker(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_logit_bias(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_grammar(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_grammar_file(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_json_schema(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_json_schema_file(struct option_parser *p, const struct option_use *use,
                            struct error *err);
/* custom_speculative.c */
bool apply_spec_type(struct option_parser *p, const struct option_use *use, struct error *err);
/* custom_server.c */
bool apply_api_keys(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_api_key_file(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_port(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_folder(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_text_list(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_file_text(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_template_kwargs(struct option_parser *p, const struct option_use *use,
                           struct error *err);
bool apply_reasoning(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_reasoning_effort(struct option_parser *p, const struct option_use *use,
                            struct error *err);
bool apply_reasoning_preserve(struct option_parser *p, const struct option_use *use,
                              struct error *err);
bool apply_verbose(struct option_parser *p, const struct option_use *use, struct error *err);
bool apply_sleep(struct option_parser *p, const struct option_use *use, struct error *err);
/* \n, \t, \\, \', \", \xHH resolved. */
const char *resolve_escapes(struct options *o, const char *text);

/* ---- presets (preset.c) ------------------------------------------------- */

/* Apply the INI file's settings: those before any section and of [*] and
 * [default]. Unknown keys are warned about. A file that does not exist is
 * none. */
bool preset_apply_file(struct option_parser *p, const char *path, struct error *err);

#define AT(member) .field = offsetof(struct options, member)

#endif
