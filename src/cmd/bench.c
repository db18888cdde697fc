/* bench.c - mlxcel bench: how fast a model reads prompts and writes text. */
#include "base/clock.h"
#include "base/json.h"
#include "base/printable.h"
#include "cmd/bench_earlier.h"
#include "cmd/bench_embeddings.h"
#include "cmd/bench_sampling.h"
#include "cmd/bench_templates.h"
#include "cmd/cmd.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char bench_usage[] =
    "usage: mlxcel bench (-m FILE | --synthetic SPEC | --formats SIZE | --sampling |\n"
    "                     --templates PATH) [OPTIONS]\n"
    "\n"
    "  -m FILE            a GGUF file or a model folder\n"
    "  --synthetic SPEC   random weights: llama:SIZE:TYPE, like llama:1b:q4_k_m, or\n"
    "                     bert:SIZE:TYPE, like bert:bge-small:f16\n"
    "  --formats SIZE     llama:SIZE in every format, one after another\n"
    "  --embeddings       embed --texts N (128) of -p N (64) tokens, as many in a\n"
    "                     batch as -ub N holds\n"
    "  --sampling         what picking a token costs, without a model\n"
    "  --templates PATH   what rendering 200 messages with tools costs, by each\n"
    "                     *.jinja of a folder, or by one file; -r N runs each\n"
    "  --write FILE       write the synthetic model as GGUF and end\n"
    "  -p N[,N...]        prompt tokens (512; 0: no prompt test)\n"
    "  -n N[,N...]        tokens to generate (64; 0: no generation test)\n"
    "  -d N[,N...]        tokens that are there before (0)\n"
    "  -t N[,N...]        threads (as many as processors); also --threads\n"
    "  -tb N              threads for prompts (as -t)\n"
    "  -b N, -ub N        batch and physical batch (2048, 512)\n"
    "  -ctk T, -ctv T     types of the KV cache (f16)\n"
    "  --clients N        sequences that generate together (1)\n"
    "  -r N               repetitions (3)\n"
    "  --no-repack        leave weights as they are in the file\n"
    "  -o FORMAT          print text, json, md (a table) or csv; --json is -o json\n"
    "  -ngl N             no effect, as all options about GPUs: mlxcel runs on the CPU\n"
    "  --compare FILE     compare with FILE, an earlier --json output; tests are matched by\n"
    "                     depth and number of clients\n";

enum output { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_MARKDOWN, OUTPUT_CSV };

/* Values of an option that takes several. */
enum { LIST_MAX = 16 };

struct value_list {
    int32_t values[LIST_MAX];
    size_t n;
};

struct bench_options {
    enum output output;
    struct value_list prompts, generates, depths, threads;
    const char *model, *synthetic, *formats, *templates, *write, *type_k, *type_v, *compare;
    int32_t n_prompt, n_generate, n_depth, n_threads, n_threads_batch, n_batch, n_ubatch, n_clients,
        n_reps, n_texts;
    bool json, no_repack, sampling, embeddings, help;
};

struct bench {
    const struct bench_options *o;
    struct model_file *file;
    struct model *model;
    struct model_context *ctx;
    struct worker_pool *pool, *pool_batch;
    double load_seconds;
    double speed[2], deviation[2]; /* prompt, generation: tokens per second */
    double earlier[2];             /* what --compare names; 0: nothing */
};

static const char *const test_names[] = {"prompt", "generation"};

static const char *model_name(const struct bench *b)
{
    return b->o->synthetic ? b->o->synthetic : b->o->model;
}

/* ---- options -------------------------------------------------------------------- */

/* "512,1024": each from min on. */
static bool read_list(const char *name, const char *text, int32_t min, struct value_list *out,
                      struct error *err)
{
    const int32_t max = 1 << 24;
    *out = (struct value_list){0};
    for (const char *at = text;; at++) {
        char *end;
        long n = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || n < min || n > max)
            return error_set(err, ERR_INVALID, "%s: '%s' is not a number (%d to %d)%s", name, text,
                             min, max, strchr(text, ',') ? ", or a list of them" : "");
        if (out->n == LIST_MAX)
            return error_set(err, ERR_INVALID, "%s: at most %d values", name, LIST_MAX);
        out->values[out->n++] = (int32_t)n;
        if (!*end)
            return true;
        at = end;
    }
}

