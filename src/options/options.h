/* options.h - what the operator asked for: command line, environment, presets.
 *
 * One table (option_table) drives parsing, the environment, presets, --help,
 * shell completion and the manifest check; a struct options is what comes out,
 * plain values that the rooms above translate into their own settings.
 * Nothing here reads a model or opens a socket; files are read only where an
 * option's value is a file's content (a grammar, a template, keys).
 * A struct options is written by one thread, then may be read by any.
 * Depends on: base. */
#ifndef MLXCEL_OPTIONS_OPTIONS_H
#define MLXCEL_OPTIONS_OPTIONS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- values ------------------------------------------------------------ */

/* All text of a struct options lives in its arena; NULL means "not given". */
struct option_list {
    const char **data;
    size_t n, capacity;
};

/* What --help, --version and their kind ask instead of serving. */
enum options_action {
    ACTION_SERVE,
    ACTION_HELP,
    ACTION_VERSION,
    ACTION_LICENSE,
    ACTION_CACHE_LIST,
    ACTION_LIST_DEVICES,
    ACTION_COMPLETION_BASH,
    ACTION_DUMP_SURFACE
};

enum option_tristate { OPTION_AUTO = -1, OPTION_OFF = 0, OPTION_ON = 1 };

enum option_load_mode {
    OPTION_LOAD_AUTO, /* mmap */
    OPTION_LOAD_NONE, /* read into memory */
    OPTION_LOAD_MMAP,
    OPTION_LOAD_MLOCK, /* read into memory and pinned there */
    OPTION_LOAD_MMAP_MLOCK,
    OPTION_LOAD_DIRECT_IO /* read past the page cache */
};

enum option_numa {
    OPTION_NUMA_DISABLED,
    OPTION_NUMA_DISTRIBUTE,
    OPTION_NUMA_ISOLATE,
    OPTION_NUMA_NUMACTL
};

enum option_reasoning_format {
    OPTION_REASONING_NONE,
    OPTION_REASONING_AUTO,
    OPTION_REASONING_DEEPSEEK_LEGACY,
    OPTION_REASONING_DEEPSEEK
};

/* KEY=TYPE:VALUE of --override-kv. */
enum option_kv_type { OPTION_KV_INT, OPTION_KV_FLOAT, OPTION_KV_BOOL, OPTION_KV_TEXT };
struct option_kv {
    const char *key;
    enum option_kv_type type;
    int64_t i64; /* also a bool's 0 or 1 */
    double f64;
    const char *text;
};

/* A file of control vectors and what they are multiplied with. */
struct option_control {
    const char *path;
    float scale;
};

struct option_logit_bias {
    int32_t token;
    float bias;
};

/* ---- groups ------------------------------------------------------------ */

struct model_options {
    const char *path;        /* -m */
    const char *url;         /* -mu */
    const char *docker_repo; /* -dr */
    const char *hf_repo;     /* -hf user/model[:quant] */
    const char *hf_file;     /* -hff */
    const char *hf_token;    /* -hft, HF_TOKEN */
    bool offline;
    struct option_list aliases; /* sorted, each once; --alias as given otherwise */
    struct option_list tags;    /* sorted, each once */
    int load_mode;              /* enum option_load_mode */
    int numa;                   /* enum option_numa */
    bool check_tensors;
    bool repack; /* true */
    struct {
        struct option_kv *data;
        size_t n, capacity;
    } kv_overrides;
    struct {
        struct option_control *data;
        size_t n, capacity;
    } controls;                          /* control vectors */
    int32_t control_first, control_last; /* layers, both included; 0: from 1, to the last */
};

