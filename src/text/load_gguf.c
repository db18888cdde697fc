/* load_gguf.c - the tokenizer of a GGUF file's metadata. */
#include "text/tokenizer.h"

#include <inttypes.h>

#define KEY(name) "tokenizer.ggml." name

/* The kinds of vocabulary: what holds unless the file says otherwise. */
static const struct kind {
    const char *name;
    enum vocab_type type;
    enum piece_style style;
    int32_t bos, eos, unk, sep, pad, mask;
    bool add_bos, add_eos, add_sep, add_space_prefix, clean_spaces;
    const char *pre; /* when the file names no pre-tokenizer, or always */
    bool fixed_pre;
} kinds[] = {
    {"llama", VOCAB_SENTENCEPIECE, PIECE_METASPACE, 1, 2, 0, -1, -1, -1, .add_bos = true,
     .add_space_prefix = true},
    {"bert", VOCAB_WORDPIECE, PIECE_METASPACE, 101, -1, 100, 102, 0, 103, .add_bos = true,
     .add_sep = true, .clean_spaces = true},
    {"gpt2", VOCAB_BPE, PIECE_BYTE_LEVEL, 11, 11, -1, -1, -1, -1, .pre = "default"},
    {"whitespace", VOCAB_BPE, PIECE_BYTE_LEVEL, 11, 11, -1, -1, -1, -1, .pre = "default"},
    {"gemma4", VOCAB_BPE, PIECE_METASPACE, -1, -1, -1, -1, -1, -1, .pre = "gemma4",
     .fixed_pre = true},
    {"t5", VOCAB_UNIGRAM, PIECE_METASPACE, -1, 1, 2, -1, 0, -1, .add_eos = true},
    {"rwkv", VOCAB_RWKV, PIECE_RWKV, -1, -1, -1, -1, -1, -1, .pre = NULL},
    {"plamo2", VOCAB_PLAMO2, PIECE_PLAIN, 1, 2, 0, -1, 3, -1, .pre = NULL},
};

static const struct kind *find_kind(struct slice name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (slice_equal_text(name, kinds[i].name))
            return &kinds[i];
    return NULL;
}

static bool unknown_kind(struct slice name, struct error *err)
{
    struct str known = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        str_append_format(&known, "%s%s", i ? ", " : "", kinds[i].name);
    error_set(err, ERR_UNSUPPORTED, "unknown tokenizer: '%.*s' (known are %s)",
              (int)(name.len < 100 ? name.len : 100), name.data, str_text(&known));
    str_free(&known);
    return false;
}

/* An optional array of n items at least. */
static bool find_array(const struct model_file *file, const char *key, size_t n,
                       bool (*is_right)(const struct meta_value *), const struct meta_value **out,
                       struct error *err)
{
    *out = meta_find(file, key);
    if (!*out)
        return true;
    if (!is_right(*out))
        return error_set(err, ERR_FORMAT, "'%s' is not the kind of array it should be", key);
    if (meta_array_len(*out) < n)
        return error_set(err, ERR_FORMAT, "'%s' holds %zu items for %zu tokens", key,
                         meta_array_len(*out), n);
    return true;
}

/* The file's token types, by number. */
static unsigned attr_of_type(int64_t type)
{
    static const unsigned attrs[] = {
        0,         TOKEN_NORMAL, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER_DEFINED, TOKEN_UNUSED,
        TOKEN_BYTE};
    return type >= 0 && type < (int64_t)(sizeof attrs / sizeof *attrs) ? attrs[type] : 0;
}

