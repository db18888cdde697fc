/* json_roles.c - what a tokenizer.json and the files beside it say of special
 * tokens: around a text, at the end of generation, and when decoding. */
#include "text/tokenizer_json.h"

struct slice json_node_type(const json_t *node)
{
    return json_slice(json_object_get(node, "type"));
}

bool json_flag(const json_t *node, const char *key, bool fallback)
{
    const json_t *value = json_object_get(node, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

bool json_unsupported(const char *part, const json_t *node, struct error *err)
{
    struct slice type = json_node_type(node);
    return error_set(err, ERR_UNSUPPORTED, "a %s of type '%.*s' is not supported", part,
                     (int)(type.len < 100 ? type.len : 100), type.len ? type.data : "");
}

/* ---- Around a text ---- */

static bool push_id(struct tokenizer *tok, bool before, json_int_t id, struct error *err)
{
    if (id < 0 || id >= tok->n_vocab)
        return error_set(err, ERR_FORMAT,
                         "the post-processor names the id %lld, which is not a token",
                         (long long)id);
    bool ok = before ? VEC_PUSH(&tok->prefix, (int32_t)id) : VEC_PUSH(&tok->suffix, (int32_t)id);
    return ok || error_memory(err);
}

/* {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": ...}], ...} */
static bool read_template(const json_t *node, struct tokenizer *tok, struct error *err)
{
    const json_t *single = json_object_get(node, "single");
    const json_t *known = json_object_get(node, "special_tokens");
    bool before = true;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        if (!special) {
            before = false;
            continue;
        }
        const json_t *name = json_object_get(special, "id");
        const json_t *ids =
            json_is_string(name)
                ? json_object_get(json_object_get(known, json_string_value(name)), "ids")
                : NULL;
        for (size_t k = 0; k < json_array_size(ids); k++)
            if (!push_id(tok, before, json_integer_value(json_array_get(ids, k)), err))
                return false;
    }
    return true;
}

/* {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]} */
static bool read_bert(const json_t *node, struct tokenizer *tok, struct error *err)
{
    const json_t *cls = json_array_get(json_object_get(node, "cls"), 1);
    const json_t *sep = json_array_get(json_object_get(node, "sep"), 1);
    if (!json_is_integer(cls) || !json_is_integer(sep))
        return error_set(err, ERR_FORMAT, "the post-processor has no cls or no sep");
    return push_id(tok, true, json_integer_value(cls), err) &&
           push_id(tok, false, json_integer_value(sep), err);
}

static bool read_post_processor(const json_t *node, struct tokenizer *tok, int depth,
                                struct error *err)
{
    if (!node || json_is_null(node))
        return true;
    struct slice type = json_node_type(node);
    if (depth > JSON_MAX_NESTING)
        return error_set(err, ERR_LIMIT, "the post-processors are nested too deeply");
    if (slice_equal_text(type, "Sequence")) {
        const json_t *list = json_object_get(node, "processors");
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!read_post_processor(json_array_get(list, i), tok, depth + 1, err))
                return false;
        return true;
    }
    if (slice_equal_text(type, "TemplateProcessing"))
        return read_template(node, tok, err);
    if (slice_equal_text(type, "BertProcessing") || slice_equal_text(type, "RobertaProcessing"))
        return read_bert(node, tok, err);
    /* It only moves offsets. */
    if (slice_equal_text(type, "ByteLevel"))
        return true;
    return json_unsupported("post-processor", node, err);
}

bool json_read_post_processor(const json_t *node, struct tokenizer *tok, struct error *err)
{
    return read_post_processor(node, tok, 0, err);
}

/* ---- Decoding ---- */

static bool read_replacing_decoder(const json_t *node, struct tokenizer *tok, struct error *err)
{
    struct slice wanted = json_slice(json_object_get(json_object_get(node, "pattern"), "String"));
    struct slice text = json_slice(json_object_get(node, "content"));
    if (!slice_equal(wanted, SLICE(METASPACE)) || !slice_equal(text, SLICE(" ")))
        return json_unsupported("decoder that replaces anything but U+2581", node, err);
    tok->piece_style = PIECE_METASPACE;
    return true;
}

