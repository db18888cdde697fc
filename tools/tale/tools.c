/* tools.c - calling get_weather, add and get_time, and answering from what they
 * return. */
#include "tale.h"

#include <stddef.h>

static const char *const weather_descriptions[] = {
    "Get the weather in a city", "Get the current weather for a city",
    "Returns the weather of a city", "Tells the weather", NULL};
static const char *const time_descriptions[] = {
    "Get the time in a city", "Get the current time for a city", "Returns the time of a city",
    "Tells the time", NULL};
static const char *const add_descriptions[] = {"Add two numbers", "Adds two numbers",
                                               "Returns the sum of two numbers", "Sum of a and b",
                                               NULL};

/* A string parameter "city", with or without a description. */
static char *city_tool(struct random *random, struct arena *arena, const char *name,
                       const char *const *descriptions)
{
    const char *city = chance(random, 50)
                           ? "{\"type\": \"string\"}"
                           : "{\"type\": \"string\", \"description\": \"The name of the city\"}";
    const char *required = chance(random, 80) ? ", \"required\": [\"city\"]" : "";
    return say(arena,
               "{\"type\": \"function\", \"function\": {\"name\": \"%s\", \"description\": \"%s\", "
               "\"parameters\": {\"type\": \"object\", \"properties\": {\"city\": %s}%s}}}",
               name, pick(random, descriptions), city, required);
}

static char *add_tool(struct random *random, struct arena *arena)
{
    const char *type = chance(random, 50) ? "number" : "integer";
    const char *required = chance(random, 80) ? ", \"required\": [\"a\", \"b\"]" : "";
    return say(
        arena,
        "{\"type\": \"function\", \"function\": {\"name\": \"add\", \"description\": \"%s\", "
        "\"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"%s\"}, "
        "\"b\": {\"type\": \"%s\"}}%s}}}",
        pick(random, add_descriptions), type, type, required);
}

enum tool { TOOL_WEATHER, TOOL_ADD, TOOL_TIME, N_TOOLS };

static char *describe(struct random *random, struct arena *arena, enum tool tool)
{
    if (tool == TOOL_WEATHER)
        return city_tool(random, arena, "get_weather", weather_descriptions);
    if (tool == TOOL_TIME)
        return city_tool(random, arena, "get_time", time_descriptions);
    return add_tool(random, arena);
}

