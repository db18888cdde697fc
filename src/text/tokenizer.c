/* tokenizer.c - building a tokenizer, asking it, encoding with it. */
#include "text/tokenizer.h"

#include "base/utf8.h"

/* ---- Building ---- */

bool vocab_add(struct tokenizer *tok, struct slice text, float score, unsigned attr,
               struct error *err)
{
    size_t capacity = (size_t)tok->n_vocab;
    /* Doubling without a field for the capacity: at every power of two. */
    if ((capacity & (capacity - 1)) == 0) {
        struct token *grown = realloc(tok->tokens, (capacity ? capacity * 2 : 1) * sizeof *grown);
        if (!grown)
            return error_memory(err);
        tok->tokens = grown;
    }
    if (!text_table_add(&tok->table, text))
        return error_memory(err);
    tok->tokens[tok->n_vocab++] = (struct token){.score = score, .attr = (uint16_t)attr};
    if (text.len > tok->max_token_len)
        tok->max_token_len = text.len;
    return true;
}

int32_t vocab_find_text(const struct tokenizer *tok, const char *text)
{
    return text_find(tok, slice_of(text));
}

/* What tokens stand for is mostly as long as they are spelled; what GPT-2's
 * alphabet lacks is shown at length, with the whole token for every character. */
static bool make_pieces(struct tokenizer *tok, struct error *err)
{
    size_t limit = text_room(tok->table.bytes.len);
    for (int32_t i = 0; i < tok->n_vocab; i++) {
        size_t begin = tok->pieces.len;
        if (!piece_append(&tok->pieces, tok, i, limit))
            return error_memory(err);
        if (tok->pieces.len > limit)
            return error_set(err, ERR_LIMIT,
                             "the texts of the vocabulary's tokens become too long; token %d is "
                             "too much of it, the file is probably damaged",
                             (int)i);
        tok->tokens[i].piece_begin = begin;
        tok->tokens[i].piece_len = (uint32_t)(tok->pieces.len - begin);
    }
    return true;
}

static bool sort_pieces(struct tokenizer *tok)
{
    size_t n = (size_t)tok->n_vocab;
    struct trie_key *keys = malloc((n + 1) * sizeof *keys);
    tok->sorted = malloc((n + 1) * sizeof *tok->sorted);
    if (keys && tok->sorted) {
        for (size_t i = 0; i < n; i++)
            keys[i] = (struct trie_key){text_piece(tok, (int32_t)i, true), (int32_t)i};
        trie_sort_keys(keys, n);
        for (size_t i = 0; i < n; i++)
            tok->sorted[i] = keys[i].value;
    }
    bool ok = keys && tok->sorted;
    free(keys);
    return ok;
}

/* Bytes as tokens: "<0x0A>", or a token that is just the byte. Byte-level BPE
 * knows only the second kind. */
static void find_byte_tokens(struct tokenizer *tok)
{
    bool byte_level = tok->type == VOCAB_BPE && !tok->bpe.byte_tokens;
    for (int byte = 0; byte < 256; byte++) {
        char text[8], alone = (char)byte;
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        int32_t id = byte_level ? -1 : vocab_find_text(tok, text);
        bool may_stand_alone = byte_level || tok->type != VOCAB_BPE;
        if (id < 0 && may_stand_alone)
            id = text_find(tok, (struct slice){&alone, 1});
        tok->byte_ids[byte] = id;
    }
}

/* An id that lies outside the vocabulary is none. */
static void drop_bad_ids(struct tokenizer *tok)
{
    struct special_tokens *s = &tok->special;
    int32_t *const ids[] = {&s->bos,     &s->eos,     &s->eot,     &s->eom,     &s->unk,
                            &s->sep,     &s->pad,     &s->mask,    &s->fim_pre, &s->fim_suf,
                            &s->fim_mid, &s->fim_pad, &s->fim_rep, &s->fim_sep};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (*ids[i] < 0 || *ids[i] >= tok->n_vocab)
            *ids[i] = -1;
}

static bool encode_text(struct encoder *e, struct slice text, size_t begin, bool is_first,
                        bool after_special, bool parse_special);

static void encoder_free(struct encoder *e)
{
    pattern_scratch_free(&e->patterns);
    merge_scratch_free(&e->merge);
    pieces_free(&e->pieces);
    str_free(&e->buffer);
    str_free(&e->other);
    VEC_FREE(&e->plain);
    VEC_FREE(&e->normalized);
}

