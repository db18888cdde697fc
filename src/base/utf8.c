/* utf8.c - decoding, encoding and checking UTF-8. */
#include "base/utf8.h"

/* What the first byte promises: the length, and the range of the second byte
 * (the only one whose range depends on the first). */
struct lead {
    unsigned char length, low, high;
};

static struct lead lead_of(unsigned char b)
{
    if (b < 0x80)
        return (struct lead){1, 0, 0};
    if (b < 0xC2)
        return (struct lead){0, 0, 0};
    if (b < 0xE0)
        return (struct lead){2, 0x80, 0xBF};
    if (b == 0xE0)
        return (struct lead){3, 0xA0, 0xBF};
    if (b == 0xED)
        return (struct lead){3, 0x80, 0x9F};
    if (b < 0xF0)
        return (struct lead){3, 0x80, 0xBF};
    if (b == 0xF0)
        return (struct lead){4, 0x90, 0xBF};
    if (b < 0xF4)
        return (struct lead){4, 0x80, 0xBF};
    if (b == 0xF4)
        return (struct lead){4, 0x80, 0x8F};
    return (struct lead){0, 0, 0};
}

/* The number of bytes from text that are well formed so far, at most want. */
static size_t good_prefix(const unsigned char *text, size_t len, struct lead lead)
{
    size_t n = 1;
    while (n < lead.length && n < len) {
        unsigned char low = n == 1 ? lead.low : 0x80;
        unsigned char high = n == 1 ? lead.high : 0xBF;
        if (text[n] < low || text[n] > high)
            break;
        n++;
    }
    return n;
}

size_t utf8_decode(const char *text, size_t len, uint32_t *codepoint, bool *valid)
{
    const unsigned char *u = (const unsigned char *)text;
    struct lead lead = lead_of(u[0]);
    size_t n = good_prefix(u, len, lead);
    if (lead.length == 0 || n < lead.length) {
        *codepoint = UTF8_REPLACEMENT;
        if (valid)
            *valid = false;
        return n;
    }
    if (valid)
        *valid = true;
    static const unsigned char first_mask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t value = u[0] & first_mask[lead.length];
    for (size_t i = 1; i < n; i++)
        value = value << 6 | (u[i] & 0x3F);
    *codepoint = value;
    return n;
}

size_t utf8_encode(uint32_t cp, char out[4])
{
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        cp = UTF8_REPLACEMENT;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (char)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (char)(0x80 | (cp & 0x3F));
    return 4;
}

bool utf8_is_valid(struct slice text)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t codepoint;
        bool valid;
        i += utf8_decode(text.data + i, text.len - i, &codepoint, &valid);
        if (!valid)
            return false;
    }
    return true;
}

size_t utf8_incomplete_tail(struct slice text)
{
    const unsigned char *u = (const unsigned char *)text.data;
    for (size_t back = 1; back <= 3 && back <= text.len; back++) {
        const unsigned char *start = u + text.len - back;
        if ((*start & 0xC0) == 0x80)
            continue;
        struct lead lead = lead_of(*start);
        return lead.length > back && good_prefix(start, back, lead) == back ? back : 0;
    }
    return 0;
}

/* How many bytes a lead byte announces by its upper bits alone; 0: no lead. */
static size_t announced(unsigned char c)
{
    return (c & 0xE0) == 0xC0 ? 2 : (c & 0xF0) == 0xE0 ? 3 : (c & 0xF8) == 0xF0 ? 4 : 0;
}

size_t utf8_open_tail(struct slice text)
{
    for (size_t back = 1; back <= 3 && back <= text.len; back++)
        if (announced((unsigned char)text.data[text.len - back]) > back)
            return back;
    return 0;
}

bool utf8_append_sanitized(struct str *out, struct slice text)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t codepoint;
        bool valid;
        size_t n = utf8_decode(text.data + i, text.len - i, &codepoint, &valid);
        if (!(valid ? str_append(out, text.data + i, n) : str_append_codepoint(out, codepoint)))
            return false;
        i += n;
    }
    return !out->failed;
}

size_t utf8_length(struct slice text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; count++) {
        uint32_t codepoint;
        i += utf8_decode(text.data + i, text.len - i, &codepoint, NULL);
    }
    return count;
}
