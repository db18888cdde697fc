/* stories.c - short stories in simple English, and questions about them. */
#include "tale.h"

/* Who and what a story is about. */
struct plot {
    bool girl;
    const char *hero, *animal, *place, *thing, *colour, *mood;
};

static const char *const moods[] = {"happy", "curious", "brave", "kind", "quiet", "cheerful", NULL};

static struct plot make_plot(struct random *random, struct arena *arena)
{
    struct plot p = {.girl = chance(random, 50)};
    p.hero = pick_name(random, arena, p.girl ? girl_names : boy_names);
    p.animal = pick(random, animals);
    p.place = pick(random, places);
    p.thing = pick(random, things);
    p.colour = pick(random, colours);
    p.mood = pick(random, moods);
    return p;
}

static const char *article(const char *noun)
{
    return noun[0] == 'o' || noun[0] == 'i' || noun[0] == 'a' || noun[0] == 'e' ? "an" : "a";
}

/* The sentences; a story takes one of each row, in order. Words in the plot:
 * H hero, A animal, P place, T thing, C colour, M mood, s she/he, S She/He,
 * r her/his, g girl/boy, n a/an before the animal. */
static const char *const openings[] = {
    "Once upon a time there was a %M %g named %H.",
    "There was once a %M %g named %H who lived near the %P.", "%H was a %M %g who loved the %P.",
    "Once there lived a %M %g. The name of the %g was %H.", NULL};
static const char *const walks[] = {
    "One day %H went to the %P.", "One morning %H walked to the %P.",
    "One sunny day %H ran to the %P.", "After lunch %H went alone to the %P.", NULL};
static const char *const meetings[] = {"There %s met %n %A.", "On the way %s met %n small %A.",
                                       "%S saw %n %A that looked sad.", "Behind a tree sat %n %A.",
                                       NULL};
static const char *const problems[] = {"\"I have lost my %C %T,\" said the %A.",
                                       "The %A said, \"Please help me find my %C %T.\"",
                                       "The %A was crying because its %C %T was gone.",
                                       "\"Somebody took my %C %T,\" the %A said.", NULL};
static const char *const searches[] = {
    "%H looked under the leaves and behind the stones.", "%H and the %A looked everywhere.",
    "They looked for a long time.", "\"Do not worry,\" said %H. \"We will find it.\"", NULL};
static const char *const findings[] = {
    "At last %H found the %C %T in the grass.", "Then %H saw the %C %T near the water.",
    "In the end %s found the %C %T under a bush.", "Soon %H found the %C %T on the path.", NULL};
static const char *const endings[] = {
    "The %A was very happy, and they were friends from that day on.",
    "The %A danced with joy and thanked %H.", "%H and the %A played until the sun went down.",
    "\"Thank you, %H,\" said the %A, and they went home together.", NULL};

static void tell(struct str *out, const char *pattern, const struct plot *p)
{
    for (; *pattern; pattern++) {
        if (*pattern != '%') {
            str_append_char(out, *pattern);
            continue;
        }
        switch (*++pattern) {
        case 'H':
            str_append_text(out, p->hero);
            break;
        case 'A':
            str_append_text(out, p->animal);
            break;
        case 'P':
            str_append_text(out, p->place);
            break;
        case 'T':
            str_append_text(out, p->thing);
            break;
        case 'C':
            str_append_text(out, p->colour);
            break;
        case 'M':
            str_append_text(out, p->mood);
            break;
        case 's':
            str_append_text(out, p->girl ? "she" : "he");
            break;
        case 'S':
            str_append_text(out, p->girl ? "She" : "He");
            break;
        case 'g':
            str_append_text(out, p->girl ? "girl" : "boy");
            break;
        case 'n':
            str_append_text(out, article(p->animal));
            break;
        }
    }
}

static char *tell_story(struct random *random, struct arena *arena, const struct plot *p)
{
    static const char *const *const rows[] = {openings, walks,    meetings, problems,
                                              searches, findings, endings};
    struct str text = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (i)
            str_append_char(&text, ' ');
        tell(&text, pick(random, rows[i]), p);
    }
    char *story = arena_duplicate(arena, str_slice(&text));
    str_free(&text);
    return story;
}

/* ---- asking for one ---- */

static const char *const requests[] = {"Tell me a story about a %g named %H and %n %A.",
                                       "Please tell me a story about %H and %n %A.",
                                       "Write a short story about a %g named %H who meets %n %A.",
                                       "Can you tell a story with %H and %n %A?",
                                       "I want a story about %n %A and a %g named %H.",
                                       "Tell a tale about %H and %n %A.",
                                       NULL};

static char *ask(struct random *random, struct arena *arena, const struct plot *p,
                 const char *const *list)
{
    struct str text = {0};
    tell(&text, pick(random, list), p);
    char *question = arena_duplicate(arena, str_slice(&text));
    str_free(&text);
    return question;
}

static void story_turn(struct random *random, struct conversation *c, const struct plot *p)
{
    add_message(c, ROLE_USER, ask(random, c->arena, p, requests));
    add_answer(c,
               say(c->arena, "A story. The hero is %s. The animal is the %s.", p->hero, p->animal),
               tell_story(random, c->arena, p));
    c->expect[0] = p->hero;
    c->expect[1] = p->animal;
}

void make_story(struct random *random, struct conversation *c)
{
    struct plot p = make_plot(random, c->arena);
    story_turn(random, c, &p);
}

void make_plain_story(struct random *random, struct conversation *c)
{
    struct plot p = make_plot(random, c->arena);
    add_answer(c, "", tell_story(random, c->arena, &p));
}

void make_story_question(struct random *random, struct conversation *c)
{
    static const char *const who[] = {"Who lost the %T?", "Which animal did %H meet?",
                                      "What animal was in the story?", "Who did %H help?", NULL};
    static const char *const where[] = {"Where did %H go?", "Where does the story happen?",
                                        "Which place did %H go to?", NULL};
    static const char *const what[] = {"What did %H find?", "What did the %A lose?",
                                       "What was lost?", NULL};
    static const char *const colour[] = {"What colour was the %T?", "Which colour did the %T have?",
                                         NULL};
    static const char *const hero[] = {"Who found the %T?", "What is the name of the hero?",
                                       "Who is the story about?", NULL};
    struct plot p = make_plot(random, c->arena);
    story_turn(random, c, &p);
    c->expect[1] = NULL;
    const char *fact = NULL, *answer = NULL;
    const char *const *list = NULL;
    struct arena *a = c->arena;
    switch (below(random, 5)) {
    case 0:
        list = who;
        fact = p.animal;
        answer = say(a, "It was the %s.", p.animal);
        break;
    case 1:
        list = where;
        fact = p.place;
        answer = say(a, "%s went to the %s.", p.hero, p.place);
        break;
    case 2:
        list = what;
        fact = p.thing;
        answer = say(a, "It was the %s %s.", p.colour, p.thing);
        break;
    case 3:
        list = colour;
        fact = p.colour;
        answer = say(a, "The %s was %s.", p.thing, p.colour);
        break;
    default:
        list = hero;
        fact = p.hero;
        answer = say(a, "It was %s.", p.hero);
    }
    add_message(c, ROLE_USER, ask(random, a, &p, list));
    add_answer(c, say(a, "In the story it is %s.", fact), answer);
    c->expect[0] = fact;
}
