/* help.c - the table as --help shows it. */
#include "options/table.h"

#include <stdio.h>

enum { MARGIN = 34, MARGIN_NARROW = 8, NARROW = 72 };

static void append_spaces(struct str *out, size_t n)
{
    while (n--)
        str_append_char(out, ' ');
}

/* Words of text, lines of at most width columns that begin at margin. */
static void append_wrapped(struct str *out, const char *text, size_t margin, size_t width,
                           size_t *column)
{
    struct slice word;
    while (next_word(&text, &word)) {
        if (*column > margin && *column + 1 + word.len > width) {
            str_append_char(out, '\n');
            append_spaces(out, margin);
            *column = margin;
        } else if (*column > margin) {
            str_append_char(out, ' ');
            *column += 1;
        }
        str_append_slice(out, word);
        *column += word.len;
    }
}

static void append_names(struct str *out, const struct option *o)
{
    const char *lists[] = {o->names, o->names_off};
    struct slice word;
    bool first = true;
    for (size_t i = 0; i < 2; i++) {
        const char *rest = lists[i];
        while (next_word(&rest, &word)) {
            if (!first)
                str_append_text(out, ", ");
            first = false;
            str_append_slice(out, word);
        }
    }
    if (o->value)
        str_append_format(out, " %s", o->value);
    if (o->value2)
        str_append_format(out, " %s", o->value2);
}

/* Not served yet, or short for what is not. */
static bool is_deferred(const struct option *o)
{
    struct slice word;
    bool on, deferred = o->state == STATE_DEFERRED;
    for (const char *rest = o->type == OPT_EXPANDS ? o->note : NULL; next_word(&rest, &word);) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)word.len, word.data);
        const struct option *part = option_find(name, &on);
        deferred = deferred || (part && part->state == STATE_DEFERRED);
    }
    return deferred;
}

static void append_entry(struct str *out, const struct option *o, size_t width)
{
    size_t margin = width < NARROW ? MARGIN_NARROW : MARGIN;
    size_t begin = out->len;
    append_names(out, o);
    size_t column = out->len - begin;
    if (column + 2 > margin) {
        str_append_char(out, '\n');
        column = 0;
    }
    append_spaces(out, margin - column);
    column = margin;
    struct str text = {0};
    str_append_text(&text, o->help);
    if (o->fallback && *o->fallback)
        str_append_format(&text, " (default: %s)", o->fallback);
    if (o->env)
        str_append_format(&text, " (env: %s)", o->env);
    if (is_deferred(o))
        str_append_text(&text, " (not supported yet)");
    append_wrapped(out, str_text(&text), margin, width, &column);
    str_free(&text);
    str_append_char(out, '\n');
}

bool options_help(const char *program, int width, struct str *out)
{
    size_t columns = width < 40 ? 40 : (size_t)width;
    str_append_format(out, "usage: %s [options]\n", program);
    const struct option *o;
    enum option_section section = SECTION_COUNT;
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (o->hidden)
            continue;
        if (option_section_of(i) != section) {
            section = option_section_of(i);
            str_append_format(out, "\n----- %s -----\n\n", option_section_title(section));
        }
        append_entry(out, o, columns);
    }
    str_append_text(out, "\n----- options of mlxcel alone -----\n\n");
    for (size_t i = 0; (o = option_at(i)); i++)
        if (o->hidden)
            append_entry(out, o, columns);
    return !out->failed;
}
