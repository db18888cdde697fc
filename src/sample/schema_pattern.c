/* schema_pattern.c - a regular expression (ECMA-262, with the u flag) to a rule
 * for the JSON string that matches it.
 *
 * Understood: literals, escapes, '.', classes, groups, '|', all repetitions.
 * Refused: look-around, back references, \b, \p, anchors inside. What would have
 * to be written as an escape in JSON is admitted as that escape where it is
 * named, and left out of what is only included by a negation. */
#include "sample/schema.h"

#include "base/utf8.h"

enum { DEPTH_MAX = 64, REPEAT_MAX = 1999, ITEMS_MAX = 4096, RANGES_MAX = 256 };

struct regex {
    struct grammar_builder *b;
    struct slice text;
    size_t pos;
    int depth;
    const char *name; /* of the rule; those of repeated parts add a number */
    size_t n_parts;
    VEC(char *) parts; /* bodies that have a rule already, each with its name */
    VEC(const char *) part_names;
};

/* A sequence under construction: what the last item was, and the open run of
 * literal characters. */
struct item {
    struct str text; /* GBNF; of a literal without its quotes */
    bool literal;
};

struct sequence {
    VEC(struct item) items;
};

static bool refuse(struct regex *r, const char *what)
{
    schema_fail(r->b, "pattern: %s (at byte %zu of the pattern)", what, r->pos + 1);
    return false;
}

static bool no_memory(struct regex *r)
{
    error_memory(r->b->err);
    return false;
}

static int peek(const struct regex *r)
{
    return r->pos < r->text.len ? (unsigned char)r->text.data[r->pos] : -1;
}

static bool read_codepoint(struct regex *r, uint32_t *c)
{
    bool valid = true;
    if (r->pos >= r->text.len)
        return refuse(r, "it ends too early");
    r->pos += utf8_decode(r->text.data + r->pos, r->text.len - r->pos, c, &valid);
    return valid || refuse(r, "this is not UTF-8");
}

/* ---- characters of a JSON string, in GBNF ---- */

/* In a quoted literal of GBNF: the character as JSON writes it. */
static void append_json_char(struct str *out, uint32_t c)
{
    switch (c) {
    case '"':
        str_append_text(out, "\\\\\\\"");
        break;
    case '\\':
        str_append_text(out, "\\\\\\\\");
        break;
    case '\n':
        str_append_text(out, "\\\\n");
        break;
    case '\r':
        str_append_text(out, "\\\\r");
        break;
    case '\t':
        str_append_text(out, "\\\\t");
        break;
    case '\b':
        str_append_text(out, "\\\\b");
        break;
    case '\f':
        str_append_text(out, "\\\\f");
        break;
    default:
        if (c < 0x20 || c == 0x7F)
            str_append_format(out, "\\\\u%04X", (unsigned)c);
        else
            str_append_codepoint(out, c);
    }
}

static bool needs_escape(uint32_t c)
{
    return c < 0x20 || c == '"' || c == '\\' || c == 0x7F;
}

/* ---- classes ---- */

struct range {
    uint32_t low, high;
};

struct ranges {
    struct range data[RANGES_MAX];
    size_t n;
};

static bool add_range(struct regex *r, struct ranges *set, uint32_t low, uint32_t high)
{
    if (low > high)
        return refuse(r, "a range of a class is the wrong way round");
    if (set->n == RANGES_MAX)
        return refuse(r, "a class has too many ranges");
    set->data[set->n++] = (struct range){low, high};
    return true;
}

static void sort_ranges(struct regex *r, struct ranges *set)
{
    schema_step(r->b, set->n * set->n / 4);
    for (size_t i = 1; i < set->n; i++)
        for (size_t j = i; j > 0 && set->data[j].low < set->data[j - 1].low; j--) {
            struct range swap = set->data[j];
            set->data[j] = set->data[j - 1];
            set->data[j - 1] = swap;
        }
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++) {
        if (n && set->data[i].low <= set->data[n - 1].high + 1) {
            if (set->data[i].high > set->data[n - 1].high)
                set->data[n - 1].high = set->data[i].high;
        } else {
            set->data[n++] = set->data[i];
        }
    }
    set->n = n;
}

/* What the set leaves of all characters. */
static bool complement(struct regex *r, struct ranges *set)
{
    struct ranges rest = {.n = 0};
    uint32_t next = 0;
    sort_ranges(r, set);
    for (size_t i = 0; i < set->n; i++) {
        if (set->data[i].low > next && !add_range(r, &rest, next, set->data[i].low - 1))
            return false;
        next = set->data[i].high + 1;
    }
    if (next <= 0x10FFFF && !add_range(r, &rest, next, 0x10FFFF))
        return false;
    *set = rest;
    return true;
}

