/* manifest_check.c - the claims against each other and against the programs. */
#include "cmd/manifest.h"

#include <stdarg.h>

struct check {
    const struct manifest *manifest;
    const json_t *surface, *tests;
    struct str *report;
    size_t findings;
};

static void finding(struct check *c, const json_t *entry, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void finding(struct check *c, const json_t *entry, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->findings++;
    if (entry)
        str_append_format(c->report, "%s: %s: ", json_string_value(json_object_get(entry, "shard")),
                          json_string_value(json_object_get(entry, "id")));
    str_append_format(c->report, "%s\n", text);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is(const json_t *object, const char *key, const char *value)
{
    return !strcmp(text_of(object, key), value);
}

/* ---- one entry ----------------------------------------------------------------- */

enum shape { TEXT, TEXT_OR_NULL, TEXTS, OBJECT };

struct need {
    const char *when; /* a kind or a state */
    const char *key;
    enum shape shape;
};

/* What each kind has and each state owes. */
static const struct need needs[] = {
    {"option", "spellings", TEXTS},
    {"option", "value", TEXT_OR_NULL},
    {"option", "default", TEXT_OR_NULL},
    {"option", "environment", TEXT_OR_NULL},
    {"environment", "option", TEXT},
    {"route", "method", TEXT},
    {"route", "path", TEXT},
    {"field", "field", TEXT},
    {"member", "surface", TEXT},
    {"member", "member", TEXT},
    {"aliased", "translation", TEXT},
    {"not_applicable", "inert", TEXTS},
    {"not_applicable", "refusal", TEXT},
    {"deferred", "plan", TEXT},
    {"by_design", "rationale", OBJECT},
};

static const char *const kinds[] = {"option", "environment", "route", "field",
                                    "member", "behaviour",   NULL};
static const char *const states[] = {"served",   "aliased",   "not_applicable",
                                     "deferred", "by_design", NULL};

const char *manifest_state(size_t i)
{
    return i < sizeof states / sizeof *states ? states[i] : NULL;
}

static bool one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strcmp(text, *words))
            return true;
    return false;
}

static bool is_texts(const json_t *value)
{
    size_t i;
    json_t *item;
    if (!json_is_array(value) || json_array_size(value) == 0)
        return false;
    json_array_foreach(value, i, item) if (!json_is_string(item)) return false;
    return true;
}

static bool has_shape(const json_t *value, enum shape shape)
{
    switch (shape) {
    case TEXT:
        return json_is_string(value) && json_string_length(value) > 0;
    case TEXT_OR_NULL:
        return json_is_string(value) || json_is_null(value);
    case TEXTS:
        return is_texts(value);
    case OBJECT:
        return json_is_object(value);
    }
    return false;
}

static void check_rationale(struct check *c, const json_t *entry)
{
    static const char *const sorts[] = {"architecture", "policy", NULL};
    const json_t *rationale = json_object_get(entry, "rationale");
    if (!one_of(text_of(rationale, "kind"), sorts))
        finding(c, entry, "rationale.kind is neither architecture nor policy");
    if (!*text_of(rationale, "reason") || !*text_of(rationale, "revisit_if"))
        finding(c, entry, "rationale owes a reason and revisit_if");
}

static void check_entry(struct check *c, const json_t *entry)
{
    const char *kind = text_of(entry, "kind"), *state = text_of(entry, "state");
    if (!*text_of(entry, "id"))
        finding(c, entry, "an entry without id");
    if (!one_of(kind, kinds))
        finding(c, entry, "kind '%s' is unknown", kind);
    if (!one_of(state, states))
        finding(c, entry, "state '%s' is unknown", state);
    if (!json_is_string(json_object_get(entry, "notes")))
        finding(c, entry, "notes is missing");
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if ((!strcmp(needs[i].when, kind) || !strcmp(needs[i].when, state)) &&
            !has_shape(json_object_get(entry, needs[i].key), needs[i].shape))
            finding(c, entry, "a %s owes \"%s\"", needs[i].when, needs[i].key);
    if (!strcmp(state, "by_design"))
        check_rationale(c, entry);
    const char *test = text_of(entry, "test");
    const json_t *known = json_object_get(c->tests, test);
    if (!*test)
        finding(c, entry, "no test is named");
    else if (!known)
        finding(c, entry, "there is no test '%s'", test);
    else if (!json_is_true(known))
        finding(c, entry, "the test '%s' is disabled", test);
}

/* ---- ids and counts --------------------------------------------------------------- */

static void check_ids(struct check *c)
{
    json_t *seen = json_object();
    size_t i;
    json_t *entry;
    json_array_foreach(c->manifest->entries, i, entry)
    {
        const char *id = text_of(entry, "id");
        if (json_object_get(seen, id))
            finding(c, entry, "this id stands twice");
        json_object_set_new(seen, id, json_true());
    }
    json_decref(seen);
}

