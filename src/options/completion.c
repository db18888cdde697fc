/* completion.c - the table as a completion script for bash. */
#include "options/table.h"

static void append_spellings(struct str *out, const struct option *o, const char *between)
{
    const char *lists[] = {o->names, o->names_off};
    struct slice word;
    for (size_t i = 0; i < 2; i++) {
        const char *rest = lists[i];
        while (next_word(&rest, &word)) {
            if (out->len && out->data[out->len - 1] != '(' && out->data[out->len - 1] != '"')
                str_append_text(out, between);
            str_append_slice(out, word);
        }
    }
}

/* What follows an option, by how help names its value. */
static bool is_file(const struct option *o)
{
    return o->value &&
           (!strcmp(o->value, "FNAME") || !strcmp(o->value, "FILE") || !strcmp(o->value, "PATH") ||
            !strcmp(o->value, "JINJA_TEMPLATE_FILE")) &&
           !slice_equal_text(option_id(o), "--hf-file");
}

static void append_words(struct str *out, const struct option *o)
{
    if (o->type == OPT_TRISTATE || (o->value && !strcmp(o->value, "[on|off|auto]")))
        str_append_text(out, "on off auto");
    else if (o->value && !strcmp(o->value, "[on|off]"))
        str_append_text(out, "on off");
    else if (o->type == OPT_CHOICE) {
        const char *rest = o->choices;
        struct slice word;
        for (bool first = true; next_word(&rest, &word);) {
            const char *equals = memchr(word.data, '=', word.len);
            size_t len = equals ? (size_t)(equals - word.data) : word.len;
            if (!len)
                continue;
            if (!first)
                str_append_char(out, ' ');
            str_append(out, word.data, len);
            first = false;
        }
    }
}

static void append_case(struct str *out, const struct option *o, const char *action)
{
    str_append_text(out, "    ");
    struct str names = {0};
    append_spellings(&names, o, "|");
    str_append_slice(out, str_slice(&names));
    str_free(&names);
    str_append_format(out, ")\n        %s\n        return\n        ;;\n", action);
}

bool options_completion_bash(const char *commands, struct str *out)
{
    const struct option *o;
    str_append_text(out, "# bash completion for mlxcel-server and mlxcel\n"
                         "_mlxcel_options()\n{\n"
                         "    local current=${COMP_WORDS[COMP_CWORD]}\n"
                         "    local previous=${COMP_WORDS[COMP_CWORD-1]}\n"
                         "    COMPREPLY=()\n"
                         "    case \"$previous\" in\n");
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (o->hidden || !o->value)
            continue;
        struct str words = {0};
        append_words(&words, o);
        if (is_file(o)) {
            append_case(
                out, o,
                "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$current\"))");
        } else {
            struct str action = {0};
            str_append_format(&action, "COMPREPLY=($(compgen -W \"%s\" -- \"$current\"))",
                              str_text(&words));
            append_case(out, o, words.len ? str_text(&action) : ":");
            str_free(&action);
        }
        str_free(&words);
    }
    str_append_text(out, "    esac\n    COMPREPLY=($(compgen -W \"");
    for (size_t i = 0; (o = option_at(i)); i++)
        if (!o->hidden && o->type != OPT_REMOVED)
            append_spellings(out, o, " ");
    str_append_format(out,
                      "\" -- \"$current\"))\n}\n"
                      "_mlxcel()\n{\n"
                      "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                      "        COMPREPLY=($(compgen -W \"%s\" -- \"${COMP_WORDS[1]}\"))\n"
                      "    elif [ \"${COMP_WORDS[1]}\" = serve ]; then\n"
                      "        _mlxcel_options\n"
                      "    else\n"
                      "        compopt -o filenames 2>/dev/null\n"
                      "        COMPREPLY=($(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
                      "    fi\n}\n"
                      "complete -F _mlxcel_options mlxcel-server\n"
                      "complete -F _mlxcel mlxcel\n",
                      commands);
    return !out->failed;
}
