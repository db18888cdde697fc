/* special.c - the tokens whose role only their spelling tells.
 *
 * Files seldom say which token ends a turn or which fill in the middle; the
 * spellings that models use for them are known. Sources: the models' own
 * tokenizer configurations, as the reference reads them. */
#include "text/tokenizer.h"

#include <ctype.h>
#include <strings.h>

enum { MAX_SPELLINGS = 14 };

/* In the order of preference. */
static const struct role {
    size_t offset; /* in struct special_tokens */
    const char *spellings[MAX_SPELLINGS];
} roles[] = {
    {offsetof(struct special_tokens, eot),
     {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
      "<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"}},
    {offsetof(struct special_tokens, eom), {"<|eom_id|>"}},
    {offsetof(struct special_tokens, fim_pre),
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
      "<|code_prefix|>", "<|prefix|>"}},
    {offsetof(struct special_tokens, fim_suf),
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
      "<|code_suffix|>", "<|suffix|>"}},
    {offsetof(struct special_tokens, fim_mid),
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
      "<|code_middle|>", "<|middle|>"}},
    {offsetof(struct special_tokens, fim_pad),
     {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {offsetof(struct special_tokens, fim_rep),
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {offsetof(struct special_tokens, fim_sep), {"<|file_sep|>"}},
};

static const char *const end_of_generation[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
};

/* The marks of the harmony format are always shown: they are what a message is
 * parsed by. */
static const char *const always_shown[] = {"<|channel|>", "<|message|>", "<|start|>",
                                           "<|constrain|>"};

/* How a token is found in text stays when its kind changes. */
static void set_kind(struct tokenizer *tok, int32_t id, unsigned kind, unsigned keep)
{
    keep |= TOKEN_ADDED | TOKEN_NORMALIZED | TOKEN_LSTRIP | TOKEN_RSTRIP | TOKEN_SINGLE_WORD;
    tok->tokens[id].attr = (uint16_t)((tok->tokens[id].attr & keep) | kind);
}

static void detect_roles(struct tokenizer *tok)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        int32_t *id = (int32_t *)((char *)&tok->special + roles[i].offset);
        for (size_t k = 0; *id < 0 && k < MAX_SPELLINGS && roles[i].spellings[k]; k++) {
            *id = vocab_find_text(tok, roles[i].spellings[k]);
            if (*id >= 0)
                tok->tokens[*id].attr |= TOKEN_CONTROL;
        }
    }
}

static void mark_unused(struct tokenizer *tok)
{
    for (int32_t i = 0; i < tok->n_vocab; i++) {
        if (!(tok->tokens[i].attr & TOKEN_CONTROL))
            continue;
        struct slice text = tokenizer_text(tok, i), word = SLICE("unused");
        for (size_t k = 0; k + word.len <= text.len; k++)
            if (memcmp(text.data + k, word.data, word.len) == 0)
                tok->tokens[i].attr |= TOKEN_UNUSED;
    }
}

static void mark_end(struct tokenizer *tok, int32_t id)
{
    if (id >= 0)
        tok->tokens[id].attr |= TOKEN_END_OF_GENERATION;
}

/* The id of a spelling that ends generation so far, or -1. */
static int32_t ending(const struct tokenizer *tok, const char *text)
{
    int32_t id = vocab_find_text(tok, text);
    return id >= 0 && tokenizer_is_eog(tok, id) ? id : -1;
}

static void take_back(struct tokenizer *tok)
{
    bool calls = ending(tok, "<|call|>") >= 0 || ending(tok, "<|calls|>") >= 0;
    bool more = ending(tok, "<|return|>") >= 0 || ending(tok, "<|flush|>") >= 0;
    int32_t end = ending(tok, "<|end|>");
    /* There "<|end|>" only ends one message of several. */
    if (calls && more && end >= 0)
        set_kind(tok, end, TOKEN_USER_DEFINED, 0);
    int32_t s = ending(tok, "</s>");
    if (s >= 0 && ending(tok, "<|tool_response>") >= 0)
        set_kind(tok, s, TOKEN_NORMAL, 0);
}

void special_detect(struct tokenizer *tok)
{
    struct special_tokens *special = &tok->special;
    detect_roles(tok);
    mark_unused(tok);
    mark_end(tok, special->fim_pad);
    mark_end(tok, special->fim_rep);
    mark_end(tok, special->fim_sep);
    for (size_t i = 0; i < sizeof end_of_generation / sizeof *end_of_generation; i++) {
        int32_t id = vocab_find_text(tok, end_of_generation[i]);
        mark_end(tok, id);
        if (id >= 0)
            tok->tokens[id].attr |= TOKEN_CONTROL;
    }
    for (size_t i = 0; i < sizeof always_shown / sizeof *always_shown; i++) {
        int32_t id = vocab_find_text(tok, always_shown[i]);
        if (id >= 0)
            set_kind(tok, id, TOKEN_USER_DEFINED, TOKEN_END_OF_GENERATION);
    }
    mark_end(tok, special->eos);
    mark_end(tok, special->eot);
    mark_end(tok, special->eom);
    for (size_t i = 0; i < tok->stops.n; i++)
        mark_end(tok, tok->stops.data[i]);
    take_back(tok);
}

static bool holds(struct slice text, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= text.len; i++)
        if (strncasecmp(text.data + i, word, n) == 0)
            return true;
    return false;
}

static void set_attr(struct tokenizer *tok, const char *text, unsigned attr, bool on)
{
    int32_t id = vocab_find_text(tok, text);
    if (id < 0)
        return;
    unsigned all = tok->tokens[id].attr;
    tok->tokens[id].attr = (uint16_t)(on ? all | attr : all & ~attr);
}

void special_set_strip(struct tokenizer *tok, struct slice pre, struct slice arch,
                       struct slice name)
{
    if (holds(pre, "jina-v2-de") || holds(pre, "jina-v2-es") || holds(pre, "jina-v2-code") ||
        holds(arch, "nomic-bert-moe") || holds(arch, "jina-bert-v3")) {
        set_attr(tok, "<mask>", TOKEN_LSTRIP, true);
    } else if (holds(name, "phi-3") || holds(name, "phi3")) {
        for (int32_t i = 0; i < tok->n_vocab; i++)
            if (tok->tokens[i].attr & (TOKEN_CONTROL | TOKEN_USER_DEFINED | TOKEN_UNKNOWN))
                tok->tokens[i].attr |= TOKEN_RSTRIP;
        set_attr(tok, "</s>", TOKEN_RSTRIP, true);
        set_attr(tok, "<unk>", TOKEN_RSTRIP, false);
        set_attr(tok, "<s>", TOKEN_RSTRIP, false);
        set_attr(tok, "<|endoftext|>", TOKEN_RSTRIP, false);
    } else if (holds(name, "modern-bert")) {
        set_attr(tok, "[MASK]", TOKEN_LSTRIP, true);
    }
}
