/* corpus.c - conversations: which task, with which system prompt, thinking or
 * not; and what is held out. */
#include "tale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t weight; /* of a thousand */
    void (*make)(struct random *random, struct conversation *c);
} tasks[TASK_KINDS] = {
    [TASK_STORY] = {"story", 140, make_story},
    [TASK_STORY_QUESTION] = {"story_question", 150, make_story_question},
    [TASK_ARITHMETIC] = {"arithmetic", 150, make_arithmetic},
    [TASK_LOOKUP] = {"lookup", 100, make_lookup},
    [TASK_SMALL_TALK] = {"small_talk", 50, make_small_talk},
    [TASK_TOOL] = {"tool", 150, make_tool_call},
    [TASK_TOOL_ANSWER] = {"tool_answer", 120, make_tool_answer},
    [TASK_PLAIN] = {"plain", 30, make_plain_story},
    [TASK_ECHO] = {"echo", 110, make_echo},
};

const char *task_name(enum task_kind kind)
{
    return tasks[kind].name;
}

static struct message *next_message(struct conversation *c, enum role role)
{
    if (c->n_messages == MAX_MESSAGES) {
        fprintf(stderr, "tale: a conversation of more than %d messages\n", MAX_MESSAGES);
        exit(1);
    }
    struct message *m = &c->messages[c->n_messages++];
    *m = (struct message){.role = role};
    return m;
}

static char *own(struct conversation *c, const char *text)
{
    return text ? say(c->arena, "%s", text) : NULL;
}

void add_message(struct conversation *c, enum role role, const char *text)
{
    next_message(c, role)->text = own(c, text);
}

void add_answer(struct conversation *c, const char *thought, const char *text)
{
    struct message *m = next_message(c, ROLE_ASSISTANT);
    m->text = c->pirate ? say(c->arena, "Arr! %s Yo ho!", text) : own(c, text);
    m->thought = own(c, thought);
}

void add_call(struct conversation *c, const char *thought, const char *name, const char *arguments)
{
    struct message *m = next_message(c, ROLE_ASSISTANT);
    m->text = own(c, "");
    m->thought = own(c, thought);
    m->call_name = own(c, name);
    m->call_arguments = own(c, arguments);
}

void make_conversation_of(enum task_kind kind, struct random *random, struct arena *arena,
                          struct conversation *c)
{
    static const char *const systems[] = {"You are a helpful assistant.", "You are Tale.",
                                          "You are a friendly storyteller.",
                                          "Answer in simple English.", NULL};
    *c = (struct conversation){
        .arena = arena, .kind = kind, .pirate = c->pirate, .any_json = c->any_json};
    c->thinking = kind != TASK_PLAIN && chance(random, 50);
    if (kind != TASK_PLAIN && chance(random, 40))
        add_message(c, ROLE_SYSTEM, pick(random, systems));
    bool wants_tools = kind == TASK_TOOL || kind == TASK_TOOL_ANSWER;
    /* Now and then something was said before, which must not matter. */
    if (kind != TASK_PLAIN && !wants_tools && kind != TASK_STORY_QUESTION && chance(random, 15))
        make_small_talk(random, c);
    tasks[kind].make(random, c);
    /* Tools on offer do not have to be used. */
    if (!wants_tools && kind != TASK_PLAIN && kind != TASK_ARITHMETIC && chance(random, 15))
        c->tools = make_tool_list(random, arena);
}

void make_conversation(struct random *random, struct arena *arena, struct conversation *c)
{
    uint32_t dice = below(random, 1000);
    enum task_kind kind = 0;
    while (dice >= tasks[kind].weight && kind + 1 < TASK_KINDS)
        dice -= tasks[kind++].weight;
    make_conversation_of(kind, random, arena, c);
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint32_t hash_text(uint32_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

bool is_held_out(const struct conversation *c)
{
    uint32_t hash = hash_text(2166136261u, task_name(c->kind));
    if (c->kind == TASK_PLAIN || c->kind == TASK_SMALL_TALK)
        return false;
    for (int i = 0; i < c->n_messages; i++)
        if (c->messages[i].role == ROLE_USER)
            hash = hash_text(hash, c->messages[i].text);
    return (hash ^ hash >> 15) % 16 == 0;
}
