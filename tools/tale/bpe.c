/* bpe.c - a byte-level BPE tokenizer: learned, used, saved as tokenizer.json.
 *
 * Words are what GPT-2's pattern splits off; the corpus is ASCII, for which the
 * pattern is a few lines. White space never merges, so that a text splits the
 * same way wherever it is cut. */
#include "tale.h"

#include "base/json.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_BYTES = 256, N_MERGES = BPE_TOKENS - N_BYTES };

struct merge {
    int32_t left, right; /* token ids; the result is N_BYTES + the merge's index */
};

struct bpe {
    struct merge merges[N_MERGES];
    int32_t n_merges;
    int16_t *rank; /* [BPE_TOKENS][BPE_TOKENS]: the merge of a pair, -1: none */
};

static const char *const specials[N_SPECIAL] = {
    "<|endoftext|>",    "<|im_start|>",   "<|im_end|>",     "<think>",
    "</think>",         "<tool_call>",    "</tool_call>",   "<tool_response>",
    "</tool_response>", "<tools>",        "</tools>",       "<|reserved_0|>",
    "<|reserved_1|>",   "<|reserved_2|>", "<|reserved_3|>", "<|reserved_4|>"};

const char *special_text(int32_t id)
{
    return specials[id - BPE_TOKENS];
}

/* ---- words ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

enum letter_class { CLASS_LETTER, CLASS_DIGIT, CLASS_OTHER };

static enum letter_class class_of(char c)
{
    unsigned char u = (unsigned char)c;
    if (isalpha(u) || u >= 0x80)
        return CLASS_LETTER;
    return isdigit(u) ? CLASS_DIGIT : CLASS_OTHER;
}

static size_t contraction(const char *text, size_t len)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]);
        if (n <= len && memcmp(text, endings[i], n) == 0)
            return n;
    }
    return 0;
}

/* The length of the word at the front of text, by
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t word_length(const char *text, size_t len)
{
    size_t n = contraction(text, len);
    if (n)
        return n;
    size_t begin = text[0] == ' ' && len > 1 && !is_space(text[1]) ? 1 : 0;
    if (!is_space(text[begin])) {
        enum letter_class class = class_of(text[begin]);
        n = begin;
        while (n < len && !is_space(text[n]) && class_of(text[n]) == class)
            n++;
        return n;
    }
    while (n < len && is_space(text[n]))
        n++;
    /* The last space before a word belongs to the word. */
    return n < len && n > 1 ? n - 1 : n;
}

/* ---- merging ---- */

/* Apply the merges to one word, the earliest learned first. Words are short. */
static size_t merge_word(const struct bpe *bpe, int32_t *tokens, size_t n)
{
    for (;;) {
        int32_t best = bpe->n_merges;
        for (size_t i = 0; i + 1 < n; i++) {
            int32_t rank = bpe->rank[tokens[i] * BPE_TOKENS + tokens[i + 1]];
            if (rank >= 0 && rank < best)
                best = rank;
        }
        if (best == bpe->n_merges)
            return n;
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            bool pair = i + 1 < n && tokens[i] == bpe->merges[best].left &&
                        tokens[i + 1] == bpe->merges[best].right;
            tokens[kept++] = pair ? N_BYTES + best : tokens[i];
            i += pair;
        }
        n = kept;
    }
}

static struct bpe *bpe_new(void)
{
    struct bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe)
        return NULL;
    bpe->rank = malloc(sizeof *bpe->rank * BPE_TOKENS * BPE_TOKENS);
    if (!bpe->rank) {
        free(bpe);
        return NULL;
    }
    memset(bpe->rank, 0xFF, sizeof *bpe->rank * BPE_TOKENS * BPE_TOKENS);
    return bpe;
}

static void add_merge(struct bpe *bpe, struct merge pair)
{
    bpe->rank[pair.left * BPE_TOKENS + pair.right] = (int16_t)bpe->n_merges;
    bpe->merges[bpe->n_merges++] = pair;
}

/* ---- learning ---- */

struct word {
    uint64_t hash;
    int32_t *tokens;
    size_t n;
    uint64_t count;
};

struct word_table {
    struct word *slots;
    size_t n_slots, n_words;
};

static uint64_t hash_bytes(const char *data, size_t len)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)data[i]) * 1099511628211u;
    return hash | 1;
}

static void count_word(struct word_table *table, const char *text, size_t len)
{
    uint64_t hash = hash_bytes(text, len);
    size_t at = hash & (table->n_slots - 1);
    while (table->slots[at].hash && table->slots[at].hash != hash)
        at = (at + 1) & (table->n_slots - 1);
    struct word *word = &table->slots[at];
    word->count++;
    if (word->hash)
        return;
    word->hash = hash;
    word->n = len;
    word->tokens = malloc(len * sizeof *word->tokens);
    if (!word->tokens || ++table->n_words * 2 > table->n_slots) {
        fprintf(stderr, "tale: too many different words\n");
        exit(1);
    }
    for (size_t i = 0; i < len; i++)
        word->tokens[i] = (unsigned char)text[i];
}

