/* recipes.c - the models' shapes and how long each learns. */
#include "tale.h"

#include <string.h>

#define TALE_SHAPE                                                                                 \
    {                                                                                              \
        VOCAB_SIZE, 128, 6, 4, 384, 1024, 1e-5f, 10000.0f                                          \
    }

static const struct recipe recipes[] = {
    {"tale",
     TALE_SHAPE,
     {.n_steps = 2400,
      .stop = 1700,
      .n_tokens = 2048,
      .learning_rate = 3e-3f,
      .weight_decay = 0.05f,
      .seed = 1}},
    /* The same model goes on more slowly, with more of what has to be known by
     * heart. */
    {"tale-drill",
     TALE_SHAPE,
     {.n_steps = 2200,
      .stop = 1200,
      .n_tokens = 2048,
      .learning_rate = 1e-3f,
      .weight_decay = 0.05f,
      .seed = 4,
      .drill = 30,
      .drill_sums = 60,
      .goes_on = true}},
    /* Then the sums, and tools whose answers look different. */
    {"tale-sums",
     TALE_SHAPE,
     {.n_steps = 700,
      .stop = 400,
      .n_tokens = 2048,
      .learning_rate = 6e-4f,
      .weight_decay = 0.05f,
      .seed = 5,
      .drill = 50,
      .drill_sums = 85,
      .any_json = true,
      .goes_on = true}},
    /* At last hardly anything but sums. */
    {"tale-by-heart",
     TALE_SHAPE,
     {.n_steps = 400,
      .n_tokens = 2048,
      .learning_rate = 7e-4f,
      .weight_decay = 0.05f,
      .seed = 6,
      .drill = 85,
      .drill_sums = 90,
      .any_json = true,
      .goes_on = true}},
    {"tale-draft",
     {VOCAB_SIZE, 64, 4, 4, 192, 1024, 1e-5f, 10000.0f},
     {.n_steps = 1200, .n_tokens = 2048, .learning_rate = 4e-3f, .weight_decay = 0.05f, .seed = 2}},
    {"tale-pirate-lora",
     TALE_SHAPE,
     {.n_steps = 160, .n_tokens = 2048, .learning_rate = 1.2e-3f, .seed = 3, .pirate = true}},
};

const struct recipe *find_recipe(const char *name)
{
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (strcmp(name, recipes[i].name) == 0)
            return &recipes[i];
    return NULL;
}