struct context_options {
    int32_t n_ctx;          /* 0: the model's own */
    bool fit;               /* true; with n_ctx not given: shrink it to what memory is free */
    int32_t fit_ctx;        /* the smallest that fit may choose, 4096 */
    int32_t fit_target_mib; /* memory that fit leaves free, 1024 */
    int32_t n_batch;        /* 2048 */
    int32_t n_ubatch;       /* 512 */
    int32_t n_predict;      /* -1: no limit; default of requests */
    int32_t n_keep;         /* 0; -1: all; default of requests */
    int32_t n_parallel;     /* slots; -1: 4 slots on a unified cache */
    int kv_unified;         /* enum option_tristate; AUTO: on when n_parallel is -1 */
    bool cont_batching;     /* true */
    bool context_shift;
    bool swa_full;
    int flash_attn;           /* enum option_tristate */
    const char *cache_type_k; /* "f16": a dtype's name in lower case */
    const char *cache_type_v;
    bool warmup;            /* true */
    int pooling;            /* -1 unspecified, 0 none, 1 mean, 2 cls, 3 last, 4 rank */
    bool embedding;         /* serve embeddings only */
    int32_t embd_normalize; /* -1 none, 0 largest to 32760, 1 sum, 2 euclidean, p p-norm */
    int rope_scaling;       /* -1 unspecified, 0 none, 1 linear, 2 yarn */
    float rope_freq_base;   /* 0: the model's own */
    float rope_freq_scale;  /* 0: the model's own */
    int32_t yarn_orig_ctx;  /* 0: the model's own */
    float yarn_ext_factor, yarn_attn_factor, yarn_beta_slow, yarn_beta_fast; /* -1 */
};

/* Threads of one kind of work. */
enum { OPTION_CPU_MASK_WORDS = 8, OPTION_CPU_MAX = 64 * OPTION_CPU_MASK_WORDS };
struct cpu_options {
    int32_t n_threads; /* never negative after options_parse */
    bool mask_valid;   /* pin to the CPUs of mask, bit i % 64 of word i / 64 */
    uint64_t mask[OPTION_CPU_MASK_WORDS];
    bool strict;   /* one thread, one CPU */
    int32_t prio;  /* -1 low, 0 normal, 1 medium, 2 high, 3 realtime */
    uint32_t poll; /* 0 sleep at once .. 100 spin */
};

struct cache_options {
    bool cache_prompt;            /* true; default of requests */
    int32_t n_cache_reuse;        /* 0 */
    int32_t cache_ram_mib;        /* 8192; -1 no limit, 0 off */
    bool cache_idle_slots;        /* true */
    int32_t n_checkpoints;        /* 32 */
    int32_t checkpoint_min_step;  /* 8192 */
    const char *slot_save_path;   /* ends in '/'; NULL: off */
    float slot_prompt_similarity; /* 0.1; 0 off */
};

/* Defaults of requests, under the names of the native request's fields. */
struct sampling_options {
    uint32_t seed;               /* 0xFFFFFFFF: random */
    struct option_list samplers; /* canonical names, in order */
    bool ignore_eos;
    bool backend_sampling; /* shown in answers; sampling is where the model runs anyway */
    float temperature;
    int32_t top_k;
    float top_p, min_p, top_n_sigma, xtc_probability, xtc_threshold, typical_p;
    int32_t repeat_last_n;
    float repeat_penalty, presence_penalty, frequency_penalty;
    float dry_multiplier, dry_base;
    int32_t dry_allowed_length, dry_penalty_last_n;
    struct option_list dry_sequence_breakers; /* escapes resolved unless --no-escape */
    float adaptive_target, adaptive_decay;
    float dynatemp_range, dynatemp_exponent;
    int32_t mirostat;
    float mirostat_tau, mirostat_eta;
    struct {
        struct option_logit_bias *data;
        size_t n, capacity;
    } logit_bias;
    const char *grammar;     /* GBNF text; NULL none */
    const char *json_schema; /* JSON text; of grammar and this the last given */
    /* Which of the values the operator set (names as in the request), so that a
     * model's own recommendation (GGUF general.sampling.*) does not win. */
    struct option_list set_by_user;
};

