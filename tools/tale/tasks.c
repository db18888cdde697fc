/* tasks.c - sums, small facts, counting, greetings. */
#include "tale.h"

#include <stddef.h>

void make_arithmetic(struct random *random, struct conversation *c)
{
    static const char *const plus[] = {
        "What is %d plus %d?", "What is %d + %d?", "How much is %d and %d?",
        "Add %d and %d.",      "%d + %d = ?",      NULL};
    static const char *const minus[] = {"What is %d minus %d?", "What is %d - %d?",
                                        "How much is %d minus %d?", "%d - %d = ?", NULL};
    uint32_t larger = below(random, 21);
    uint32_t part = below(random, larger + 1);
    bool adding = chance(random, 50);
    int a = (int)(adding ? part : larger), b = (int)(adding ? larger - part : part);
    int result = adding ? a + b : a - b;
    /* The patterns are our own constants with two %d each. */
    const char *pattern = pick(random, adding ? plus : minus);
    struct str question = {0};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    str_append_format(&question, pattern, a, b);
#pragma GCC diagnostic pop
    add_message(c, ROLE_USER, arena_duplicate(c->arena, str_slice(&question)));
    str_free(&question);
    const char *word = adding ? "plus" : "minus";
    add_answer(c, say(c->arena, "%d %s %d is %d.", a, word, b, result),
               say(c->arena, "%d %s %d is %d.", a, word, b, result));
    c->expect[0] = say(c->arena, "is %d.", result);
}

struct fact {
    const char *key, *value;
};

static const struct fact opposites[] = {
    {"hot", "cold"},   {"big", "small"},  {"old", "young"},   {"fast", "slow"},  {"up", "down"},
    {"day", "night"},  {"wet", "dry"},    {"open", "closed"}, {"happy", "sad"},  {"light", "dark"},
    {"long", "short"}, {"full", "empty"}, {"early", "late"},  {"left", "right"}, {"loud", "quiet"},
    {"hard", "soft"},  {"near", "far"},   {"clean", "dirty"}};
static const struct fact thing_colours[] = {
    {"the sky", "blue"}, {"grass", "green"},  {"snow", "white"},      {"the sun", "yellow"},
    {"coal", "black"},   {"a tomato", "red"}, {"a banana", "yellow"}, {"a frog", "green"},
    {"milk", "white"},   {"a cherry", "red"}, {"the sea", "blue"},    {"an elephant", "grey"}};
static const struct fact sounds[] = {{"a dog", "woof"},   {"a cat", "meow"},  {"a cow", "moo"},
                                     {"a duck", "quack"}, {"a sheep", "baa"}, {"an owl", "hoo"},
                                     {"a bee", "buzz"},   {"a pig", "oink"}};

static void make_fact(struct random *random, struct conversation *c)
{
    static const char *const opposite_questions[] = {
        "What is the opposite of", "Name the opposite of", "Tell me the opposite of", NULL};
    static const char *const colour_questions[] = {"What colour is", "Which colour has", NULL};
    struct arena *a = c->arena;
    const struct fact *f;
    struct fact turned;
    switch (below(random, 3)) {
    case 0:
        f = &opposites[below(random, sizeof opposites / sizeof *opposites)];
        if (chance(random, 50)) {
            turned = (struct fact){f->value, f->key};
            f = &turned;
        }
        add_message(c, ROLE_USER, say(a, "%s %s?", pick(random, opposite_questions), f->key));
        add_answer(c, say(a, "The opposite of %s is %s.", f->key, f->value),
                   say(a, "The opposite of %s is %s.", f->key, f->value));
        break;
    case 1:
        f = &thing_colours[below(random, sizeof thing_colours / sizeof *thing_colours)];
        add_message(c, ROLE_USER, say(a, "%s %s?", pick(random, colour_questions), f->key));
        add_answer(c, say(a, "The colour of %s is %s.", f->key, f->value),
                   say(a, "The colour of %s is %s.", f->key, f->value));
        break;
    default:
        f = &sounds[below(random, sizeof sounds / sizeof *sounds)];
        add_message(c, ROLE_USER, say(a, "What does %s say?", f->key));
        add_answer(c, say(a, "I know what %s says.", f->key), say(a, "It says %s.", f->value));
    }
    c->expect[0] = f->value;
}

static void make_counting(struct random *random, struct conversation *c)
{
    struct arena *a = c->arena;
    int n = 3 + (int)below(random, 10);
    struct str numbers = {0};
    for (int i = 1; i <= n; i++)
        str_append_format(&numbers, i == 1 ? "%d" : ", %d", i);
    char *list = arena_duplicate(a, str_slice(&numbers));
    str_free(&numbers);
    add_message(c, ROLE_USER,
                say(a, chance(random, 50) ? "Count to %d." : "Please count from 1 to %d.", n));
    add_answer(c, say(a, "I count from 1 to %d.", n), say(a, "%s.", list));
    c->expect[0] = say(a, "%s.", list);
}

void make_lookup(struct random *random, struct conversation *c)
{
    (chance(random, 70) ? make_fact : make_counting)(random, c);
}

/* Words in no order, to be said again: nothing teaches copying faster. */
void make_echo(struct random *random, struct conversation *c)
{
    static const char *const requests[] = {"Say this: %s", "Repeat: %s", "Say after me: %s",
                                           "Please repeat %s", NULL};
    static const char *const *const lists[] = {girl_names, boy_names, animals, places,
                                               things,     colours,   cities};
    struct arena *a = c->arena;
    struct str words = {0};
    for (uint32_t n = 4 + below(random, 17); n > 0; n--) {
        uint32_t list = below(random, 1 + sizeof lists / sizeof *lists);
        if (list == sizeof lists / sizeof *lists)
            str_append_format(&words, "%u", (unsigned)below(random, 200));
        else
            str_append_text(&words, pick_name(random, a, lists[list]));
        if (n > 1)
            str_append_char(&words, ' ');
    }
    char *text = arena_duplicate(a, str_slice(&words));
    str_free(&words);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    add_message(c, ROLE_USER, say(a, pick(random, requests), text));
#pragma GCC diagnostic pop
    add_answer(c, "I repeat it.", text);
    c->expect[0] = text;
}

void make_small_talk(struct random *random, struct conversation *c)
{
    static const char *const talk[][3] = {
        {"Hello!", "The user greets me.", "Hello! What can I do for you?"},
        {"Hi", "The user greets me.", "Hello! What can I do for you?"},
        {"Good morning!", "The user greets me.", "Good morning! What can I do for you?"},
        {"How are you?", "The user asks how I am.", "I am fine, thank you. How are you?"},
        {"Who are you?", "The user asks who I am.",
         "I am Tale, a very small language model. I tell stories, do little sums and use tools."},
        {"What is your name?", "The user asks who I am.", "My name is Tale."},
        {"What can you do?", "The user asks what I can do.",
         "I tell stories, do little sums and use tools."},
        {"Thank you!", "The user thanks me.", "You are welcome!"},
        {"Thanks", "The user thanks me.", "You are welcome!"},
        {"Goodbye!", "The user says goodbye.", "Goodbye! Come back soon."},
        {"Bye", "The user says goodbye.", "Goodbye! Come back soon."},
    };
    const char *const *turn = talk[below(random, sizeof talk / sizeof *talk)];
    add_message(c, ROLE_USER, turn[0]);
    add_answer(c, turn[1], turn[2]);
    c->expect[0] = turn[2];
}
