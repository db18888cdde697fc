/* tokenizer.h - what a tokenizer is made of; private to the room.
 *
 * Encoding goes: special tokens cut out (partition.c), the text between them
 * normalized (normalize.c) and cut into pieces (pieces.c), each piece turned
 * into tokens by the model (one file per kind), bos and eos put around. */
#ifndef MLXCEL_TEXT_TOKENIZER_H
#define MLXCEL_TEXT_TOKENIZER_H

#include "text/merge.h"
#include "text/normalize.h"
#include "text/pieces.h"
#include "text/text.h"
#include "text/text_table.h"
#include "text/trie.h"

/* "▁", the visible space of SentencePiece. */
#define METASPACE "\xE2\x96\x81"

/* Besides the door's enum token_attr. */
enum {
    TOKEN_ADDED = 1 << 13, /* in a tokenizer.json's added_tokens: sought in text */
    TOKEN_END_OF_GENERATION = 1 << 14
};

struct token {
    float score;
    uint16_t attr;
    uint32_t piece_len;
    size_t piece_begin; /* in tokenizer.pieces */
};

/* How a token's spelling becomes the bytes it stands for. */
enum piece_style {
    PIECE_PLAIN,       /* as spelled */
    PIECE_METASPACE,   /* "▁" is a space */
    PIECE_BYTE_LEVEL,  /* GPT-2's alphabet */
    PIECE_WORDPIECE,   /* "##ing" continues, others begin a word */
    PIECE_WORD_SUFFIX, /* "</w>" ends a word */
    PIECE_RWKV         /* with backslash escapes */
};

/* Two neighbours and what they make. */
struct bpe_merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX: free */
    uint32_t rank;
    int32_t id;
};

struct bpe {
    struct bpe_merge *merges; /* hash table, a power of two */
    size_t n_merges, n_slots;
    int32_t chars[0x180];                 /* the table's number of a short code point, or -1 */
    bool ignore_merges;                   /* a piece that is a token is that token */
    bool newline_runs;                    /* the same for pieces of newlines alone */
    bool byte_tokens;                     /* unknown characters fall back to "<0x0A>" */
    bool fuse_unk;                        /* unknown neighbours are one unknown token */
    bool use_unk;                         /* unknown characters become unk, not nothing */
    bool may_lack_merges;                 /* the file may come without any */
    struct str word_suffix, inner_prefix; /* CLIP's "</w>"; "##" */
    struct str joined;                    /* scratch while merges are added */
};

struct wordpiece {
    struct str first_prefix, inner_prefix;
    size_t max_chars;              /* of a word, 0: no limit */
    bool lowercase, strip_accents; /* of the GGUF kind */
};

struct unigram {
    struct trie trie;
    float unk_score;
    bool byte_tokens;
    bool fuse_unk;
    /* How the GGUF kind normalizes; a tokenizer.json has steps instead. */
    bool merge_spaces;
    struct str charsmap;
    struct trie user_defined; /* left alone by the normalizer */
};

/* Tokens found in the text before anything else is done to it. */
struct partition {
    struct trie always, with_special; /* without and with control tokens */
    /* tokenizer.json: tokens sought in the normalized text, after the others. */
    struct trie normalized_always, normalized_special;
    bool normalizes_control; /* there are control tokens among the latter */
    bool leftmost;           /* first come first, as tokenizer.json wants; else the
                                longest in the whole text goes first */
};

struct tokenizer {
    enum vocab_type type;
    int32_t n_vocab;
    struct text_table table; /* spellings; past n_vocab what only BPE knows */
    struct token *tokens;    /* n_vocab */
    struct str pieces;
    int32_t *sorted;
    size_t max_token_len;  /* bytes */
    int32_t byte_ids[256]; /* of "<0x0A>" or of the byte alone, or -1 */

    struct special_tokens special;
    VEC(int32_t) suppressed;
    VEC(int32_t) stops; /* what else ends generation, by the file's word */
    /* What TEXT_ADD_SPECIAL puts around the text. */
    VEC(int32_t) prefix;
    VEC(int32_t) suffix;
    bool clean_spaces;
    bool always_bos; /* whatever the file says */

    struct partition partition;
    struct normalizer normalizer;
    struct steps steps;
    enum piece_style piece_style;
    struct bpe bpe;
    struct wordpiece wordpiece;
    struct unigram unigram;
    struct trie trie; /* RWKV, PLaMo 2 */
    bool from_json;   /* tokenizer.json's rules where they differ from GGUF's */
};

/* Ranges of a text: ascending, not overlapping, none empty. */
struct ranges {
    struct text_range *data;
    size_t n, capacity;
};

