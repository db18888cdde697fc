/* manifest_print.c - the claims for people. */
#include "cmd/manifest.h"

static const struct {
    const char *kind, *plural, *title;
} sorts[] = {{"option", "options", "Options"},
             {"environment", "variables", "Environment variables"},
             {"route", "routes", "Routes"},
             {"field", "fields", "Fields of the native request"},
             {"member", "members", "Members of other bodies"},
             {"behaviour", "behaviours", "Behaviour that is not an option, route or field"}};
enum { N_SORTS = sizeof sorts / sizeof *sorts };

static const struct {
    const char *state, *meaning;
} meanings[] = {
    {"served", "means what it means in the reference"},
    {"aliased", "another spelling of something served"},
    {"not_applicable", "about hardware that is not used here; values that change nothing pass, "
                       "others are refused"},
    {"deferred", "not served yet: refused, never ignored; values that ask for nothing pass"},
    {"by_design", "differs on purpose"},
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

bool manifest_summary(const struct manifest *m, struct str *out)
{
    str_append_format(out, "llama-server %s\n\n%-16s", text_of(m->pin, "release"), "");
    for (size_t k = 0; k < N_SORTS; k++)
        str_append_format(out, "%10s", sorts[k].plural);
    str_append_text(out, "\n");
    const char *state;
    for (size_t s = 0; (state = manifest_state(s)); s++) {
        str_append_format(out, "%-16s", state);
        for (size_t k = 0; k < N_SORTS; k++)
            str_append_format(out, "%10zu", manifest_count(m, sorts[k].kind, state));
        str_append_text(out, "\n");
    }
    str_append_format(out, "%-16s", "all");
    for (size_t k = 0; k < N_SORTS; k++)
        str_append_format(out, "%10zu", manifest_count(m, sorts[k].kind, NULL));
    str_append_text(out, "\n");
    return !out->failed;
}

/* A cell of a table: no bar, no line break; code where asked. */
static void append_cell(struct str *out, const char *text, bool code)
{
    str_append_text(out, code && *text ? " `" : " ");
    for (; *text; text++)
        if (*text == '|')
            str_append_text(out, "\\|");
        else
            str_append_char(out, *text == '\n' ? ' ' : *text);
    str_append_text(out, out->data[out->len - 1] != ' ' && code ? "` |" : " |");
}

static void append_names(struct str *out, const json_t *entry)
{
    const json_t *spellings = json_object_get(entry, "spellings");
    if (!spellings) {
        const char *field = text_of(entry, "field");
        append_cell(out, *field ? field : text_of(entry, "id"), true);
        return;
    }
    struct str names = {0};
    size_t i;
    json_t *spelling;
    json_array_foreach(spellings, i, spelling)
        str_append_format(&names, "%s%s", i ? ", " : "", json_string_value(spelling));
    append_cell(out, str_text(&names), true);
    str_free(&names);
}

/* What goes between a note's sentences, some of which end in a full stop. */
static const char *separator(const struct str *note)
{
    return note->len == 0 ? "" : note->data[note->len - 1] == '.' ? " " : ". ";
}

/* What its state owes, in one sentence. */
static void append_note(struct str *out, const json_t *entry)
{
    struct str note = {0};
    const char *keys[] = {"translation", "refusal", "plan", "notes"};
    const char *before[] = {"means ", "", "plan: ", ""};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = text_of(entry, keys[i]);
        if (*text)
            str_append_format(&note, "%s%s%s", separator(&note), before[i], text);
    }
    const char *reason = text_of(json_object_get(entry, "rationale"), "reason");
    if (*reason)
        str_append_format(&note, "%s%s", separator(&note), reason);
    size_t i;
    json_t *word;
    json_array_foreach(json_object_get(entry, "inert"), i, word) str_append_format(
        &note, "%s%s%s", i ? ", " : separator(&note), i ? "" : "accepted: ",
        strcmp(json_string_value(word), "*") ? json_string_value(word) : "everything");
    append_cell(out, str_text(&note), false);
    str_free(&note);
}

static void append_table(struct str *out, const struct manifest *m, size_t sort)
{
    str_append_format(out, "\n## %s\n\n| | default | state | |\n|---|---|---|---|\n",
                      sorts[sort].title);
    size_t i;
    json_t *entry;
    json_array_foreach(m->entries, i, entry)
    {
        if (strcmp(text_of(entry, "kind"), sorts[sort].kind) != 0)
            continue;
        str_append_char(out, '|');
        append_names(out, entry);
        append_cell(out, text_of(entry, "default"), true);
        append_cell(out, text_of(entry, "state"), false);
        append_note(out, entry);
        str_append_char(out, '\n');
    }
}

bool manifest_markdown(const struct manifest *m, struct str *out)
{
    str_append_format(out,
                      "# Compatibility with llama-server %s\n\n"
                      "Written by `mlxcel manifest --markdown` from `%s`; `mlxcel manifest check` "
                      "holds every line\nagainst the program and names the test that shows it.\n\n",
                      text_of(m->pin, "release"), MANIFEST_FOLDER);
    str_append_text(out, "| state |");
    for (size_t k = 0; k < N_SORTS; k++)
        str_append_format(out, " %s |", sorts[k].plural);
    str_append_text(out, " meaning |\n|---|");
    for (size_t k = 0; k < N_SORTS; k++)
        str_append_text(out, "---|");
    str_append_text(out, "---|\n");
    for (size_t s = 0; s < sizeof meanings / sizeof *meanings; s++) {
        str_append_format(out, "| %s |", meanings[s].state);
        for (size_t k = 0; k < N_SORTS; k++)
            str_append_format(out, " %zu |", manifest_count(m, sorts[k].kind, meanings[s].state));
        str_append_format(out, " %s |\n", meanings[s].meaning);
    }
    for (size_t k = 0; k < N_SORTS; k++)
        append_table(out, m, k);
    return !out->failed;
}
