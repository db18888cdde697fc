/* json_steps.c - the normalizers and pre-tokenizers of a tokenizer.json. */
#include "text/tokenizer_json.h"

/* ---- Patterns ---- */

/* {"String": "x"} or {"Regex": "x"}. */
static struct pattern *read_pattern(const json_t *node, struct error *err)
{
    const json_t *text = json_object_get(node, "String"), *regex = json_object_get(node, "Regex");
    if (json_is_string(regex))
        return pattern_compile(json_slice(regex), err);
    if (!json_is_string(text) || !json_string_length(text)) {
        error_set(err, ERR_FORMAT, "a pattern is neither a String nor a Regex");
        return NULL;
    }
    struct pattern *p = pattern_literal(json_slice(text));
    if (!p)
        error_memory(err);
    return p;
}

/* ---- Normalizers ---- */

static const struct {
    const char *name;
    enum normalize_kind kind;
} plain_normalizers[] = {
    {"NFC", NORMALIZE_NFC},
    {"NFD", NORMALIZE_NFD},
    {"NFKC", NORMALIZE_NFKC},
    {"NFKD", NORMALIZE_NFKD},
    {"Lowercase", NORMALIZE_LOWERCASE},
    {"StripAccents", NORMALIZE_STRIP_ACCENTS},
    {"Nmt", NORMALIZE_NMT},
    {"ByteLevel", NORMALIZE_BYTE_LEVEL},
};

static bool add_bert(const json_t *node, struct normalizer *out, struct error *err)
{
    bool lowercase = json_flag(node, "lowercase", true);
    bool accents = json_flag(node, "strip_accents", lowercase);
    return (!json_flag(node, "clean_text", true) || normalizer_add(out, NORMALIZE_CLEAN, err)) &&
           (!json_flag(node, "handle_chinese_chars", true) ||
            normalizer_add(out, NORMALIZE_SPACE_HAN, err)) &&
           (!accents || (normalizer_add(out, NORMALIZE_NFD, err) &&
                         normalizer_add(out, NORMALIZE_STRIP_ACCENTS, err))) &&
           (!lowercase || normalizer_add(out, NORMALIZE_LOWERCASE, err));
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool decode_base64(struct slice text, struct str *out)
{
    unsigned bits = 0, n = 0;
    for (size_t i = 0; i < text.len && text.data[i] != '='; i++) {
        int digit = base64_digit(text.data[i]);
        if (digit < 0)
            return false;
        bits = bits << 6 | (unsigned)digit;
        n += 6;
        if (n >= 8) {
            n -= 8;
            str_append_char(out, (char)(unsigned char)(bits >> n));
        }
    }
    return !out->failed;
}

/* Fill the step of a normalizer that has parameters. */
static bool read_step(const json_t *node, struct slice type, struct normalize_step *step,
                      struct error *err)
{
    if (slice_equal_text(type, "Replace")) {
        step->kind = NORMALIZE_REPLACE;
        step->pattern = read_pattern(json_object_get(node, "pattern"), err);
        if (!step->pattern)
            return false;
        return str_append_slice(&step->text, json_slice(json_object_get(node, "content"))) ||
               error_memory(err);
    }
    if (slice_equal_text(type, "Prepend")) {
        step->kind = NORMALIZE_PREPEND;
        return str_append_slice(&step->text, json_slice(json_object_get(node, "prepend"))) ||
               error_memory(err);
    }
    if (slice_equal_text(type, "Strip")) {
        step->kind = NORMALIZE_STRIP;
        step->left = json_flag(node, "strip_left", true);
        step->right = json_flag(node, "strip_right", true);
        return true;
    }
    if (slice_equal_text(type, "Precompiled")) {
        step->kind = NORMALIZE_CHARSMAP;
        if (!decode_base64(json_slice(json_object_get(node, "precompiled_charsmap")), &step->text))
            return error_set(err, ERR_FORMAT, "precompiled_charsmap is not base64");
        return !step->text.len || charsmap_check(str_slice(&step->text), err);
    }
    return json_unsupported("normalizer", node, err);
}

static bool read_normalizer(const json_t *node, struct normalizer *out, int depth,
                            struct error *err)
{
    if (!node || json_is_null(node))
        return true;
    struct slice type = json_node_type(node);
    if (depth > JSON_MAX_NESTING)
        return error_set(err, ERR_LIMIT, "the normalizers are nested too deeply");
    if (slice_equal_text(type, "Sequence")) {
        const json_t *list = json_object_get(node, "normalizers");
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!read_normalizer(json_array_get(list, i), out, depth + 1, err))
                return false;
        return true;
    }
    if (slice_equal_text(type, "BertNormalizer"))
        return add_bert(node, out, err);
    for (size_t i = 0; i < sizeof plain_normalizers / sizeof *plain_normalizers; i++)
        if (slice_equal_text(type, plain_normalizers[i].name))
            return normalizer_add(out, plain_normalizers[i].kind, err);
    struct normalize_step step = {0};
    if (read_step(node, type, &step, err)) {
        if (VEC_PUSH(out, step))
            return true;
        error_memory(err);
    }
    pattern_free(step.pattern);
    str_free(&step.text);
    return false;
}

