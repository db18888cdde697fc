/* sentencepiece_model.c - reading a tokenizer.model.
 *
 * It is a protobuf message; the few fields that matter are read by hand.
 * Source: sentencepiece_model.proto; the protobuf wire format. */
#include "text/tokenizer_json.h"

#include <math.h>

/* ---- The wire format ---- */

struct field {
    uint32_t number, wire_type; /* 0 varint, 1 64 bits, 2 bytes, 5 32 bits */
    uint64_t value;
    struct slice bytes;
};

static bool read_varint(struct slice *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && in->len; shift += 7) {
        unsigned char byte = (unsigned char)in->data[0];
        *in = slice_from(*in, 1);
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* The next field of a message; false at its end or when it is damaged, which
 * leaves in->len as it is. */
static bool next_field(struct slice *in, struct field *f)
{
    struct slice rest = *in;
    uint64_t tag;
    if (!read_varint(&rest, &tag) || tag >> 3 > UINT32_MAX)
        return false;
    *f = (struct field){.number = (uint32_t)(tag >> 3), .wire_type = (uint32_t)(tag & 7)};
    size_t n = 0;
    switch (f->wire_type) {
    case 0:
        if (!read_varint(&rest, &f->value))
            return false;
        break;
    case 1:
        n = 8;
        break;
    case 2:
        if (!read_varint(&rest, &f->value) || f->value > rest.len)
            return false;
        n = (size_t)f->value;
        break;
    case 5:
        n = 4;
        break;
    default:
        return false;
    }
    if (n > rest.len)
        return false;
    f->bytes = (struct slice){rest.data, n};
    *in = slice_from(rest, n);
    return true;
}

static float as_float(const struct field *f)
{
    float value = 0;
    if (f->wire_type == 5)
        memcpy(&value, f->bytes.data, sizeof value);
    return isfinite(value) ? value : 0;
}

/* ---- The messages ---- */

static bool damaged(struct error *err)
{
    return error_set(err, ERR_FORMAT,
                     "is not a SentencePiece model, or is damaged; download it again");
}

/* By the numbers of SentencePiece.Type. */
static unsigned attr_of_type(uint64_t type)
{
    static const unsigned attrs[] = {TOKEN_NORMAL,       TOKEN_NORMAL, TOKEN_UNKNOWN, TOKEN_CONTROL,
                                     TOKEN_USER_DEFINED, TOKEN_UNUSED, TOKEN_BYTE};
    return type < sizeof attrs / sizeof *attrs ? attrs[type] : (unsigned)TOKEN_NORMAL;
}

static bool read_piece(struct slice in, struct tokenizer *tok, struct error *err)
{
    struct field f;
    struct slice text = SLICE("");
    float score = 0;
    uint64_t type = 1;
    char filler[32];
    while (next_field(&in, &f)) {
        if (f.number == 1 && f.wire_type == 2)
            text = f.bytes;
        else if (f.number == 2)
            score = as_float(&f);
        else if (f.number == 3)
            type = f.value;
    }
    if (in.len)
        return damaged(err);
    if (tok->n_vocab >= JSON_MAX_VOCAB)
        return error_set(err, ERR_LIMIT, "holds more than %d tokens", JSON_MAX_VOCAB);
    if (!text.len) {
        snprintf(filler, sizeof filler, "[EMPTY_%d]", tok->n_vocab);
        text = slice_of(filler);
    }
    return vocab_add(tok, text, score, attr_of_type(type), err);
}

struct trainer {
    uint64_t model_type; /* 1 unigram, 2 BPE, 3 word, 4 character */
    int64_t unk, bos, eos, pad;
    bool suffix_spaces;
};

static bool read_trainer(struct slice in, struct trainer *t, struct error *err)
{
    struct field f;
    while (next_field(&in, &f)) {
        int64_t id = (int32_t)(uint32_t)f.value; /* -1 is written in 64 bits */
        switch (f.number) {
        case 3:
            t->model_type = f.value;
            break;
        case 24:
            t->suffix_spaces = f.value;
            break;
        case 40:
            t->unk = id;
            break;
        case 41:
            t->bos = id;
            break;
        case 42:
            t->eos = id;
            break;
        case 43:
            t->pad = id;
            break;
        default:
            break;
        }
    }
    return !in.len || damaged(err);
}

static bool read_normalizer_spec(struct slice in, struct tokenizer *tok, struct error *err)
{
    struct field f;
    while (next_field(&in, &f)) {
        if (f.number == 2 && f.wire_type == 2) {
            str_clear(&tok->unigram.charsmap);
            if (!str_append_slice(&tok->unigram.charsmap, f.bytes))
                return error_memory(err);
        } else if (f.number == 3) {
            tok->special.add_space_prefix = f.value;
        } else if (f.number == 4) {
            tok->unigram.merge_spaces = f.value;
        }
    }
    if (in.len)
        return damaged(err);
    return !tok->unigram.charsmap.len || charsmap_check(str_slice(&tok->unigram.charsmap), err);
}

static bool read_model(struct slice in, struct tokenizer *tok, struct trainer *trainer,
                       struct error *err)
{
    struct field f;
    while (next_field(&in, &f)) {
        bool ok = true;
        if (f.wire_type == 2 && f.number == 1)
            ok = read_piece(f.bytes, tok, err);
        else if (f.wire_type == 2 && f.number == 2)
            ok = read_trainer(f.bytes, trainer, err);
        else if (f.wire_type == 2 && f.number == 3)
            ok = read_normalizer_spec(f.bytes, tok, err);
        if (!ok)
            return false;
    }
    return (!in.len && tok->n_vocab) || damaged(err);
}

/* ---- What stands beside the model ---- */

/* The largest key that is an id, or -1. */
static int32_t last_added(const json_t *added)
{
    json_t *map = (json_t *)(uintptr_t)added; /* jansson iterates mutable objects */
    long last = -1;
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it)) {
        char *end;
        long id = strtol(json_object_iter_key(it), &end, 10);
        if (!*end && id > last && id < JSON_MAX_VOCAB)
            last = id;
    }
    return (int32_t)last;
}

