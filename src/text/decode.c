/* decode.c - tokens to text, at once or as they come. */
#include "base/utf8.h"
#include "text/tokenizer.h"

/* What each token stands for. */

static bool append_metaspace(struct str *out, struct slice text)
{
    for (size_t i = 0; i < text.len;) {
        if (slice_starts_with(slice_from(text, i), SLICE(METASPACE))) {
            str_append_char(out, ' ');
            i += sizeof METASPACE - 1;
        } else {
            str_append_char(out, text.data[i++]);
        }
    }
    return !out->failed;
}

/* A character outside GPT-2's alphabet shows as the reference shows it. */
static bool append_byte_level(struct str *out, struct slice text, bool lenient, size_t limit)
{
    for (size_t i = 0; i < text.len && out->len <= limit;) {
        uint32_t codepoint;
        size_t len = utf8_decode(text.data + i, text.len - i, &codepoint, NULL);
        int byte = byte_level_byte(codepoint);
        if (byte >= 0) {
            str_append_char(out, (char)byte);
        } else if (lenient) {
            str_append(out, text.data + i, len);
        } else {
            str_append_text(out, "[UNK_BYTE_0x");
            for (size_t k = 0; k < len; k++)
                str_append_format(out, "%02x", (unsigned)(unsigned char)text.data[i + k]);
            str_append_slice(out, text);
            str_append_char(out, ']');
        }
        i += len;
    }
    return !out->failed;
}

static bool append_wordpiece(struct str *out, const struct tokenizer *tok, struct slice text)
{
    struct slice prefix = str_slice(&tok->wordpiece.inner_prefix);
    if (prefix.len && slice_starts_with(text, prefix))
        return str_append_slice(out, slice_from(text, prefix.len));
    str_append_char(out, ' ');
    return str_append_slice(out, text);
}

