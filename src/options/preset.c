/* preset.c - INI files of options.
 *
 *   ini    = { line } ; line = "[" section "]" | key "=" value | comment | blank
 *   key    = [A-Za-z_][A-Za-z0-9_.-]* : an option without its dashes, or its
 *            environment variable
 *   value  = the rest of the line; ";" and "#" begin a comment anywhere
 * The same grammar as the reference's. (libinih, the obvious library, also
 * splits at ":", joins indented lines, and cuts values at 195 bytes.) */
#include "options/table.h"

#include "base/file.h"
#include "options/preset.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { MAX_PRESET_FILE = 4 << 20 };

static struct slice trim(struct slice text)
{
    while (text.len && strchr(" \t\r", text.data[0]))
        text = slice_from(text, 1);
    while (text.len && strchr(" \t\r", text.data[text.len - 1]))
        text.len--;
    return text;
}

static bool is_key_char(char c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter || (!first && ((c >= '0' && c <= '9') || c == '.' || c == '-'));
}

static bool is_section_char(char c)
{
    return c != ']' && c != '\0';
}

static struct slice cut_comment(struct slice line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.data[i] == ';' || line.data[i] == '#')
            line.len = i;
    return line;
}

static bool parse_header(struct slice line, struct slice *section)
{
    size_t end = 1;
    while (end < line.len && is_section_char(line.data[end]))
        end++;
    if (end >= line.len || trim(cut_comment(slice_from(line, end + 1))).len)
        return false;
    *section = trim((struct slice){line.data + 1, end - 1});
    return section->len > 0;
}

bool preset_parse(struct slice text, const char *name, preset_setting *setting, void *arg,
                  struct error *err)
{
    struct slice section = {"", 0};
    for (size_t number = 1; text.len; number++) {
        const char *newline = memchr(text.data, '\n', text.len);
        struct slice line = {text.data, newline ? (size_t)(newline - text.data) : text.len};
        text = slice_from(text, line.len + (newline ? 1 : 0));
        if (trim(cut_comment(line)).len == 0)
            continue;
        if (line.data[0] == '[') {
            if (parse_header(line, &section))
                continue;
            return error_set(err, ERR_FORMAT, "%s:%zu: a section is written [NAME]", name, number);
        }
        struct slice key = {line.data, 0};
        while (key.len < line.len && is_key_char(line.data[key.len], key.len == 0))
            key.len++;
        struct slice rest = trim(slice_from(line, key.len));
        if (key.len == 0 || rest.len == 0 || rest.data[0] != '=')
            return error_set(err, ERR_FORMAT,
                             "%s:%zu: a setting is written KEY = VALUE, from the line's start",
                             name, number);
        if (!setting(arg, number, section, key, trim(cut_comment(slice_from(rest, 1))), err))
            return false;
    }
    return true;
}

/* The row of a key: a spelling without dashes or a variable. */
static const struct option *find_key(const char *key, bool *on)
{
    char spelling[136];
    const struct option *o;
    for (int dashes = 1; dashes <= 2; dashes++) {
        snprintf(spelling, sizeof spelling, "%.*s%s", dashes, "--", key);
        if ((o = option_find(spelling, on)))
            return o;
    }
    *on = true;
    for (size_t i = 0; (o = option_at(i)); i++) {
        char negative[96];
        if (o->env && !strcmp(o->env, key))
            return o;
        if (option_negative_env(o, negative, sizeof negative) && !strcmp(negative, key)) {
            *on = false;
            return o;
        }
    }
    return NULL;
}

bool preset_apply(struct option_parser *p, const char *source, const char *key, const char *value,
                  struct error *err)
{
    bool on;
    const struct option *o = find_key(key, &on);
    if (!o || o->type == OPT_ACTION || o->value2)
        return option_warn(p, "%s: '%s' is not a setting of this program and left out", source,
                           key) ||
               error_memory(err);
    struct option_use use = {.option = o, .source = source, .on = true};
    if (o->value) {
        use.value = value;
        return option_apply(p, &use, err);
    }
    bool truth = text_is_true(value);
    if (o->names_off) {
        use.on = on == truth;
        return option_apply(p, &use, err);
    }
    return !truth || option_apply(p, &use, err);
}

struct file_state {
    struct option_parser *p;
    const char *path;
};

static bool apply_setting(void *arg, size_t line, struct slice section, struct slice key,
                          struct slice value, struct error *err)
{
    struct file_state *state = arg;
    if (section.len && !slice_equal_text(section, "*") && !slice_equal_text(section, "default"))
        return true; /* a preset of some model, not this program's settings */
    if (slice_equal_text(key, "version"))
        return true;
    struct str source = {0};
    str_append_format(&source, "%s:%zu: %.*s", state->path, line, (int)key.len, key.data);
    char *name = slice_duplicate(key), *text = slice_duplicate(value);
    bool ok = (!source.failed && name && text) || error_memory(err);
    ok = ok && preset_apply(state->p, str_text(&source), name, text, err);
    free(name);
    free(text);
    str_free(&source);
    return ok;
}

bool preset_apply_file(struct option_parser *p, const char *path, struct error *err)
{
    /* These files are optional, and may be somebody else's. */
    if (access(path, R_OK) != 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return true;
    struct str text = {0};
    bool ok = file_read_whole(path, MAX_PRESET_FILE, &text, err);
    struct file_state state = {p, path};
    ok = ok && preset_parse(str_slice(&text), path, apply_setting, &state, err);
    str_free(&text);
    return ok;
}