static bool read_tokens(const struct model_file *file, struct tokenizer *tok, struct error *err)
{
    const struct meta_value *texts, *scores, *types;
    if (!find_array(file, KEY("tokens"), 0, meta_is_text_array, &texts, err))
        return false;
    if (!texts)
        return error_set(err, ERR_NOT_FOUND, "cannot find tokenizer vocab in model file");
    size_t n = meta_array_len(texts);
    if (n > INT32_MAX / 4)
        return error_set(err, ERR_LIMIT, "a vocabulary of %zu tokens is too large", n);
    if (!find_array(file, KEY("scores"), n, meta_is_real_array, &scores, err) ||
        !find_array(file, KEY("token_type"), n, meta_is_integer_array, &types, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct slice text = meta_array_text(texts, i);
        char filler[32];
        if (!text.len) {
            snprintf(filler, sizeof filler, "[EMPTY_%zu]", i);
            text = slice_of(filler);
        }
        float score = scores ? (float)meta_array_f64(scores, i) : 0;
        unsigned attr = types ? attr_of_type(meta_array_i64(types, i)) : (unsigned)TOKEN_NORMAL;
        if (!vocab_add(tok, text, score, attr, err))
            return false;
    }
    return true;
}

static bool read_merges(const struct model_file *file, struct tokenizer *tok, struct error *err)
{
    const struct meta_value *merges;
    if (!find_array(file, KEY("merges"), 0, meta_is_text_array, &merges, err))
        return false;
    if (!merges)
        return tok->bpe.may_lack_merges ||
               error_set(err, ERR_NOT_FOUND, "cannot find tokenizer merges in model file");
    for (size_t i = 0; i < meta_array_len(merges); i++) {
        struct slice merge = meta_array_text(merges, i);
        /* A token may be a space itself, so the one between is not the first. */
        const char *gap = merge.len > 1 ? memchr(merge.data + 1, ' ', merge.len - 1) : NULL;
        size_t left = gap ? (size_t)(gap - merge.data) : 0;
        /* One that cannot be used keeps its rank. */
        if (!gap)
            tok->bpe.n_merges++;
        else if (!bpe_add_merge(tok, (struct slice){merge.data, left}, slice_from(merge, left + 1),
                                err))
            return false;
    }
    return true;
}

static bool read_charsmap(const struct model_file *file, struct tokenizer *tok, struct error *err)
{
    const struct meta_value *map;
    if (!find_array(file, KEY("precompiled_charsmap"), 0, meta_is_integer_array, &map, err))
        return false;
    if (!map)
        return true;
    for (size_t i = 0; i < meta_array_len(map); i++)
        str_append_char(&tok->unigram.charsmap, (char)(unsigned char)meta_array_i64(map, i));
    if (tok->unigram.charsmap.failed)
        return error_memory(err);
    return charsmap_check(str_slice(&tok->unigram.charsmap), err);
}

static void read_special_ids(const struct model_file *file, struct tokenizer *tok)
{
    struct special_tokens *s = &tok->special;
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {
        {KEY("bos_token_id"), &s->bos},         {KEY("eos_token_id"), &s->eos},
        {KEY("eot_token_id"), &s->eot},         {KEY("eom_token_id"), &s->eom},
        {KEY("unknown_token_id"), &s->unk},     {KEY("seperator_token_id"), &s->sep},
        {KEY("padding_token_id"), &s->pad},     {KEY("mask_token_id"), &s->mask},
        {KEY("fim_pre_token_id"), &s->fim_pre}, {KEY("fim_suf_token_id"), &s->fim_suf},
        {KEY("fim_mid_token_id"), &s->fim_mid}, {KEY("fim_pad_token_id"), &s->fim_pad},
        {KEY("fim_rep_token_id"), &s->fim_rep}, {KEY("fim_sep_token_id"), &s->fim_sep},
        {KEY("prefix_token_id"), &s->fim_pre},  {KEY("suffix_token_id"), &s->fim_suf},
        {KEY("middle_token_id"), &s->fim_mid},
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        uint32_t id = meta_u32(file, ids[i].key, UINT32_MAX);
        if (id < (uint32_t)tok->n_vocab)
            *ids[i].id = (int32_t)id;
    }
    s->add_bos = meta_bool(file, KEY("add_bos_token"), s->add_bos) || tok->always_bos;
    s->add_eos = meta_bool(file, KEY("add_eos_token"), s->add_eos);
    s->add_sep = meta_bool(file, KEY("add_sep_token"), s->add_sep);
}

static bool read_suppressed(const struct model_file *file, struct tokenizer *tok, struct error *err)
{
    const struct meta_value *ids;
    if (!find_array(file, KEY("suppress_tokens"), 0, meta_is_integer_array, &ids, err))
        return false;
    for (size_t i = 0; i < meta_array_len(ids); i++) {
        int64_t id = meta_array_i64(ids, i);
        if (id >= 0 && id < tok->n_vocab && !VEC_PUSH(&tok->suppressed, (int32_t)id))
            return error_memory(err);
    }
    return true;
}

/* How spaces, words and the like are treated by kinds that have no
 * pre-tokenizer. */
static bool set_kind(struct tokenizer *tok, const struct kind *kind, struct error *err)
{
    tok->type = kind->type;
    tok->piece_style = kind->style;
    tok->clean_spaces = kind->clean_spaces;
    struct special_tokens *s = &tok->special;
    s->bos = kind->bos;
    s->eos = kind->eos;
    s->unk = kind->unk;
    s->sep = kind->sep;
    s->pad = kind->pad;
    s->mask = kind->mask;
    s->add_bos = kind->add_bos;
    s->add_eos = kind->add_eos;
    s->add_sep = kind->add_sep;
    s->add_space_prefix = kind->add_space_prefix;
    tok->unigram.fuse_unk = true;
    if (kind->type == VOCAB_WORDPIECE)
        return str_append_text(&tok->wordpiece.first_prefix, METASPACE) || error_memory(err);
    if (kind->type != VOCAB_SENTENCEPIECE)
        return true;
    return normalizer_add_replace(&tok->normalizer, SLICE(" "), SLICE(METASPACE), err);
}

/* The kind "whitespace": BPE of words, not of text. */
static bool cut_at_spaces(const struct model_file *file, struct tokenizer *tok, struct slice pre,
                          struct error *err)
{
    bool lowercase =
        meta_bool(file, KEY("normalizer.lowercase"), !slice_equal_text(pre, "whitespace"));
    if (lowercase && !normalizer_add(&tok->normalizer, NORMALIZE_LOWERCASE, err))
        return false;
    return steps_add_split(&tok->steps, SLICE("\\s+"), SPLIT_REMOVED, false, err);
}

static bool read_none(const struct model_file *file, struct tokenizer *tok)
{
    char key[128];
    struct slice arch = meta_text(file, "general.architecture");
    snprintf(key, sizeof key, "%.*s.vocab_size", (int)(arch.len < 100 ? arch.len : 100),
             arch.data ? arch.data : "");
    int32_t n = meta_i32(file, key, 0);
    tok->n_vocab = n > 0 ? n : 0;
    return true;
}

bool load_gguf(const struct model_file *file, struct tokenizer *tok, struct error *err)
{
    struct slice name = meta_text(file, KEY("model")), pre = meta_text(file, KEY("pre"));
    if (!name.len || slice_equal_text(name, "none") || slice_equal_text(name, "no_vocab"))
        return read_none(file, tok);
    const struct kind *kind = find_kind(name);
    if (!kind)
        return unknown_kind(name, err);
    if (!set_kind(tok, kind, err) || !read_tokens(file, tok, err))
        return false;
    if (slice_equal_text(name, "whitespace") && !cut_at_spaces(file, tok, pre, err))
        return false;
    if (kind->type == VOCAB_BPE) {
        struct slice used = pre.len && !kind->fixed_pre ? pre : slice_of(kind->pre);
        if (!pre_tokenizer_set(tok, used, err) || !read_merges(file, tok, err))
            return false;
    }
    if (kind->type == VOCAB_UNIGRAM && !read_charsmap(file, tok, err))
        return false;
    bool *prefix = &tok->special.add_space_prefix;
    *prefix = meta_bool(file, KEY("add_space_prefix"), *prefix);
    tok->unigram.merge_spaces = meta_bool(file, KEY("remove_extra_whitespaces"), false);
    /* Lowercase is what BERT files meant before they said so. */
    struct wordpiece *w = &tok->wordpiece;
    w->lowercase = meta_bool(file, KEY("normalizer.lowercase"), kind->type == VOCAB_WORDPIECE);
    w->strip_accents = meta_bool(file, KEY("normalizer.strip_accents"), w->lowercase);
    read_special_ids(file, tok);
    if (!read_suppressed(file, tok, err) || !tokenizer_finish(tok, err))
        return false;
    special_set_strip(tok, pre, meta_text(file, "general.architecture"),
                      meta_text(file, "general.name"));
    return true;
}
