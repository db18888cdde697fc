/* What a command line, an environment and a preset come out as. */
#include "unit/unit.h"

#include "options/options.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MAX_WORDS = 32 };

struct run {
    struct options o;
    struct error err;
    bool ok;
};

/* words: the command line without its first, NULL-terminated. */
static struct run parse_env(const char *const *words, char *const *environment)
{
    char *argv[MAX_WORDS] = {"mlxcel-server"};
    int argc = 1;
    for (; *words; words++)
        argv[argc++] = (char *)(uintptr_t)*words;
    struct run r = {.err = {0}};
    r.ok = options_parse(argc, argv, environment, &r.o, &r.err);
    return r;
}

#define PARSE(...) parse_env((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL}, NULL)
#define ENV(...)   ((char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS   ((const char *const[]){NULL})

#define ACCEPTED(r)                                                                                \
    do {                                                                                           \
        if (!(r).ok)                                                                               \
            fail_msg("refused: %s", (r).err.message);                                              \
    } while (0)

static void refused(struct run r, const char *part)
{
    assert_false(r.ok);
    if (!strstr(r.err.message, part))
        fail_msg("'%s' does not say '%s'", r.err.message, part);
    options_free(&r.o);
}

static void accepted(struct run r)
{
    ACCEPTED(r);
    options_free(&r.o);
}

static bool warned(const struct run *r, const char *part)
{
    for (size_t i = 0; i < r->o.warnings.n; i++)
        if (strstr(r->o.warnings.data[i], part))
            return true;
    return false;
}

static void nothing_given_gives_the_defaults(void **state)
{
    (void)state;
    struct run r = PARSE("-m", "x.gguf");
    ACCEPTED(r);
    assert_string_equal(r.o.model.path, "x.gguf");
    assert_int_equal(r.o.context.n_ctx, 0);
    assert_int_equal(r.o.context.n_batch, 2048);
    assert_int_equal(r.o.context.n_parallel, -1);
    assert_int_equal(r.o.cache.n_checkpoints, 32);
    assert_int_equal(r.o.cache.checkpoint_min_step, 8192);
    assert_int_equal(r.o.http.port, 8080);
    assert_int_equal(r.o.sampling.top_k, 40);
    assert_int_equal(r.o.sampling.samplers.n, 9);
    assert_string_equal(r.o.sampling.samplers.data[0], "penalties");
    assert_int_equal(r.o.sampling.seed, UINT32_MAX);
    assert_true(r.o.cpu.n_threads >= 1);
    assert_int_equal(r.o.cpu_batch.n_threads, r.o.cpu.n_threads);
    assert_int_equal(r.o.warnings.n, 0);
    options_free(&r.o);
}

static void every_kind_of_spelling_is_read(void **state)
{
    (void)state;
    struct run r = PARSE("-ctk", "q8_0", "-fa", "on", "--ctx_size", "512", "-n", "-1", "--seed",
                         "-1", "--cache-ram", "-1", "-no-kvu", "--no-warmup", "-nocb", "-lv", "4",
                         "--swa-checkpoints", "-1", "-cms", "0");
    ACCEPTED(r);
    assert_string_equal(r.o.context.cache_type_k, "q8_0");
    assert_int_equal(r.o.context.flash_attn, OPTION_ON);
    assert_int_equal(r.o.context.n_ctx, 512);
    assert_int_equal(r.o.context.n_predict, -1);
    assert_int_equal(r.o.cache.cache_ram_mib, -1);
    assert_int_equal(r.o.context.kv_unified, OPTION_OFF);
    assert_false(r.o.context.warmup);
    assert_int_equal(r.o.cache.n_checkpoints, -1);
    assert_int_equal(r.o.cache.checkpoint_min_step, 0);
    assert_false(r.o.context.cont_batching);
    assert_int_equal(r.o.logging.verbosity, 4);
    options_free(&r.o);
    /* Only long options read underscores as dashes. */
    refused(PARSE("-c_k", "1"), "unknown option '-c_k'");
}