/* \d \w \s and their opposites; false where the letter is none of them. */
static bool add_shorthand(struct regex *r, struct ranges *set, char letter, bool *ok)
{
    struct ranges named = {.n = 0};
    switch (letter) {
    case 'd':
    case 'D':
        *ok = add_range(r, &named, '0', '9');
        break;
    case 'w':
    case 'W':
        *ok = add_range(r, &named, '0', '9') && add_range(r, &named, 'A', 'Z') &&
              add_range(r, &named, '_', '_') && add_range(r, &named, 'a', 'z');
        break;
    case 's':
    case 'S':
        *ok = add_range(r, &named, '\t', '\r') && add_range(r, &named, ' ', ' ') &&
              add_range(r, &named, 0xA0, 0xA0) && add_range(r, &named, 0x1680, 0x1680) &&
              add_range(r, &named, 0x2000, 0x200A) && add_range(r, &named, 0x2028, 0x2029) &&
              add_range(r, &named, 0x202F, 0x202F) && add_range(r, &named, 0x205F, 0x205F) &&
              add_range(r, &named, 0x3000, 0x3000) && add_range(r, &named, 0xFEFF, 0xFEFF);
        break;
    default:
        return false;
    }
    if (*ok && letter < 'a')
        *ok = complement(r, &named);
    for (size_t i = 0; *ok && i < named.n; i++)
        *ok = add_range(r, set, named.data[i].low, named.data[i].high);
    return true;
}

static bool read_hex(struct regex *r, int digits, uint32_t *c)
{
    *c = 0;
    for (int i = 0; i < digits; i++, r->pos++) {
        int digit = peek(r);
        if (digit >= '0' && digit <= '9')
            digit -= '0';
        else if (digit >= 'a' && digit <= 'f')
            digit -= 'a' - 10;
        else if (digit >= 'A' && digit <= 'F')
            digit -= 'A' - 10;
        else
            return refuse(r, "an escape lacks hexadecimal digits");
        *c = *c << 4 | (uint32_t)digit;
    }
    return true;
}

/* The character after a backslash that stands for one character. */
static bool read_escaped_char(struct regex *r, uint32_t *c)
{
    static const char letters[] = "tnrfv0", values[] = "\t\n\r\f\v\0";
    if (!read_codepoint(r, c))
        return false;
    const char *known = *c < 0x80 && *c ? strchr(letters, (int)*c) : NULL;
    if (known) {
        *c = (unsigned char)values[known - letters];
        return !(*c == 0 && peek(r) >= '0' && peek(r) <= '9') ||
               refuse(r, "back references cannot be said in a grammar");
    }
    if (*c == 'x')
        return read_hex(r, 2, c);
    if (*c == 'u') {
        if (peek(r) != '{')
            return read_hex(r, 4, c);
        size_t end = r->pos + 1;
        while (end < r->text.len && r->text.data[end] != '}')
            end++;
        int digits = (int)(end - r->pos - 1);
        if (end >= r->text.len || digits < 1 || digits > 6)
            return refuse(r, "\\u{...} expects up to six hexadecimal digits");
        r->pos++;
        bool ok = read_hex(r, digits, c);
        r->pos++;
        return ok;
    }
    if (*c >= '1' && *c <= '9')
        return refuse(r, "back references cannot be said in a grammar");
    if (*c == 'b' || *c == 'B')
        return refuse(r, "word boundaries cannot be said in a grammar");
    if (*c == 'p' || *c == 'P' || *c == 'k' || *c == 'c')
        return refuse(r, "this escape is not supported");
    return true;
}

/* A class as GBNF: what may stand raw as one class, beside it the escapes of
 * what is named (not of what a negation or '.' happens to include). */
