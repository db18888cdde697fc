/* pre_tokenizer.c - the tokenizer.ggml.pre names: where each cuts a text before
 * merging, and what else the name implies.
 *
 * The expressions accept what the reference accepts, quirks included: where
 * its engine knows one letter class only, so do these; its \p{S} does not hold
 * '~'. They are written so that matching never tries a stretch twice: nested
 * repetitions are possessive, and nothing scans to the end of a run of white
 * space from each of its places. */
#include "text/tokenizer.h"

#define CONTRACTION  "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define WORD         "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define OTHER        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define OTHER_SLASH  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define SPACES       "\\s+(?!\\S)|\\s+"
#define LINES_SPACES "\\s*[\\r\\n]+|" SPACES

#define GPT2   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" SPACES
#define LLAMA3 CONTRACTION "|" WORD "|\\p{N}{1,3}|" OTHER "|" LINES_SPACES
#define QWEN2  CONTRACTION "|" WORD "|\\p{N}|" OTHER "|" LINES_SPACES
#define QWEN35                                                                                     \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "                                  \
                "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES_SPACES

/* Letters that are not ASCII small ones, letters that are not ASCII capitals. */
#define NOT_SMALL   "[^\\P{L}a-z]"
#define NOT_CAPITAL "[^\\P{L}A-Z]"
#define GPT4O                                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?" NOT_SMALL "*" NOT_CAPITAL "+" CONTRACTION "?|"                        \
    "[^\\r\\n\\p{L}\\p{N}]?" NOT_SMALL "+" NOT_CAPITAL "*" CONTRACTION "?|"                        \
    "\\p{N}{1,3}|" OTHER_SLASH "|" LINES_SPACES
#define TEKKEN                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" NOT_SMALL "*" NOT_CAPITAL "+|"                                        \
    "[^\\r\\n\\p{L}\\p{N}]?" NOT_SMALL "+" NOT_CAPITAL "*|"                                        \
    "\\p{N}|" OTHER_SLASH "|" LINES_SPACES
/* The same with marks among the letters. */
#define NOT_SMALL_M   "[^\\p{C}\\p{N}\\p{P}\\p{S}\\p{Z}a-z]"
#define NOT_CAPITAL_M "[^\\p{C}\\p{N}\\p{P}\\p{S}\\p{Z}A-Z]"
#define GRANITE_EMBED                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?" NOT_SMALL_M "*" NOT_CAPITAL_M "+" CONTRACTION "?|"                    \
    "[^\\r\\n\\p{L}\\p{N}]?" NOT_SMALL_M "+" NOT_CAPITAL_M "*" CONTRACTION "?|"                    \
    "\\p{N}{1,3}|" OTHER_SLASH "|" LINES_SPACES
#define MARKED_WORD "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+" CONTRACTION "?"

#define SYMBOLS "(?:(?!~)[\\p{P}\\p{S}])++"
#define DEEPSEEK3                                                                                  \
    "[!-/:-@\\[-`{-~][A-Za-z]+|(?:[^\\r\\n\\p{L}\\p{P}\\p{S}]|~)?[\\p{L}\\p{M}]+|"                 \
    " ?" SYMBOLS "[\\r\\n]*|" LINES_SPACES
#define HAN_KANA "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"
/* U+0800..U+9FA5 and Hangul, but no white space. */
#define EAST_ASIAN                                                                                 \
    "[\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{"   \
    "205e}"                                                                                        \
    "\\x{2060}-\\x{2fff}\\x{3001}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"
#define DEEPSEEK_LLM_LETTERS                                                                       \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{"    \
    "293}"                                                                                         \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}"          \
    "\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{"    \
    "52f}"                                                                                         \
    "\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{"     \
    "1cba}"                                                                                        \
    "\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{"   \
    "1f15}"                                                                                        \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{"    \
    "1f5b}"                                                                                        \
    "\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{"    \
    "1fc4}"                                                                                        \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{"   \
    "1ff4}"                                                                                        \
    "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{"     \
    "2124}"                                                                                        \
    "\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}"         \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"         \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{"    \
    "a76f}"                                                                                        \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{"   \
    "fb17}"                                                                                        \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"             \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"         \
    "\\x{1e900}-\\x{1e943}"