size_t manifest_count(const struct manifest *manifest, const char *kind, const char *state)
{
    size_t i, n = 0;
    json_t *entry;
    json_array_foreach(manifest->entries, i, entry) n +=
        (!kind || is(entry, "kind", kind)) && (!state || is(entry, "state", state));
    return n;
}

static void check_count(struct check *c, const char *name, size_t counted)
{
    const json_t *pinned = json_object_get(json_object_get(c->manifest->pin, "counts"), name);
    if (!json_is_integer(pinned))
        finding(c, NULL, "pin.json: counts.%s is missing", name);
    else if ((size_t)json_integer_value(pinned) != counted)
        finding(c, NULL, "pin.json: %s is %lld, but %zu are claimed", name,
                (long long)json_integer_value(pinned), counted);
}

static void check_counts(struct check *c)
{
    size_t i, n_long = 0, n_llama = 0;
    json_t *entry;
    json_array_foreach(c->manifest->entries, i, entry)
    {
        size_t s;
        json_t *spelling;
        json_array_foreach(json_object_get(entry, "spellings"), s, spelling) n_long +=
            slice_starts_with(json_slice(spelling), SLICE("--"));
        n_llama += is(entry, "kind", "environment") && !strncmp(text_of(entry, "id"), "LLAMA_", 6);
    }
    check_count(c, "help_entries", manifest_count(c->manifest, "option", NULL));
    check_count(c, "long_option_spellings", n_long);
    check_count(c, "environment_variables", manifest_count(c->manifest, "environment", NULL));
    check_count(c, "llama_environment_variables", n_llama);
    check_count(c, "routes", manifest_count(c->manifest, "route", NULL));
    check_count(c, "native_request_fields", manifest_count(c->manifest, "field", NULL));
}

/* ---- against the programs ------------------------------------------------------------ */

static const json_t *find_in(const json_t *array, const char *key, const char *value)
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item) if (is(item, key, value)) return item;
    return NULL;
}

static const json_t *find_entry(const struct check *c, const char *kind, const char *id)
{
    size_t i;
    json_t *entry;
    json_array_foreach(c->manifest->entries, i,
                       entry) if (is(entry, "kind", kind) && is(entry, "id", id)) return entry;
    return NULL;
}

static void same(struct check *c, const json_t *entry, const char *claimed, const json_t *live,
                 const char *key)
{
    const json_t *a = json_object_get(entry, claimed), *b = json_object_get(live, key);
    if (!json_equal(a, b)) {
        struct str text = {0};
        if (b)
            json_append(&text, b);
        finding(c, entry, "%s differs: the program has %s", claimed, str_text(&text));
        str_free(&text);
    }
}

/* "0 auto" of the program is ["0", "auto"] here; "" is none, ["(none)"]. */
static void same_inert(struct check *c, const json_t *entry, const json_t *live)
{
    struct str text = {0};
    size_t i;
    json_t *word;
    json_array_foreach(json_object_get(entry, "inert"), i, word)
        str_append_format(&text, "%s%s", i ? " " : "", json_string_value(word));
    const char *claimed = strcmp(str_text(&text), "(none)") ? str_text(&text) : "";
    if (strcmp(claimed, text_of(live, "inert")) != 0)
        finding(c, entry, "inert differs: the program accepts '%s'", text_of(live, "inert"));
    str_free(&text);
}

/* What is refused, with which words, and which values pass all the same. */
static void same_refusal(struct check *c, const json_t *entry, const json_t *live)
{
    if (!is(entry, "state", "not_applicable") && !is(entry, "state", "deferred"))
        return;
    same(c, entry, "refusal", live, "note");
    same_inert(c, entry, live);
}

static void check_option(struct check *c, const json_t *entry)
{
    const json_t *live =
        find_in(json_object_get(c->surface, "options"), "id", text_of(entry, "id"));
    if (!live || json_is_true(json_object_get(live, "hidden"))) {
        finding(c, entry, "the program has no such option");
        return;
    }
    same(c, entry, "spellings", live, "spellings");
    same(c, entry, "value", live, "value");
    same(c, entry, "default", live, "default");
    same(c, entry, "environment", live, "env");
    same(c, entry, "section", live, "section");
    same(c, entry, "state", live, "state");
    if (is(entry, "state", "aliased"))
        same(c, entry, "translation", live, "note");
    same_refusal(c, entry, live);
}

static void check_variable(struct check *c, const json_t *entry)
{
    const json_t *live =
        find_in(json_object_get(c->surface, "options"), "env", text_of(entry, "id"));
    if (!live) {
        finding(c, entry, "the program reads no such variable");
        return;
    }
    same(c, entry, "option", live, "id");
    same(c, entry, "state", live, "state");
    same_refusal(c, entry, live);
}

