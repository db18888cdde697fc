/* json_model.c - the vocabulary of a tokenizer.json: its model, its merges and
 * the tokens added to it. */
#include "text/tokenizer_json.h"

#include <math.h>

/* The vocabulary by id, before it is handed on in order. */
struct entry {
    struct slice text;
    float score;
    unsigned attr;
    bool set;
};

struct entries {
    VEC(struct entry) list;
    size_t n_set;
};

/* Holes between ids are few in any real file; a file of one line must not cost the
 * memory of a vocabulary of millions. */
enum { HOLES_MIN = 64 << 10 };

static bool put(struct entries *entries, json_int_t id, struct entry entry, struct error *err)
{
    if (id < 0 || id >= JSON_MAX_VOCAB)
        return error_set(err, ERR_FORMAT, "the token '%.*s' has the impossible id %lld",
                         (int)(entry.text.len < 100 ? entry.text.len : 100), entry.text.data,
                         (long long)id);
    while (entries->list.n <= (size_t)id)
        if (!VEC_PUSH(&entries->list, (struct entry){0}))
            return error_memory(err);
    entries->n_set += !entries->list.data[id].set;
    entry.set = true;
    entries->list.data[id] = entry;
    return true;
}

static bool read_vocab_object(const json_t *vocab, bool byte_tokens, struct entries *entries,
                              struct error *err)
{
    json_t *map = (json_t *)(uintptr_t)vocab; /* jansson iterates mutable objects */
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it)) {
        struct entry entry = {.text = {json_object_iter_key(it), json_object_iter_key_len(it)}};
        bool byte = byte_tokens && byte_token_value(entry.text) >= 0;
        entry.attr = byte ? TOKEN_BYTE : TOKEN_NORMAL;
        const json_t *id = json_object_iter_value(it);
        if (!json_is_integer(id))
            return error_set(err, ERR_FORMAT, "model.vocab: the id of '%.*s' is not an integer",
                             (int)(entry.text.len < 100 ? entry.text.len : 100), entry.text.data);
        if (!put(entries, json_integer_value(id), entry, err))
            return false;
    }
    return true;
}

/* Unigram: [["piece", score], ...]. */
static bool read_vocab_list(const json_t *vocab, bool byte_tokens, struct entries *entries,
                            struct error *err)
{
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *pair = json_array_get(vocab, i);
        const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
        if (!json_is_string(text) || !json_is_number(score))
            return error_set(err, ERR_FORMAT, "model.vocab: item %zu is not a [text, score]", i);
        struct entry entry = {.text = json_slice(text), .score = (float)json_number_value(score)};
        if (!isfinite(entry.score))
            return error_set(err, ERR_FORMAT, "model.vocab: the score of item %zu is not a number",
                             i);
        bool byte = byte_tokens && byte_token_value(entry.text) >= 0;
        entry.attr = byte ? TOKEN_BYTE : TOKEN_NORMAL;
        if (!put(entries, (json_int_t)i, entry, err))
            return false;
    }
    return true;
}

/* Tokens that are meant as control tokens though their file does not say so. */
static bool looks_special(struct slice text)
{
    static const char *const known[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (slice_equal_text(text, known[i]))
            return true;
    return (slice_starts_with(text, SLICE("<|")) && slice_ends_with(text, SLICE("|>"))) ||
           (slice_starts_with(text, SLICE("<｜")) && slice_ends_with(text, SLICE("｜>"))) ||
           (slice_starts_with(text, SLICE("<unused")) && slice_ends_with(text, SLICE(">")));
}

static unsigned added_attr(const json_t *token, struct slice text)
{
    unsigned attr = TOKEN_ADDED;
    attr |= json_flag(token, "special", false) || looks_special(text) ? TOKEN_CONTROL
                                                                      : TOKEN_USER_DEFINED;
    if (json_flag(token, "normalized", !json_flag(token, "special", false)))
        attr |= TOKEN_NORMALIZED;
    if (json_flag(token, "lstrip", false))
        attr |= TOKEN_LSTRIP;
    if (json_flag(token, "rstrip", false))
        attr |= TOKEN_RSTRIP;
    if (json_flag(token, "single_word", false))
        attr |= TOKEN_SINGLE_WORD;
    return attr;
}

static bool read_added(const json_t *added, struct entries *entries, struct error *err)
{
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        const json_t *id = json_object_get(token, "id"), *text = json_object_get(token, "content");
        if (!json_is_integer(id) || !json_is_string(text))
            return error_set(err, ERR_FORMAT, "added_tokens: item %zu has no id or no content", i);
        struct entry entry = {.text = json_slice(text)};
        entry.attr = added_attr(token, entry.text);
        json_int_t at = json_integer_value(id);
        if (at >= 0 && (size_t)at < entries->list.n)
            entry.score = entries->list.data[at].score;
        if (!put(entries, at, entry, err))
            return false;
    }
    return true;
}

/* In order of id; what has no text is filled up, so that ids stay right. */
static bool hand_on(const struct entries *entries, size_t n_rows, struct tokenizer *tok,
                    struct error *err)
{
    size_t n = entries->list.n < n_rows ? n_rows : entries->list.n;
    if (entries->list.n / 2 > entries->n_set + HOLES_MIN && entries->list.n > n_rows)
        return error_set(err, ERR_FORMAT,
                         "the ids reach %zu, but there are only %zu tokens; the file is damaged",
                         entries->list.n - 1, entries->n_set);
    for (size_t i = 0; i < n; i++) {
        char filler[32];
        struct entry entry = {0};
        if (i < entries->list.n)
            entry = entries->list.data[i];
        if (!entry.set || !entry.text.len) {
            snprintf(filler, sizeof filler, "[PAD%zu]", i);
            entry.text = slice_of(filler);
            entry.attr = TOKEN_UNUSED;
        }
        if (!vocab_add(tok, entry.text, entry.score, entry.attr, err))
            return false;
    }
    return true;
}