#define AFMOE_ASIAN                                                                                \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{"  \
    "ff9f}"                                                                                        \
    "\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{"     \
    "aa7f}"                                                                                        \
    "\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
#define YOUTU_ASIAN                                                                                \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|"                                                   \
    "[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}"  \
    "\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" HAN_KANA
#define HAN                                                                                        \
    "\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2ebef}"             \
    "\\x{f900}-\\x{faff}\\x{2f800}-\\x{2fa1f}"
#define KIMI_K2                                                                                    \
    "[" HAN "]+|[^\\r\\n\\p{L}\\p{N}]?(?:(?![" HAN "])\\p{L})++" CONTRACTION                       \
    "?|\\p{N}{1,3}|" OTHER "|" LINES_SPACES
/* A stretch of white space is searched for a line end only at its beginning. */
#define JAIS2                                                                                      \
    CONTRACTION "|" WORD "|\\p{N}{1,3}|" OTHER "|(?<![^\\S\\r\\n])\\s*[\\r\\n]+|"                  \
                "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"   \
                "\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
#define BLOOM    " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define NEWLINES "[^\\n]+|\\n+"

/* Steps that are no expression. */
#define DIGIT_GROUPS       "@digit-groups"
#define ASCII_DIGIT_GROUPS "@ascii-digit-groups"

enum cuts {
    CUTS_DEFAULT,
    CUTS_LLAMA3,
    CUTS_JAIS2,
    CUTS_DEEPSEEK_LLM,
    CUTS_DEEPSEEK3,
    CUTS_YOUTU,
    CUTS_DEEPSEEK_CODER,
    CUTS_FALCON,
    CUTS_DIGIT_GPT2,
    CUTS_GPT2,
    CUTS_QWEN2,
    CUTS_QWEN35,
    CUTS_BLOOM,
    CUTS_VIKING,
    CUTS_TEKKEN,
    CUTS_CHAMELEON,
    CUTS_GPT4O,
    CUTS_GRANITE_EMBED,
    CUTS_TINY_AYA,
    CUTS_KIMI_K2,
    CUTS_SUPERBPE,
    CUTS_BAILINGMOE,
    CUTS_SEED_CODER,
    CUTS_AFMOE,
    CUTS_LAGUNA,
    CUTS_EXAONE_MOE,
    CUTS_NEWLINES,
    CUTS_MINICPM5,
    CUTS_WHITESPACE
};

enum { MAX_CUTS = 6 };