bool json_read_normalizer(const json_t *node, struct normalizer *out, struct error *err)
{
    return read_normalizer(node, out, 0, err);
}

/* ---- Pre-tokenizers ---- */

#define WORD_CHARS  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}"
#define PUNCTUATION "[\\p{P}!-/:-@\\[-`{-~]"
#define GPT2        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static bool read_behavior(const json_t *node, enum split_behavior fallback,
                          enum split_behavior *out, struct error *err)
{
    static const struct {
        const char *name;
        enum split_behavior behavior;
    } names[] = {
        {"Removed", SPLIT_REMOVED},
        {"Isolated", SPLIT_ISOLATED},
        {"MergedWithPrevious", SPLIT_MERGED_WITH_PREVIOUS},
        {"MergedWithNext", SPLIT_MERGED_WITH_NEXT},
        {"Contiguous", SPLIT_CONTIGUOUS},
    };
    const json_t *value = json_object_get(node, "behavior");
    *out = fallback;
    if (!value || json_is_null(value))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_equal_text(json_slice(value), names[i].name)) {
            *out = names[i].behavior;
            return true;
        }
    return error_set(err, ERR_UNSUPPORTED, "unknown split behavior '%s'",
                     json_is_string(value) ? json_string_value(value) : "");
}

static bool add_step(struct steps *out, struct step step, struct error *err)
{
    if (VEC_PUSH(out, step))
        return true;
    pattern_free(step.pattern);
    str_free(&step.text);
    return error_memory(err);
}

static bool add_byte_level(const json_t *node, struct steps *out, struct error *err)
{
    if (json_flag(node, "add_prefix_space", false) &&
        !add_step(out, (struct step){.kind = STEP_PREFIX_SPACE}, err))
        return false;
    if (json_flag(node, "use_regex", true) &&
        !steps_add_split(out, SLICE(GPT2), SPLIT_ISOLATED, false, err))
        return false;
    return add_step(out, (struct step){.kind = STEP_BYTE_LEVEL}, err);
}

static bool add_metaspace(const json_t *node, struct steps *out, struct error *err)
{
    struct step step = {.kind = STEP_METASPACE, .split = json_flag(node, "split", true)};
    const json_t *scheme = json_object_get(node, "prepend_scheme");
    const json_t *mark = json_object_get(node, "replacement");
    struct slice name = json_is_string(scheme) ? json_slice(scheme) : SLICE("");
    /* Older files have add_prefix_space instead. */
    bool always = json_flag(node, "add_prefix_space", true);
    step.prepend = always ? PREPEND_ALWAYS : PREPEND_NEVER;
    if (slice_equal_text(name, "first"))
        step.prepend = PREPEND_FIRST;
    else if (slice_equal_text(name, "never"))
        step.prepend = PREPEND_NEVER;
    else if (slice_equal_text(name, "always"))
        step.prepend = PREPEND_ALWAYS;
    if (!str_append_slice(&step.text, json_is_string(mark) && json_string_length(mark)
                                          ? json_slice(mark)
                                          : SLICE(METASPACE)))
        return error_memory(err);
    return add_step(out, step, err);
}