static void a_bad_value_names_option_value_and_what_is_accepted(void **state)
{
    (void)state;
    refused(PARSE("-c", "abc"), "-c: 'abc' is not accepted; expected a whole number");
    refused(PARSE("-c", "12x"), "-c: '12x'");
    refused(PARSE("-c", "99999999999"), "-c: '99999999999'");
    refused(PARSE("--temp", "hot"), "--temp: 'hot' is not accepted; expected a number");
    refused(PARSE("--top-p", "nan"), "--top-p: 'nan'");
    refused(PARSE("--pooling", "avg"), "none, mean, cls, last, rank");
    refused(PARSE("-ctk", "q3_k"), "q4_1");
    refused(PARSE("-fa", "maybe"), "on, off or auto");
    refused(PARSE("--rope-scaling", "cubic"), "none, linear, yarn");
    refused(PARSE("-l", "abc"), "15043+1");
    refused(PARSE("--mirostat", "x"), "--mirostat: 'x'");
    refused(PARSE("--spec-type", "psychic"), "ngram-mod");
    refused(PARSE("--override-kv", "x"), "KEY=int:N");
    refused(PARSE("--repeat-last-n", "-1"), "0 or more");
    refused(PARSE("--repeat-penalty", "0"), "above 0");
    refused(PARSE("-np", "0"), "1 to 256");
    refused(PARSE("--prio", "4"), "-1 to 3");
    refused(PARSE("-m"), "-m: a value is missing");
    refused(PARSE("--nonsense"), "unknown option '--nonsense'");
    refused(PARSE("foo"), "'foo' is not an option");
    refused(PARSE("--port=80"), "--port 80");
    refused(PARSE("-j", "{"), "-j");
    refused(PARSE("--grammar-file", "/none/such"), "/none/such: there is no such file");
    refused(PARSE("--slot-save-path", "/none/such"), "not a folder");
    refused(PARSE("--chat-template-kwargs", "[1]"), "a JSON object");
    refused(PARSE("-Cr", "9-2"), "FIRST-LAST");
    refused(PARSE("-C", "xyz"), "hexadecimal");
}

static void the_command_line_wins_over_the_environment(void **state)
{
    (void)state;
    struct run r = parse_env((const char *const[]){"-c", "256", NULL},
                             ENV("LLAMA_ARG_CTX_SIZE=512", "LLAMA_ARG_N_PARALLEL=3"));
    ACCEPTED(r);
    assert_int_equal(r.o.context.n_ctx, 256);
    assert_int_equal(r.o.context.n_parallel, 3);
    assert_true(warned(&r, "LLAMA_ARG_CTX_SIZE"));
    assert_int_equal(r.o.warnings.n, 1);
    options_free(&r.o);
}

static void booleans_of_the_environment_have_four_words_each(void **state)
{
    (void)state;
    static const char *const yes[] = {"1", "on", "true", "enabled"};
    static const char *const no[] = {"0", "off", "false", "disabled"};
    for (int i = 0; i < 4; i++) {
        char metrics[64], slots[64];
        snprintf(metrics, sizeof metrics, "LLAMA_ARG_ENDPOINT_METRICS=%s", yes[i]);
        snprintf(slots, sizeof slots, "LLAMA_ARG_ENDPOINT_SLOTS=%s", no[i]);
        struct run r = parse_env(NO_WORDS, ENV(metrics, slots));
        ACCEPTED(r);
        assert_true(r.o.http.endpoint_metrics);
        assert_false(r.o.http.endpoint_slots);
        options_free(&r.o);
    }
    refused(parse_env(NO_WORDS, ENV("LLAMA_ARG_ENDPOINT_SLOTS=maybe")),
            "LLAMA_ARG_ENDPOINT_SLOTS: 'maybe'");
    struct run r = parse_env(NO_WORDS, ENV("LLAMA_ARG_ENDPOINT_METRICS=maybe"));
    ACCEPTED(r);
    assert_false(r.o.http.endpoint_metrics);
    assert_true(warned(&r, "neither on nor off"));
    options_free(&r.o);
}

