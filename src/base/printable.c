/* printable.c - control characters as visible text. */
#include "base/printable.h"

#include "base/utf8.h"

enum { SHOWN_MAX = 8 };

static bool is_obeyed(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0, 0x08},        {0x0A, 0x1F},     {0x7F, 0x9F},     {0x061C, 0x061C},
        {0x200E, 0x200F}, {0x2028, 0x2029}, {0x202A, 0x202E}, {0x2066, 0x2069},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

/* How the character at the front is shown; returns the bytes that it takes. */
static size_t show_one(struct slice text, char shown[SHOWN_MAX])
{
    uint32_t c;
    bool valid = true;
    size_t n = utf8_decode(text.data, text.len, &c, &valid);
    if (valid && is_obeyed(c)) {
        if (c == '\n' || c == '\r')
            snprintf(shown, SHOWN_MAX, "\\%c", c == '\n' ? 'n' : 'r');
        else
            snprintf(shown, SHOWN_MAX, c < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)(c & 0xFFFF));
        return n;
    }
    shown[utf8_encode(c, shown)] = '\0'; /* U+FFFD where it was not valid */
    return n;
}

void printable_write(FILE *out, struct slice text)
{
    char shown[SHOWN_MAX];
    while (text.len) {
        text = slice_from(text, show_one(text, shown));
        fputs(shown, out);
    }
}

bool printable_append(struct str *out, struct slice text)
{
    char shown[SHOWN_MAX];
    while (text.len) {
        text = slice_from(text, show_one(text, shown));
        str_append_text(out, shown);
    }
    return !out->failed;
}

void error_print(const char *who, const struct error *err)
{
    fprintf(stderr, "%s: ", who);
    printable_write(stderr, slice_of(err->message));
    fputc('\n', stderr);
}