static bool read_output(const char *text, enum output *out, struct error *err)
{
    static const char *const names[] = {"text", "json", "md", "csv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum output)i;
            return true;
        }
    return error_set(err, ERR_INVALID, "-o: '%s' is not a format; expected text, json, md or csv",
                     text);
}

struct bench_option {
    const char *name;
    const char **text;
    int32_t *number;
    bool *flag;
    int32_t min;
    struct value_list *list;
};

static bool read_value(const struct bench_option *row, const char *value, struct error *err)
{
    struct value_list list = {0};
    if (row->text) {
        *row->text = value;
        return true;
    }
    if (!read_list(row->name, value, row->min, &list, err))
        return false;
    if (!row->list && list.n > 1)
        return error_set(err, ERR_INVALID, "%s: '%s': expected one number", row->name, value);
    if (row->list)
        *row->list = list;
    else
        *row->number = list.values[0];
    return true;
}

/* Options of llama-bench that mean nothing here. */
static bool is_about_gpus(const char *name)
{
    static const char *const names[] = {"-ngl", "--n-gpu-layers", "-sm",   "--split-mode",
                                        "-mg",  "--main-gpu",     "-ts",   "--tensor-split",
                                        "-fa",  "--flash-attn",   "-nkvo", "--no-kv-offload"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool read_options(int argc, char **argv, struct bench_options *o, struct error *err)
{
    const char *output = NULL;
    const struct bench_option table[] = {
        {"-m", &o->model, NULL, NULL, 0, NULL},
        {"--model", &o->model, NULL, NULL, 0, NULL},
        {"--synthetic", &o->synthetic, NULL, NULL, 0, NULL},
        {"--formats", &o->formats, NULL, NULL, 0, NULL},
        {"--templates", &o->templates, NULL, NULL, 0, NULL},
        {"--write", &o->write, NULL, NULL, 0, NULL},
        {"--compare", &o->compare, NULL, NULL, 0, NULL},
        {"-o", &output, NULL, NULL, 0, NULL},
        {"--output", &output, NULL, NULL, 0, NULL},
        {"-ctk", &o->type_k, NULL, NULL, 0, NULL},
        {"-ctv", &o->type_v, NULL, NULL, 0, NULL},
        {"-p", NULL, NULL, NULL, 0, &o->prompts},
        {"--n-prompt", NULL, NULL, NULL, 0, &o->prompts},
        {"-n", NULL, NULL, NULL, 0, &o->generates},
        {"--n-gen", NULL, NULL, NULL, 0, &o->generates},
        {"-d", NULL, NULL, NULL, 0, &o->depths},
        {"--n-depth", NULL, NULL, NULL, 0, &o->depths},
        {"-t", NULL, NULL, NULL, 1, &o->threads},
        {"--threads", NULL, NULL, NULL, 1, &o->threads},
        {"--texts", NULL, &o->n_texts, NULL, 1, NULL},
        {"-tb", NULL, &o->n_threads_batch, NULL, 1, NULL},
        {"-b", NULL, &o->n_batch, NULL, 1, NULL},
        {"-ub", NULL, &o->n_ubatch, NULL, 1, NULL},
        {"--clients", NULL, &o->n_clients, NULL, 1, NULL},
        {"-r", NULL, &o->n_reps, NULL, 1, NULL},
        {"--repetitions", NULL, &o->n_reps, NULL, 1, NULL},
        {"--embeddings", NULL, NULL, &o->embeddings, 0, NULL},
        {"--json", NULL, NULL, &o->json, 0, NULL},
        {"--no-repack", NULL, NULL, &o->no_repack, 0, NULL},
        {"--sampling", NULL, NULL, &o->sampling, 0, NULL},
        {"--help", NULL, NULL, &o->help, 0, NULL},
        {"-h", NULL, NULL, &o->help, 0, NULL},
    };
    enum { N = sizeof table / sizeof *table };
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < N && strcmp(table[k].name, argv[i]) != 0)
            k++;
        if (k == N && is_about_gpus(argv[i])) {
            fprintf(stderr, "mlxcel bench: %s: no effect, mlxcel runs on the CPU only\n", argv[i]);
            i += i + 1 < argc && argv[i + 1][0] != '-';
            continue;
        }
        if (k == N)
            return error_set(err, ERR_INVALID, "unknown option '%s'; --help lists all", argv[i]);
        if (table[k].flag) {
            *table[k].flag = true;
            continue;
        }
        if (++i == argc)
            return error_set(err, ERR_INVALID, "%s: a value is missing", table[k].name);
        if (!read_value(&table[k], argv[i], err))
            return false;
    }
    if (output && !read_output(output, &o->output, err))
        return false;
    if (o->json)
        o->output = OUTPUT_JSON;
    o->json = o->output == OUTPUT_JSON;
    int n_models = (o->model != NULL) + (o->synthetic != NULL) + (o->formats != NULL);
    if (!o->help && !o->sampling && !o->templates && n_models != 1)
        return error_set(err, ERR_INVALID,
                         "give a model: either -m FILE, --synthetic SPEC or --formats SIZE");
    return true;
}

