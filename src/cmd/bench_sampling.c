/* bench_sampling.c - mlxcel bench --sampling: the cost of picking a token.
 *
 * The vocabulary is made up, as large as Qwen's and as rich in tokens that begin
 * alike: words of letters, digits, punctuation, bytes. Logits are noise with a
 * few favourites, as a model's are. */
#include "cmd/bench_sampling.h"

#include "base/printable.h"
#include "base/random.h"
#include "sample/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_TOKENS = 152064, PIECE_MAX = 12, N_RUNS = 200, END = N_TOKENS - 1 };

static const char json_grammar[] =
    "root   ::= object\n"
    "value  ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
    "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\n"
    "array  ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"
    "string ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}) "
    ")* \"\\\"\" ws\n"
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "
    "[1-9]{0,15})? ws\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";

struct pieces {
    char (*text)[PIECE_MAX + 1]; /* [N_TOKENS] */
};

static struct slice piece(const void *context, int32_t token)
{
    return slice_of(((const struct pieces *)context)->text[token]);
}

static bool is_eog(const void *context, int32_t token)
{
    (void)context;
    return token == END;
}

/* The first 255 are the bytes; then short pieces of each kind. */
static void make_pieces(struct pieces *p)
{
    static const char letters[] = "etaoinshrdlucmfwypvbgkjxqzETAOINSHRDL";
    static const char marks[] = "{}[]()\":,.;=<>/-_ \n\t0123456789";
    struct random random;
    random_seed(&random, 7);
    for (int32_t i = 0; i < N_TOKENS; i++) {
        char *text = p->text[i];
        if (i < 255) {
            text[0] = (char)(i + 1);
            continue;
        }
        uint32_t kind = random_u32(&random) % 8, n = 2 + random_u32(&random) % 8;
        for (uint32_t j = 0; j < n; j++) {
            uint32_t pick = random_u32(&random);
            bool mark = kind == 0 || (kind == 1 && j + 1 == n);
            if (kind > 4 && j == 0)
                text[j] = ' ';
            else if (mark)
                text[j] = marks[pick % (sizeof marks - 1)];
            else
                text[j] = letters[pick % 1000 * (pick % 37) / 1000];
        }
    }
    snprintf(p->text[END], sizeof p->text[END], "</s>");
}

static void make_logits(struct random *random, float *logits)
{
    for (int32_t i = 0; i < N_TOKENS; i++)
        logits[i] =
            (float)(random_double(random) + random_double(random) + random_double(random)) * 4.0f -
            6.0f;
    for (int i = 0; i < 20; i++)
        logits[random_u32(random) % N_TOKENS] = 8.0f + (float)random_double(random) * 6.0f;
}

/* Processor time of this thread: what else the machine does is not our cost. */
static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

struct cost {
    uint64_t total_us, worst_us;
    int n;
};

static void count(struct cost *cost, uint64_t begin)
{
    uint64_t us = now_us() - begin;
    cost->total_us += us;
    cost->worst_us = us > cost->worst_us ? us : cost->worst_us;
    cost->n++;
}

static void print_cost(const char *what, const struct cost *cost)
{
    printf("%-44s %8.3f ms/token  (worst %.3f, %d tokens)\n", what,
           (double)cost->total_us / 1000.0 / cost->n, (double)cost->worst_us / 1000.0, cost->n);
}

static bool run(const struct vocab *vocab, const char *what, const struct sampler_settings *set,
                float *logits, struct error *err)
{
    struct sampler *s = sampler_create(vocab, set, 4096, err);
    struct cost cost = {0};
    struct random random;
    random_seed(&random, 11);
    bool ok = s;
    for (int i = 0; ok && i < N_RUNS; i++) {
        int32_t token;
        make_logits(&random, logits);
        uint64_t begin = now_us();
        ok = sampler_sample(s, logits, &token, err);
        /* A grammar that is complete begins again. */
        if (ok && token == END) {
            sampler_free(s);
            s = sampler_create(vocab, set, 4096, err);
            ok = s;
            continue;
        }
        ok = ok && sampler_accept(s, token, true, err);
        count(&cost, begin);
    }
    sampler_free(s);
    if (ok)
        print_cost(what, &cost);
    return ok;
}

/* The mask alone, in the states that a document passes through: how long all
 * tokens take that may follow, the first time and again. */
static bool run_document(const struct vocab *vocab, float *logits, struct error *err)
{
    static const char document[] =
        "{\"name\": \"a longer text in a string\", \"list\": [1, 22.5, true, {\"k\": null}], "
        "\"more\": {\"inner\": {\"deep\": [\"x\", \"y\"]}}}";
    struct sampler_settings set = sampler_settings_defaults();
    set.grammar = slice_of(json_grammar);
    set.temperature = 0;
    struct sampler *s = sampler_create(vocab, &set, 4096, err);
    struct cost costs[2] = {{0}, {0}};
    bool ok = s;
    struct random random;
    random_seed(&random, 13);
    make_logits(&random, logits);
    for (int pass = 0; ok && pass < 2; pass++) {
        struct sampler *walker = sampler_clone(s, err);
        ok = walker;
        for (const char *c = document; ok && *c; c++) {
            int32_t token;
            /* The favourite, byte 1, is never admitted: the mask is needed. */
            logits[0] = 100.0f;
            uint64_t begin = now_us();
            ok = sampler_sample(walker, logits, &token, err);
            count(&costs[pass], begin);
            ok = ok && sampler_accept(walker, (unsigned char)*c - 1, true, err);
        }
        sampler_free(walker);
    }
    sampler_free(s);
    if (ok) {
        print_cost("JSON grammar, every token masked, first time", &costs[0]);
        print_cost("JSON grammar, every token masked, again", &costs[1]);
    }
    return ok;
}

int bench_sampling(void)
{
    struct error err = {0};
    struct pieces pieces = {calloc(N_TOKENS, sizeof *pieces.text)};
    float *logits = calloc(N_TOKENS, sizeof *logits);
    struct vocab *vocab = NULL;
    bool ok = pieces.text && logits;
    if (ok) {
        make_pieces(&pieces);
        struct vocab_source source = {.context = &pieces,
                                      .n_tokens = N_TOKENS,
                                      .eot = -1,
                                      .eos = END,
                                      .piece = piece,
                                      .is_eog = is_eog};
        uint64_t begin = now_us();
        vocab = vocab_create(&source, &err);
        ok = vocab;
        printf("vocabulary of %d tokens, made ready in %.0f ms\n", N_TOKENS,
               (double)(now_us() - begin) / 1000.0);
    } else {
        error_memory(&err);
    }
    struct sampler_settings set = sampler_settings_defaults();
    set.seed = 1;
    ok = ok && run(vocab, "default chain", &set, logits, &err);
    set.repeat_penalty = 1.1f;
    set.frequency_penalty = 0.1f;
    ok = ok && run(vocab, "default chain, penalties over 64 tokens", &set, logits, &err);
    set = sampler_settings_defaults();
    set.seed = 1;
    set.grammar = slice_of(json_grammar);
    ok = ok && run(vocab, "default chain, JSON grammar", &set, logits, &err);
    ok = ok && run_document(vocab, logits, &err);
    if (!ok)
        error_print("bench --sampling", &err);
    vocab_free(vocab);
    free(pieces.text);
    free(logits);
    return ok ? 0 : 1;
}
