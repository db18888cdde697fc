/* pieces.c - cutting a text into pieces, step by step. */
#include "text/pieces.h"

#include "base/utf8.h"
#include "text/normalize.h"

#include <utf8proc.h>

/* GPT-2 gives every byte a printable character: itself where Latin-1 has one,
 * else one from U+0100 on, in order. Source: the encoder of OpenAI's gpt-2. */
static bool is_printable_byte(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

static uint32_t byte_level_codepoint(unsigned byte)
{
    if (is_printable_byte(byte))
        return byte;
    /* The others are 0..32, 127..160 and 173. */
    if (byte <= 0x20)
        return 0x100 + byte;
    return byte == 0xAD ? 0x143 : 0x100 + 33 + byte - 0x7F;
}

int byte_level_byte(uint32_t codepoint)
{
    if (codepoint < 0x100)
        return is_printable_byte(codepoint) ? (int)codepoint : -1;
    if (codepoint <= 0x120)
        return (int)(codepoint - 0x100);
    if (codepoint <= 0x142)
        return (int)(codepoint - 0x121 + 0x7F);
    return codepoint == 0x143 ? 0xAD : -1;
}

bool byte_level_append(struct str *out, struct slice text)
{
    if (!str_reserve(out, text.len > SIZE_MAX / 4 ? SIZE_MAX / 4 : text.len * 2))
        return false;
    char *to = out->data + out->len;
    for (size_t i = 0; i < text.len; i++)
        to += utf8_encode(byte_level_codepoint((unsigned char)text.data[i]), to);
    out->len = (size_t)(to - out->data);
    out->data[out->len] = '\0';
    return true;
}

/* ---- Cutting along a pattern ---- */

/* What a cut puts out, and what it needs to know of the part before. */
struct cutter {
    struct pieces *out;
    enum split_behavior behavior;
    bool have_last;     /* out's last piece came from this cut */
    bool last_is_match; /* and was a match, or ended with one */
};

static bool cut_part(struct cutter *c, size_t begin, size_t end, bool is_match)
{
    if (begin == end)
        return true;
    bool join = false;
    if (c->have_last)
        switch (c->behavior) {
        case SPLIT_MERGED_WITH_PREVIOUS:
            join = is_match && !c->last_is_match;
            break;
        case SPLIT_MERGED_WITH_NEXT:
            join = !is_match && c->last_is_match;
            break;
        case SPLIT_CONTIGUOUS:
            join = is_match == c->last_is_match;
            break;
        default:
            break;
        }
    c->have_last = true;
    c->last_is_match = is_match;
    if (is_match && c->behavior == SPLIT_REMOVED)
        return true;
    if (join) {
        c->out->list.data[c->out->list.n - 1].end = end;
        return true;
    }
    return VEC_PUSH(&c->out->list, (struct piece){begin, end});
}

static bool split_piece(struct cutter *c, const struct step *step, struct slice text,
                        struct piece piece, struct pattern_scratch *scratch, struct error *err)
{
    struct slice subject = {text.data + piece.begin, piece.end - piece.begin};
    size_t done = 0, from = 0;
    bool not_empty = false;
    c->have_last = false;
    for (;;) {
        size_t begin, end;
        enum pattern_result r =
            pattern_find(step->pattern, scratch, subject, from, not_empty, &begin, &end, err);
        if (r == PATTERN_FAILED)
            return false;
        if (r == PATTERN_NONE)
            break;
        if (!cut_part(c, piece.begin + done, piece.begin + begin, step->invert) ||
            !cut_part(c, piece.begin + begin, piece.begin + end, !step->invert))
            return error_memory(err);
        not_empty = begin == end;
        done = from = end;
    }
    if (!cut_part(c, piece.begin + done, piece.end, step->invert))
        return error_memory(err);
    return true;
}

/* ---- Groups of three digits ---- */

static bool is_number(uint32_t codepoint)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)codepoint);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

static bool is_ascii_digit(uint32_t codepoint)
{
    return codepoint >= '0' && codepoint <= '9';
}

/* Cut after every digit that has a multiple of three digits behind it; before
 * the run as well when cut_before. */
static bool group_digits(struct pieces *out, struct slice text, struct piece piece,
                         bool (*is_digit)(uint32_t), bool cut_before)
{
    size_t start = piece.begin, at = piece.begin;
    while (at < piece.end) {
        uint32_t codepoint;
        size_t step = utf8_decode(text.data + at, piece.end - at, &codepoint, NULL);
        if (!is_digit(codepoint)) {
            at += step;
            continue;
        }
        size_t run = at, n = 0;
        while (run < piece.end) {
            step = utf8_decode(text.data + run, piece.end - run, &codepoint, NULL);
            if (!is_digit(codepoint))
                break;
            run += step;
            n++;
        }
        if (cut_before && n % 3 == 0 && start < at) {
            if (!VEC_PUSH(&out->list, (struct piece){start, at}))
                return false;
            start = at;
        }
        while (at < run) {
            at += utf8_decode(text.data + at, piece.end - at, &codepoint, NULL);
            if (--n % 3 == 0) {
                /* The end of the text after the run stays with it here. */
                if (cut_before && n == 0)
                    break;
                if (!VEC_PUSH(&out->list, (struct piece){start, at}))
                    return false;
                start = at;
            }
        }
    }
    return start == piece.end || VEC_PUSH(&out->list, (struct piece){start, piece.end});
}

