/* charsmap.c - the replacement table a SentencePiece model carries: a double
 * array trie of prefixes, then the NUL-terminated replacements. */
#include "text/normalize.h"

/* Maps know sequences of a few characters; one made to lead in a circle would
 * read all of the text at every character. */
enum { PREFIX_MAX = 256 };

struct charsmap {
    const unsigned char *units; /* little-endian 32-bit units */
    size_t n_units;
    struct slice replacements;
};

static uint32_t unit_at(const struct charsmap *map, uint32_t i)
{
    const unsigned char *p = map->units + (size_t)i * 4;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* False when the size at the front does not fit the whole. */
static bool open_map(struct slice map, struct charsmap *out)
{
    if (map.len < 4)
        return false;
    struct charsmap head = {(const unsigned char *)map.data, 1, {0}};
    size_t n_bytes = unit_at(&head, 0);
    if (n_bytes > map.len - 4)
        return false;
    out->units = head.units + 4;
    out->n_units = n_bytes / 4;
    out->replacements = slice_from(map, 4 + n_bytes);
    return true;
}

bool charsmap_check(struct slice map, struct error *err)
{
    struct charsmap m;
    if (!open_map(map, &m))
        return error_set(err, ERR_FORMAT,
                         "the tokenizer's precompiled charsmap is shorter than it says; the file "
                         "is probably damaged");
    if (m.replacements.len && m.replacements.data[m.replacements.len - 1] != '\0')
        return error_set(err, ERR_FORMAT,
                         "the last replacement in the tokenizer's precompiled charsmap has no end");
    return true;
}

static uint32_t base_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

size_t charsmap_match(struct slice map, struct slice text, struct slice *replacement)
{
    struct charsmap m;
    size_t longest = 0;
    if (!open_map(map, &m) || !m.n_units)
        return 0;
    uint32_t node = base_of(unit_at(&m, 0));
    for (size_t i = 0; i < text.len && i < PREFIX_MAX; i++) {
        unsigned char c = (unsigned char)text.data[i];
        node ^= c;
        if (c == 0 || node >= m.n_units)
            break;
        uint32_t unit = unit_at(&m, node);
        if ((unit & ((1u << 31) | 0xFF)) != c)
            break;
        node ^= base_of(unit);
        if (!(unit >> 8 & 1))
            continue;
        if (node >= m.n_units)
            break;
        uint32_t at = unit_at(&m, node) & 0x7FFFFFFFu;
        if (at >= m.replacements.len)
            break;
        longest = i + 1;
        *replacement = slice_of(m.replacements.data + at);
    }
    return longest;
}
