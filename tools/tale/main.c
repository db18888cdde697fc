/* main.c - the commands that make the models. */
#include "tale.h"

#include "base/json.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKENIZER_CONVERSATIONS = 20000 };

static int fail(const struct error *err)
{
    fprintf(stderr, "tale: %s\n", err->message);
    return 1;
}

/* tale tokenizer FILE: learn the tokenizer from a corpus of our own. */
static int command_tokenizer(int argc, char **argv)
{
    if (argc != 1) {
        fprintf(stderr, "usage: tale tokenizer FILE.json\n");
        return 1;
    }
    struct str text = {0};
    struct random random;
    random_seed(&random, 20261129);
    for (int i = 0; i < TOKENIZER_CONVERSATIONS; i++) {
        struct arena arena = {0};
        struct conversation c = {0};
        struct segment segments[MAX_SEGMENTS];
        make_conversation(&random, &arena, &c);
        int n = render(&c, segments);
        for (int k = 0; k < n; k++)
            str_append_text(&text, segments[k].text);
        arena_free(&arena);
    }
    struct error err;
    struct bpe *bpe = bpe_learn(str_slice(&text));
    bool ok = bpe_save(bpe, argv[0], &err);
    str_free(&text);
    bpe_free(bpe);
    return ok ? 0 : fail(&err);
}

/* tale train RECIPE FOLDER [STEPS [THREADS]]: make one of the models; FOLDER has
 * tokenizer.json and receives the weights, now and then and at the end. An
 * adapter's base stands in FOLDER/../tale. The number of threads changes nothing
 * but the time. */
static int command_train(int argc, char **argv)
{
    const struct recipe *recipe = argc >= 2 ? find_recipe(argv[0]) : NULL;
    if (!recipe) {
        fprintf(stderr, "usage: tale train RECIPE FOLDER [STEPS [THREADS]]\n");
        return 1;
    }
    struct training training = recipe->training;
    training.save = training.pirate ? net_save_lora : net_save;
    training.folder = argv[1];
    int n_threads = argc > 3 ? atoi(argv[3]) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (argc > 2) {
        training.n_steps = atoi(argv[2]);
        training.stop = 0;
    }
    if (training.n_steps < 1 || n_threads < 1) {
        fprintf(stderr, "tale: steps and threads are numbers from 1\n");
        return 1;
    }
    struct error err;
    char *base = text_format("%s/../tale", argv[1]);
    char *vocabulary = text_format("%s/tokenizer.json", training.pirate && base ? base : argv[1]);
    struct worker_settings workers = {.n_threads = n_threads, .poll = 50};
    struct worker_pool *pool = worker_pool_create(&workers, &err);
    struct bpe *bpe = pool && vocabulary ? bpe_load(vocabulary, &err) : NULL;
    struct net *net =
        bpe ? net_create(&recipe->config, training.n_tokens, training.seed, pool) : NULL;
    bool ok = net != NULL;
    if (ok && training.goes_on)
        ok = net_load(net, argv[1], &err);
    if (ok && training.pirate)
        ok = base && net_load(net, base, &err) &&
             (net_add_lora(net, LORA_RANK, LORA_ALPHA, training.seed) || error_memory(&err));
    if (ok) {
        float first, last = 0;
        ok = train(net, bpe, &training, &first, &last, &err);
        printf("%s: loss %.4f at the beginning, %.4f at the end\n", recipe->name, (double)first,
               (double)last);
    }
    net_free(net);
    bpe_free(bpe);
    worker_pool_free(pool);
    free(vocabulary);
    free(base);
    return ok ? 0 : fail(&err);
}

/* tale merge ADAPTER FOLDER: write a model with the adapter's products added to
 * its base, which stands in ADAPTER/../tale. FOLDER receives config.json and
 * model.safetensors; the rest of a model's files are the base's. */
static int command_merge(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: tale merge ADAPTER FOLDER\n");
        return 1;
    }
    struct error err;
    const struct recipe *recipe = find_recipe("tale-pirate-lora");
    char *base = text_format("%s/../tale", argv[0]);
    struct net *net = base ? net_create(&recipe->config, 1, 1, NULL) : NULL;
    bool ok = net ? net_load(net, base, &err) &&
                        (net_add_lora(net, LORA_RANK, LORA_ALPHA, 1) || error_memory(&err)) &&
                        net_load_lora(net, argv[0], &err) && net_save(net, argv[1], &err)
                  : error_memory(&err);
    net_free(net);
    free(base);
    return ok ? 0 : fail(&err);
}