static void append_ranges(struct regex *r, struct str *out, struct ranges *set, bool named)
{
    struct str plain = {0}, escaped = {0};
    sort_ranges(r, set);
    for (size_t i = 0; i < set->n; i++) {
        uint32_t low = set->data[i].low, high = set->data[i].high;
        while (low <= high) {
            if (needs_escape(low) || (low >= 0xD800 && low <= 0xDFFF)) {
                if (named && low < 0x80 && escaped.len < 2000) {
                    str_append_text(&escaped, escaped.len ? " | \"" : "\"");
                    append_json_char(&escaped, low);
                    str_append_char(&escaped, '"');
                }
                low = low >= 0xD800 && low <= 0xDFFF ? 0xE000 : low + 1;
                continue;
            }
            uint32_t end = low;
            while (end < high && !needs_escape(end + 1) && end + 1 != 0xD800) {
                /* Past ASCII only the surrogates are in the way. */
                if (end >= 0x80)
                    end = high < 0xD800 || end > 0xDFFF ? high : 0xD7FF;
                else
                    end++;
                if (end >= 0x80 && end != high && end != 0xD7FF)
                    continue;
            }
            grammar_append_class_char(&plain, low);
            if (end > low) {
                if (end > low + 1)
                    str_append_char(&plain, '-');
                grammar_append_class_char(&plain, end);
            }
            low = end + 1;
        }
    }
    bool two = plain.len && escaped.len;
    if (two)
        str_append_char(out, '(');
    if (plain.len)
        str_append_format(out, "[%s]", str_text(&plain));
    if (two)
        str_append_text(out, " | ");
    str_append_slice(out, str_slice(&escaped));
    if (two)
        str_append_char(out, ')');
    out->failed = out->failed || plain.failed || escaped.failed;
    str_free(&plain);
    str_free(&escaped);
}

/* A class that means in GBNF what it means here keeps its text. */
static bool is_simple_class(struct slice text)
{
    if (text.len < 3 || text.data[1] == '^')
        return false;
    for (size_t i = 1; i + 1 < text.len; i++) {
        char c = text.data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr("-_.:/+*?!@#$%&=,;~ ", c)))
            return false;
        /* A range must not reach over what needs an escape. */
        if (c == '-' && i > 1 && i + 2 < text.len) {
            char low = text.data[i - 1], high = text.data[i + 1];
            bool same = (low >= '0' && high <= '9') || (low >= 'A' && high <= 'Z') ||
                        (low >= 'a' && high <= 'z');
            if (!same || low > high)
                return false;
        }
    }
    return true;
}

static bool read_class(struct regex *r, struct str *out)
{
    struct ranges set = {.n = 0};
    size_t start = r->pos++;
    bool negated = peek(r) == '^';
    r->pos += negated;
    while (peek(r) != ']') {
        uint32_t low, high;
        bool ok = true, shorthand = false;
        if (peek(r) == -1)
            return refuse(r, "Unbalanced square brackets");
        if (peek(r) == '\\') {
            r->pos++;
            shorthand = peek(r) > 0 && add_shorthand(r, &set, (char)peek(r), &ok);
            if (shorthand)
                r->pos++;
            else if (peek(r) == 'b')
                low = '\b', r->pos++;
            else
                ok = read_escaped_char(r, &low);
        } else {
            ok = read_codepoint(r, &low);
        }
        if (!ok)
            return false;
        if (shorthand)
            continue;
        high = low;
        if (peek(r) == '-' && r->pos + 1 < r->text.len && r->text.data[r->pos + 1] != ']') {
            r->pos++;
            if (peek(r) == '\\') {
                r->pos++;
                if (strchr("dDwWsS", peek(r)))
                    return refuse(r, "a range cannot end in a class");
                ok = read_escaped_char(r, &high);
            } else {
                ok = read_codepoint(r, &high);
            }
        }
        if (!ok || !add_range(r, &set, low, high))
            return false;
    }
    r->pos++;
    struct slice text = {r->text.data + start, r->pos - start};
    if (is_simple_class(text))
        return str_append_slice(out, text);
    if (negated && !complement(r, &set))
        return false;
    append_ranges(r, out, &set, !negated);
    return out->len > 0 || refuse(r, "a class admits nothing that can be written");
}

/* ---- sequences ---- */

static struct item *add_item(struct regex *r, struct sequence *s, bool literal)
{
    if (s->items.n >= ITEMS_MAX) {
        refuse(r, "it is too long");
        return NULL;
    }
    if (!VEC_PUSH(&s->items, (struct item){.literal = literal})) {
        no_memory(r);
        return NULL;
    }
    return &s->items.data[s->items.n - 1];
}

static void append_item(struct str *out, const struct item *item)
{
    if (item->literal)
        str_append_char(out, '"');
    str_append_slice(out, str_slice(&item->text));
    if (item->literal)
        str_append_char(out, '"');
}

static void join(struct sequence *s, struct str *out)
{
    for (size_t i = 0; i < s->items.n; i++) {
        const struct item *item = &s->items.data[i];
        bool goes_on = i && item->literal && s->items.data[i - 1].literal;
        if (goes_on)
            str_truncate(out, out->len - 1); /* one literal with the one before */
        else if (i)
            str_append_char(out, ' ');
        if (!goes_on) {
            append_item(out, item);
        } else {
            str_append_slice(out, str_slice(&item->text));
            str_append_char(out, '"');
        }
        out->failed = out->failed || item->text.failed;
    }
}