static const char *const cuts[][MAX_CUTS + 1] = {
    [CUTS_DEFAULT] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
    [CUTS_LLAMA3] = {LLAMA3},
    [CUTS_JAIS2] = {JAIS2},
    [CUTS_DEEPSEEK_LLM] = {"[\\r\\n]", "\\s?[" DEEPSEEK_LLM_LETTERS "]+",
                           "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}"
                           "\\x{3001}\\x{3002}]+",
                           "(?<!\\s)\\s++$", EAST_ASIAN, "\\p{N}+"},
    [CUTS_DEEPSEEK3] = {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK3},
    [CUTS_YOUTU] = {YOUTU_ASIAN, MARKED_WORD "|\\p{N}|" OTHER_SLASH "|" LINES_SPACES},
    [CUTS_DEEPSEEK_CODER] = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", EAST_ASIAN, "\\p{N}"},
    [CUTS_FALCON] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"},
    [CUTS_DIGIT_GPT2] = {"\\p{N}", GPT2},
    [CUTS_GPT2] = {GPT2},
    [CUTS_QWEN2] = {QWEN2},
    [CUTS_QWEN35] = {QWEN35},
    [CUTS_BLOOM] = {BLOOM},
    [CUTS_VIKING] = {BLOOM, "\\p{N}"},
    [CUTS_TEKKEN] = {TEKKEN},
    [CUTS_CHAMELEON] = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}",
                        "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
    [CUTS_GPT4O] = {GPT4O},
    [CUTS_GRANITE_EMBED] = {GRANITE_EMBED},
    [CUTS_TINY_AYA] = {DIGIT_GROUPS, MARKED_WORD "|\\p{N}{1,3}|" OTHER_SLASH "|" LINES_SPACES},
    [CUTS_KIMI_K2] = {KIMI_K2},
    [CUTS_SUPERBPE] = {"\\p{N}+", ASCII_DIGIT_GROUPS},
    [CUTS_BAILINGMOE] = {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" WORD "|\\p{N}|" OTHER
                         "|\\s*[\\r\\n]|" SPACES},
    [CUTS_SEED_CODER] = {CONTRACTION "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES_SPACES},
    [CUTS_AFMOE] = {DIGIT_GROUPS, AFMOE_ASIAN, DEEPSEEK3},
    [CUTS_LAGUNA] = {NEWLINES, QWEN2},
    [CUTS_EXAONE_MOE] = {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}\\p{M}*+(?: ?\\p{L}\\p{M}*+)*+|"
                                     "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|" SPACES},
    [CUTS_NEWLINES] = {NEWLINES},
    [CUTS_MINICPM5] = {"\\p{N}{1,3}", CONTRACTION "|" WORD "|\\p{N}+|" OTHER "|" LINES_SPACES},
    [CUTS_WHITESPACE] = {"\\S+"},
};

enum pre_flags {
    KEEP_SPACES = 1 << 0,   /* decoding does not clean up spaces */
    IGNORE_MERGES = 1 << 1, /* a piece that is a token is that token */
    ADD_BOS = 1 << 2,
    ADD_SEP = 1 << 3,
    NO_BOS = 1 << 4,       /* the kind's default bos does not hold */
    METASPACES = 1 << 5,   /* spaces are written "▁", bytes are not GPT-2's */
    RAW_TEXT = 1 << 6,     /* bytes are not GPT-2's, but for the rest as usual */
    NEWLINE_RUNS = 1 << 7, /* newlines that are a token are that token */
    ALWAYS_BOS = 1 << 8,   /* whatever add_bos_token says */
    NO_MERGES = 1 << 9     /* the file may come without merges */
};

