/* message_json.c - arguments as models write them, to JSON text. */
#include "chat/message_json.h"

#include "base/utf8.h"

#include <ctype.h>

enum { TREE_DEPTH = 200 };

void message_json_escape(struct str *out, struct slice text)
{
    for (size_t i = 0; i < text.len;) {
        static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
        char c = text.data[i];
        const char *found = c ? strchr(from, c) : NULL;
        uint32_t codepoint;
        if (found) {
            str_append_char(out, '\\');
            str_append_char(out, to[found - from]);
            i++;
        } else if ((unsigned char)c < 0x20) {
            str_append_format(out, "\\u%04x", (unsigned char)c);
            i++;
        } else {
            i += utf8_decode(text.data + i, text.len - i, &codepoint, NULL);
            str_append_codepoint(out, codepoint);
        }
    }
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* A word that is True, False or None, or the start of one: its JSON. Returns
 * how many bytes it takes; 0 when it is none. */
static size_t literal(struct str *out, struct slice rest)
{
    static const struct {
        const char *python, *json;
    } words[] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    size_t n = 0;
    while (n < rest.len && is_word(rest.data[n]))
        n++;
    for (size_t i = 0; n && i < sizeof words / sizeof *words; i++)
        if (n <= strlen(words[i].python) && strncmp(rest.data, words[i].python, n) == 0) {
            size_t length = strlen(words[i].json);
            str_append(out, words[i].json, n < length ? n : length);
            return n;
        }
    return 0;
}

void message_json_from_python(struct str *out, struct slice text)
{
    char quote = '\0'; /* of the string we are in */
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '\\' && quote && i + 1 < text.len) {
            char next = text.data[++i];
            if (!(quote == '\'' && next == '\''))
                str_append_char(out, '\\');
            str_append_char(out, next);
        } else if (c == '\\' && quote) {
            break; /* an escape that is not whole yet */
        } else if (c == '"') {
            if (quote == '\'')
                str_append_text(out, "\\\"");
            else
                str_append_char(out, c);
            if (quote != '\'')
                quote = quote ? '\0' : c;
        } else if (c == '\'') {
            str_append_char(out, quote == '"' ? '\'' : '"');
            if (quote != '"')
                quote = quote ? '\0' : c;
        } else {
            size_t n = !quote && (c == 'T' || c == 'F' || c == 'N') &&
                               (i == 0 || !is_word(text.data[i - 1]))
                           ? literal(out, slice_from(text, i))
                           : 0;
            if (n)
                i += n - 1;
            else
                str_append_char(out, c);
        }
    }
}

int message_json_depth(struct slice text)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && c == '{')
            depth++;
        else if (!in_string && c == '}')
            depth--;
    }
    return depth;
}

/* ---- Gemma --------------------------------------------------------------- */

static void gemma_value(struct str *out, const struct peg_node *node, int depth);

static void gemma_items(struct str *out, const struct peg_node *node, const char *brackets,
                        int depth)
{
    str_append_char(out, brackets[0]);
    for (const struct peg_node *item = node->first; item; item = item->next) {
        if (item != node->first)
            str_append_char(out, ',');
        gemma_value(out, item, depth);
    }
    if (!node->partial)
        str_append_char(out, brackets[1]);
}

static void gemma_value(struct str *out, const struct peg_node *node, int depth)
{
    if (!node || depth > TREE_DEPTH || node->text.len == 0)
        return;
    switch (node->tag) {
    case TAG_GEMMA_NUMBER:
        str_append_slice(out, node->text);
        break;
    case TAG_GEMMA_STRING:
        str_append_char(out, '"');
        if (node->first)
            message_json_escape(out, node->first->text);
        if (!node->partial)
            str_append_char(out, '"');
        break;
    case TAG_GEMMA_ARRAY:
        gemma_items(out, node, "[]", depth + 1);
        break;
    case TAG_GEMMA_DICT:
        gemma_items(out, node, "{}", depth + 1);
        break;
    case TAG_GEMMA_PAIR:
        for (const struct peg_node *part = node->first; part; part = part->next)
            gemma_value(out, part, depth + 1);
        break;
    case TAG_GEMMA_KEY:
        str_append_char(out, '"');
        if (node->first)
            message_json_escape(out, node->first->text);
        if (!node->partial)
            str_append_text(out, "\":");
        break;
    default:
        break;
    }
}

void message_json_from_gemma(struct str *out, const struct peg_node *node)
{
    gemma_value(out, node, 0);
}

/* ---- Tags ---------------------------------------------------------------- */

static void tagged_items(struct str *out, const struct peg_node *node, bool object, bool closed,
                         int depth);

static void tagged_value(struct str *out, const struct peg_node *entry, int depth)
{
    const struct peg_node *value = entry->first;
    while (value && value->tag != TAG_TOOL_ARG_VALUE && value->tag != TAG_TOOL_ARG_STRING_VALUE &&
           value->tag != TAG_TOOL_ARG_OBJECT && value->tag != TAG_TOOL_ARG_ARRAY)
        value = value->next;
    if (!value || depth > TREE_DEPTH)
        return;
    bool closed = !entry->partial;
    if (value->tag == TAG_TOOL_ARG_OBJECT || value->tag == TAG_TOOL_ARG_ARRAY) {
        tagged_items(out, value, value->tag == TAG_TOOL_ARG_OBJECT, closed, depth + 1);
    } else if (value->tag == TAG_TOOL_ARG_STRING_VALUE) {
        str_append_char(out, '"');
        message_json_escape(out, value->text);
        if (closed)
            str_append_char(out, '"');
    } else {
        str_append_slice(out, value->text);
    }
}

/* The entries below node, through whatever lies between. */
static void tagged_entries(struct str *out, const struct peg_node *node, bool object, bool *comma,
                           int depth)
{
    enum peg_tag_name wanted = object ? TAG_TOOL_ARG : TAG_TOOL_ARG_ITEM;
    for (const struct peg_node *child = node->first; child; child = child->next) {
        if (child->tag != wanted) {
            if (depth <= TREE_DEPTH)
                tagged_entries(out, child, object, comma, depth + 1);
            continue;
        }
        const struct peg_node *name = object ? peg_find(child, TAG_TOOL_ARG_NAME, 4) : NULL;
        if (object && !name)
            continue;
        size_t before = out->len;
        if (*comma)
            str_append_char(out, ',');
        size_t begin = out->len;
        if (name) {
            str_append_char(out, '"');
            message_json_escape(out, name->text);
            str_append_text(out, "\":");
        }
        tagged_value(out, child, depth + 1);
        if (out->len == begin)
            str_truncate(out, before);
        else
            *comma = true;
    }
}

static void tagged_items(struct str *out, const struct peg_node *node, bool object, bool closed,
                         int depth)
{
    bool comma = false;
    str_append_char(out, object ? '{' : '[');
    tagged_entries(out, node, object, &comma, depth);
    if (closed)
        str_append_char(out, object ? '}' : ']');
}

void message_json_from_tags(struct str *out, const struct peg_node *node, bool object, bool closed)
{
    tagged_items(out, node, object, closed, 0);
}
