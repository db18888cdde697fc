/* body_limits.c - how much a request's body may hold, field by field.
 *
 * What is long by nature has a row: lists of token ids as long as the largest
 * contexts, conversations of a hundred thousand messages, an entry for each token
 * of a vocabulary, schemas with a million alternatives. Everything else fits what
 * all other fields share. The bytes are those of the tree without the texts:
 * those are limited with the body. */
#include "api/internal.h"

#define MIB ((size_t)1 << 20)
#define TOKENS(name)                                                                               \
    {                                                                                              \
        name, 192 * MIB, 1 << 16                                                                   \
    } /* 4 million ids */
#define TALK(name)                                                                                 \
    {                                                                                              \
        name, 96 * MIB, 1 << 18                                                                    \
    }
#define SCHEMA(name)                                                                               \
    {                                                                                              \
        name, 128 * MIB, 1 << 18                                                                   \
    }

static const struct json_budget fields[] = {
    TOKENS("prompt"),
    TOKENS("content"),
    TOKENS("tokens"),
    TOKENS("input_prefix"),
    TOKENS("input_suffix"),
    {"input", 192 * MIB, 1 << 18}, /* token ids to embed, or a conversation */
    TALK("messages"),
    {"instances", 192 * MIB, 1 << 18}, /* whole bodies */
    SCHEMA("json_schema"),
    SCHEMA("response_format"),
    SCHEMA("text"), /* of responses; it holds the format */
    SCHEMA("output_config"),
    SCHEMA("output_format"),
    SCHEMA("tools"),
    SCHEMA("functions"),
    {"logit_bias", 96 * MIB, 1 << 19},
    {"documents", 96 * MIB, 1 << 16},
    {"texts", 96 * MIB, 1 << 16},
};

const struct json_limits body_limits = {
    .total = {NULL, 256 * MIB, 1 << 19},
    .other = {NULL, 16 * MIB, 1 << 14},
    .fields = fields,
    .n_fields = sizeof fields / sizeof *fields,
};