static bool add_split(const json_t *node, struct steps *out, struct error *err)
{
    struct step step = {.kind = STEP_SPLIT, .invert = json_flag(node, "invert", false)};
    if (!read_behavior(node, SPLIT_ISOLATED, &step.behavior, err))
        return false;
    step.pattern = read_pattern(json_object_get(node, "pattern"), err);
    return step.pattern && add_step(out, step, err);
}

static bool add_delimiter(const json_t *node, struct steps *out, struct error *err)
{
    struct slice text = json_slice(json_object_get(node, "delimiter"));
    if (!text.len)
        return error_set(err, ERR_FORMAT, "CharDelimiterSplit has no delimiter");
    struct step step = {.kind = STEP_SPLIT, .behavior = SPLIT_REMOVED};
    step.pattern = pattern_literal(text);
    return step.pattern ? add_step(out, step, err) : error_memory(err);
}

static bool add_fixed_length(const json_t *node, struct steps *out, struct error *err)
{
    json_int_t n = json_integer_value(json_object_get(node, "length"));
    if (n < 1 || n > UINT16_MAX)
        return error_set(err, ERR_FORMAT, "FixedLength has no usable length");
    char expression[32];
    snprintf(expression, sizeof expression, "(?s:.{1,%d})", (int)n);
    return steps_add_split(out, slice_of(expression), SPLIT_ISOLATED, false, err);
}

static bool add_whitespace(const json_t *node, struct steps *out, struct error *err)
{
    (void)node;
    return steps_add_split(out, SLICE("[" WORD_CHARS "]+|[^\\s" WORD_CHARS "]+"), SPLIT_REMOVED,
                           true, err);
}

static bool add_whitespace_split(const json_t *node, struct steps *out, struct error *err)
{
    (void)node;
    return steps_add_split(out, SLICE("\\s+"), SPLIT_REMOVED, false, err);
}

static bool add_punctuation(const json_t *node, struct steps *out, struct error *err)
{
    enum split_behavior behavior;
    return read_behavior(node, SPLIT_ISOLATED, &behavior, err) &&
           steps_add_split(out, SLICE(PUNCTUATION), behavior, false, err);
}

static bool add_digits(const json_t *node, struct steps *out, struct error *err)
{
    bool each = json_flag(node, "individual_digits", false);
    return steps_add_split(out, each ? SLICE("\\p{N}") : SLICE("\\p{N}+"), SPLIT_ISOLATED, false,
                           err);
}

static bool add_bert_words(const json_t *node, struct steps *out, struct error *err)
{
    (void)node;
    return steps_add_split(out, SLICE("\\s+"), SPLIT_REMOVED, false, err) &&
           steps_add_split(out, SLICE(PUNCTUATION), SPLIT_ISOLATED, false, err);
}

static const struct {
    const char *name;
    bool (*add)(const json_t *node, struct steps *out, struct error *err);
} pre_tokenizers[] = {
    {"ByteLevel", add_byte_level},
    {"Metaspace", add_metaspace},
    {"Split", add_split},
    {"Whitespace", add_whitespace},
    {"WhitespaceSplit", add_whitespace_split},
    {"Punctuation", add_punctuation},
    {"Digits", add_digits},
    {"BertPreTokenizer", add_bert_words},
    {"CharDelimiterSplit", add_delimiter},
    {"FixedLength", add_fixed_length},
};

static bool read_pre_tokenizer(const json_t *node, struct steps *out, int depth, struct error *err)
{
    if (!node || json_is_null(node))
        return true;
    struct slice type = json_node_type(node);
    if (depth > JSON_MAX_NESTING)
        return error_set(err, ERR_LIMIT, "the pre-tokenizers are nested too deeply");
    if (slice_equal_text(type, "Sequence")) {
        const json_t *list = json_object_get(node, "pretokenizers");
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!read_pre_tokenizer(json_array_get(list, i), out, depth + 1, err))
                return false;
        return true;
    }
    for (size_t i = 0; i < sizeof pre_tokenizers / sizeof *pre_tokenizers; i++)
        if (slice_equal_text(type, pre_tokenizers[i].name))
            return pre_tokenizers[i].add(node, out, err);
    return json_unsupported("pre-tokenizer", node, err);
}

bool json_read_pre_tokenizer(const json_t *node, struct steps *out, struct error *err)
{
    return read_pre_tokenizer(node, out, 0, err);
}
