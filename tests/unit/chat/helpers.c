/* helpers.c - what the chat tests share. */
#include "unit/chat/helpers.h"

#include "base/utf8.h"
#include "base/vec.h"
#include "sample/automaton.h"
#include "unit/chat/family_templates.h"

#include <dirent.h>
#include <string.h>

/* ---- Templates ----------------------------------------------------------- */

const char *shared_template(char out[1024], const char *folder, const char *name)
{
    snprintf(out, 1024, "%s/templates/%s", folder, name);
    return out;
}

static struct chat_templates *load(struct slice source, const char *name)
{
    struct chat_template_settings settings = {.source = source,
                                              .bos = SLICE("<s>"),
                                              .eos = SLICE("</s>"),
                                              .add_bos = true,
                                              .use_jinja = true};
    struct chat_templates *templates = NULL;
    struct error err = {0};
    if (!chat_templates_load(&settings, &templates, &err))
        print_error("%s: %s\n", name, err.message);
    return templates;
}

struct chat_templates *load_template(const char *folder, const char *name)
{
    char path[1024];
    FILE *file = fopen(shared_template(path, folder, name), "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    size_t len = fread(text, 1, (size_t)size, file);
    fclose(file);
    struct chat_templates *templates = load((struct slice){text, len}, name);
    free(text);
    return templates;
}

struct chat_templates *load_source(const char *source)
{
    return load(slice_of(source), source);
}

size_t for_each_template(void (*visit)(const struct chat_templates *, const char *name, void *arg),
                         void *arg)
{
    size_t n = 0;
    for (int i = -1; i < N_FAMILY_TEMPLATES; i++, n++) {
        struct chat_templates *t = load_source(i < 0 ? "chatml" : family_templates[i].source);
        assert_non_null(t);
        visit(t, i < 0 ? "chatml" : family_templates[i].name, arg);
        chat_templates_free(t);
    }
    const char *folder = shared_folder();
    char path[1024];
    DIR *dir = folder ? opendir(shared_template(path, folder, "")) : NULL;
    if (!dir) {
        fprintf(stderr, "SKIPPED: the shared templates (../shared or $MLXCEL_SHARED) are absent\n");
        assert_null(getenv("CI"));
        return n;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *end = strstr(entry->d_name, ".jinja");
        if (!end || end[6])
            continue;
        struct chat_templates *t = load_template(folder, entry->d_name);
        assert_non_null(t);
        visit(t, entry->d_name, arg);
        chat_templates_free(t);
        n++;
    }
    closedir(dir);
    assert_true(n >= 68 + N_FAMILY_TEMPLATES);
    return n;
}

bool apply_body(const struct chat_templates *templates, const json_t *body,
                struct chat_prompt *prompt, struct error *err)
{
    const struct chat_defaults defaults = {.reasoning_format = CHAT_REASONING_AUTO,
                                           .enable_thinking =
                                               chat_templates_support_thinking(templates),
                                           .prefill_assistant = true};
    struct chat_request request;
    if (!chat_request_parse(body, templates, &defaults, &request, err))
        return false;
    bool ok = chat_apply(templates, &request, prompt, err);
    chat_request_free(&request);
    return ok;
}

/* ---- Bytes --------------------------------------------------------------- */

static char bytes[256];

static struct slice byte_piece(const void *context, int32_t token)
{
    (void)context;
    if (token == END_TOKEN)
        return SLICE("</s>");
    bytes[token] = (char)token;
    return (struct slice){&bytes[token], 1};
}

static bool is_end(const void *context, int32_t token)
{
    (void)context;
    return token == END_TOKEN;
}

struct vocab *byte_vocab(void)
{
    const struct vocab_source source = {.n_tokens = END_TOKEN + 1,
                                        .eot = -1,
                                        .eos = END_TOKEN,
                                        .piece = byte_piece,
                                        .is_eog = is_end};
    struct vocab *vocab = vocab_create(&source, NULL);
    assert_non_null(vocab);
    return vocab;
}

/* ---- Machines ------------------------------------------------------------ */

struct machine {
    struct automaton *automaton;
    uint32_t state;
    /* What the search for an end tries: ASCII, and other characters that the
     * grammar's text holds. */
    struct slice *characters;
    size_t n_characters;
};

static struct slice ascii(int c)
{
    bytes[c] = (char)c;
    return (struct slice){&bytes[c], 1};
}

static void add_character(struct machine *m, struct slice c)
{
    for (size_t i = 0; i < m->n_characters; i++)
        if (slice_equal(m->characters[i], c))
            return;
    m->characters[m->n_characters++] = c;
}

static void find_characters(struct machine *m, struct slice grammar)
{
    m->characters = calloc(128 + grammar.len, sizeof *m->characters);
    assert_non_null(m->characters);
    for (int c = 1; c < 128; c++)
        add_character(m, ascii(c));
    for (size_t i = 0, n; i < grammar.len; i += n) {
        uint32_t c;
        n = utf8_decode(grammar.data + i, grammar.len - i, &c, NULL);
        if (c >= 128)
            add_character(m, (struct slice){grammar.data + i, n});
    }
}

struct machine *machine_open(const struct vocab *vocab, struct slice grammar)
{
    struct error err = {0};
    struct grammar *g = grammar_parse(vocab, grammar, SLICE(""), NULL, &err);
    if (!g) {
        print_error("%s\n%.*s\n", err.message, (int)grammar.len, grammar.data);
        return NULL;
    }
    struct machine *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->automaton = automaton_create(vocab, g);
    assert_non_null(m->automaton);
    assert_true(automaton_start(m->automaton, &m->state));
    find_characters(m, grammar);
    return m;
}

void machine_close(struct machine *m)
{
    if (m) {
        automaton_free(m->automaton);
        free(m->characters);
    }
    free(m);
}

size_t machine_feed(struct machine *m, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint32_t next;
        assert_true(automaton_step(m->automaton, m->state, (uint8_t)text.data[i], &next));
        if (next == STATE_DEAD)
            return i;
        m->state = next;
    }
    return text.len;
}