/* ---- setting up -------------------------------------------------------------------- */

static bool cache_type(const char *name, enum dtype *out, struct error *err)
{
    return !name || dtype_from_name(name, out) ||
           error_set(err, ERR_INVALID,
                     "'%s' is not a type of the KV cache; expected f32, f16, bf16, q8_0, q4_0 or "
                     "another of them",
                     name);
}

static bool open_model(struct bench *b, struct error *err)
{
    struct model_settings settings = {.repack = !b->o->no_repack};
    if (b->o->synthetic)
        return model_synthetic(b->o->synthetic, &settings, b->pool, &b->model, err);
    return model_file_open(b->o->model, NULL, &b->file, err) &&
           model_load(b->file, &settings, b->pool, &b->model, err);
}

static bool set_up(struct bench *b, struct error *err)
{
    const struct bench_options *o = b->o;
    struct worker_settings workers = {.n_threads = o->n_threads, .poll = 50};
    b->pool = worker_pool_create(&workers, err);
    if (!b->pool)
        return false;
    b->pool_batch = b->pool;
    if (o->n_threads_batch && o->n_threads_batch != o->n_threads) {
        workers.n_threads = o->n_threads_batch;
        b->pool_batch = worker_pool_create(&workers, err);
        if (!b->pool_batch)
            return false;
    }
    uint64_t start = clock_monotonic_us();
    if (!open_model(b, err))
        return false;
    b->load_seconds = (double)(clock_monotonic_us() - start) / 1e6;
    if (o->embeddings)
        return true;
    if (model_info(b->model)->is_encoder)
        return error_set(err, ERR_UNSUPPORTED,
                         "an encoder does not generate; --embeddings measures it");
    struct context_settings s = context_settings_default();
    int32_t longest = o->n_prompt > o->n_generate ? o->n_prompt : o->n_generate;
    s.n_seq_max = o->n_clients;
    s.n_ctx = (o->n_depth + longest + 1) * o->n_clients;
    s.kv_unified = true;
    s.n_batch = o->n_batch;
    s.n_ubatch = o->n_ubatch;
    s.pool = b->pool;
    s.pool_batch = b->pool_batch;
    if (!cache_type(o->type_k, &s.type_k, err) || !cache_type(o->type_v, &s.type_v, err) ||
        !context_create(b->model, &s, &b->ctx, err) || !model_warmup(b->ctx, err))
        return false;
    b->load_seconds = (double)(clock_monotonic_us() - start) / 1e6;
    return true;
}

static void tear_down(struct bench *b)
{
    context_free(b->ctx);
    model_free(b->model);
    model_file_close(b->file);
    if (b->pool_batch != b->pool)
        worker_pool_free(b->pool_batch);
    worker_pool_free(b->pool);
}

/* ---- measuring ------------------------------------------------------------------------ */

/* n tokens of one sequence from position pos on, batch by batch. */
static bool read_prompt(struct bench *b, int32_t seq, int32_t pos, int32_t n, struct error *err)
{
    int32_t most = context_n_batch(b->ctx), n_vocab = model_info(b->model)->n_vocab;
    int32_t *rows = malloc((size_t)most * 3 * sizeof *rows);
    bool *wide = malloc((size_t)most * sizeof *wide);
    bool ok = rows && wide ? true : error_memory(err);
    for (int32_t i = 0; ok && i < most; i++)
        wide[i] = n >= MODEL_LONG_PROMPT;
    for (int32_t done = 0; ok && done < n;) {
        int32_t m = n - done < most ? n - done : most;
        for (int32_t i = 0; i < m; i++) {
            rows[i] = (int32_t)((uint32_t)(pos + done + i) * 2654435761u % (uint32_t)n_vocab);
            rows[most + i] = pos + done + i;
            rows[2 * most + i] = seq;
        }
        struct batch batch = {m, rows, rows + most, rows + 2 * most, NULL, wide, NULL};
        ok = model_decode(b->ctx, &batch, err);
        done += m;
    }
    free(rows);
    free(wide);
    return ok;
}