/* The program has no option that nobody claims; our own are listed in the pin. */
static void check_options_claimed(struct check *c)
{
    size_t i, o;
    json_t *live, *own;
    json_array_foreach(json_object_get(c->surface, "options"), i, live)
    {
        const char *id = text_of(live, "id");
        bool hidden = json_is_true(json_object_get(live, "hidden")), listed = false;
        json_array_foreach(json_object_get(c->manifest->pin, "own_options"), o, own) listed =
            listed || !strcmp(json_string_value(own), id);
        if (hidden && !listed)
            finding(c, NULL, "%s: pin.json does not list it among our own options", id);
        if (!hidden && !find_entry(c, "option", id))
            finding(c, NULL, "%s: the program has this option, nothing is claimed of it", id);
        const char *env = text_of(live, "env");
        if (*env && !find_entry(c, "environment", env))
            finding(c, NULL, "%s: the program reads it, nothing is claimed of it", env);
    }
    json_array_foreach(
        json_object_get(c->manifest->pin, "own_options"), o,
        own) if (!find_in(json_object_get(c->surface, "options"), "id", json_string_value(own)))
        finding(c, NULL, "pin.json: the program has no %s", json_string_value(own));
}

static const json_t *find_route(const json_t *routes, const json_t *like)
{
    size_t i;
    json_t *route;
    json_array_foreach(routes, i, route) if (is(route, "method", text_of(like, "method")) &&
                                             is(route, "path", text_of(like, "path"))) return route;
    return NULL;
}

static void check_route(struct check *c, const json_t *entry)
{
    /* A deferred route may be one that answers 404, as in the reference's
     * program when the feature is off. */
    if (!find_route(json_object_get(c->surface, "routes"), entry) &&
        !is(entry, "state", "deferred"))
        finding(c, entry, "the program has no such route");
}

static void check_routes_claimed(struct check *c)
{
    size_t i;
    json_t *route;
    json_array_foreach(json_object_get(c->surface, "routes"), i,
                       route) if (!find_route(c->manifest->entries, route))
        finding(c, NULL, "%s %s: the program has this route, nothing is claimed of it",
                text_of(route, "method"), text_of(route, "path"));
}

static bool lists(const json_t *live, const char *key, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(live, key), i,
                       item) if (!strcmp(json_string_value(item), name)) return true;
    return false;
}

/* "stream_options.include_usage": a member of an object field. */
static void check_member(struct check *c, const json_t *entry, const char *name, const char *dot)
{
    char outer[64];
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - name), name);
    const json_t *live = find_in(json_object_get(c->surface, "fields"), "name", outer);
    if (!lists(live, "subfields", dot + 1))
        finding(c, entry, "the program reads no such member of '%s'", outer);
}

static void check_field(struct check *c, const json_t *entry)
{
    const json_t *fields = json_object_get(c->surface, "fields");
    const char *name = text_of(entry, "field"), *dot = strchr(name, '.');
    if (dot) {
        check_member(c, entry, name, dot);
        return;
    }
    if (is(entry, "state", "aliased")) {
        const json_t *of = find_in(fields, "name", text_of(entry, "translation"));
        if (!lists(of, "aliases", name))
            finding(c, entry, "the program knows no such alias of '%s'",
                    text_of(entry, "translation"));
        return;
    }
    const json_t *live = find_in(fields, "name", name);
    if (!live) {
        finding(c, entry, "the program reads no such field");
        return;
    }
    static const char *const keys[] = {"type", "default", "min", "max", "out_of_range", "ignored"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(entry, keys[i]) || json_object_get(live, keys[i]))
            same(c, entry, keys[i], live, keys[i]);
}

static void check_fields_claimed(struct check *c)
{
    size_t i, a;
    json_t *live, *alias;
    json_array_foreach(json_object_get(c->surface, "fields"), i, live)
    {
        if (!find_in(c->manifest->entries, "field", text_of(live, "name")))
            finding(c, NULL, "%s: the program reads this field, nothing is claimed of it",
                    text_of(live, "name"));
        json_array_foreach(
            json_object_get(live, "aliases"), a,
            alias) if (!find_in(c->manifest->entries, "field", json_string_value(alias)))
            finding(c, NULL, "%s: the program reads this alias, nothing is claimed of it",
                    json_string_value(alias));
    }
}

size_t manifest_check(const struct manifest *manifest, const json_t *surface, const json_t *tests,
                      struct str *report)
{
    struct check c = {manifest, surface, tests, report, 0};
    static const struct {
        const char *kind;
        void (*check)(struct check *, const json_t *);
    } live[] = {{"option", check_option},
                {"environment", check_variable},
                {"route", check_route},
                {"field", check_field}};
    size_t i;
    json_t *entry;
    json_array_foreach(manifest->entries, i, entry)
    {
        check_entry(&c, entry);
        for (size_t k = 0; k < sizeof live / sizeof *live; k++)
            if (is(entry, "kind", live[k].kind))
                live[k].check(&c, entry);
    }
    check_ids(&c);
    check_counts(&c);
    check_options_claimed(&c);
    check_routes_claimed(&c);
    check_fields_claimed(&c);
    return c.findings;
}