static void a_negative_variable_counts_by_being_there(void **state)
{
    (void)state;
    struct run r =
        parse_env(NO_WORDS, ENV("LLAMA_ARG_NO_ENDPOINT_SLOTS=0", "LLAMA_ARG_ENDPOINT_SLOTS=1",
                                "LLAMA_ARG_NO_KV_UNIFIED="));
    ACCEPTED(r);
    assert_false(r.o.http.endpoint_slots);
    assert_int_equal(r.o.context.kv_unified, OPTION_OFF);
    options_free(&r.o);
}

static void a_bad_variable_is_named(void **state)
{
    (void)state;
    refused(parse_env(NO_WORDS, ENV("LLAMA_ARG_CTX_SIZE=abc")), "LLAMA_ARG_CTX_SIZE: 'abc'");
    refused(parse_env(NO_WORDS, ENV("LLAMA_ARG_DRAFT_MAX=5")),
            "LLAMA_ARG_DRAFT_MAX has been removed");
    refused(parse_env(NO_WORDS, ENV("LLAMA_ARG_N_GPU_LAYERS=x")), "LLAMA_ARG_N_GPU_LAYERS: 'x'");
}

static void an_empty_variable_gives_no_file(void **state)
{
    (void)state;
    struct run r = parse_env(NO_WORDS, ENV("LLAMA_ARG_MODEL=", "LLAMA_ARG_LOG_FILE="));
    ACCEPTED(r);
    assert_null(r.o.model.path);
    assert_null(r.o.logging.file);
    options_free(&r.o);
}

static void removed_options_name_their_successor(void **state)
{
    (void)state;
    refused(PARSE("--draft", "5"), "--spec-draft-n-max");
    refused(PARSE("--draft-n-min", "5"), "--spec-draft-n-min");
    refused(PARSE("--spec-ngram-size-n", "5"), "--spec-ngram-simple-size-n");
    refused(PARSE("--spec-ngram-min-hits", "5"), "--spec-ngram-simple-min-hits");
}

static void deprecated_options_work_and_warn_once(void **state)
{
    (void)state;
    struct run r = PARSE("--no-mmap", "--mlock", "--no-mmap", "-dt", "0.1");
    ACCEPTED(r);
    assert_int_equal(r.o.model.load_mode, OPTION_LOAD_NONE);
    size_t n = 0;
    for (size_t i = 0; i < r.o.warnings.n; i++)
        n += strstr(r.o.warnings.data[i], "--no-mmap is deprecated") != NULL;
    assert_int_equal(n, 1);
    assert_true(warned(&r, "--mlock is deprecated; use --load-mode mlock"));
    options_free(&r.o);
}