static bool find_newline(struct tokenizer *tok, struct error *err)
{
    tok->special.nl = tok->special.pad;
    if (tok->type == VOCAB_WORDPIECE)
        return true;
    if (tok->type == VOCAB_SENTENCEPIECE) {
        if (tok->byte_ids['\n'] >= 0)
            tok->special.nl = tok->byte_ids['\n'];
        return true;
    }
    struct token_vec ids = {0};
    struct encoder e = {.tok = tok, .out = &ids, .err = err, .room = text_room(1)};
    bool ok = encode_text(&e, SLICE("\n"), 0, true, true, false);
    if (ids.n)
        tok->special.nl = ids.data[0];
    encoder_free(&e);
    VEC_FREE(&ids);
    return ok;
}

/* What the GGUF kinds put around a text. */
static bool set_surroundings(struct tokenizer *tok)
{
    const struct special_tokens *s = &tok->special;
    bool wordpiece = tok->type == VOCAB_WORDPIECE;
    if (tok->type == VOCAB_RWKV || tok->type == VOCAB_PLAMO2)
        return true;
    int32_t last = wordpiece ? s->sep : s->eos;
    if ((wordpiece || s->add_bos) && s->bos >= 0 && !VEC_PUSH(&tok->prefix, s->bos))
        return false;
    return !((wordpiece || s->add_eos) && last >= 0) || VEC_PUSH(&tok->suffix, last);
}

bool tokenizer_finish(struct tokenizer *tok, struct error *err)
{
    drop_bad_ids(tok);
    find_byte_tokens(tok);
    bool ok = true;
    switch (tok->type) {
    case VOCAB_BPE:
        ok = bpe_finish(tok, err);
        break;
    case VOCAB_UNIGRAM:
        ok = unigram_finish(tok, err);
        break;
    case VOCAB_RWKV:
        ok = rwkv_finish(tok, err);
        break;
    case VOCAB_PLAMO2:
        ok = plamo2_finish(tok, err);
        break;
    default:
        break;
    }
    if (!ok || !find_newline(tok, err))
        return false;
    special_detect(tok);
    if (!make_pieces(tok, err))
        return false;
    if (!sort_pieces(tok) || (!tok->from_json && !set_surroundings(tok)))
        return error_memory(err);
    return partition_build(tok, err);
}

struct tokenizer *tokenizer_new(void)
{
    struct tokenizer *tok = calloc(1, sizeof *tok);
    if (tok)
        tok->special = (struct special_tokens){.bos = -1,
                                               .eos = -1,
                                               .eot = -1,
                                               .eom = -1,
                                               .unk = -1,
                                               .sep = -1,
                                               .pad = -1,
                                               .mask = -1,
                                               .nl = -1,
                                               .fim_pre = -1,
                                               .fim_suf = -1,
                                               .fim_mid = -1,
                                               .fim_pad = -1,
                                               .fim_rep = -1,
                                               .fim_sep = -1};
    return tok;
}

bool tokenizer_load(const struct model_file *file, struct tokenizer **out, struct error *err)
{
    struct tokenizer *tok = tokenizer_new();
    *out = NULL;
    if (!tok)
        return error_memory(err);
    bool gguf = model_file_kind(file) == MODEL_FILE_GGUF;
    if (!(gguf ? load_gguf(file, tok, err) : load_folder(file, tok, err))) {
        tokenizer_free(tok);
        return error_prefix(err, "%s", model_file_path(file));
    }
    *out = tok;
    return true;
}

void tokenizer_free(struct tokenizer *tok)
{
    if (!tok)
        return;
    text_table_free(&tok->table);
    free(tok->tokens);
    str_free(&tok->pieces);
    free(tok->sorted);
    VEC_FREE(&tok->suppressed);
    VEC_FREE(&tok->stops);
    VEC_FREE(&tok->prefix);
    VEC_FREE(&tok->suffix);
    partition_free(&tok->partition);
    normalizer_free(&tok->normalizer);
    steps_free(&tok->steps);
    free(tok->bpe.merges);
    str_free(&tok->bpe.word_suffix);
    str_free(&tok->bpe.inner_prefix);
    str_free(&tok->bpe.joined);
    str_free(&tok->wordpiece.first_prefix);
    str_free(&tok->wordpiece.inner_prefix);
    trie_free(&tok->unigram.trie);
    trie_free(&tok->unigram.user_defined);
    str_free(&tok->unigram.charsmap);
    trie_free(&tok->trie);
    free(tok);
}

/* ---- Asking ---- */

int32_t tokenizer_n_vocab(const struct tokenizer *tok)
{
    return tok->n_vocab;
}