struct http_options {
    const char *hostname; /* "127.0.0.1"; a path that ends in ".sock" */
    int32_t port;         /* 8080; 0: any free one */
    bool reuse_port;
    const char *public_path; /* "" none */
    const char *api_prefix;  /* "" none, no trailing slash */
    const char *cors_origins, *cors_methods, *cors_headers;
    bool cors_credentials;
    struct option_list api_keys;
    const char *ssl_key_file, *ssl_cert_file;
    int32_t timeout;           /* seconds, 3600 */
    int32_t sse_ping_interval; /* seconds, 30; -1 off */
    int32_t n_threads_http;    /* -1: chosen from the slots */
    bool endpoint_slots;       /* true */
    bool endpoint_props;
    bool endpoint_metrics;
    bool ui;                    /* true */
    const char *ui_config_json; /* an object's text; NULL none */
    bool ui_mcp_proxy;
    int32_t sleep_idle_seconds; /* -1 never */
};

struct chat_options {
    const char *chat_template; /* Jinja text or a built-in name; NULL: the model's */
    bool use_jinja;            /* true */
    json_t *template_kwargs;   /* an object, owned; also --reasoning, --reasoning-effort
                                * and --reasoning-preserve land here */
    int reasoning_format;      /* enum option_reasoning_format; DEEPSEEK (what auto means) */
    int enable_reasoning;      /* enum option_tristate */
    int32_t reasoning_budget;  /* tokens; -1 no limit */
    const char *reasoning_budget_message; /* NULL none */
    bool skip_chat_parsing;
    bool prefill_assistant; /* true */
};

struct generation_options {
    struct option_list reverse_prompts; /* default stop strings */
    bool special;                       /* special tokens show in the text */
    bool spm_infill;
    bool escape; /* true: \n and its kind in option values are resolved */
};

struct logging_options {
    int32_t verbosity;
    int colors; /* enum log_colors */
    bool prefix, timestamps;
    const char *file;
    bool disabled;
    int format;              /* 0: text, 1: JSON */
    const char *prompts_dir; /* NULL: prompts are kept nowhere */
};

struct options {
    enum options_action action;
    struct model_options model;
    struct context_options context;
    struct cpu_options cpu;       /* generation */
    struct cpu_options cpu_batch; /* prompts */
    struct cache_options cache;
    struct sampling_options sampling;
    struct http_options http;
    struct chat_options chat;
    struct generation_options generation;
    struct logging_options logging;
    /* What the operator should hear once the log is set up (deprecated options,
     * one that appears twice, a variable overruled), in order. */
    struct option_list warnings;
    struct arena arena;
};

/* The defaults; what options_parse starts from. */
bool options_default(struct options *options, struct error *err);

/* Read presets, environment and command line, in rising precedence.
 *   argv     argv[0] is skipped
 *   environ  NULL-terminated "NAME=VALUE" strings; NULL: none
 * *options is filled from scratch and freed by the caller also after a failure.
 * Fails with ERR_INVALID (unknown option, bad value, removed option; the
 * message names option or variable, the value and what is accepted),
 * ERR_UNSUPPORTED (an option of a surface that is not served; what to do),
 * ERR_NOT_FOUND or ERR_IO (a file that an option names). */
bool options_parse(int argc, char *const *argv, char *const *environ, struct options *options,
                   struct error *err);
void options_free(struct options *options);

/* ---- what an action prints ---------------------------------------------- */

/* Append --help, wrapped to width columns (at least 40). */
bool options_help(const char *program, int width, struct str *out);
/* Append a script that bash loads; it completes mlxcel-server, and mlxcel, whose
 * first word is one of the space-separated commands. */
bool options_completion_bash(const char *commands, struct str *out);
/* The table as JSON: {"options":[{id, spellings, value, env, default, section,
 * state, ...}], "environment":[...]}. NULL when out of memory; the caller owns
 * it. Hidden options included. */
json_t *options_surface(void);

#endif