static const struct pre_tokenizer {
    const char *name;
    enum cuts cuts;
    unsigned flags;
} pre_tokenizers[] = {
    {"default", CUTS_DEFAULT, 0},
    {"minicpm5", CUTS_MINICPM5, IGNORE_MERGES},
    {"llama3", CUTS_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"llama-v3", CUTS_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"llama-bpe", CUTS_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"falcon3", CUTS_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"falcon-h1", CUTS_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"pixtral", CUTS_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"midm-2.0", CUTS_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"lfm2", CUTS_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"jina-v5-nano", CUTS_LLAMA3, IGNORE_MERGES | ADD_BOS},
    {"deepseek-llm", CUTS_DEEPSEEK_LLM, KEEP_SPACES},
    {"deepseek-coder", CUTS_DEEPSEEK_CODER, KEEP_SPACES},
    {"deepseek-v3", CUTS_DEEPSEEK3, KEEP_SPACES},
    {"youtu", CUTS_YOUTU, KEEP_SPACES | IGNORE_MERGES},
    {"falcon", CUTS_FALCON, 0},
    {"mpt", CUTS_GPT2, 0},
    {"starcoder", CUTS_DIGIT_GPT2, 0},
    {"gpt-2", CUTS_GPT2, 0},
    {"phi-2", CUTS_GPT2, 0},
    {"jina-es", CUTS_GPT2, 0},
    {"jina-de", CUTS_GPT2, 0},
    {"gigachat", CUTS_GPT2, 0},
    {"jina-v2-es", CUTS_GPT2, 0},
    {"jina-v2-de", CUTS_GPT2, 0},
    {"a.x-4.0", CUTS_GPT2, 0},
    {"mellum", CUTS_GPT2, 0},
    {"modern-bert", CUTS_GPT2, 0},
    {"jais-2", CUTS_JAIS2, 0},
    {"gemma4", CUTS_NEWLINES, METASPACES | NEWLINE_RUNS | ALWAYS_BOS},
    {"granite-embed-multi-311m", CUTS_NEWLINES, METASPACES | NEWLINE_RUNS | ALWAYS_BOS},
    {"sarvam-moe", CUTS_NEWLINES, METASPACES | KEEP_SPACES},
    {"jina-v1-en", CUTS_GPT2, ADD_SEP},
    {"jina-v2-code", CUTS_GPT2, ADD_SEP},
    {"roberta-bpe", CUTS_GPT2, ADD_SEP},
    {"whitespace", CUTS_WHITESPACE, RAW_TEXT},
    {"refact", CUTS_DIGIT_GPT2, 0},
    {"command-r", CUTS_DIGIT_GPT2, KEEP_SPACES},
    {"qwen2", CUTS_QWEN2, KEEP_SPACES},
    {"deepseek-r1-qwen", CUTS_QWEN2, KEEP_SPACES},
    {"kormo", CUTS_QWEN2, KEEP_SPACES},
    {"f2llmv2", CUTS_QWEN2, KEEP_SPACES},
    {"qwen35", CUTS_QWEN35, KEEP_SPACES},
    {"stablelm2", CUTS_QWEN2, 0},
    {"olmo", CUTS_GPT2, 0},
    {"dbrx", CUTS_LLAMA3, 0},
    {"smaug-bpe", CUTS_LLAMA3, 0},
    {"poro-chat", CUTS_BLOOM, KEEP_SPACES},
    {"glm4", CUTS_LLAMA3, NO_BOS},
    {"chatglm-bpe", CUTS_LLAMA3, NO_BOS},
    {"viking", CUTS_VIKING, KEEP_SPACES},
    {"jais", CUTS_GPT2, 0},
    {"tekken", CUTS_TEKKEN, KEEP_SPACES | IGNORE_MERGES | ADD_BOS},
    {"smollm", CUTS_DIGIT_GPT2, KEEP_SPACES},
    {"codeshell", CUTS_DIGIT_GPT2, 0},
    {"bloom", CUTS_BLOOM, 0},
    {"gpt3-finnish", CUTS_BLOOM, 0},
    {"exaone", CUTS_DIGIT_GPT2, 0},
    {"exaone4", CUTS_GPT2, 0},
    {"exaone-moe", CUTS_EXAONE_MOE, 0},
    {"chameleon", CUTS_CHAMELEON, KEEP_SPACES | ADD_BOS},
    {"minerva-7b", CUTS_DIGIT_GPT2, 0},
    {"megrez", CUTS_QWEN2, 0},
    {"gpt-4o", CUTS_GPT4O, KEEP_SPACES},
    {"llama4", CUTS_GPT4O, KEEP_SPACES},
    {"kanana2", CUTS_GPT4O, KEEP_SPACES},
    {"talkie", CUTS_GPT4O, KEEP_SPACES},
    {"granite-embed-multi-97m", CUTS_GRANITE_EMBED, KEEP_SPACES | IGNORE_MERGES},
    {"tiny_aya", CUTS_TINY_AYA, KEEP_SPACES},
    {"cohere2moe", CUTS_TINY_AYA, KEEP_SPACES},
    {"superbpe", CUTS_SUPERBPE, KEEP_SPACES},
    {"trillion", CUTS_GPT2, KEEP_SPACES},
    {"granite-docling", CUTS_GPT2, KEEP_SPACES},
    {"bailingmoe", CUTS_BAILINGMOE, KEEP_SPACES},
    {"bailingmoe2", CUTS_BAILINGMOE, KEEP_SPACES},
    {"llada-moe", CUTS_BAILINGMOE, KEEP_SPACES},
    {"seed-coder", CUTS_SEED_CODER, KEEP_SPACES},
    {"hunyuan", CUTS_QWEN2, KEEP_SPACES},
    {"hunyuan-dense", CUTS_DEEPSEEK3, KEEP_SPACES},
    {"joyai-llm", CUTS_DEEPSEEK3, KEEP_SPACES},
    {"kimi-k2", CUTS_KIMI_K2, KEEP_SPACES | NO_MERGES},
    {"grok-2", CUTS_QWEN2, KEEP_SPACES},
    {"afmoe", CUTS_AFMOE, KEEP_SPACES},
    {"laguna", CUTS_LAGUNA, KEEP_SPACES},
    {"minimax-m2", CUTS_GPT4O, KEEP_SPACES},
    {"solar-open", CUTS_QWEN2, KEEP_SPACES},
    {"mellum2", CUTS_DIGIT_GPT2, 0},
};