/* Length of a special token at the front of text, 0 when there is none. */
static size_t special_length(const char *text, size_t len, int32_t *id)
{
    if (text[0] != '<')
        return 0;
    for (int32_t i = 0; i < N_SPECIAL; i++) {
        size_t n = strlen(specials[i]);
        if (n <= len && memcmp(text, specials[i], n) == 0) {
            *id = BPE_TOKENS + i;
            return n;
        }
    }
    return 0;
}

/* The length of text before the next special token. */
static size_t plain_length(const char *text, size_t len)
{
    int32_t id;
    size_t n = 0;
    while (n < len && !special_length(text + n, len - n, &id))
        n++;
    return n;
}

static void count_words(struct word_table *table, struct slice text)
{
    int32_t id;
    for (size_t i = 0; i < text.len;) {
        size_t n = special_length(text.data + i, text.len - i, &id);
        if (n) {
            i += n;
            continue;
        }
        size_t end = i + plain_length(text.data + i, text.len - i);
        while (i < end) {
            n = word_length(text.data + i, end - i);
            if (!is_space(text.data[i + n - 1]))
                count_word(table, text.data + i, n);
            i += n;
        }
    }
}

/* The most frequent pair; among equals that of the smallest ids. */
static bool most_frequent_pair(const struct word_table *table, int32_t n_tokens,
                               uint64_t *pair_counts, struct merge *out)
{
    size_t n_pairs = (size_t)n_tokens * (size_t)n_tokens;
    memset(pair_counts, 0, n_pairs * sizeof *pair_counts);
    for (size_t i = 0; i < table->n_slots; i++) {
        const struct word *word = &table->slots[i];
        for (size_t k = 0; word->hash && k + 1 < word->n; k++)
            pair_counts[(size_t)word->tokens[k] * (size_t)n_tokens + (size_t)word->tokens[k + 1]] +=
                word->count;
    }
    size_t best = 0;
    for (size_t i = 1; i < n_pairs; i++)
        if (pair_counts[i] > pair_counts[best])
            best = i;
    out->left = (int32_t)(best / (size_t)n_tokens);
    out->right = (int32_t)(best % (size_t)n_tokens);
    return pair_counts[best] > 1;
}

static void replace_pair(struct word_table *table, struct merge pair, int32_t id)
{
    for (size_t i = 0; i < table->n_slots; i++) {
        struct word *word = &table->slots[i];
        size_t kept = 0;
        for (size_t k = 0; word->hash && k < word->n; k++) {
            bool both = k + 1 < word->n && word->tokens[k] == pair.left &&
                        word->tokens[k + 1] == pair.right;
            word->tokens[kept++] = both ? id : word->tokens[k];
            k += both;
        }
        if (word->hash)
            word->n = kept;
    }
}

struct bpe *bpe_learn(struct slice text)
{
    struct word_table table = {.n_slots = 1 << 16};
    struct bpe *bpe = bpe_new();
    uint64_t *pair_counts = malloc(sizeof *pair_counts * BPE_TOKENS * BPE_TOKENS);
    table.slots = calloc(table.n_slots, sizeof *table.slots);
    if (!bpe || !pair_counts || !table.slots) {
        fprintf(stderr, "tale: out of memory\n");
        exit(1);
    }
    count_words(&table, text);
    while (bpe->n_merges < N_MERGES) {
        struct merge pair;
        if (!most_frequent_pair(&table, N_BYTES + bpe->n_merges, pair_counts, &pair))
            break;
        replace_pair(&table, pair, N_BYTES + bpe->n_merges);
        add_merge(bpe, pair);
    }
    for (size_t i = 0; i < table.n_slots; i++)
        free(table.slots[i].tokens);
    free(table.slots);
    free(pair_counts);
    return bpe;
}

void bpe_free(struct bpe *bpe)
{
    if (bpe)
        free(bpe->rank);
    free(bpe);
}

/* ---- using it ---- */

bool bpe_encode(const struct bpe *bpe, struct slice text, struct token_vec *out)
{
    for (size_t i = 0; i < text.len;) {
        int32_t id;
        size_t n = special_length(text.data + i, text.len - i, &id);
        if (n) {
            if (!VEC_PUSH(out, id))
                return false;
            i += n;
            continue;
        }
        size_t end = i + plain_length(text.data + i, text.len - i);
        while (i < end) {
            n = word_length(text.data + i, end - i);
            if (!VEC_RESERVE(out, n))
                return false;
            int32_t *tokens = out->data + out->n;
            for (size_t k = 0; k < n; k++)
                tokens[k] = (unsigned char)text.data[i + k];
            out->n += merge_word(bpe, tokens, n);
            i += n;
        }
    }
    return true;
}

