/* tokenizer_json.h - reading a Hugging Face tokenizer.json; private to the
 * room. Source: the tokenizers library's own serialization. */
#ifndef MLXCEL_TEXT_TOKENIZER_JSON_H
#define MLXCEL_TEXT_TOKENIZER_JSON_H

#include "base/json.h"
#include "text/tokenizer.h"

/* The files beside it; each may be NULL. */
struct tokenizer_files {
    const json_t *tokenizer_config, *special_tokens_map, *config, *generation_config;
};

/* Build from the parsed file. Fails naming the part that is missing, wrong or
 * of a type that is not known. */
bool tokenizer_from_json(const json_t *root, const struct tokenizer_files *files,
                         struct tokenizer *tok, struct error *err);

/* Build from the bytes of a tokenizer.model (SentencePiece's protobuf). */
bool tokenizer_from_sentencepiece(struct slice model, const struct tokenizer_files *files,
                                  struct tokenizer *tok, struct error *err);

/* ---- The parts of a tokenizer.json ---- */

bool json_read_model(const json_t *root, const struct tokenizer_files *files, struct tokenizer *tok,
                     struct error *err);
bool json_read_normalizer(const json_t *node, struct normalizer *out, struct error *err);
bool json_read_pre_tokenizer(const json_t *node, struct steps *out, struct error *err);
bool json_read_post_processor(const json_t *node, struct tokenizer *tok, struct error *err);
bool json_read_decoder(const json_t *node, struct tokenizer *tok, struct error *err);

/* bos, eos and the like as the files beside say. */
bool json_read_roles(const struct tokenizer_files *files, struct tokenizer *tok, struct error *err);

/* ---- Small things ---- */

/* The "type" of a node, empty when it has none. */
struct slice json_node_type(const json_t *node);
bool json_flag(const json_t *node, const char *key, bool fallback);
/* "part of type 'X' is not supported". Returns false. */
bool json_unsupported(const char *part, const json_t *node, struct error *err);

enum { JSON_MAX_NESTING = 16 }; /* of sequences in sequences */

/* Ids below this; a file that claims more is refused. */
enum { JSON_MAX_VOCAB = 4 << 20 };

#endif
