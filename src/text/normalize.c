/* normalize.c - the normalizers of tokenizer.json, and their character classes. */
#include "text/normalize.h"

#include "base/utf8.h"
#include "text/pieces.h"

#include <stdlib.h>
#include <utf8proc.h>

bool codepoint_is_space(uint32_t c)
{
    return c == ' ' || (c >= 0x09 && c <= 0x0D) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

bool codepoint_is_punctuation(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool codepoint_is_mark(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool codepoint_is_control(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CS || category == UTF8PROC_CATEGORY_CO;
}

bool codepoint_is_han(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
        {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

uint32_t codepoint_lower(uint32_t c)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}

uint32_t codepoint_base(uint32_t c)
{
    utf8proc_int32_t parts[8];
    int boundary = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, parts, 8,
                                                 UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundary);
    return n > 0 ? (uint32_t)parts[0] : c;
}

static bool unicode_form(struct slice text, utf8proc_option_t form, struct str *out)
{
    utf8proc_uint8_t *mapped = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text.data,
                                      (utf8proc_ssize_t)text.len, &mapped, form);
    bool ok = n >= 0 && str_append(out, mapped, (size_t)n);
    free(mapped);
    return ok;
}

static bool lowercase(struct slice text, struct str *out)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        i += utf8_decode(text.data + i, text.len - i, &c, NULL);
        /* The one letter whose lowercase is two code points. */
        if (c == 0x130)
            str_append_text(out, "i\xCC\x87");
        else
            str_append_codepoint(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    }
    return !out->failed;
}

static bool nmt_drops(uint32_t c)
{
    return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
           c == 0x8F || c == 0x9F;
}

static bool nmt_is_space(uint32_t c)
{
    return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
}

/* The kinds that look at one character at a time. */
static bool by_character(enum normalize_kind kind, struct slice text, struct str *out)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        size_t len = utf8_decode(text.data + i, text.len - i, &c, NULL);
        struct slice as_it_is = {text.data + i, len};
        i += len;
        switch (kind) {
        case NORMALIZE_STRIP_ACCENTS:
            if (utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_MN)
                continue;
            break;
        case NORMALIZE_CLEAN: {
            bool space = codepoint_is_space(c);
            if (c == 0 || c == UTF8_REPLACEMENT || (!space && codepoint_is_control(c)))
                continue;
            if (space)
                as_it_is = SLICE(" ");
            break;
        }
        case NORMALIZE_SPACE_HAN:
            if (codepoint_is_han(c)) {
                str_append_char(out, ' ');
                str_append_slice(out, as_it_is);
                as_it_is = SLICE(" ");
            }
            break;
        default: /* NORMALIZE_NMT */
            if (nmt_drops(c))
                continue;
            if (nmt_is_space(c))
                as_it_is = SLICE(" ");
        }
        str_append_slice(out, as_it_is);
    }
    return !out->failed;
}

static struct slice strip(struct slice text, bool left, bool right)
{
    size_t begin = 0, end = 0;
    bool seen = false;
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        size_t len = utf8_decode(text.data + i, text.len - i, &c, NULL);
        bool space = codepoint_is_space(c);
        if (!space && !seen)
            begin = i;
        i += len;
        if (!space) {
            seen = true;
            end = i;
        }
    }
    if (!seen)
        return (struct slice){text.data, left || right ? 0 : text.len};
    if (!left)
        begin = 0;
    if (!right)
        end = text.len;
    return (struct slice){text.data + begin, end - begin};
}

static bool replace(const struct normalize_step *step, struct slice text, size_t limit,
                    struct str *out, struct pattern_scratch *scratch, struct error *err)
{
    size_t from = 0, done = 0;
    bool not_empty = false;
    for (;;) {
        size_t begin, end;
        enum pattern_result r =
            pattern_find(step->pattern, scratch, text, from, not_empty, &begin, &end, err);
        if (r == PATTERN_FAILED)
            return false;
        if (r == PATTERN_NONE)
            break;
        str_append(out, text.data + done, begin - done);
        str_append_slice(out, str_slice(&step->text));
        if (out->len > limit)
            return text_grows_too_much(err);
        not_empty = begin == end;
        from = done = end;
    }
    str_append_slice(out, slice_from(text, done));
    return !out->failed || error_memory(err);
}

/* The longest prefix the map knows is replaced, else one character stays. Past
 * the limit the rest is left out: the caller sees that. */