static json_t *message_json(const struct message *m)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    json_t *value = json_pack("{s:s}", "role", roles[m->role]);
    if (m->call_name) {
        json_object_set_new(value, "content", json_string(""));
        json_object_set_new(value, "tool_calls",
                            json_pack("[{s:s, s:s, s:{s:s, s:s}}]", "type", "function", "id",
                                      "call0", "function", "name", m->call_name, "arguments",
                                      m->call_arguments));
    } else {
        json_object_set_new(value, "content", json_string(m->text));
    }
    if (m->role == ROLE_TOOL)
        json_object_set_new(value, "tool_call_id", json_string("call0"));
    return value;
}

static json_t *tools_json(const char *lines)
{
    json_t *tools = json_array();
    while (lines && *lines) {
        size_t n = strcspn(lines, "\n");
        json_array_append_new(tools, json_loadb(lines, n, 0, NULL));
        lines += n + (lines[n] == '\n');
    }
    return tools;
}

/* One line: the request, what a right answer holds, and the rendered prompt. */
static void print_held_out(const struct conversation *c)
{
    json_t *messages = json_array(), *expect = json_array();
    /* The last message is what the model has to write. */
    for (int i = 0; i < c->n_messages - 1; i++)
        json_array_append_new(messages, message_json(&c->messages[i]));
    for (int i = 0; i < 2 && c->expect[i]; i++)
        json_array_append_new(expect, json_string(c->expect[i]));
    struct segment segments[MAX_SEGMENTS];
    struct str prompt = {0}, line = {0};
    int n = render(c, segments);
    /* The last run is what the model has to write. */
    for (int i = 0; i < n - 1; i++)
        str_append_text(&prompt, segments[i].text);
    json_t *root = json_pack("{s:s, s:b, s:o, s:o, s:o, s:s}", "task", task_name(c->kind),
                             "thinking", c->thinking, "messages", messages, "tools",
                             tools_json(c->tools), "expect", expect, "prompt", str_text(&prompt));
    json_append(&line, root);
    puts(str_text(&line));
    json_decref(root);
    str_free(&prompt);
    str_free(&line);
}

/* tale held-out N: N held-out requests of each task but small talk, echoes and
 * plain text, one JSON object a line. */
static int command_held_out(int argc, char **argv)
{
    if (argc != 1 || atoi(argv[0]) < 1) {
        fprintf(stderr, "usage: tale held-out N\n");
        return 1;
    }
    struct random random;
    random_seed(&random, 77);
    for (enum task_kind kind = 0; kind < TASK_KINDS; kind++) {
        if (kind == TASK_PLAIN || kind == TASK_SMALL_TALK || kind == TASK_ECHO)
            continue;
        for (int n = 0; n < atoi(argv[0]);) {
            struct arena arena = {0};
            struct conversation c = {0};
            make_conversation_of(kind, &random, &arena, &c);
            if (is_held_out(&c)) {
                print_held_out(&c);
                n++;
            }
            arena_free(&arena);
        }
    }
    return 0;
}

/* tale show N: N conversations as text, to look at. */
static int command_show(int argc, char **argv)
{
    struct random random;
    random_seed(&random, 5);
    for (int i = 0; argc > 0 && i < atoi(argv[0]); i++) {
        struct arena arena = {0};
        struct conversation c = {0};
        struct segment segments[MAX_SEGMENTS];
        make_conversation(&random, &arena, &c);
        int n = render(&c, segments);
        for (int k = 0; k < n; k++)
            printf(k == n - 1 ? "[[%s]]" : "%s", segments[k].text);
        puts("\n----");
        arena_free(&arena);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"tokenizer", command_tokenizer},
                    {"train", command_train},
                    {"merge", command_merge},
                    {"held-out", command_held_out},
                    {"show", command_show}};
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 2, argv + 2);
    fprintf(stderr, "usage: tale tokenizer|train|merge|held-out|show ...\n");
    return 1;
}