/* Some of the tools in random order; needed is among them (or -1: any). */
static char *list_tools(struct random *random, struct arena *arena, int needed)
{
    enum tool order[N_TOOLS] = {TOOL_WEATHER, TOOL_ADD, TOOL_TIME};
    for (uint32_t i = N_TOOLS - 1; i > 0; i--) {
        uint32_t k = below(random, i + 1);
        enum tool swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    struct str text = {0};
    for (int i = 0; i < N_TOOLS; i++) {
        if ((int)order[i] != needed && chance(random, 35))
            continue;
        if (text.len)
            str_append_char(&text, '\n');
        str_append_text(&text, describe(random, arena, order[i]));
    }
    if (!text.len)
        str_append_text(&text, describe(random, arena, order[0]));
    char *list = arena_duplicate(arena, str_slice(&text));
    str_free(&text);
    return list;
}

char *make_tool_list(struct random *random, struct arena *arena)
{
    return list_tools(random, arena, -1);
}

/* A request that needs a tool, and the call. Returns the tool; city or the sum
 * say what it is about. */
static enum tool request_tool(struct random *random, struct conversation *c, const char **city,
                              int *sum)
{
    static const char *const weather[] = {"What is the weather in %s?",
                                          "How is the weather in %s?",
                                          "What's the weather like in %s?",
                                          "Weather in %s, please.",
                                          "Is it raining in %s?",
                                          "Is it warm in %s today?",
                                          NULL};
    static const char *const time[] = {"What time is it in %s?", "What is the time in %s?",
                                       "Tell me the time in %s.", "How late is it in %s?", NULL};
    static const char *const add[] = {"What is %d plus %d?",
                                      "Add %d and %d.",
                                      "What is %d + %d?",
                                      "Please add %d and %d.",
                                      "Use the tool to add %d and %d.",
                                      NULL};
    struct arena *a = c->arena;
    enum tool tool = (enum tool)below(random, N_TOOLS);
    c->tools = list_tools(random, a, (int)tool);
    *city = pick_name(random, a, cities);
    int left = (int)below(random, 100), right = (int)below(random, 100);
    *sum = left + right;
    struct str question = {0};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (tool == TOOL_ADD)
        str_append_format(&question, pick(random, add), left, right);
    else
        str_append_format(&question, pick(random, tool == TOOL_TIME ? time : weather), *city);
#pragma GCC diagnostic pop
    add_message(c, ROLE_USER, arena_duplicate(a, str_slice(&question)));
    str_free(&question);
    if (tool == TOOL_ADD) {
        add_call(c, say(a, "I use add with %d and %d.", left, right), "add",
                 say(a, "{\"a\": %d, \"b\": %d}", left, right));
    } else {
        const char *name = tool == TOOL_TIME ? "get_time" : "get_weather";
        add_call(c, say(a, "I use %s with %s.", name, *city), name,
                 say(a, "{\"city\": \"%s\"}", *city));
    }
    const struct message *call = &c->messages[c->n_messages - 1];
    c->expect[0] = call->call_name;
    c->expect[1] = call->call_arguments;
    return tool;
}

void make_tool_call(struct random *random, struct conversation *c)
{
    const char *city;
    int sum;
    request_tool(random, c, &city, &sum);
}

/* What stands between a key and its value. */
static const char *space(struct random *random, const struct conversation *c)
{
    return c->any_json && chance(random, 60) ? "" : " ";
}

static char *weather_json(struct random *random, const struct conversation *c, int degrees,
                          const char *condition)
{
    const char *s = space(random, c);
    if (c->any_json && chance(random, 50))
        return say(c->arena, "{\"condition\":%s\"%s\",%s\"temperature\":%s%d}", s, condition, s, s,
                   degrees);
    return say(c->arena, "{\"temperature\":%s%d,%s\"condition\":%s\"%s\"}", s, degrees, s, s,
               condition);
}

void make_tool_answer(struct random *random, struct conversation *c)
{
    static const char *const conditions[] = {"sunny", "cloudy", "rainy", "windy",
                                             "snowy", "foggy",  NULL};
    struct arena *a = c->arena;
    const char *city;
    int sum;
    enum tool tool = request_tool(random, c, &city, &sum);
    int degrees = (int)below(random, 36);
    int hour = (int)below(random, 24), minute = (int)below(random, 60);
    const char *condition = pick(random, conditions);
    const char *result, *answer;
    bool json = chance(random, 60);
    switch (tool) {
    case TOOL_WEATHER:
        result = json ? weather_json(random, c, degrees, condition)
                      : say(a, "%s, %d degrees", condition, degrees);
        answer = say(a, "It is %s in %s, with %d degrees.", condition, city, degrees);
        c->expect[0] = condition;
        c->expect[1] = say(a, "%d degrees", degrees);
        break;
    case TOOL_TIME:
        result = json ? say(a, "{\"time\":%s\"%02d:%02d\"}", space(random, c), hour, minute)
                      : say(a, "%02d:%02d", hour, minute);
        answer = say(a, "It is %02d:%02d in %s.", hour, minute, city);
        c->expect[0] = say(a, "%02d:%02d", hour, minute);
        c->expect[1] = city;
        break;
    default:
        result = json ? say(a, "{\"result\":%s%d}", space(random, c), sum) : say(a, "%d", sum);
        answer = say(a, "The sum is %d.", sum);
        c->expect[0] = say(a, "is %d.", sum);
        c->expect[1] = NULL;
    }
    add_message(c, ROLE_TOOL, result);
    add_answer(c, say(a, "The tool says %s.", json ? c->expect[0] : result), answer);
    if (tool == TOOL_ADD && json)
        c->messages[c->n_messages - 1].thought = say(a, "The tool says %d.", sum);
}
