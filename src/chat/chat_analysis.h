/* chat_analysis.h - what rendering shows of how a model writes. */
#ifndef MLXCEL_CHAT_CHAT_ANALYSIS_H
#define MLXCEL_CHAT_CHAT_ANALYSIS_H

#include "base/arena.h"
#include "chat/chat_internal.h"

enum chat_reasoning_mode {
    REASONING_NONE,
    REASONING_TAGGED,    /* between start and end; start may be empty */
    REASONING_WITH_TOOLS /* only where calls follow */
};

enum chat_call_style {
    CALLS_NONE,
    CALLS_JSON,        /* {"name": ..., "arguments": ...} */
    CALLS_TAGGED_JSON, /* the name in a tag, the arguments as JSON */
    CALLS_TAGGED       /* name and each argument in tags */
};

enum { CHAT_TOKENS_MAX = 40, CHAT_FIELDS_MAX = 4 };

/* All slices lie in the arena (or are static). */
struct chat_analysis {
    struct arena arena;
    struct slice user_start, assistant_start;

    enum chat_reasoning_mode reasoning;
    struct slice reasoning_start, reasoning_end;

    bool content_wrapped;
    struct slice content_start, content_end;

    enum chat_call_style calls;
    struct slice section_start, section_end; /* around all calls */
    struct slice call_start, call_end;       /* around each */
    bool name_is_key;                        /* {"get_weather": {...}} */
    bool in_array;                           /* [{...}, {...}] */
    bool wrapper_may_lead;                   /* "type": "function" may stand first */
    struct slice function_field, name_field, args_field, id_field, made_id_field;
    struct slice field_order[CHAT_FIELDS_MAX];
    size_t n_field_order;

    struct slice name_prefix, name_suffix; /* around the function's name */
    struct slice args_separator, close;

    struct slice arg_name_prefix, arg_name_suffix, arg_value_prefix, arg_value_suffix,
        arg_separator;
    bool blanks_between_tags;

    bool id_between_name_and_args; /* the only place ids are read from */
    struct slice id_prefix, id_suffix;

    struct slice preserved[CHAT_TOKENS_MAX];
    size_t n_preserved;
    struct slice stop; /* empty: none */
};

/* Add to the tokens to keep, trimmed, each once. */
void chat_analysis_preserve(struct chat_analysis *a, struct slice token);
/* Apply what is known of published templates (chat_patches.c). */
void chat_analysis_patch(const struct chat_template *t, struct chat_analysis *a);

#endif