static bool read_merge(const json_t *merge, size_t i, struct tokenizer *tok, struct error *err)
{
    struct slice left, right;
    if (json_is_string(merge)) {
        struct slice text = json_slice(merge);
        const char *gap = text.len ? memchr(text.data, ' ', text.len) : NULL;
        left = (struct slice){text.data, gap ? (size_t)(gap - text.data) : 0};
        right = gap ? slice_from(text, left.len + 1) : SLICE("");
    } else {
        left = json_slice(json_array_get(merge, 0));
        right = json_slice(json_array_get(merge, 1));
    }
    if (!left.len || !right.len)
        return error_set(err, ERR_FORMAT, "model.merges: item %zu is not a pair of texts", i);
    return bpe_add_merge(tok, left, right, err);
}

static bool read_bpe(const json_t *model, struct tokenizer *tok, struct error *err)
{
    struct bpe *bpe = &tok->bpe;
    bpe->ignore_merges = json_flag(model, "ignore_merges", false);
    bpe->fuse_unk = json_flag(model, "fuse_unk", false);
    bpe->use_unk = json_is_string(json_object_get(model, "unk_token"));
    if (!str_append_slice(&bpe->word_suffix,
                          json_slice(json_object_get(model, "end_of_word_suffix"))) ||
        !str_append_slice(&bpe->inner_prefix,
                          json_slice(json_object_get(model, "continuing_subword_prefix"))))
        return error_memory(err);
    const json_t *merges = json_object_get(model, "merges");
    if (!json_is_array(merges))
        return error_set(err, ERR_FORMAT, "model.merges is missing");
    for (size_t i = 0; i < json_array_size(merges); i++)
        if (!read_merge(json_array_get(merges, i), i, tok, err))
            return false;
    return true;
}

static bool read_wordpiece(const json_t *model, struct tokenizer *tok, struct error *err)
{
    struct wordpiece *w = &tok->wordpiece;
    const json_t *prefix = json_object_get(model, "continuing_subword_prefix");
    const json_t *limit = json_object_get(model, "max_input_chars_per_word");
    json_int_t n = json_is_integer(limit) ? json_integer_value(limit) : 100;
    w->max_chars = n > 0 ? (size_t)n : 0;
    return str_append_slice(&w->inner_prefix,
                            json_is_string(prefix) ? json_slice(prefix) : SLICE("##")) ||
           error_memory(err);
}

/* The type of a model; old files do not say it. */
static struct slice model_type(const json_t *model)
{
    struct slice type = json_node_type(model);
    if (type.len)
        return type;
    if (json_object_get(model, "merges"))
        return SLICE("BPE");
    return json_is_array(json_object_get(model, "vocab")) ? SLICE("Unigram") : SLICE("WordPiece");
}

static bool read_typed(const json_t *model, struct slice type, struct tokenizer *tok,
                       struct error *err)
{
    if (slice_equal_text(type, "BPE")) {
        tok->type = VOCAB_BPE;
        return read_bpe(model, tok, err);
    }
    if (slice_equal_text(type, "WordPiece")) {
        tok->type = VOCAB_WORDPIECE;
        return read_wordpiece(model, tok, err);
    }
    if (slice_equal_text(type, "Unigram")) {
        tok->type = VOCAB_UNIGRAM;
        tok->unigram.fuse_unk = true;
        return true;
    }
    return json_unsupported("model", model, err);
}

static void find_unknown(const json_t *model, struct tokenizer *tok)
{
    const json_t *text = json_object_get(model, "unk_token"),
                 *id = json_object_get(model, "unk_id");
    if (json_is_string(text))
        tok->special.unk = text_find(tok, json_slice(text));
    else if (json_is_integer(id) && json_integer_value(id) >= 0 &&
             json_integer_value(id) < tok->n_vocab)
        tok->special.unk = (int32_t)json_integer_value(id);
    if (tok->special.unk >= 0 && !(tok->tokens[tok->special.unk].attr & TOKEN_ADDED))
        tok->tokens[tok->special.unk].attr = TOKEN_UNKNOWN;
}

bool json_read_model(const json_t *root, const struct tokenizer_files *files, struct tokenizer *tok,
                     struct error *err)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *vocab = json_object_get(model, "vocab");
    if (!vocab)
        return error_set(err, ERR_FORMAT, "model.vocab is missing");
    bool byte_tokens = json_flag(model, "byte_fallback", false);
    tok->bpe.byte_tokens = tok->unigram.byte_tokens = byte_tokens;
    /* The model's rows may outnumber the vocabulary. */
    const json_t *rows = json_object_get(files->config, "vocab_size");
    json_int_t n_rows = json_is_integer(rows) ? json_integer_value(rows) : 0;
    if (n_rows < 0 || n_rows > JSON_MAX_VOCAB)
        n_rows = 0;
    struct entries entries = {0};
    bool ok = json_is_array(vocab) ? read_vocab_list(vocab, byte_tokens, &entries, err)
                                   : read_vocab_object(vocab, byte_tokens, &entries, err);
    ok = ok && read_added(json_object_get(root, "added_tokens"), &entries, err) &&
         hand_on(&entries, (size_t)n_rows, tok, err);
    VEC_FREE(&entries.list);
    if (!ok || !read_typed(model, model_type(model), tok, err))
        return false;
    find_unknown(model, tok);
    return true;
}
