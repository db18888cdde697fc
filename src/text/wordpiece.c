/* wordpiece.c - BERT's WordPiece: the longest token that fits, again and again.
 * Source: Devlin et al. 2018; Schuster and Nakajima 2012. */
#include "base/utf8.h"
#include "text/tokenizer.h"

bool wordpiece_encode(struct encoder *e, struct slice word)
{
    const struct tokenizer *tok = e->tok;
    const struct wordpiece *w = &tok->wordpiece;
    size_t before = e->out->n;
    bool ok = !w->max_chars || utf8_length(word) <= w->max_chars;
    /* The candidate is prefix + a stretch of the word, written into e->other. */
    for (size_t at = 0; ok && at < word.len;) {
        struct slice prefix = str_slice(at == 0 ? &w->first_prefix : &w->inner_prefix);
        str_clear(&e->other);
        size_t longest = word.len - at;
        if (longest > tok->max_token_len)
            longest = tok->max_token_len;
        if (!str_append_slice(&e->other, prefix) || !str_append(&e->other, word.data + at, longest))
            return error_memory(e->err);
        size_t len = longest;
        int32_t id = -1;
        for (; len > 0; len--) {
            id = text_find(tok, (struct slice){e->other.data, prefix.len + len});
            if (id >= 0)
                break;
        }
        ok = id >= 0;
        if (ok && !emit(e, id))
            return false;
        at += len;
    }
    if (ok)
        return true;
    e->out->n = before;
    return tok->special.unk < 0 || emit(e, tok->special.unk);
}

/* ---- The words of a GGUF file's text ---- */

static bool is_ascii_symbol(uint32_t c)
{
    return c < 0x7F && strchr("$+<=>^`|", (int)c) && c;
}

struct word_cutter {
    struct pieces *out;
    size_t begin; /* of the word being read */
};

static bool end_word(struct word_cutter *c)
{
    size_t begin = c->begin;
    c->begin = c->out->text.len;
    return begin == c->begin || VEC_PUSH(&c->out->list, (struct piece){begin, c->begin});
}

bool wordpiece_cut(const struct tokenizer *tok, struct slice text, struct pieces *out)
{
    const struct wordpiece *w = &tok->wordpiece;
    struct word_cutter cutter = {out, out->text.len};
    for (size_t i = 0; i < text.len;) {
        uint32_t c;
        i += utf8_decode(text.data + i, text.len - i, &c, NULL);
        if (w->strip_accents)
            c = codepoint_base(c);
        if (codepoint_is_space(c)) {
            if (!end_word(&cutter))
                return false;
            continue;
        }
        if (c == 0 || c == UTF8_REPLACEMENT || codepoint_is_control(c) ||
            (w->strip_accents && codepoint_is_mark(c)))
            continue;
        bool alone = codepoint_is_punctuation(c) || is_ascii_symbol(c) || codepoint_is_han(c);
        if (alone && !end_word(&cutter))
            return false;
        if (!str_append_codepoint(&out->text, w->lowercase ? codepoint_lower(c) : c) ||
            (alone && !end_word(&cutter)))
            return false;
    }
    return end_word(&cutter);
}