/* tokenizer_config.json's added_tokens_decoder: {"32000": {"content": ...}}. */
static bool read_added(const json_t *added, struct tokenizer *tok, struct error *err)
{
    int32_t last = last_added(added);
    for (int32_t id = 0; id <= last; id++) {
        char key[32], filler[32];
        snprintf(key, sizeof key, "%d", id);
        snprintf(filler, sizeof filler, "[PAD%d]", id);
        const json_t *token = json_object_get(added, key);
        struct slice text = json_slice(json_object_get(token, "content"));
        unsigned attr = json_flag(token, "special", false) ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
        if (id >= tok->n_vocab) {
            bool known = text.len;
            if (!vocab_add(tok, known ? text : slice_of(filler), 0,
                           known ? attr : (unsigned)TOKEN_UNUSED, err))
                return false;
        } else if (text.len && slice_equal(tokenizer_text(tok, id), text) &&
                   !(tok->tokens[id].attr & TOKEN_UNKNOWN)) {
            tok->tokens[id].attr = (uint16_t)attr;
        }
    }
    return true;
}

static int32_t valid_id(const struct tokenizer *tok, int64_t id)
{
    return id >= 0 && id < tok->n_vocab ? (int32_t)id : -1;
}

bool tokenizer_from_sentencepiece(struct slice model, const struct tokenizer_files *files,
                                  struct tokenizer *tok, struct error *err)
{
    struct trainer trainer = {.model_type = 1, .unk = 0, .bos = 1, .eos = 2, .pad = -1};
    tok->special.add_space_prefix = true;
    tok->unigram.merge_spaces = true;
    if (!read_model(model, tok, &trainer, err))
        return false;
    if (trainer.model_type != 1 && trainer.model_type != 2)
        return error_set(err, ERR_UNSUPPORTED,
                         "is a SentencePiece model of words or characters, which is not supported");
    if (trainer.suffix_spaces)
        return error_set(err, ERR_UNSUPPORTED,
                         "treats white space as a suffix, which is not supported");
    bool unigram = trainer.model_type == 1;
    tok->type = unigram ? VOCAB_UNIGRAM : VOCAB_SENTENCEPIECE;
    tok->piece_style = PIECE_METASPACE;
    tok->unigram.fuse_unk = true;
    for (int32_t i = 0; i < tok->n_vocab; i++)
        tok->unigram.byte_tokens |= (tok->tokens[i].attr & TOKEN_BYTE) != 0;
    struct special_tokens *s = &tok->special;
    s->unk = valid_id(tok, trainer.unk);
    s->bos = valid_id(tok, trainer.bos);
    s->eos = valid_id(tok, trainer.eos);
    s->pad = valid_id(tok, trainer.pad);
    const json_t *config = files->tokenizer_config;
    if (!read_added(json_object_get(config, "added_tokens_decoder"), tok, err) ||
        !json_read_roles(files, tok, err))
        return false;
    /* json_read_roles fills what surrounds a text for tokenizer.json; here the
     * flags do. */
    tok->prefix.n = tok->suffix.n = 0;
    s->add_bos = json_flag(config, "add_bos_token", !unigram);
    s->add_eos = json_flag(config, "add_eos_token", unigram);
    if (!unigram && !normalizer_add_replace(&tok->normalizer, SLICE(" "), SLICE(METASPACE), err))
        return false;
    return tokenizer_finish(tok, err);
}