/* One token of each client, n times. */
static bool generate(struct bench *b, int32_t pos, int32_t n, struct error *err)
{
    int32_t clients = b->o->n_clients, n_vocab = model_info(b->model)->n_vocab;
    int32_t *rows = malloc((size_t)clients * 3 * sizeof *rows);
    bool *want = malloc((size_t)clients * sizeof *want);
    bool ok = rows && want ? true : error_memory(err);
    for (int32_t i = 0; ok && i < n; i++) {
        for (int32_t c = 0; c < clients; c++) {
            rows[c] = (int32_t)((uint32_t)(i * 131 + c * 17) * 2654435761u % (uint32_t)n_vocab);
            rows[clients + c] = pos + i;
            rows[2 * clients + c] = c;
            want[c] = true;
        }
        struct batch batch = {clients, rows, rows + clients, rows + 2 * clients, want, NULL, NULL};
        ok = model_decode(b->ctx, &batch, err);
    }
    free(rows);
    free(want);
    return ok;
}

static bool fill_depth(struct bench *b, struct error *err)
{
    kv_seq_remove(b->ctx, -1, -1, -1);
    for (int32_t c = 0; c < b->o->n_clients; c++)
        if (!read_prompt(b, c, 0, b->o->n_depth, err))
            return false;
    return true;
}

/* which 0: the prompt, 1: generation. */
static bool measure(struct bench *b, int which, struct error *err)
{
    const struct bench_options *o = b->o;
    int32_t n = which ? o->n_generate : o->n_prompt;
    double sum = 0.0, squares = 0.0;
    if (n == 0)
        return true;
    if (!fill_depth(b, err))
        return false;
    for (int32_t r = 0; r < o->n_reps; r++) {
        bool kept = true; /* a sliding window may have given up what the depth sees */
        for (int32_t c = 0; c < o->n_clients; c++)
            kept = kv_seq_remove(b->ctx, c, o->n_depth, -1) && kept;
        if (!kept && !fill_depth(b, err))
            return false;
        uint64_t start = clock_monotonic_us();
        if (!(which ? generate(b, o->n_depth, n, err) : read_prompt(b, 0, o->n_depth, n, err)))
            return false;
        double seconds = (double)(clock_monotonic_us() - start) / 1e6;
        double speed = (double)n * (which ? o->n_clients : 1) / seconds;
        sum += speed;
        squares += speed * speed;
    }
    b->speed[which] = sum / o->n_reps;
    double variance = squares / o->n_reps - b->speed[which] * b->speed[which];
    b->deviation[which] = variance > 0.0 ? sqrt(variance) : 0.0;
    return true;
}

/* ---- printing -------------------------------------------------------------------------- */

static long resident_kib(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_maxrss : 0;
}

static json_t *result(const struct bench *b, int which)
{
    const struct bench_options *o = b->o;
    json_t *r = json_pack("{s:s,s:i,s:i,s:i,s:f,s:f}", "test", test_names[which], "n_tokens",
                          (int)(which ? o->n_generate : o->n_prompt), "depth", (int)o->n_depth,
                          "clients", (int)(which ? o->n_clients : 1), "tokens_per_second",
                          b->speed[which], "deviation", b->deviation[which]);
    if (b->earlier[which] > 0.0) {
        json_object_set_new(r, "earlier", json_real(b->earlier[which]));
        json_object_set_new(r, "ratio", json_real(b->speed[which] / b->earlier[which]));
    }
    return r;
}

static bool print_json(const struct bench *b, struct error *err)
{
    const struct model_info *info = model_info(b->model);
    json_t *results = json_array();
    for (int which = 0; which < 2; which++)
        if (which ? b->o->n_generate : b->o->n_prompt)
            json_array_append_new(results, result(b, which));
    json_t *all = json_pack("{s:s,s:s,s:s,s:I,s:I,s:i,s:i,s:s,s:f,s:I,s:o}", "model", model_name(b),
                            "arch", info->arch, "type", info->ftype, "n_params",
                            (json_int_t)info->n_params, "n_bytes", (json_int_t)info->n_bytes,
                            "threads", (int)b->o->n_threads, "threads_batch",
                            (int)(b->o->n_threads_batch ? b->o->n_threads_batch : b->o->n_threads),
                            "isa", kernels_isa(), "load_seconds", b->load_seconds, "resident_kib",
                            (json_int_t)resident_kib(), "results", results);
    struct str text = {0};
    bool ok = all && json_append(&text, all);
    if (ok)
        puts(str_text(&text));
    str_free(&text);
    json_decref(all);
    return ok || error_memory(err);
}

