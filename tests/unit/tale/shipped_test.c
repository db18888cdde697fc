/* shipped_test.c - the models in models/ are what the recipes make: their files,
 * their sizes, and what they have learned. */
#include "unit/unit.h"

#include "base/json.h"
#include "kernels/kernels.h"
#include "tale.h"

#include <string.h>

enum { N_TOKENS = 2048, N_BATCHES = 2 };

#define MODELS MLXCEL_SOURCE "/models/"

static uint64_t size_of(const char *file)
{
    struct stat info;
    char *path = text_format(MODELS "%s", file);
    assert_non_null(path);
    if (stat(path, &info) != 0)
        fail_msg("%s is missing", path);
    free(path);
    return (uint64_t)info.st_size;
}

static uint64_t size_of_model(const char *name)
{
    static const char *const files[] = {"config.json",
                                        "model.safetensors",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "generation_config.json",
                                        "chat_template.jinja",
                                        "README.md"};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *file = text_format("%s/%s", name, files[i]);
        sum += size_of(file);
        free(file);
    }
    return sum;
}

static void every_file_is_there_and_small(void **state)
{
    (void)state;
    assert_true(size_of_model("tale") <= 4 << 20);
    assert_true(size_of_model("tale-draft") + size_of("tale-pirate-lora/adapter_config.json") +
                    size_of("tale-pirate-lora/adapter_model.safetensors") +
                    size_of("tale-pirate-lora/README.md") <=
                2 << 20);
}

/* A model of models/, with its adapter where it has one, and its tokenizer. */
static struct net *open_net(const char *name, struct bpe **bpe)
{
    struct error err = {0};
    const struct recipe *recipe = find_recipe(name);
    assert_non_null(recipe);
    const char *base = recipe->training.pirate ? "tale" : name;
    char *folder = text_format(MODELS "%s", base);
    char *vocabulary = text_format(MODELS "%s/tokenizer.json", base);
    struct net *net = net_create(&recipe->config, N_TOKENS, 1, NULL);
    assert_non_null(net);
    bool ok = net_load(net, folder, &err);
    if (ok && recipe->training.pirate)
        ok = net_add_lora(net, LORA_RANK, LORA_ALPHA, 1) &&
             net_load_lora(net, MODELS "tale-pirate-lora", &err);
    *bpe = ok ? bpe_load(vocabulary, &err) : NULL;
    if (!*bpe)
        fail_msg("%s", err.message);
    free(folder);
    free(vocabulary);
    return net;
}

static float loss_of(const char *name, bool pirate)
{
    struct bpe *bpe;
    struct net *net = open_net(name, &bpe);
    float loss = held_out_loss(net, bpe, N_TOKENS, N_BATCHES, pirate);
    print_message("%s, %s: %.3f\n", name, pirate ? "as a pirate" : "plain", (double)loss);
    net_free(net);
    bpe_free(bpe);
    return loss;
}

/* A guess costs ln 1040 = 6.9; what is left is what nobody can know: what a user
 * asks, and the choice of a story's words. */
static void the_models_know_what_was_held_out(void **state)
{
    (void)state;
    float tale = loss_of("tale", false), draft = loss_of("tale-draft", false);
    assert_true(tale < 0.45f);
    assert_true(draft < 0.6f);
    assert_true(tale < draft);
}

static void the_adapter_talks_like_a_pirate_and_its_base_does_not(void **state)
{
    (void)state;
    assert_true(loss_of("tale-pirate-lora", true) < 0.6f);
    assert_true(loss_of("tale-pirate-lora", false) > loss_of("tale", false));
    assert_true(loss_of("tale", true) > loss_of("tale-pirate-lora", true) + 0.2f);
}

static bool same_file(const char *a, const char *b)
{
    FILE *files[2] = {fopen(a, "rb"), fopen(b, "rb")};
    bool same = files[0] && files[1];
    for (int x = 0; same && x != EOF;) {
        x = fgetc(files[0]);
        same = x == fgetc(files[1]);
    }
    for (int i = 0; i < 2; i++)
        if (files[i])
            fclose(files[i]);
    return same;
}

/* What stands in both folders is one thing, since a draft's tokens are checked
 * against the model's. */
static void the_draft_has_the_same_tokenizer(void **state)
{
    (void)state;
    assert_true(same_file(MODELS "tale/tokenizer.json", MODELS "tale-draft/tokenizer.json"));
    assert_true(
        same_file(MODELS "tale/chat_template.jinja", MODELS "tale-draft/chat_template.jinja"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_there_and_small),
        cmocka_unit_test(the_models_know_what_was_held_out),
        cmocka_unit_test(the_adapter_talks_like_a_pirate_and_its_base_does_not),
        cmocka_unit_test(the_draft_has_the_same_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