static const struct pre_tokenizer *find(struct slice name)
{
    for (size_t i = 0; i < sizeof pre_tokenizers / sizeof *pre_tokenizers; i++)
        if (slice_equal_text(name, pre_tokenizers[i].name))
            return &pre_tokenizers[i];
    return NULL;
}

bool steps_add_split(struct steps *steps, struct slice expression, enum split_behavior behavior,
                     bool invert, struct error *err)
{
    struct step step = {.kind = STEP_SPLIT, .behavior = behavior, .invert = invert};
    step.pattern = pattern_compile(expression, err);
    if (!step.pattern)
        return false;
    if (VEC_PUSH(steps, step))
        return true;
    pattern_free(step.pattern);
    return error_memory(err);
}

static bool add_cut(struct steps *steps, const char *cut, struct error *err)
{
    if (cut[0] != '@')
        return steps_add_split(steps, slice_of(cut), SPLIT_ISOLATED, false, err);
    bool ascii = strcmp(cut, ASCII_DIGIT_GROUPS) == 0;
    struct step step = {.kind = ascii ? STEP_ASCII_DIGIT_GROUPS : STEP_DIGIT_GROUPS};
    return VEC_PUSH(steps, step) || error_memory(err);
}

bool pre_tokenizer_set(struct tokenizer *tok, struct slice name, struct error *err)
{
    const struct pre_tokenizer *pre = find(name);
    if (!pre)
        return error_set(err, ERR_UNSUPPORTED, "unknown pre-tokenizer type: '%.*s'",
                         (int)(name.len < 100 ? name.len : 100), name.data ? name.data : "");
    for (size_t i = 0; i < MAX_CUTS && cuts[pre->cuts][i]; i++)
        if (!add_cut(&tok->steps, cuts[pre->cuts][i], err))
            return false;
    unsigned flags = pre->flags;
    bool raw = flags & (METASPACES | RAW_TEXT);
    if (!raw && !VEC_PUSH(&tok->steps, (struct step){.kind = STEP_BYTE_LEVEL}))
        return error_memory(err);
    if ((flags & METASPACES) &&
        !normalizer_add_replace(&tok->normalizer, SLICE(" "), SLICE(METASPACE), err))
        return false;
    tok->piece_style = flags & METASPACES ? PIECE_METASPACE : PIECE_BYTE_LEVEL;
    tok->clean_spaces = !(flags & KEEP_SPACES);
    tok->bpe.ignore_merges = flags & IGNORE_MERGES;
    tok->bpe.newline_runs = flags & NEWLINE_RUNS;
    tok->bpe.byte_tokens = raw;
    tok->bpe.may_lack_merges = flags & NO_MERGES;
    tok->always_bos = flags & ALWAYS_BOS;
    if (flags & ADD_BOS)
        tok->special.add_bos = true;
    if (flags & ADD_SEP)
        tok->special.add_sep = true;
    if (flags & NO_BOS)
        tok->special.bos = -1;
    return true;
}