static void print_speed(const struct bench *b, int which)
{
    printf(": %8.2f tokens/s", b->speed[which]);
    if (b->o->n_reps > 1)
        printf(" (+- %.2f)", b->deviation[which]);
    if (b->earlier[which] > 0.0)
        printf(", %.3f times the earlier %.2f", b->speed[which] / b->earlier[which],
               b->earlier[which]);
}

static void print_human(const struct bench *b)
{
    const struct model_info *info = model_info(b->model);
    const struct bench_options *o = b->o;
    printf("%s, %.2f M parameters, %.1f MiB, %d threads, %s, loaded in %.2f s, %ld MiB resident\n",
           info->description, (double)info->n_params / 1e6, (double)info->n_bytes / 1048576.0,
           o->n_threads, kernels_isa(), b->load_seconds, resident_kib() / 1024);
    for (int which = 0; which < 2; which++) {
        int32_t n = which ? o->n_generate : o->n_prompt;
        if (n == 0)
            continue;
        printf("%-10s %5d tokens", test_names[which], n);
        if (o->n_depth)
            printf(" at depth %d", o->n_depth);
        if (which && o->n_clients > 1)
            printf(" for %d clients", o->n_clients);
        print_speed(b, which);
        printf("\n");
    }
}

/* The columns that llama-bench has, as far as they mean something here. */
static void print_table(const struct bench *b)
{
    const struct model_info *info = model_info(b->model);
    const struct bench_options *o = b->o;
    bool csv = o->output == OUTPUT_CSV;
    for (int which = 0; which < 2; which++) {
        int32_t n = which ? o->n_generate : o->n_prompt;
        char test[64], depth[24] = "";
        if (n == 0)
            continue;
        if (o->n_depth)
            snprintf(depth, sizeof depth, " @ d%d", o->n_depth);
        snprintf(test, sizeof test, "%s%d%s", which ? "tg" : "pp", n, depth);
        printf(csv ? "\"%s\",%.2f,%.2f,%d,%s,\"%s\",%.2f,%.2f\n"
                   : "| %s | %.2f MiB | %.2f M | %d | %s | %s | %.2f ± %.2f |\n",
               info->description, (double)info->n_bytes / 1048576.0, (double)info->n_params / 1e6,
               o->n_threads, kernels_isa(), test, b->speed[which], b->deviation[which]);
    }
}

static void print_table_head(enum output output)
{
    if (output == OUTPUT_MARKDOWN)
        printf("| model | size | params | threads | isa | test | t/s |\n"
               "| --- | ---: | ---: | ---: | --- | ---: | ---: |\n");
    else if (output == OUTPUT_CSV)
        printf("model,size_mib,params_m,threads,isa,test,tokens_per_second,deviation\n");
}

/* A row of --formats. */
static void print_row(const struct bench *b)
{
    const struct bench_options *o = b->o;
    printf("%-24s", o->synthetic);
    for (int which = 0; which < 2; which++) {
        if (!(which ? o->n_generate : o->n_prompt))
            continue;
        printf(" %s", test_names[which]);
        print_speed(b, which);
    }
    printf("\n");
}

/* ---- embeddings ------------------------------------------------------------------------- */

static bool run_embeddings(const struct bench *b, struct error *err)
{
    const struct bench_options *o = b->o;
    struct embedding_speed speed;
    if (!bench_embeddings(b->model, b->pool_batch, o->n_texts, o->n_prompt, o->n_ubatch, o->n_reps,
                          &speed, err))
        return false;
    if (o->json)
        printf("{\"test\":\"embeddings\",\"model\":\"%s\",\"texts\":%d,\"n_tokens\":%d,"
               "\"threads\":%d,\"isa\":\"%s\",\"texts_per_second\":%.2f,"
               "\"tokens_per_second\":%.2f,\"deviation\":%.2f}\n",
               model_info(b->model)->description, o->n_texts, o->n_prompt, o->n_threads,
               kernels_isa(), speed.texts, speed.tokens, speed.deviation);
    else
        printf("%s, %d threads, %s\nembeddings %5d texts of %d tokens: %8.2f texts/s (+- %.2f), "
               "%.0f tokens/s\n",
               model_info(b->model)->description, o->n_threads, kernels_isa(), o->n_texts,
               o->n_prompt, speed.texts, speed.deviation, speed.tokens);
    return true;
}