static void free_sequence(struct sequence *s)
{
    for (size_t i = 0; i < s->items.n; i++)
        str_free(&s->items.data[i].text);
    VEC_FREE(&s->items);
}

/* A repeated part gets a rule of its own, equal parts one together. */
static const char *part_rule(struct regex *r, const char *body)
{
    for (size_t i = 0; i < r->parts.n; i++) {
        if (!schema_step(r->b, 2))
            return NULL;
        if (strcmp(r->parts.data[i], body) == 0)
            return r->part_names.data[i];
    }
    struct str name = {0};
    str_append_format(&name, "%s-%zu", r->name, r->parts.n + 1);
    const char *rule = name.failed ? NULL : rules_add(r->b, str_text(&name), body);
    str_free(&name);
    if (!rule || !schema_bytes(r->b, strlen(body)))
        return NULL;
    char *copy = slice_duplicate(slice_of(body));
    if (!copy || !VEC_PUSH(&r->parts, copy) || !VEC_PUSH(&r->part_names, rule)) {
        no_memory(r);
        return NULL;
    }
    return rule;
}

static bool read_count(struct regex *r, int64_t *count)
{
    if (peek(r) < '0' || peek(r) > '9')
        return refuse(r, "Invalid number in curly brackets");
    for (*count = 0; peek(r) >= '0' && peek(r) <= '9'; r->pos++)
        if (*count < 1000000)
            *count = *count * 10 + (peek(r) - '0');
    return true;
}

static bool read_braces(struct regex *r, struct item *last)
{
    int64_t min, max;
    r->pos++;
    if (!read_count(r, &min))
        return false;
    max = min;
    if (peek(r) == ',') {
        r->pos++;
        max = -1;
        if (peek(r) != '}' && !read_count(r, &max))
            return false;
    }
    if (peek(r) != '}')
        return refuse(r, "Unbalanced curly brackets");
    r->pos++;
    if (max >= 0 && max < min)
        return refuse(r, "a repetition has a maximum below its minimum");
    if (min > REPEAT_MAX)
        return refuse(r, "it repeats too often");
    if (max > REPEAT_MAX)
        max = REPEAT_MAX;
    struct str text = {0}, quoted = {0};
    const char *name;
    if (last->literal) {
        str_append_format(&quoted, "\"%s\"", str_text(&last->text));
        name = str_text(&quoted);
    } else {
        name = part_rule(r, str_text(&last->text));
    }
    if (name)
        append_repetition(&text, name, min, max, NULL);
    if (name && max == 0) /* nothing: an empty literal keeps its place */
        str_append_text(&text, "\"\"");
    str_free(&quoted);
    str_free(&last->text);
    last->text = text;
    last->literal = false;
    return name;
}

static bool read_repetition(struct regex *r, struct sequence *s)
{
    int kind = peek(r);
    if (s->items.n == 0)
        return refuse(r, "there is nothing to repeat");
    struct item *last = &s->items.data[s->items.n - 1];
    if (strcmp(str_text(&last->text), "|") == 0 && !last->literal)
        return refuse(r, "there is nothing to repeat");
    if (kind == '{') {
        if (!read_braces(r, last))
            return false;
    } else {
        struct str text = {0};
        append_item(&text, last);
        str_append_char(&text, (char)kind);
        str_free(&last->text);
        last->text = text;
        last->literal = false;
        r->pos++;
    }
    if (peek(r) == '?') /* lazy: the same strings */
        r->pos++;
    if (peek(r) == '*' || peek(r) == '+' || peek(r) == '?' || peek(r) == '{')
        return refuse(r, "a repetition cannot be repeated");
    return true;
}

static bool read_alternatives(struct regex *r, struct str *out, bool nested);

static bool read_group(struct regex *r, struct sequence *s)
{
    r->pos++;
    if (peek(r) == '?') {
        r->pos++;
        bool named = peek(r) == '<' && r->pos + 1 < r->text.len &&
                     r->text.data[r->pos + 1] != '=' && r->text.data[r->pos + 1] != '!';
        if (!named && peek(r) != ':')
            return refuse(r, "look-ahead and look-behind are Unsupported pattern syntax");
        while (named && peek(r) != '>' && peek(r) != -1)
            r->pos++;
        r->pos++;
    }
    if (++r->depth > DEPTH_MAX)
        return refuse(r, "groups are nested too deeply");
    struct item *item = add_item(r, s, false);
    struct str inside = {0};
    bool ok = item && read_alternatives(r, &inside, true);
    if (ok)
        str_append_format(&item->text, "(%s)", str_text(&inside));
    str_free(&inside);
    r->depth--;
    return ok;
}