static bool append_word_suffix(struct str *out, const struct tokenizer *tok, struct slice text)
{
    struct slice suffix = str_slice(&tok->bpe.word_suffix);
    bool ends = suffix.len && slice_ends_with(text, suffix);
    str_append(out, text.data, text.len - (ends ? suffix.len : 0));
    return ends ? str_append_char(out, ' ') : !out->failed;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int byte_token_value(struct slice text)
{
    if (text.len != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>')
        return -1;
    int high = hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

bool piece_append(struct str *out, const struct tokenizer *tok, int32_t id, size_t limit)
{
    struct slice text = tokenizer_text(tok, id);
    unsigned attr = tok->tokens[id].attr;
    if (tok->piece_style == PIECE_RWKV)
        return rwkv_unescape(text, out);
    if ((attr & TOKEN_BYTE) && !(attr & (TOKEN_UNKNOWN | TOKEN_CONTROL | TOKEN_USER_DEFINED))) {
        int byte = byte_token_value(text);
        return byte < 0 || str_append_char(out, (char)byte);
    }
    if (attr & (TOKEN_UNKNOWN | TOKEN_CONTROL | TOKEN_USER_DEFINED))
        return str_append_slice(out, text);
    if (!(attr & TOKEN_NORMAL) && tok->type != VOCAB_PLAMO2)
        return true;
    switch (tok->piece_style) {
    case PIECE_METASPACE:
        return append_metaspace(out, text);
    case PIECE_BYTE_LEVEL:
        return append_byte_level(out, text, tok->from_json, limit);
    case PIECE_WORDPIECE:
        return append_wordpiece(out, tok, text);
    case PIECE_WORD_SUFFIX:
        return append_word_suffix(out, tok, text);
    default:
        return str_append_slice(out, text);
    }
}

struct slice text_piece(const struct tokenizer *tok, int32_t id, bool special)
{
    if (id < 0 || id >= tok->n_vocab || !tok->tokens)
        return SLICE("");
    const struct token *t = &tok->tokens[id];
    if (!special && (t->attr & (TOKEN_UNKNOWN | TOKEN_CONTROL)))
        return SLICE("");
    return (struct slice){str_text(&tok->pieces) + t->piece_begin, t->piece_len};
}

/* ---- Whole texts ---- */

/* Undo the spaces that word-based tokenizers leave before punctuation and
 * contractions. Three passes over the text, in place: each reads ahead of what
 * it writes. */
static size_t drop_spaces_before_punctuation(char *text, size_t n)
{
    size_t kept = n ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        char c = text[i];
        if (text[i - 1] == ' ' && (c == '?' || c == '!' || c == '.' || c == ','))
            kept--;
        text[kept++] = c;
    }
    return kept;
}

static size_t drop_spaces_around_apostrophes(char *text, size_t n)
{
    size_t kept = n ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        char c = text[i];
        if (c == '\'' && i + 1 < n && text[i - 1] == ' ' && text[i + 1] == ' ') {
            kept--;
            text[++i] = '\0'; /* no longer a space to what follows */
        }
        text[kept++] = c;
    }
    return kept;
}

static size_t drop_spaces_before_contractions(char *text, size_t n)
{
    size_t kept = n ? 1 : 0;
    for (size_t i = 1; i < n; i++) {
        char c = text[i];
        if (text[i - 1] == ' ' && c == '\'' && i + 1 < n) {
            char a = text[i + 1], b = i + 2 < n ? text[i + 2] : '\0';
            if (a == 's' || a == 'm' || ((a == 'r' || a == 'v') && b == 'e'))
                kept--;
        }
        text[kept++] = c;
    }
    return kept;
}

/* Bytes that n tokens may become: the longest of common vocabularies have a few
 * hundred. */
static size_t decode_room(size_t n)
{
    return n < SIZE_MAX / 8192 ? n * 1024 + (1 << 20) : SIZE_MAX / 4;
}

bool text_decode(const struct tokenizer *tok, const int32_t *ids, size_t n, unsigned flags,
                 struct str *out, struct error *err)
{
    const struct special_tokens *special = &tok->special;
    bool drop_space = special->add_space_prefix;
    if ((flags & TEXT_REMOVE_SPECIAL) && special->add_bos && n && ids[0] == special->bos) {
        drop_space = false;
        ids++;
        n--;
    }
    if ((flags & TEXT_REMOVE_SPECIAL) && special->add_eos && n && ids[n - 1] == special->eos)
        n--;
    size_t begin = out->len, limit = begin + decode_room(n);
    for (size_t i = 0; i < n; i++) {
        struct slice piece = text_piece(tok, ids[i], flags & TEXT_SHOW_SPECIAL);
        if (drop_space && piece.len && piece.data[0] == ' ')
            piece = slice_from(piece, 1);
        drop_space = false;
        if (piece.len > limit - out->len)
            return error_set(err, ERR_LIMIT,
                             "the text of these %zu tokens is too long: the vocabulary has tokens "
                             "of more than a thousand bytes",
                             n);
        if (!str_append_slice(out, piece))
            return error_memory(err);
    }
    if (tok->clean_spaces && out->len > begin) {
        char *text = out->data + begin;
        size_t len = drop_spaces_before_punctuation(text, out->len - begin);
        len = drop_spaces_around_apostrophes(text, len);
        len = drop_spaces_before_contractions(text, len);
        str_truncate(out, begin + len);
    }
    return true;
}

/* ---- Token by token ---- */

void detokenizer_init(struct detokenizer *d, const struct tokenizer *tok, bool special)
{
    *d = (struct detokenizer){.tok = tok, .special = special};
}

bool detokenizer_add(struct detokenizer *d, int32_t id, struct str *out)
{
    if (!str_append_slice(&d->held, text_piece(d->tok, id, d->special)))
        return false;
    size_t whole = d->held.len - utf8_incomplete_tail(str_slice(&d->held));
    if (!utf8_append_sanitized(out, (struct slice){str_text(&d->held), whole}))
        return false;
    str_drop_front(&d->held, whole);
    return true;
}

bool detokenizer_finish(struct detokenizer *d, struct str *out)
{
    bool ok = utf8_append_sanitized(out, str_slice(&d->held));
    str_clear(&d->held);
    return ok;
}

void detokenizer_free(struct detokenizer *d)
{
    str_free(&d->held);
}