bool machine_complete(const struct machine *m)
{
    return automaton_complete(m->automaton, m->state);
}

/* A place of the search: how it was reached. */
struct place {
    uint32_t state, from; /* from: index of the place before */
    struct slice character;
};

/* Nesting and blanks are dear, so that the search does not wander there. */
static size_t cost_of(struct slice character)
{
    char c = character.data[0];
    return strchr("[{", c) ? 12 : strchr(" \n\t-", c) ? 4 : 1;
}

enum { COSTS = 16, PLACES_MAX = 2000000 };

struct search {
    VEC(struct place) places;
    struct token_vec buckets[COSTS]; /* of places still to go on from, by cost */
    VEC(bool) done;                  /* by state */
};

static bool once(struct search *s, uint32_t state)
{
    while (s->done.n <= state)
        assert_true(VEC_PUSH(&s->done, false));
    bool first = !s->done.data[state];
    s->done.data[state] = true;
    return first;
}

/* Add the places one character further; false when the tables are full. */
static bool go_on(struct machine *m, struct search *s, uint32_t at, size_t cost)
{
    for (size_t i = 0; i < m->n_characters; i++) {
        struct slice c = m->characters[i];
        uint32_t next = s->places.data[at].state, unused;
        /* Each step as the next token's: work is counted anew. */
        assert_true(automaton_token(m->automaton, next, -1, SLICE(""), &unused));
        for (size_t k = 0; k < c.len && next != STATE_DEAD; k++)
            if (!automaton_step(m->automaton, next, (uint8_t)c.data[k], &next))
                return false;
        if (next == STATE_DEAD || (next < s->done.n && s->done.data[next]))
            continue;
        struct place place = {next, at, c};
        assert_true(VEC_PUSH(&s->places, place) &&
                    VEC_PUSH(&s->buckets[(cost + cost_of(c)) % COSTS], (int32_t)s->places.n - 1));
    }
    return true;
}

/* Dijkstra over the states; the index of the place where the text may end. */
static uint32_t find_end(struct machine *m, struct search *s)
{
    assert_true(VEC_PUSH(&s->places, ((struct place){m->state, 0, SLICE("")})) &&
                VEC_PUSH(&s->buckets[0], 0));
    size_t empty = 0;
    for (size_t cost = 0; empty < COSTS; cost++) {
        struct token_vec *bucket = &s->buckets[cost % COSTS];
        empty = bucket->n ? 0 : empty + 1;
        for (size_t i = 0; i < bucket->n; i++) {
            uint32_t at = (uint32_t)bucket->data[i];
            if (!once(s, s->places.data[at].state))
                continue;
            if (automaton_complete(m->automaton, s->places.data[at].state))
                return at;
            if (s->places.n > PLACES_MAX || !go_on(m, s, at, cost)) {
                print_error("no end found within %zu places\n", s->places.n);
                return UINT32_MAX;
            }
        }
        bucket->n = 0;
    }
    return UINT32_MAX;
}

/* From the end's place back to the beginning. */
static void append_way(struct str *out, const struct search *s, uint32_t end)
{
    VEC(uint32_t) way = {0};
    for (uint32_t at = end; at != 0; at = s->places.data[at].from)
        assert_true(VEC_PUSH(&way, at));
    while (way.n > 0)
        str_append_slice(out, s->places.data[way.data[--way.n]].character);
    VEC_FREE(&way);
}

bool machine_finish(struct machine *m, struct str *out)
{
    struct search s = {0};
    uint32_t end = find_end(m, &s);
    if (end != UINT32_MAX)
        append_way(out, &s, end);
    VEC_FREE(&s.places);
    VEC_FREE(&s.done);
    for (size_t i = 0; i < COSTS; i++)
        VEC_FREE(&s.buckets[i]);
    return end != UINT32_MAX;
}