/* ---- the command ------------------------------------------------------------------------ */

static bool run(const struct bench_options *o, struct error *err)
{
    if (o->write) {
        if (!o->synthetic)
            return error_set(err, ERR_INVALID, "--write writes a --synthetic model");
        return model_synthetic_write(o->synthetic, o->write, err);
    }
    struct bench b = {.o = o};
    if (o->embeddings) {
        bool done = set_up(&b, err) && run_embeddings(&b, err);
        tear_down(&b);
        return done;
    }
    bool ok = true;
    for (int which = 0; ok && o->compare && which < 2; which++)
        ok = bench_earlier(o->compare, model_name(&b), test_names[which], o->n_depth,
                           which ? o->n_clients : 1, &b.earlier[which], err);
    ok = ok && set_up(&b, err) && measure(&b, 0, err) && measure(&b, 1, err);
    if (ok && o->json)
        ok = print_json(&b, err);
    else if (ok && o->output != OUTPUT_TEXT)
        print_table(&b);
    else if (ok)
        (o->formats ? print_row : print_human)(&b);
    tear_down(&b);
    return ok;
}

static bool run_formats(const struct bench_options *o, struct error *err)
{
    const char *type;
    for (size_t i = 0; (type = model_synthetic_type(i)) != NULL; i++) {
        char spec[128];
        struct bench_options one = *o;
        snprintf(spec, sizeof spec, "llama:%s:%s", o->formats, type);
        one.synthetic = spec;
        if (o->json)
            fputs(i ? "," : "[", stdout);
        if (!run(&one, err))
            return false;
        fflush(stdout);
    }
    if (o->json)
        puts("]");
    return true;
}

static int32_t n_processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > WORKER_MAX_THREADS ? WORKER_MAX_THREADS : (int32_t)n;
}

/* The i-th value of a list; past its end 0, a test that is not run. */
static int32_t value_at(const struct value_list *list, size_t i)
{
    return i < list->n ? list->values[i] : 0;
}

/* Every number of threads at every depth, prompts and generations side by side. */
static bool run_all(struct bench_options *o, struct error *err)
{
    size_t n = o->prompts.n > o->generates.n ? o->prompts.n : o->generates.n;
    size_t n_runs = o->threads.n * o->depths.n * n, done = 0;
    bool list = o->json && n_runs > 1, ok = true;
    print_table_head(o->output);
    if (list)
        fputs("[", stdout);
    for (size_t t = 0; t < o->threads.n; t++)
        for (size_t d = 0; d < o->depths.n; d++)
            for (size_t i = 0; ok && i < n; i++) {
                o->n_threads = o->threads.values[t];
                o->n_depth = o->depths.values[d];
                o->n_prompt = value_at(&o->prompts, i);
                o->n_generate = value_at(&o->generates, i);
                if (o->embeddings && o->n_prompt == 0)
                    o->n_prompt = 1;
                if (list && done++)
                    fputs(",", stdout);
                ok = (o->formats ? run_formats : run)(o, err);
                fflush(stdout);
            }
    if (list)
        puts("]");
    return ok;
}

static void set_default(struct value_list *list, int32_t value)
{
    if (list->n == 0)
        *list = (struct value_list){{value}, 1};
}

int cmd_bench(int argc, char **argv)
{
    struct error err = {0};
    struct bench_options o = {.n_clients = 1, .n_reps = 3, .n_texts = 128};
    if (!read_options(argc, argv, &o, &err)) {
        error_print("mlxcel bench", &err);
        return 1;
    }
    if (o.help) {
        fputs(bench_usage, stdout);
        return 0;
    }
    if (o.sampling)
        return bench_sampling();
    if (o.templates)
        return bench_templates(o.templates, o.n_reps);
    set_default(&o.prompts, o.embeddings ? 64 : 512);
    set_default(&o.generates, 64);
    set_default(&o.depths, 0);
    set_default(&o.threads, n_processors());
    if (!run_all(&o, &err)) {
        error_print("mlxcel bench", &err);
        return 1;
    }
    return 0;
}