static bool map_characters(struct slice map, struct slice text, size_t limit, struct str *out)
{
    while (text.len && out->len <= limit) {
        struct slice replacement;
        size_t n = charsmap_match(map, text, &replacement);
        if (!n) {
            uint32_t c;
            n = utf8_decode(text.data, text.len, &c, NULL);
            replacement = (struct slice){text.data, n};
        }
        str_append_slice(out, replacement);
        text = slice_from(text, n);
    }
    return !out->failed;
}

/* Where a part stands in its text, and how large it may become. */
struct place {
    bool is_first, is_last;
    size_t limit;
};

static bool run_step(const struct normalize_step *step, const struct place *place,
                     struct slice text, struct str *out, struct pattern_scratch *scratch,
                     struct error *err)
{
    const utf8proc_option_t stable = UTF8PROC_STABLE;
    bool ok;
    switch (step->kind) {
    case NORMALIZE_NFC:
        ok = unicode_form(text, stable | UTF8PROC_COMPOSE, out);
        break;
    case NORMALIZE_NFD:
        ok = unicode_form(text, stable | UTF8PROC_DECOMPOSE, out);
        break;
    case NORMALIZE_NFKC:
        ok = unicode_form(text, stable | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, out);
        break;
    case NORMALIZE_NFKD:
        ok = unicode_form(text, stable | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, out);
        break;
    case NORMALIZE_LOWERCASE:
        ok = lowercase(text, out);
        break;
    case NORMALIZE_STRIP:
        ok = str_append_slice(
            out, strip(text, step->left && place->is_first, step->right && place->is_last));
        break;
    case NORMALIZE_REPLACE:
        return replace(step, text, place->limit, out, scratch, err);
    case NORMALIZE_PREPEND:
        ok = (!place->is_first || !text.len || str_append_slice(out, str_slice(&step->text))) &&
             str_append_slice(out, text);
        break;
    case NORMALIZE_CHARSMAP:
        ok = map_characters(str_slice(&step->text), text, place->limit, out);
        break;
    case NORMALIZE_BYTE_LEVEL:
        ok = byte_level_append(out, text);
        break;
    default:
        ok = by_character(step->kind, text, out);
    }
    return ok || error_memory(err);
}

size_t text_room(size_t len)
{
    enum { TIMES = 64, MORE = 8192, MOST = 1 << 30 };
    return len < (MOST - MORE) / TIMES ? len * TIMES + MORE : MOST;
}

bool text_grows_too_much(struct error *err)
{
    return error_set(err, ERR_LIMIT,
                     "the tokenizer makes too much of this text: its normalizers or pre-tokenizers "
                     "(tokenizer.json) replace pieces of it by much longer ones");
}

bool normalizer_run(const struct normalizer *n, size_t limit, struct str *text, struct str *other,
                    struct pattern_scratch *scratch, struct error *err)
{
    return normalizer_run_part(n, true, true, limit, text, other, scratch, err);
}

bool normalizer_run_part(const struct normalizer *n, bool is_first, bool is_last, size_t limit,
                         struct str *text, struct str *other, struct pattern_scratch *scratch,
                         struct error *err)
{
    for (size_t i = 0; i < n->n; i++) {
        const struct place place = {is_first, is_last, limit};
        str_clear(other);
        if (!run_step(&n->data[i], &place, str_slice(text), other, scratch, err))
            return false;
        if (other->len > limit)
            return text_grows_too_much(err);
        struct str swap = *text;
        *text = *other;
        *other = swap;
    }
    return true;
}

bool normalizer_add(struct normalizer *n, enum normalize_kind kind, struct error *err)
{
    return VEC_PUSH(n, (struct normalize_step){.kind = kind}) || error_memory(err);
}

bool normalizer_add_replace(struct normalizer *n, struct slice wanted, struct slice text,
                            struct error *err)
{
    struct normalize_step step = {.kind = NORMALIZE_REPLACE, .pattern = pattern_literal(wanted)};
    if (step.pattern && str_append_slice(&step.text, text) && VEC_PUSH(n, step))
        return true;
    pattern_free(step.pattern);
    str_free(&step.text);
    return error_memory(err);
}

void normalizer_free(struct normalizer *n)
{
    for (size_t i = 0; i < n->n; i++) {
        pattern_free(n->data[i].pattern);
        str_free(&n->data[i].text);
    }
    VEC_FREE(n);
}