static void the_last_way_to_load_wins(void **state)
{
    (void)state;
    static const struct {
        const char *words[6];
        int mode;
    } cases[] = {
        {{"--mlock"}, OPTION_LOAD_MLOCK},
        {{"--mlock", "--mmap"}, OPTION_LOAD_MMAP},
        {{"-lm", "dio", "--no-direct-io"}, OPTION_LOAD_NONE},
        {{"-ndio", "-lm", "mmap+mlock"}, OPTION_LOAD_MMAP_MLOCK},
        {{"-dio"}, OPTION_LOAD_DIRECT_IO},
        {{"-lm", "auto"}, OPTION_LOAD_AUTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct run r = parse_env(cases[i].words, NULL);
        ACCEPTED(r);
        assert_int_equal(r.o.model.load_mode, cases[i].mode);
        options_free(&r.o);
    }
}

static void inert_values_of_hardware_options_pass_and_others_say_what_to_do(void **state)
{
    (void)state;
    accepted(PARSE("-ngl", "0", "-sm", "none", "--device", "none", "-mg", "0", "-ts", "1", "-cmoe",
                   "-ncmoe", "4", "-nkvo", "--no-host", "--op-offload", "-ot", "blk.*=CPU",
                   "--no-perf", "-ngld", "auto", "-mmdev", "none"));
    refused(PARSE("-dev", "CUDA0"), "--device none");
    refused(PARSE("-ot", "blk.*=CPU,x=CUDA0"), "=CPU");
    refused(PARSE("-ot", "blk"), "PATTERN=BUFFER");
    refused(PARSE("-ncmoe", "-4"), "0 or more");
}

static void what_is_not_served_is_refused_not_ignored(void **state)
{
    (void)state;
    refused(PARSE("--lora", "a.gguf"), "adapters are not served yet");
    refused(PARSE("-md", "draft.gguf"), "speculative decoding");
    refused(PARSE("--spec-type", "ngram-mod"), "speculative decoding");
    refused(PARSE("--spec-default"), "speculative decoding");
    refused(PARSE("--mmproj", "x"), "images");
    refused(PARSE("--rpc", "a:1"), "several machines");
    refused(PARSE("--tools", "all"), "tools");
    refused(PARSE("--models-dir", "/"), "one process serves one model");
    refused(PARSE("-cms", "-1"), "0 or more");
    accepted(PARSE("--spec-type", "none", "--no-mmproj", "--no-agent", "--no-ui-mcp-proxy"));
}

static void ranking_is_embedding_with_its_own_pooling(void **state)
{
    (void)state;
    struct run r = PARSE("-m", "x", "--embeddings", "--pooling", "last", "--embd-normalize", "-1");
    ACCEPTED(r);
    assert_true(r.o.context.embedding);
    assert_int_equal(r.o.context.pooling, 3);
    assert_int_equal(r.o.context.embd_normalize, -1);
    options_free(&r.o);
    r = parse_env((const char *const[]){"-m", "x", NULL}, ENV("LLAMA_ARG_RERANKING=1"));
    ACCEPTED(r);
    assert_true(r.o.context.embedding);
    assert_int_equal(r.o.context.pooling, 4);
    assert_int_equal(r.o.context.embd_normalize, 2);
    options_free(&r.o);
    r = PARSE("--embd-gemma-default");
    ACCEPTED(r);
    assert_true(r.o.context.embedding);
    assert_int_equal(r.o.context.pooling, -1);
    assert_int_equal(r.o.context.n_ubatch, 2048);
    options_free(&r.o);
    refused(PARSE("--embd-normalize", "-2"), "-1");
}

static void an_action_wins_over_a_refusal_but_not_over_a_mistake(void **state)
{
    (void)state;
    struct run r = PARSE("-ngl", "99", "--version");
    ACCEPTED(r);
    assert_int_equal(r.o.action, ACTION_VERSION);
    options_free(&r.o);
    refused(PARSE("-c", "x", "--version"), "-c");
    r = PARSE("--version", "--nonsense"); /* what follows is not read any more */
    ACCEPTED(r);
    options_free(&r.o);
    refused(PARSE("--help", "--nonsense"), "--nonsense");
    r = PARSE("--samplers", "foo;bar", "--version");
    ACCEPTED(r);
    assert_true(warned(&r, "'foo'"));
    options_free(&r.o);
}

static void pairs_take_two_words(void **state)
{
    (void)state;
    refused(PARSE("--control-vector-layer-range", "1"), "a value is missing");
    refused(PARSE("--control-vector-layer-range", "1", "x"), "a whole number");
    struct run r = PARSE("--control-vector-layer-range", "-1", "7");
    ACCEPTED(r);
    assert_int_equal(r.o.model.control_first, -1);
    assert_int_equal(r.o.model.control_last, 7);
    options_free(&r.o);
}

static void control_vectors_add_up_in_their_order(void **state)
{
    (void)state;
    struct run r = PARSE("--control-vector", "a.gguf,\"b,c\"", "--control-vector-scaled",
                         "d:-0.5,e:2", "--control-vector", "f");
    ACCEPTED(r);
    static const struct {
        const char *path;
        float scale;
    } expected[] = {{"a.gguf", 1}, {"b,c", 1}, {"d", -0.5f}, {"e", 2}, {"f", 1}};
    assert_int_equal(r.o.model.controls.n, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(r.o.model.controls.data[i].path, expected[i].path);
        assert_float_equal(r.o.model.controls.data[i].scale, expected[i].scale, 0);
    }
    assert_int_equal(r.o.warnings.n, 0);
    options_free(&r.o);
    static const char *const bad[] = {"d", "d:", ":1", "d:x", "d:1:2", "d:nan", "d:1,"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(PARSE("--control-vector-scaled", bad[i]), "FNAME:SCALE");
    refused(PARSE("--control-vector", ""), "GGUF files");
}

static void samplers_have_names_aliases_and_letters(void **state)
{
    (void)state;
    static const char *const wanted[] = {"top_k", "top_p", "typ_p", "temperature", "min_p"};
    struct run r = PARSE("--samplers", "top-k;NUCLEUS;typ;temp;minp");
    ACCEPTED(r);
    assert_int_equal(r.o.sampling.samplers.n, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(r.o.sampling.samplers.data[i], wanted[i]);
    assert_string_equal(r.o.sampling.set_by_user.data[0], "samplers");
    options_free(&r.o);
    r = PARSE("--sampler-seq", "kpytm");
    ACCEPTED(r);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(r.o.sampling.samplers.data[i], wanted[i]);
    options_free(&r.o);
}

static void sampling_values_land_where_they_belong(void **state)
{
    (void)state;
    struct run r = PARSE("--temp", "-3", "-s", "42", "-l", "15043+1.5", "-l", "7-inf",
                         "--dry-sequence-breaker", "\\n\\x41", "--dry-sequence-breaker", "b",
                         "--dry-base", "0.5", "-j", "{}", "--grammar", "root ::= \"a\"");
    ACCEPTED(r);
    assert_float_equal(r.o.sampling.temperature, 0, 0);
    assert_int_equal(r.o.sampling.seed, 42);
    assert_int_equal(r.o.sampling.logit_bias.n, 2);
    assert_int_equal(r.o.sampling.logit_bias.data[0].token, 15043);
    assert_float_equal(r.o.sampling.logit_bias.data[0].bias, 1.5, 0);
    assert_true(r.o.sampling.logit_bias.data[1].bias < -1e30f);
    assert_int_equal(r.o.sampling.dry_sequence_breakers.n, 2);
    assert_string_equal(r.o.sampling.dry_sequence_breakers.data[0], "\nA");
    assert_float_equal(r.o.sampling.dry_base, 1.75, 0);
    assert_null(r.o.sampling.json_schema); /* the grammar came later */
    assert_string_equal(r.o.sampling.grammar, "root ::= \"a\"");
    options_free(&r.o);
    r = PARSE("--dry-sequence-breaker", "none");
    ACCEPTED(r);
    assert_int_equal(r.o.sampling.dry_sequence_breakers.n, 0);
    options_free(&r.o);
    r = PARSE("--no-escape", "-r", "a\\n");
    ACCEPTED(r);
    assert_string_equal(r.o.generation.reverse_prompts.data[0], "a\\n");
    options_free(&r.o);
}

static void lists_are_split_as_csv_and_names_sorted(void **state)
{
    (void)state;
    struct run r =
        PARSE("--api-key", "a,\"b,c\",\"d\"\"e\",", "--api-key", "f", "--alias", " zed, abe ,zed,",
              "--override-kv", "a.b=int:-3,c=bool:true,\"d=str:x,y\",e=float:1.5");
    ACCEPTED(r);
    static const char *const keys[] = {"a", "b,c", "d\"e", "f"};
    assert_int_equal(r.o.http.api_keys.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(r.o.http.api_keys.data[i], keys[i]);
    assert_int_equal(r.o.model.aliases.n, 2);
    assert_string_equal(r.o.model.aliases.data[0], "abe");
    assert_int_equal(r.o.model.kv_overrides.n, 4);
    assert_int_equal(r.o.model.kv_overrides.data[0].i64, -3);
    assert_string_equal(r.o.model.kv_overrides.data[2].text, "x,y");
    assert_float_equal(r.o.model.kv_overrides.data[3].f64, 1.5, 0);
    assert_int_equal(r.o.warnings.n, 0); /* repeating these adds up */
    options_free(&r.o);
}

static void the_last_of_a_repeated_option_counts_and_is_said(void **state)
{
    (void)state;
    struct run r = PARSE("-c", "1", "--ctx-size", "2");
    ACCEPTED(r);
    assert_int_equal(r.o.context.n_ctx, 2);
    assert_true(warned(&r, "more than once"));
    options_free(&r.o);
}

static void batch_threads_follow_the_others_where_nothing_is_said(void **state)
{
    (void)state;
    struct run r = PARSE("-t", "3", "-C", "0xF0", "-Cr", "0-1", "--poll", "7", "--prio", "2",
                         "--cpu-strict", "1", "--poll-batch", "1");
    ACCEPTED(r);
    assert_int_equal(r.o.cpu_batch.n_threads, 3);
    assert_int_equal(r.o.cpu.mask[0], 0xF3);
    assert_int_equal(r.o.cpu_batch.mask[0], 0xF3);
    assert_int_equal(r.o.cpu_batch.prio, 2);
    assert_true(r.o.cpu_batch.strict);
    assert_int_equal(r.o.cpu.poll, 7);
    assert_int_equal(r.o.cpu_batch.poll, 1);
    options_free(&r.o);
    r = PARSE("-t", "4", "-tb", "8", "-C", "3");
    ACCEPTED(r);
    assert_int_equal(r.o.cpu_batch.n_threads, 8);
    assert_true(warned(&r, "4 threads share the 2 CPUs"));
    options_free(&r.o);
}

static void reasoning_options_become_template_variables(void **state)
{
    (void)state;
    struct run r = PARSE("--chat-template-kwargs", "{\"a\":1,\"b\":\"x\"}", "--reasoning", "off",
                         "--reasoning-effort", "high", "--reasoning-preserve");
    ACCEPTED(r);
    const json_t *k = r.o.chat.template_kwargs;
    assert_int_equal(json_object_size(k), 5);
    assert_true(json_is_false(json_object_get(k, "enable_thinking")));
    assert_string_equal(json_string_value(json_object_get(k, "reasoning_effort")), "high");
    assert_true(json_is_true(json_object_get(k, "preserve_reasoning")));
    assert_int_equal(r.o.chat.enable_reasoning, OPTION_OFF);
    options_free(&r.o);
}

static void built_in_presets_expand_and_later_options_overrule_them(void **state)
{
    (void)state;
    struct run r = PARSE("--gpt-oss-20b-default", "--port", "9000");
    ACCEPTED(r);
    assert_string_equal(r.o.model.hf_repo, "ggml-org/gpt-oss-20b-GGUF");
    assert_string_equal(r.o.model.hf_file, "gpt-oss-20b-mxfp4.gguf");
    assert_int_equal(r.o.http.port, 9000);
    assert_int_equal(r.o.context.n_ctx, 262144);
    assert_int_equal(r.o.context.n_parallel, 2);
    assert_int_equal(r.o.sampling.top_k, 0);
    options_free(&r.o);
    r = PARSE("--fim-qwen-1.5b-default");
    ACCEPTED(r);
    assert_string_equal(r.o.model.hf_file, "qwen2.5-coder-1.5b-q8_0.gguf");
    assert_int_equal(r.o.cache.n_cache_reuse, 256);
    options_free(&r.o);
    refused(PARSE("--fim-qwen-7b-spec"), "speculative decoding");
}

static void a_quantized_value_cache_needs_blocked_attention(void **state)
{
    (void)state;
    refused(PARSE("-fa", "off", "-ctv", "q8_0"), "--cache-type-v q8_0 needs --flash-attn");
    accepted(PARSE("-fa", "off", "-ctk", "q8_0", "-ctv", "bf16"));
    accepted(PARSE("-ctv", "q4_0"));
}

static void a_port_past_the_range_is_refused(void **state)
{
    (void)state;
    refused(PARSE("--port", "65536"), "0 to 65535");
    refused(PARSE("--port", "-1"), "0 to 65535");
    accepted(PARSE("--port", "65535"));
}

/* As the reference's build for CPUs: one warning for all of them. */
static void options_about_gpus_have_no_effect_and_are_said_to(void **state)
{
    (void)state;
    struct run r = PARSE("-ngl", "99", "-sm", "row", "-ts", "3,1", "-mg", "1");
    ACCEPTED(r);
    assert_int_equal(r.o.warnings.n, 1);
    assert_true(warned(&r, "-ngl 99, -sm row, -ts 3,1, -mg 1: no effect"));
    options_free(&r.o);
    r = parse_env(NO_WORDS, ENV("LLAMA_ARG_N_GPU_LAYERS=all"));
    ACCEPTED(r);
    assert_true(warned(&r, "LLAMA_ARG_N_GPU_LAYERS all: no effect"));
    options_free(&r.o);
    r = PARSE("-ngl", "0", "-sm", "layer", "-ts", "1", "-mg", "0");
    ACCEPTED(r);
    assert_int_equal(r.o.warnings.n, 0);
    options_free(&r.o);
    refused(PARSE("-ngl", "many"), "a number of layers, auto or all");
    refused(PARSE("-sm", "rows"), "none, layer, row or tensor");
    refused(PARSE("-ts", "3,x"), "shares of GPUs");
    refused(PARSE("-ts", ""), "shares of GPUs");
    refused(PARSE("-mg", "x"), "a whole number");
}

static void unknown_options_are_explained(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--ctx-sise", "did you mean --ctx-size?"}, {"--n-gpu-layer", "--n-gpu-layers"},
        {"--hsot", "did you mean --host?"},         {"--slots-endpoint-disable", "use --no-slots"},
        {"--clear_idle", "use --cache-idle-slots"}, {"-p", "an option of llama-cli"},
        {"--model-vocoder", "text-to-speech"},      {"--grp-attn-n", "--rope-scaling yarn"},
        {"-zzz", "unknown option '-zzz'; --help"},  {"model.gguf", "-m model.gguf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(PARSE(cases[i][0], "x"), cases[i][1]);
}

static void no_key_is_empty(void **state)
{
    (void)state;
    refused(PARSE("--api-key", ""), "the key is empty");
    refused(PARSE("--api-key", ","), "the key is empty");
    refused(parse_env(NO_WORDS, ENV("LLAMA_API_KEY=")), "LLAMA_API_KEY: the key is empty");
}

static void asking_for_the_whole_context_leaves_nothing_to_fit(void **state)
{
    (void)state;
    struct run r = PARSE("-c", "0");
    ACCEPTED(r);
    assert_int_equal(r.o.context.fit_ctx, INT32_MAX);
    options_free(&r.o);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_config_file_stands_below_the_environment(void **state)
{
    (void)state;
    char folder[] = "/tmp/mlxcel-options-XXXXXX", path[128], config[160], home[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/llama.cpp", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(config, sizeof config, "%s/config.ini", path);
    snprintf(home, sizeof home, "XDG_CONFIG_HOME=%s", folder);
    write_file(config, "version = 1\n; comment\nctx-size = 1024 # comment\nport=1\nc_unknown = 3\n"
                       "no-slots = true\nLLAMA_ARG_N_PREDICT = 7\n"
                       "[some/model:Q4]\nctx-size = 99\n[*]\ntemp = 0.5\n");
    struct run r =
        parse_env((const char *const[]){"--port", "3", NULL}, ENV(home, "LLAMA_ARG_PORT=2"));
    ACCEPTED(r);
    assert_int_equal(r.o.context.n_ctx, 1024);
    assert_int_equal(r.o.http.port, 3);
    assert_int_equal(r.o.context.n_predict, 7);
    assert_false(r.o.http.endpoint_slots);
    assert_float_equal(r.o.sampling.temperature, 0.5, 0);
    assert_true(warned(&r, "'c_unknown' is not a setting"));
    options_free(&r.o);
    write_file(config, "ctx-size = many\n");
    refused(parse_env(NO_WORDS, ENV(home)), "config.ini:1: ctx-size: 'many'");
    write_file(config, "\n  indented = 1\n");
    refused(parse_env(NO_WORDS, ENV(home)), "config.ini:2: a setting is written");
    write_file(config, "[open\n");
    refused(parse_env(NO_WORDS, ENV(home)), "config.ini:1: a section is written");
    unlink(config);
    rmdir(path);
    rmdir(folder);
}

static void keys_come_from_a_file_too(void **state)
{
    (void)state;
    char path[] = "/tmp/mlxcel-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_file(path, "# comment\none\n\ntwo");
    struct run r = PARSE("--api-key-file", path);
    ACCEPTED(r);
    assert_int_equal(r.o.http.api_keys.n, 2);
    assert_string_equal(r.o.http.api_keys.data[1], "two");
    options_free(&r.o);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_given_gives_the_defaults),
        cmocka_unit_test(every_kind_of_spelling_is_read),
        cmocka_unit_test(a_bad_value_names_option_value_and_what_is_accepted),
        cmocka_unit_test(the_command_line_wins_over_the_environment),
        cmocka_unit_test(booleans_of_the_environment_have_four_words_each),
        cmocka_unit_test(a_negative_variable_counts_by_being_there),
        cmocka_unit_test(a_bad_variable_is_named),
        cmocka_unit_test(an_empty_variable_gives_no_file),
        cmocka_unit_test(removed_options_name_their_successor),
        cmocka_unit_test(deprecated_options_work_and_warn_once),
        cmocka_unit_test(the_last_way_to_load_wins),
        cmocka_unit_test(inert_values_of_hardware_options_pass_and_others_say_what_to_do),
        cmocka_unit_test(ranking_is_embedding_with_its_own_pooling),
        cmocka_unit_test(what_is_not_served_is_refused_not_ignored),
        cmocka_unit_test(an_action_wins_over_a_refusal_but_not_over_a_mistake),
        cmocka_unit_test(pairs_take_two_words),
        cmocka_unit_test(control_vectors_add_up_in_their_order),
        cmocka_unit_test(samplers_have_names_aliases_and_letters),
        cmocka_unit_test(sampling_values_land_where_they_belong),
        cmocka_unit_test(lists_are_split_as_csv_and_names_sorted),
        cmocka_unit_test(the_last_of_a_repeated_option_counts_and_is_said),
        cmocka_unit_test(batch_threads_follow_the_others_where_nothing_is_said),
        cmocka_unit_test(reasoning_options_become_template_variables),
        cmocka_unit_test(built_in_presets_expand_and_later_options_overrule_them),
        cmocka_unit_test(a_quantized_value_cache_needs_blocked_attention),
        cmocka_unit_test(a_port_past_the_range_is_refused),
        cmocka_unit_test(options_about_gpus_have_no_effect_and_are_said_to),
        cmocka_unit_test(unknown_options_are_explained),
        cmocka_unit_test(no_key_is_empty),
        cmocka_unit_test(asking_for_the_whole_context_leaves_nothing_to_fit),
        cmocka_unit_test(a_config_file_stands_below_the_environment),
        cmocka_unit_test(keys_come_from_a_file_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