static bool read_backslash(struct regex *r, struct sequence *s)
{
    struct ranges set = {.n = 0};
    bool ok = true;
    r->pos++;
    int letter = peek(r);
    if (letter > 0 && add_shorthand(r, &set, (char)letter, &ok)) {
        struct item *item = ok ? add_item(r, s, false) : NULL;
        if (!item)
            return false;
        r->pos++;
        append_ranges(r, &item->text, &set, letter == 'd' || letter == 'w' || letter == 's');
        return true;
    }
    uint32_t c;
    if (!read_escaped_char(r, &c))
        return false;
    struct item *item = add_item(r, s, true);
    if (item)
        append_json_char(&item->text, c);
    return item;
}

static bool read_item(struct regex *r, struct sequence *s)
{
    /* What it is copied by the groups around it counts too. */
    if (!schema_step(r->b, 8 + (uint64_t)r->depth) || !schema_bytes(r->b, sizeof(struct item) + 32))
        return false;
    switch (peek(r)) {
    case '.': {
        struct item *item = add_item(r, s, false);
        const char *dot =
            item ? rules_add(r->b, "dot", "[^\"\\\\\\x7F\\x00-\\x1F\\u2028\\u2029]") : NULL;
        if (dot)
            str_append_text(&item->text, dot);
        r->pos++;
        return dot;
    }
    case '(':
        return read_group(r, s);
    case '[': {
        struct item *item = add_item(r, s, false);
        return item && read_class(r, &item->text);
    }
    case '*':
    case '+':
    case '?':
    case '{':
        return read_repetition(r, s);
    case '\\':
        return read_backslash(r, s);
    case '^':
    case '$':
        return refuse(r, "anchors may stand only at the two ends");
    case ']':
    case '}':
        return refuse(r, "this bracket closes nothing");
    default: {
        uint32_t c;
        if (!read_codepoint(r, &c))
            return false;
        struct item *item = add_item(r, s, true);
        if (item)
            append_json_char(&item->text, c);
        return item;
    }
    }
}

static bool read_alternatives(struct regex *r, struct str *out, bool nested)
{
    struct sequence s = {0};
    bool ok = true, empty = true; /* nothing yet in this alternative */
    for (;;) {
        int c = peek(r);
        if (c == -1 || c == ')' || c == '|') {
            struct item *item = ok && empty ? add_item(r, &s, false) : NULL;
            if (item)
                str_append_text(&item->text, "\"\"");
            ok = ok && (!empty || item);
            if (!ok || c != '|')
                break;
            item = add_item(r, &s, false);
            if (item)
                str_append_char(&item->text, '|');
            ok = item;
            empty = true;
            r->pos++;
            continue;
        }
        empty = false;
        ok = read_item(r, &s);
        if (!ok)
            break;
    }
    if (ok && nested && peek(r) != ')')
        ok = refuse(r, "Unbalanced parentheses");
    else if (ok && !nested && peek(r) == ')')
        ok = refuse(r, "Unbalanced parentheses");
    r->pos += ok && nested;
    if (ok)
        join(&s, out);
    free_sequence(&s);
    return ok;
}

const char *pattern_rule(struct grammar_builder *b, struct slice pattern, const char *name)
{
    size_t n = pattern.len, slashes = 0;
    bool anchored = n >= 2 && pattern.data[0] == '^' && pattern.data[n - 1] == '$';
    while (anchored && slashes + 2 < n && pattern.data[n - 2 - slashes] == '\\')
        slashes++;
    if (!anchored || slashes % 2)
        return schema_fail(b, "Pattern must start with '^' and end with '$'");
    struct regex r = {.b = b, .text = {pattern.data + 1, n - 2}, .name = name};
    struct str inside = {0}, body = {0};
    const char *rule = NULL;
    if (read_alternatives(&r, &inside, false)) {
        str_append_format(&body, "\"\\\"\" (%s) \"\\\"\"", str_text(&inside));
        body.failed = body.failed || inside.failed;
        rule = rules_add_str(b, name, &body);
    }
    str_free(&inside);
    for (size_t i = 0; i < r.parts.n; i++)
        free(r.parts.data[i]);
    VEC_FREE(&r.parts);
    VEC_FREE(&r.part_names);
    return rule;
}