static bool read_decoder(const json_t *node, struct tokenizer *tok, int depth, struct error *err)
{
    if (!node || json_is_null(node))
        return true;
    struct slice type = json_node_type(node);
    if (depth > JSON_MAX_NESTING)
        return error_set(err, ERR_LIMIT, "the decoders are nested too deeply");
    if (slice_equal_text(type, "Sequence")) {
        const json_t *list = json_object_get(node, "decoders");
        for (size_t i = 0; i < json_array_size(list); i++)
            if (!read_decoder(json_array_get(list, i), tok, depth + 1, err))
                return false;
        return true;
    }
    /* Bytes are joined by whoever reads the pieces. */
    if (slice_equal_text(type, "ByteFallback") || slice_equal_text(type, "Fuse"))
        return true;
    bool *drop_space = &tok->special.add_space_prefix;
    if (slice_equal_text(type, "ByteLevel")) {
        tok->piece_style = PIECE_BYTE_LEVEL;
    } else if (slice_equal_text(type, "Metaspace")) {
        tok->piece_style = PIECE_METASPACE;
        struct slice scheme = json_slice(json_object_get(node, "prepend_scheme"));
        *drop_space = scheme.len ? !slice_equal_text(scheme, "never")
                                 : json_flag(node, "add_prefix_space", true);
    } else if (slice_equal_text(type, "Replace")) {
        return read_replacing_decoder(node, tok, err);
    } else if (slice_equal_text(type, "Strip")) {
        *drop_space = json_integer_value(json_object_get(node, "start")) > 0;
    } else if (slice_equal_text(type, "WordPiece")) {
        tok->piece_style = PIECE_WORDPIECE;
        *drop_space = true;
        tok->clean_spaces = json_flag(node, "cleanup", true);
    } else if (slice_equal_text(type, "BPEDecoder")) {
        tok->piece_style = PIECE_WORD_SUFFIX;
    } else {
        return json_unsupported("decoder", node, err);
    }
    return true;
}

bool json_read_decoder(const json_t *node, struct tokenizer *tok, struct error *err)
{
    return read_decoder(node, tok, 0, err);
}

/* ---- Roles ---- */

/* "<s>" or {"content": "<s>"}. */
static int32_t named_token(const struct tokenizer *tok, const json_t *value)
{
    if (json_is_object(value))
        value = json_object_get(value, "content");
    return json_is_string(value) ? text_find(tok, json_slice(value)) : -1;
}

static int32_t numbered_token(const struct tokenizer *tok, const json_t *value)
{
    if (json_is_array(value))
        value = json_array_get(value, 0);
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id >= 0 && id < tok->n_vocab ? (int32_t)id : -1;
}

/* Every id that the generation settings stop at. */
static bool read_stops(const json_t *settings, struct tokenizer *tok, struct error *err)
{
    const json_t *ids = json_object_get(settings, "eos_token_id");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int32_t id = numbered_token(tok, json_array_get(ids, i));
        if (id >= 0 && !VEC_PUSH(&tok->stops, id))
            return error_memory(err);
    }
    return true;
}

bool json_read_roles(const struct tokenizer_files *files, struct tokenizer *tok, struct error *err)
{
    struct special_tokens *s = &tok->special;
    const struct {
        const char *name, *id_name;
        int32_t *id;
    } roles[] = {
        {"bos_token", "bos_token_id", &s->bos}, {"cls_token", NULL, &s->bos},
        {"eos_token", "eos_token_id", &s->eos}, {"unk_token", NULL, &s->unk},
        {"sep_token", "sep_token_id", &s->sep}, {"pad_token", "pad_token_id", &s->pad},
        {"mask_token", NULL, &s->mask},
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const json_t *const by_name[] = {files->tokenizer_config, files->special_tokens_map};
        for (size_t k = 0; k < 2 && *roles[i].id < 0; k++)
            *roles[i].id = named_token(tok, json_object_get(by_name[k], roles[i].name));
        const json_t *const by_id[] = {files->generation_config, files->config};
        for (size_t k = 0; k < 2 && *roles[i].id < 0 && roles[i].id_name; k++)
            *roles[i].id = numbered_token(tok, json_object_get(by_id[k], roles[i].id_name));
    }
    if (!read_stops(files->generation_config, tok, err) || !read_stops(files->config, tok, err))
        return false;
    const json_t *config = files->tokenizer_config;
    tok->clean_spaces = json_flag(config, "clean_up_tokenization_spaces", tok->clean_spaces);
    /* What the template already adds is not added again. */
    if (!tok->prefix.n && s->bos >= 0 && json_flag(config, "add_bos_token", false) &&
        !VEC_PUSH(&tok->prefix, s->bos))
        return error_memory(err);
    if (!tok->suffix.n && s->eos >= 0 && json_flag(config, "add_eos_token", false) &&
        !VEC_PUSH(&tok->suffix, s->eos))
        return error_memory(err);
    for (size_t i = 0; i < tok->prefix.n; i++)
        s->add_bos |= tok->prefix.data[i] == s->bos;
    for (size_t i = 0; i < tok->suffix.n; i++) {
        s->add_eos |= tok->suffix.data[i] == s->eos;
        s->add_sep |= tok->suffix.data[i] == s->sep;
    }
    return true;
}