/* What one text_encode uses. */
struct encoder {
    const struct tokenizer *tok;
    struct pattern_scratch patterns;
    struct merge_scratch merge;
    struct pieces pieces;
    struct str buffer, other;
    size_t room;              /* bytes that may still be made of the text */
    struct ranges plain;      /* of the text: where no control token is read */
    struct ranges normalized; /* the same of the normalized part */
    struct token_vec *out;
    struct budget *budget; /* NULL: none */
    struct error *err;
};

/* Each encodes one piece, appending to e->out; false with *e->err. */
bool bpe_encode(struct encoder *e, struct slice piece);
bool sentencepiece_encode(struct encoder *e, struct slice piece);
bool wordpiece_encode(struct encoder *e, struct slice piece);
bool unigram_encode(struct encoder *e, struct slice piece);
bool rwkv_encode(struct encoder *e, struct slice piece);
bool plamo2_encode(struct encoder *e, struct slice piece);

/* How the GGUF kinds normalize: into words; into one text. */
bool wordpiece_cut(const struct tokenizer *tok, struct slice text, struct pieces *out);
/* Past limit bytes the rest is left out: the caller sees that. */
bool unigram_normalize(const struct tokenizer *tok, struct slice text, size_t limit,
                       struct str *out);

/* Append an id; false with out of memory. */
static inline bool emit(struct encoder *e, int32_t id)
{
    return VEC_PUSH(e->out, id) || error_memory(e->err);
}

/* ---- Building (called in this order by the loaders) ---- */

/* Without a vocabulary or roles; NULL when out of memory. */
struct tokenizer *tokenizer_new(void);

/* Add the next token of the vocabulary. */
bool vocab_add(struct tokenizer *tok, struct slice text, float score, unsigned attr,
               struct error *err);
int32_t vocab_find_text(const struct tokenizer *tok, const char *text);

/* One merge, in order of rank; the earlier of equal ones counts. */
bool bpe_add_merge(struct tokenizer *tok, struct slice left, struct slice right, struct error *err);
bool bpe_finish(struct tokenizer *tok, struct error *err);
bool unigram_finish(struct tokenizer *tok, struct error *err);
bool rwkv_finish(struct tokenizer *tok, struct error *err);
bool plamo2_finish(struct tokenizer *tok, struct error *err);
bool rwkv_unescape(struct slice text, struct str *out);

/* Tokens with a role that only their spelling tells, and which end generation
 * (special.c). */
void special_detect(struct tokenizer *tok);
/* White space that special tokens swallow, which GGUF files do not say: by the
 * names of the pre-tokenizer, the architecture and the model. */
void special_set_strip(struct tokenizer *tok, struct slice pre, struct slice arch,
                       struct slice name);

/* Append what a token stands for (decode.c).  Where *out would
 * grow past limit bytes the rest may be left out. */
bool piece_append(struct str *out, const struct tokenizer *tok, int32_t id, size_t limit);
/* The byte that "<0x0A>" spells, or -1. */
int byte_token_value(struct slice text);

/* Everything that is computed from the finished vocabulary: pieces, their
 * order, the tries of special tokens. */
bool tokenizer_finish(struct tokenizer *tok, struct error *err);

/* The steps of a tokenizer.ggml.pre, and the flags that come with it. */
bool pre_tokenizer_set(struct tokenizer *tok, struct slice name, struct error *err);
/* Add a step that cuts along an expression. */
bool steps_add_split(struct steps *steps, struct slice expression, enum split_behavior behavior,
                     bool invert, struct error *err);

/* What partition_run found: special tokens (id >= 0) and text between them. */
struct fragment {
    int32_t id; /* -1: text */
    size_t begin, end;
};
struct fragments {
    struct fragment *data;
    size_t n, capacity;
};
bool partition_build(struct tokenizer *tok, struct error *err);
void partition_free(struct partition *p);
/* Cut text at the special tokens; control tokens only where parse_special and
 * outside plain. normalized: the second round of a tokenizer.json. */
bool partition_run(const struct tokenizer *tok, struct slice text, bool parse_special,
                   bool normalized, const struct ranges *plain, struct fragments *out,
                   struct error *err);

/* The first range that ends past at; n: none. */
size_t ranges_seek(const struct ranges *ranges, size_t at);
/* Read a caller's ranges of a text of len bytes. False: out of memory. */
bool ranges_read(const struct text_range *plain, size_t n, size_t len, struct ranges *out);
/* Append text as well-formed UTF-8; the ranges follow. False: out of memory. */
bool ranges_sanitize(struct ranges *plain, struct slice text, struct str *clean);
/* Set e->normalized: where e->plain lies in e->buffer, the normal form of text,
 * which begins at begin. The whole of it where that cannot be told. */
bool ranges_normalize(struct encoder *e, struct slice text, size_t begin);

bool load_gguf(const struct model_file *file, struct tokenizer *tok, struct error *err);
bool load_folder(const struct model_file *file, struct tokenizer *tok, struct error *err);

#endif