/* ---- Steps that rewrite the text ---- */

static bool rewrite(struct pieces *in, struct pieces *out, enum step_kind kind)
{
    for (size_t i = 0; i < in->list.n; i++) {
        struct piece piece = in->list.data[i];
        struct slice part = {in->text.data + piece.begin, piece.end - piece.begin};
        size_t begin = out->text.len;
        if (kind == STEP_BYTE_LEVEL) {
            byte_level_append(&out->text, part);
        } else {
            if (part.data[0] != ' ')
                str_append_char(&out->text, ' ');
            str_append_slice(&out->text, part);
        }
        if (out->text.failed || !VEC_PUSH(&out->list, (struct piece){begin, out->text.len}))
            return false;
    }
    return true;
}

/* Past the limit the rest is left out: the caller sees that. */
static bool to_metaspace(struct pieces *in, struct pieces *out, const struct step *step,
                         bool is_first, size_t limit)
{
    struct slice mark = str_slice(&step->text);
    for (size_t i = 0; i < in->list.n && out->text.len <= limit; i++) {
        struct piece piece = in->list.data[i];
        struct slice part = {in->text.data + piece.begin, piece.end - piece.begin};
        size_t begin = out->text.len;
        bool prepend = step->prepend == PREPEND_ALWAYS ||
                       (step->prepend == PREPEND_FIRST && is_first && i == 0);
        if (prepend && part.data[0] != ' ' && !slice_starts_with(part, mark))
            str_append_slice(&out->text, mark);
        for (size_t k = 0; k < part.len && out->text.len <= limit; k++) {
            bool is_mark = slice_starts_with(slice_from(part, k), mark);
            if ((part.data[k] == ' ' || is_mark) && step->split && out->text.len > begin) {
                if (!VEC_PUSH(&out->list, (struct piece){begin, out->text.len}))
                    return false;
                begin = out->text.len;
            }
            if (part.data[k] == ' ')
                str_append_slice(&out->text, mark);
            else
                str_append_char(&out->text, part.data[k]);
        }
        if (out->text.failed || !VEC_PUSH(&out->list, (struct piece){begin, out->text.len}))
            return false;
    }
    return true;
}

/* ---- The steps ---- */

static bool run_step(struct pieces *in, struct pieces *out, const struct step *step, bool is_first,
                     size_t limit, struct pattern_scratch *scratch, struct error *err)
{
    out->list.n = 0;
    str_clear(&out->text);
    if (step->kind == STEP_BYTE_LEVEL || step->kind == STEP_PREFIX_SPACE)
        return rewrite(in, out, step->kind) || error_memory(err);
    if (step->kind == STEP_METASPACE)
        return to_metaspace(in, out, step, is_first, limit) || error_memory(err);
    struct slice text = str_slice(&in->text);
    struct cutter cutter = {.out = out, .behavior = step->behavior};
    for (size_t i = 0; i < in->list.n; i++) {
        struct piece piece = in->list.data[i];
        if (step->kind == STEP_SPLIT) {
            if (!split_piece(&cutter, step, text, piece, scratch, err))
                return false;
        } else {
            bool ascii = step->kind == STEP_ASCII_DIGIT_GROUPS;
            if (!group_digits(out, text, piece, ascii ? is_ascii_digit : is_number, ascii))
                return error_memory(err);
        }
    }
    /* The text stays; only the cuts are new. */
    struct str same = in->text;
    in->text = out->text;
    out->text = same;
    return true;
}

bool pieces_run(struct pieces *pieces, const struct steps *steps, bool is_first, size_t limit,
                struct pattern_scratch *scratch, struct error *err)
{
    struct pieces other = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < steps->n; i++) {
        ok = run_step(pieces, &other, &steps->data[i], is_first, limit, scratch, err);
        if (ok && other.text.len > limit)
            ok = text_grows_too_much(err);
        struct pieces swap = *pieces;
        *pieces = other;
        other = swap;
    }
    pieces_free(&other);
    return ok;
}

void pieces_free(struct pieces *pieces)
{
    str_free(&pieces->text);
    VEC_FREE(&pieces->list);
}

void steps_free(struct steps *steps)
{
    for (size_t i = 0; i < steps->n; i++) {
        pattern_free(steps->data[i].pattern);
        str_free(&steps->data[i].text);
    }
    VEC_FREE(steps);
}
