/* custom_server.c - options of the server, the chat and the log whose values
 * want reading. */
#include "options/table.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

static void *field_of(struct option_parser *p, const struct option_use *use)
{
    return (char *)p->options + use->option->field;
}

static bool add_key(struct option_parser *p, const struct option_use *use, struct slice key,
                    struct error *err)
{
    return key.len == 0 || list_push(p->options, field_of(p, use), key) || error_memory(err);
}

/* Whoever names keys wants a server that asks for one. */
static bool check_keys(const struct option_parser *p, const struct option_use *use, size_t before,
                       const char *what, struct error *err)
{
    const struct option_list *keys = (const void *)((const char *)p->options + use->option->field);
    return keys->n > before ||
           error_set(err, ERR_INVALID,
                     "%s: %s, so anybody could use the server; give a key, or leave it out",
                     use->source, what);
}

bool apply_api_keys(struct option_parser *p, const struct option_use *use, struct error *err)
{
    size_t before = ((const struct option_list *)field_of(p, use))->n;
    return csv_each(p, use, add_key, err) && check_keys(p, use, before, "the key is empty", err);
}

bool apply_api_key_file(struct option_parser *p, const struct option_use *use, struct error *err)
{
    size_t before = ((const struct option_list *)field_of(p, use))->n;
    const char *text = read_text_file(p, use, err);
    if (!text)
        return false;
    while (*text) {
        size_t len = strcspn(text, "\n"), n = len;
        if (n && text[n - 1] == '\r') /* lines of an editor on Windows */
            n--;
        if (text[0] != '#' && !add_key(p, use, (struct slice){text, n}, err))
            return false;
        text += len + (text[len] == '\n');
    }
    return check_keys(p, use, before, "the file has no key", err);
}

bool apply_port(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int64_t port;
    if (!read_int(use, 0, UINT16_MAX, &port, err))
        return false;
    p->options->http.port = (int32_t)port;
    return true;
}

bool apply_folder(struct option_parser *p, const struct option_use *use, struct error *err)
{
    struct stat info;
    if (stat(use->value, &info) != 0 || !S_ISDIR(info.st_mode))
        return error_set(err, ERR_NOT_FOUND, "%s: '%s' is not a folder; create it first",
                         use->source, use->value);
    size_t len = strlen(use->value);
    struct str path = {0};
    str_append_text(&path, use->value);
    if (use->value[len - 1] != '/')
        str_append_char(&path, '/');
    const char *text = path.failed ? NULL : options_text(p->options, str_slice(&path));
    str_free(&path);
    *(const char **)field_of(p, use) = text;
    return text || error_memory(err);
}

bool apply_text_list(struct option_parser *p, const struct option_use *use, struct error *err)
{
    return list_push(p->options, field_of(p, use), slice_of(use->value)) || error_memory(err);
}

bool apply_file_text(struct option_parser *p, const struct option_use *use, struct error *err)
{
    const char *text = read_text_file(p, use, err);
    *(const char **)field_of(p, use) = text;
    return text != NULL;
}

static bool set_kwarg(struct option_parser *p, const char *key, json_t *value, struct error *err)
{
    return json_object_set_new(p->options->chat.template_kwargs, key, value) == 0 ||
           error_memory(err);
}

bool apply_template_kwargs(struct option_parser *p, const struct option_use *use, struct error *err)
{
    json_t *given = json_parse(slice_of(use->value), err);
    if (!given)
        return error_prefix(err, "%s", use->source);
    bool ok = json_is_object(given) || bad_value(use, err, "a JSON object");
    const char *key;
    json_t *value;
    if (ok && json_object_get(given, "enable_thinking"))
        ok = option_warn(p, "%s: to set enable_thinking, use --reasoning on or off", use->source) ||
             error_memory(err);
    if (ok)
        json_object_foreach(given, key, value) ok =
            ok && set_kwarg(p, key, json_incref(value), err);
    json_decref(given);
    return ok;
}

bool apply_reasoning(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int *state = field_of(p, use);
    if (!read_tristate(use, state, err))
        return false;
    return *state == OPTION_AUTO || set_kwarg(p, "enable_thinking", json_boolean(*state), err);
}

bool apply_reasoning_effort(struct option_parser *p, const struct option_use *use,
                            struct error *err)
{
    if (!strcmp(use->value, "default")) {
        json_object_del(p->options->chat.template_kwargs, "reasoning_effort");
        return true;
    }
    return set_kwarg(p, "reasoning_effort", json_string_from(slice_of(use->value)), err);
}

bool apply_reasoning_preserve(struct option_parser *p, const struct option_use *use,
                              struct error *err)
{
    return set_kwarg(p, "preserve_reasoning", json_boolean(use->on), err);
}

bool apply_verbose(struct option_parser *p, const struct option_use *use, struct error *err)
{
    (void)use, (void)err;
    p->options->logging.verbosity = INT_MAX;
    return true;
}

bool apply_sleep(struct option_parser *p, const struct option_use *use, struct error *err)
{
    int64_t seconds;
    if (!read_int(use, -1, INT32_MAX, &seconds, err))
        return false;
    if (seconds == 0)
        return bad_value(use, err, "seconds, or -1 for never");
    p->options->http.sleep_idle_seconds = (int32_t)seconds;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

const char *resolve_escapes(struct options *o, const char *text)
{
    static const char from[] = "nrt'\"\\", to[] = "\n\r\t'\"\\";
    struct str out = {0};
    for (const char *c = text; *c; c++) {
        const char *simple = c[0] == '\\' && c[1] ? strchr(from, c[1]) : NULL;
        if (simple) {
            str_append_char(&out, to[simple - from]);
            c++;
        } else if (c[0] == '\\' && c[1] == 'x' && hex_digit(c[2]) >= 0 && hex_digit(c[3]) >= 0) {
            str_append_char(&out, (char)(hex_digit(c[2]) * 16 + hex_digit(c[3])));
            c += 3;
        } else {
            str_append_char(&out, *c);
        }
    }
    const char *copy = out.failed ? NULL : options_text(o, str_slice(&out));
    str_free(&out);
    return copy;
}