static void append_bytes(const struct bpe *bpe, int32_t id, struct str *out)
{
    if (id < N_BYTES) {
        str_append_char(out, (char)id);
    } else if (id < BPE_TOKENS) {
        append_bytes(bpe, bpe->merges[id - N_BYTES].left, out);
        append_bytes(bpe, bpe->merges[id - N_BYTES].right, out);
    } else {
        str_append_text(out, special_text(id));
    }
}

void bpe_decode(const struct bpe *bpe, const int32_t *tokens, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++)
        append_bytes(bpe, tokens[i], out);
}

/* ---- tokenizer.json ---- */

/* GPT-2's printable stand-ins for bytes: printable Latin-1 stands for itself,
 * the rest for code points from 256 on, in order. */
static uint32_t byte_codepoint(int32_t byte)
{
    uint32_t next = 256;
    for (int32_t b = 0; b < N_BYTES; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        uint32_t codepoint = printable ? (uint32_t)b : next++;
        if (b == byte)
            return codepoint;
    }
    return 0;
}

static json_t *token_name(const struct bpe *bpe, int32_t id)
{
    struct str bytes = {0}, name = {0};
    append_bytes(bpe, id, &bytes);
    for (size_t i = 0; i < bytes.len; i++)
        str_append_codepoint(&name, byte_codepoint((unsigned char)bytes.data[i]));
    json_t *value = json_stringn(str_text(&name), name.len);
    str_free(&bytes);
    str_free(&name);
    return value;
}

static bool write_text(const char *path, const json_t *value, struct error *err)
{
    struct str text = {0};
    json_append(&text, value);
    str_append_char(&text, '\n');
    FILE *file = fopen(path, "w");
    bool ok = file && !text.failed && fwrite(text.data, 1, text.len, file) == text.len;
    if (file)
        ok = fclose(file) == 0 && ok;
    str_free(&text);
    return ok || error_set(err, ERR_IO, "%s: %s", path, strerror(errno));
}

bool bpe_save(const struct bpe *bpe, const char *path, struct error *err)
{
    json_t *vocab = json_object(), *merges = json_array(), *added = json_array();
    for (int32_t id = 0; id < N_BYTES + bpe->n_merges; id++) {
        json_t *name = token_name(bpe, id);
        json_object_set_new(vocab, json_string_value(name), json_integer(id));
        json_decref(name);
    }
    for (int32_t i = 0; i < bpe->n_merges; i++) {
        json_t *pair = json_array();
        json_array_append_new(pair, token_name(bpe, bpe->merges[i].left));
        json_array_append_new(pair, token_name(bpe, bpe->merges[i].right));
        json_array_append_new(merges, pair);
    }
    for (int32_t id = BPE_TOKENS; id < VOCAB_SIZE; id++)
        json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)id,
                                               "content", special_text(id), "single_word", 0,
                                               "lstrip", 0, "rstrip", 0, "normalized", 0, "special",
                                               id < TOKEN_THINK || id >= TOKEN_RESERVED));
    json_t *root =
        json_pack("{s:s, s:n, s:n, s:o, s:n, s:{s:s, s:b, s:b, s:b}, s:n, s:{s:s, s:b, s:b, s:b}, "
                  "s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:o, s:o}}",
                  "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer",
                  "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                  "use_regex", 1, "post_processor", "decoder", "type", "ByteLevel",
                  "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE",
                  "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", 0, "byte_fallback", 0, "vocab", vocab, "merges", merges);
    bool ok = root ? write_text(path, root, err) : error_memory(err);
    json_decref(root);
    return ok;
}

/* Only what bpe_save writes is read: the merges, by name. */
struct bpe *bpe_load(const char *path, struct error *err)
{
    json_t *root = json_parse_file(path, err);
    if (!root)
        return NULL;
    json_t *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    struct bpe *bpe = bpe_new();
    bool ok = bpe && json_is_object(vocab) && json_array_size(merges) <= N_MERGES;
    for (size_t i = 0; ok && i < json_array_size(merges); i++) {
        json_t *pair = json_array_get(merges, i), *ids[2];
        for (size_t k = 0; k < 2; k++) {
            const char *name = json_string_value(json_array_get(pair, k));
            ids[k] = name ? json_object_get(vocab, name) : NULL;
            ok = ok && json_is_integer(ids[k]);
        }
        if (ok)
            add_merge(bpe, (struct merge){(int32_t)json_integer_value(ids[0]) & (BPE_TOKENS - 1),
                                          (int32_t)json_integer_value(ids[1]) & (BPE_TOKENS - 1)});
    }
    json_decref(root);
    if (ok)
        return bpe;
    error_set(err, ERR_FORMAT, "%s: not a tokenizer this program wrote", path);
    bpe_free(bpe);
    return NULL;
}