enum vocab_type tokenizer_vocab_type(const struct tokenizer *tok)
{
    /* A tokenizer.json has byte fallback where it was made from SentencePiece,
     * and the same model as GGUF says so. */
    bool sentencepiece = tok->type == VOCAB_BPE && tok->from_json && tok->bpe.byte_tokens;
    return sentencepiece ? VOCAB_SENTENCEPIECE : tok->type;
}

const struct special_tokens *tokenizer_special(const struct tokenizer *tok)
{
    return &tok->special;
}

static unsigned attr_of(const struct tokenizer *tok, int32_t id)
{
    return id >= 0 && id < tok->n_vocab && tok->tokens ? tok->tokens[id].attr : 0;
}

bool tokenizer_is_eog(const struct tokenizer *tok, int32_t id)
{
    return attr_of(tok, id) & TOKEN_END_OF_GENERATION;
}

bool tokenizer_is_control(const struct tokenizer *tok, int32_t id)
{
    return attr_of(tok, id) & TOKEN_CONTROL;
}

unsigned tokenizer_attr(const struct tokenizer *tok, int32_t id)
{
    return attr_of(tok, id) & ~(unsigned)(TOKEN_END_OF_GENERATION | TOKEN_ADDED);
}

struct slice tokenizer_text(const struct tokenizer *tok, int32_t id)
{
    if (id < 0 || id >= tok->n_vocab || (size_t)id >= tok->table.spans.n)
        return SLICE("");
    return text_table_at(&tok->table, (size_t)id);
}

const int32_t *tokenizer_suppressed(const struct tokenizer *tok, size_t *n)
{
    *n = tok->suppressed.n;
    return tok->suppressed.data;
}

int32_t text_find(const struct tokenizer *tok, struct slice text)
{
    int32_t id = text_table_find(&tok->table, text);
    return id < tok->n_vocab ? id : -1;
}

const int32_t *tokenizer_sorted(const struct tokenizer *tok)
{
    return tok->sorted;
}

/* ---- Encoding ---- */

static bool encode_piece(struct encoder *e, struct slice piece)
{
    switch (e->tok->type) {
    case VOCAB_SENTENCEPIECE:
        return sentencepiece_encode(e, piece);
    case VOCAB_BPE:
        return bpe_encode(e, piece);
    case VOCAB_WORDPIECE:
        return wordpiece_encode(e, piece);
    case VOCAB_UNIGRAM:
        return unigram_encode(e, piece);
    case VOCAB_RWKV:
        return rwkv_encode(e, piece);
    case VOCAB_PLAMO2:
        return plamo2_encode(e, piece);
    default:
        return false; /* refused before */
    }
}

/* Pieces that make a step of a budget; long ones take more of their own. */
enum { PIECES_PER_STEP = 4 };

/* Cut e->pieces, whose text is set, and encode the pieces. */
static bool encode_pieces(struct encoder *e, bool is_first)
{
    const struct tokenizer *tok = e->tok;
    if (!pieces_run(&e->pieces, &tok->steps, is_first, e->room, &e->patterns, e->err))
        return false;
    if (e->pieces.text.len > e->room)
        return text_grows_too_much(e->err);
    e->room -= e->pieces.text.len;
    for (size_t i = 0; i < e->pieces.list.n; i++) {
        struct piece p = e->pieces.list.data[i];
        if ((i % PIECES_PER_STEP == 0 && !budget_step(e->budget, 1, e->err)) ||
            !encode_piece(e, (struct slice){e->pieces.text.data + p.begin, p.end - p.begin}))
            return false;
    }
    return true;
}

static bool one_piece(struct encoder *e, struct slice text)
{
    str_clear(&e->pieces.text);
    e->pieces.list.n = 0;
    if (!text.len)
        return true;
    return (str_append_slice(&e->pieces.text, text) &&
            VEC_PUSH(&e->pieces.list, (struct piece){0, text.len})) ||
           error_memory(e->err);
}

/* The second round of a tokenizer.json: tokens in the normalized text. */
static bool encode_normalized(struct encoder *e, bool is_first, bool parse_special)
{
    struct fragments parts = {0};
    struct slice text = str_slice(&e->buffer);
    bool ok = partition_run(e->tok, text, parse_special, true, &e->normalized, &parts, e->err);
    for (size_t i = 0; ok && i < parts.n; i++) {
        struct fragment f = parts.data[i];
        ok = f.id >= 0 ? emit(e, f.id)
                       : one_piece(e, (struct slice){text.data + f.begin, f.end - f.begin}) &&
                             encode_pieces(e, is_first && f.begin == 0);
    }
    VEC_FREE(&parts);
    return ok;
}

