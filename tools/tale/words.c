/* words.c - the word lists everything is told with, and dice. */
#include "tale.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *const girl_names[] = {
    "Mia",  "Anna", "Lily", "Emma",  "Zoe",   "Nora", "Ella", "Ruby",  "Ivy",   "Clara", "Maya",
    "Rosa", "Lena", "Tina", "Lucy",  "Kate",  "Jane", "Sara", "Alice", "Molly", "Daisy", "Hanna",
    "Vera", "Nina", "Olga", "Paula", "Greta", "Ida",  "June", "Fay",   NULL};
const char *const boy_names[] = {
    "Tom",   "Ben",   "Max",  "Leo",  "Sam",  "Jack", "Finn", "Oscar", "Paul",  "Hugo",  "Theo",
    "Noah",  "Adam",  "Luke", "Emil", "Karl", "Otto", "Omar", "Ivan",  "Peter", "David", "Simon",
    "Felix", "Jonas", "Erik", "Rudi", "Milo", "Dan",  "Bob",  "Tim",   NULL};
const char *const animals[] = {
    "fox",      "cat",      "dog",  "rabbit", "bear",   "owl",   "mouse", "duck",   "horse",
    "frog",     "turtle",   "lion", "wolf",   "goat",   "sheep", "pig",   "hen",    "deer",
    "squirrel", "hedgehog", "bee",  "crow",   "donkey", "otter", "pony",  "parrot", NULL};
const char *const places[] = {"forest", "garden", "park", "village", "river",  "hill", "beach",
                              "meadow", "farm",   "lake", "market",  "castle", "cave", "mountain",
                              "school", "island", "barn", "valley",  NULL};
const char *const things[] = {"ball", "book",  "key",     "lamp",   "kite",   "hat",
                              "bell", "box",   "stone",   "boat",   "flower", "coin",
                              "drum", "shell", "map",     "basket", "ring",   "scarf",
                              "cup",  "flute", "feather", "button", NULL};
const char *const colours[] = {"red",   "blue", "green",  "yellow", "white", "black",
                               "brown", "pink", "golden", "grey",   NULL};
const char *const cities[] = {
    "Paris",  "London",  "Berlin", "Rome",    "Madrid", "Oslo",   "Vienna", "Prague", "Tokyo",
    "Cairo",  "Delhi",   "Lima",   "Boston",  "Dublin", "Athens", "Warsaw", "Lisbon", "Sydney",
    "Moscow", "Zurich",  "Milan",  "Kyoto",   "Seoul",  "Miami",  "Dallas", "Quebec", "Geneva",
    "Munich", "Hamburg", "Havana", "Nairobi", "Bergen", NULL};

uint32_t below(struct random *random, uint32_t n)
{
    return (uint32_t)(((uint64_t)random_u32(random) * n) >> 32);
}

bool chance(struct random *random, uint32_t percent)
{
    return below(random, 100) < percent;
}

const char *pick(struct random *random, const char *const *list)
{
    uint32_t n = 0;
    while (list[n])
        n++;
    return list[below(random, n)];
}

enum { INVENTED_PERCENT = 12 };

const char *pick_name(struct random *random, struct arena *arena, const char *const *list)
{
    static const char *const firsts[] = {"Ba", "Ce", "Do", "Fi", "Gu", "Ka", "Lo", "Mi", "Na",
                                         "Pe", "Ri", "So", "Tu", "Va", "Wo", "Ya", "Zi", NULL};
    static const char *const middles[] = {"la", "ri", "no", "ve", "mu", "ta", "si", "do", NULL};
    static const char *const lasts[] = {"n", "ra", "ska", "bel", "to", "ya", "dor", "m", NULL};
    if (!chance(random, INVENTED_PERCENT))
        return pick(random, list);
    const char *first = pick(random, firsts), *middle = pick(random, middles);
    return say(arena, "%s%s%s", first, middle, pick(random, lasts));
}

char *say(struct arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = arena_alloc(arena, (size_t)n + 1);
    if (!text) {
        fprintf(stderr, "tale: out of memory\n");
        exit(1);
    }
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text;
}