/* Text between special tokens, which begins at begin in the whole. */
static bool encode_text(struct encoder *e, struct slice text, size_t begin, bool is_first,
                        bool after_special, bool parse_special)
{
    const struct tokenizer *tok = e->tok;
    str_clear(&e->buffer);
    if (!tok->from_json && tok->type == VOCAB_WORDPIECE) {
        str_clear(&e->pieces.text);
        e->pieces.list.n = 0;
        return wordpiece_cut(tok, text, &e->pieces) ? encode_pieces(e, is_first)
                                                    : error_memory(e->err);
    }
    if (!tok->from_json && tok->type == VOCAB_UNIGRAM) {
        if (!unigram_normalize(tok, text, e->room, &e->buffer))
            return error_memory(e->err);
        if (e->buffer.len > e->room)
            return text_grows_too_much(e->err);
    } else {
        bool add_space = !tok->from_json && tok->type == VOCAB_SENTENCEPIECE &&
                         tok->special.add_space_prefix && after_special;
        if ((add_space && !str_append_char(&e->buffer, ' ')) || !str_append_slice(&e->buffer, text))
            return error_memory(e->err);
    }
    if (!normalizer_run(&tok->normalizer, e->room, &e->buffer, &e->other, &e->patterns, e->err))
        return false;
    e->room -= e->buffer.len < e->room ? e->buffer.len : e->room;
    if (tok->from_json) {
        if (parse_special && tok->partition.normalizes_control && !ranges_normalize(e, text, begin))
            return false;
        return encode_normalized(e, is_first, parse_special);
    }
    return one_piece(e, str_slice(&e->buffer)) && encode_pieces(e, is_first);
}

static bool encode_all(struct encoder *e, struct slice text, unsigned flags)
{
    const struct tokenizer *tok = e->tok;
    bool parse_special = flags & TEXT_PARSE_SPECIAL, ok = true, after_special = true;
    struct fragments parts = {0};
    for (size_t i = 0; ok && (flags & TEXT_ADD_SPECIAL) && i < tok->prefix.n; i++)
        ok = emit(e, tok->prefix.data[i]);
    ok = ok && partition_run(tok, text, parse_special, false, &e->plain, &parts, e->err);
    for (size_t i = 0; ok && i < parts.n; i++) {
        struct fragment f = parts.data[i];
        if (!budget_step(e->budget, 1, e->err))
            ok = false;
        else if (f.id >= 0)
            ok = emit(e, f.id);
        else
            ok = encode_text(e, (struct slice){text.data + f.begin, f.end - f.begin}, f.begin,
                             i == 0, after_special, parse_special);
        after_special = f.id >= 0;
    }
    VEC_FREE(&parts);
    for (size_t i = 0; ok && (flags & TEXT_ADD_SPECIAL) && i < tok->suffix.n; i++)
        ok = emit(e, tok->suffix.data[i]);
    return ok;
}

bool text_encode(const struct tokenizer *tok, struct slice text, unsigned flags,
                 struct token_vec *out, struct error *err)
{
    return text_encode_within(tok, text, flags, NULL, 0, NULL, out, err);
}

bool text_encode_ranges(const struct tokenizer *tok, struct slice text, unsigned flags,
                        const struct text_range *plain, size_t n_plain, struct token_vec *out,
                        struct error *err)
{
    return text_encode_within(tok, text, flags, plain, n_plain, NULL, out, err);
}

bool text_encode_within(const struct tokenizer *tok, struct slice text, unsigned flags,
                        const struct text_range *plain, size_t n_plain, struct budget *budget,
                        struct token_vec *out, struct error *err)
{
    if (tok->type == VOCAB_NONE)
        return error_set(err, ERR_UNSUPPORTED,
                         "this model has no vocabulary: send token ids instead of text");
    if (text.len > INT32_MAX / 8)
        return error_set(err, ERR_LIMIT, "a text of %zu bytes is too long to be tokenized",
                         text.len);
    struct str clean = {0};
    size_t before = out->n;
    struct encoder e = {
        .tok = tok, .out = out, .budget = budget, .err = err, .room = text_room(text.len)};
    bool ok = ranges_read(plain, n_plain, text.len, &e.plain) || error_memory(err);
    if (ok && !utf8_is_valid(text)) {
        ok = ranges_sanitize(&e.plain, text, &clean) || error_memory(err);
        text = str_slice(&clean);
    }
    ok = ok && encode_all(&e, text, flags);
    if (!ok)
        out->n = before;
    encoder_free(&e);
    str_free(&clean);
    return ok;
}
