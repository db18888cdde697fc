/* sample.h - from logits to the next token: the sampler chain, grammars (GBNF)
 * and JSON schema to grammar.
 *
 * A vocab is immutable and may be shared by all threads. A sampler belongs to
 * one sequence and is used by one thread at a time. Everything a sampler is
 * created from is copied; only the vocab must outlive it.
 * Depends on: base, text. */
#ifndef MLXCEL_SAMPLE_SAMPLE_H
#define MLXCEL_SAMPLE_SAMPLE_H

#include "base/budget.h"
#include "base/error.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the vocabulary as sampling sees it ---- */

struct tokenizer; /* text/text.h */

/* Where a vocab takes its facts from. All functions must be safe to call from
 * several threads as long as the vocab lives. */
struct vocab_source {
    const void *context;
    int32_t n_tokens;
    int32_t eot; /* end of turn (else end of text); -1: none. Infill ends with it. */
    int32_t eos; /* -1: none */
    /* The bytes a token stands for, special tokens written out. */
    struct slice (*piece)(const void *context, int32_t token);
    bool (*is_eog)(const void *context, int32_t token);
    /* True for a token that prints as nothing (control tokens); may be NULL. */
    bool (*is_hidden)(const void *context, int32_t token);
    /* Text to tokens, none added; false when it fails. May be NULL: then a text
     * is a token only when a piece equals it. */
    bool (*encode)(const void *context, struct slice text, bool parse_special,
                   struct token_vec *out);
    /* Append what a text reads as that consists of the token alone, special tokens
     * written out: without the space that encoding puts in front, say. May be NULL:
     * then it is the piece. False when out of memory. */
    bool (*text_alone)(const void *context, int32_t token, struct str *out);
    /* Never to be generated, by the model's own word; copied. */
    const int32_t *suppressed;
    size_t n_suppressed;
};

struct vocab;

/* Copies the pieces and builds the trie that grammars are matched through
 * (about 100 ms for 152k tokens). NULL with *err when out of memory. */
struct vocab *vocab_create(const struct vocab_source *source, struct error *err);
/* The same from a tokenizer, which must outlive the vocab. */
struct vocab *vocab_from_tokenizer(const struct tokenizer *tok, struct error *err);
void vocab_free(struct vocab *vocab);

/* ---- settings ---- */

enum sampler_kind {
    SAMPLER_PENALTIES,
    SAMPLER_DRY,
    SAMPLER_TOP_N_SIGMA,
    SAMPLER_TOP_K,
    SAMPLER_TYPICAL_P,
    SAMPLER_TOP_P,
    SAMPLER_MIN_P,
    SAMPLER_XTC,
    SAMPLER_TEMPERATURE,
    SAMPLER_INFILL,
    SAMPLER_ADAPTIVE_P,
    SAMPLER_KIND_COUNT
};

/* "top_k"; never NULL. */
const char *sampler_kind_name(enum sampler_kind kind);
/* 'k' and its kind, as --sampler-seq writes them. */
char sampler_kind_letter(enum sampler_kind kind);
/* Any spelling and alias ("top-k", "topk", "nucleus"), case ignored. */
bool sampler_kind_from_name(struct slice name, enum sampler_kind *kind);
bool sampler_kind_from_letter(char letter, enum sampler_kind *kind);

/* Longer lists are refused: they are gone through for every token, while others
 * wait for theirs. */
enum {
    SAMPLER_ORDER_MAX = 64,
    SAMPLER_REASONING_TOKENS_MAX = 4096 /* of each: the start, all ends, what is forced */
};

#define SAMPLER_SEED_RANDOM 0xFFFFFFFFu

struct logit_bias {
    int32_t token;
    float bias; /* -INFINITY bans */
};

enum grammar_trigger_kind {
    TRIGGER_TOKEN,       /* the numbers are the request field's */
    TRIGGER_WORD,        /* the text anywhere */
    TRIGGER_PATTERN,     /* a regular expression, matched from the start of what was generated */
    TRIGGER_PATTERN_FULL /* the same, anchored at both ends */
};

struct grammar_trigger {
    enum grammar_trigger_kind kind;
    struct slice text;
    int32_t token; /* for TRIGGER_TOKEN */
};

struct token_run {
    const int32_t *tokens;
    size_t n;
};

/* Every field of a request that steers sampling; names and defaults as the
 * native completion request has them. Pointers are borrowed until
 * sampler_create returns. */
struct sampler_settings {
    uint32_t seed;    /* SAMPLER_SEED_RANDOM: a fresh one, see sampler_seed() */
    int32_t n_prev;   /* tokens remembered */
    int32_t n_probs;  /* > 0: the caller will ask for probabilities */
    int32_t min_keep; /* truncating samplers keep at least so many */
    int32_t top_k;    /* <= 0: off */
    float top_p, min_p, typical_p;
    float top_n_sigma; /* <= 0: off */
    float xtc_probability, xtc_threshold;
    float temperature; /* <= 0: greedy */
    float dynatemp_range, dynatemp_exponent;
    int32_t repeat_last_n; /* 0: off; -1: the context size */
    float repeat_penalty, frequency_penalty, presence_penalty;
    float dry_multiplier, dry_base;
    int32_t dry_allowed_length, dry_penalty_last_n; /* -1: the context size */
    const struct slice *dry_sequence_breakers;
    size_t n_dry_sequence_breakers;
    int32_t mirostat; /* 0 off, 1, 2 */
    float mirostat_tau, mirostat_eta;
    float adaptive_target, adaptive_decay;
    enum sampler_kind samplers[SAMPLER_ORDER_MAX]; /* in the order they apply */
    size_t n_samplers;
    /* User biases, then those of ignore_eos (-INFINITY for each end-of-
     * generation token): the caller puts both here. */
    const struct logit_bias *logit_bias;
    size_t n_logit_bias;

    struct slice grammar; /* GBNF; empty: none */
    /* What grammar_builder_objects says of it, where it comes from a schema; may be
     * empty: then all that it says stands in the order of its text. */
    struct slice grammar_objects;
    bool grammar_lazy; /* waits for a trigger */
    /* The grammar describes the whole answer (response format, tool calls) and
     * not only what is generated: prefill is fed to it first. */
    bool grammar_prefilled;
    const struct grammar_trigger *grammar_triggers;
    size_t n_grammar_triggers;
    /* Tokens of the generation prompt that stand already in the prompt (the
     * caller drops the space a tokenizer puts before the first). They set where
     * the grammar and the reasoning budget start. */
    struct token_run prefill;

    int32_t reasoning_budget_tokens;        /* -1: unlimited */
    struct token_run reasoning_start;       /* empty: no reasoning stage */
    const struct token_run *reasoning_ends; /* any of them ends it */
    size_t n_reasoning_ends;
    struct token_run reasoning_forced; /* message and end, when the budget is spent */
    bool reasoning_control;            /* sampler_force_reasoning_end may be called */

    /* What reading the grammar and standing at its beginning may cost; NULL: no
     * limit. What it costs while tokens are sampled has limits of its own. */
    struct budget *budget;
};

/* The reference's defaults: penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;
 * xtc;temperature, top_k 40, top_p 0.95, min_p 0.05, temperature 0.8, ... The
 * DRY breakers are static text. */
struct sampler_settings sampler_settings_defaults(void);

/* ---- the sampler ---- */

struct sampler;

/* n_ctx_train is what -1 means for the last_n settings (the reference takes
 * the model's training context for dry_penalty_last_n; the caller resolves
 * repeat_last_n < 0 itself or passes it here, n_ctx counts).
 * Fails with ERR_INVALID that names the field (a NaN, a penalty out of range),
 * ERR_FORMAT for a grammar that does not parse ("failed to parse grammar" with
 * line and column), ERR_LIMIT for one that is too large and for lists that are longer
 * than what may be looked through for every token; the message says the limit. */
struct sampler *sampler_create(const struct vocab *vocab, const struct sampler_settings *settings,
                               int32_t n_ctx, struct error *err);
/* A further sampler for the same settings, but for the seed, beside one that was not
 * used yet: as sampler_create makes it, in less time and memory. What is fixed (the
 * grammar, the sequence breakers) is shared. */
struct sampler *sampler_create_sibling(const struct sampler *first,
                                       const struct sampler_settings *settings, int32_t n_ctx,
                                       struct error *err);
void sampler_free(struct sampler *s);
/* A copy with all state: same history, random numbers, grammar position. */
struct sampler *sampler_clone(const struct sampler *s, struct error *err);
/* The seed really used. */
uint32_t sampler_seed(const struct sampler *s);

/* Pick a token.
 *   logits  [n_tokens], not changed; NaN counts as -INFINITY
 * Order: reasoning budget, chain, then the grammar judges the token; a token it
 * refuses is sampled again with the grammar applied before the chain.
 * Fails with ERR_LIMIT when the grammar needs more states than a limit allows.
 * When every token is banned the lowest id of an end-of-generation token is
 * the answer (0 without one). Cost: O(n_tokens). */
bool sampler_sample(struct sampler *s, const float *logits, int32_t *token, struct error *err);

/* Take a token into the history. is_generated false for prompt tokens: those
 * pass neither the grammar nor the reasoning stage. Fails with ERR_STATE when
 * a non-lazy grammar does not admit a generated token. */
bool sampler_accept(struct sampler *s, int32_t token, bool is_generated, struct error *err);

struct candidate {
    int32_t token;
    float logit;
    float p;
};

/* What remained after the last sampler_sample, best first, with p summing to
 * one; *selected is the chosen one's index. Valid until the next call. */
const struct candidate *sampler_candidates(struct sampler *s, size_t *n, size_t *selected);

/* n_probs before sampling: the softmax over all logits.
 *   top    [n_top] receives the most probable, best first, lowest id on ties;
 *          the number written (at most n_tokens) is returned
 *   p      receives the probability of token, may be NULL
 * Cost: O(n_tokens log n_top). */
size_t logits_top_probs(const float *logits, int32_t n_tokens, int32_t token, float *p,
                        struct candidate *top, size_t n_top);

/* End the reasoning now, by the forced tokens; false when it is not counting. */
bool sampler_force_reasoning_end(struct sampler *s);

/* True once the grammar is complete and admits nothing but an end. */
bool sampler_grammar_done(const struct sampler *s);

/* ---- grammars ---- */

/* Check a GBNF text without making a sampler: ERR_FORMAT with line, column and
 * what was expected; ERR_LIMIT for a size that explodes or a budget that is used
 * up. budget may be NULL, here and below: no limit. */
bool grammar_check(const struct vocab *vocab, struct slice gbnf, struct budget *budget,
                   struct error *err);

/* A GBNF text for a JSON schema (draft 2020-12; keys keep their order): type and
 * lists of types, nullable, enum, const, properties, required,
 * additionalProperties, items, prefixItems, minItems, maxItems, anyOf, oneOf of
 * alternatives that exclude each other, allOf, $ref within the schema, pattern,
 * format (date, time, date-time, uuid), minLength, maxLength, bounds of numbers.
 * Every text the grammar admits is valid; not every valid text is admitted.
 * Appends to out, and to objects, where not NULL, what grammar_builder_objects has.
 * ERR_INVALID, whose message begins "JSON schema conversion
 * failed:\n", names what cannot be honoured; ERR_LIMIT or ERR_CANCELLED when the
 * budget ends the work. Cost: linear in the grammar, which the budget limits:
 * a few hundred bytes can ask for any size. */
bool schema_to_grammar(const json_t *schema, struct budget *budget, struct str *out,
                       struct str *objects, struct error *err);

/* Strict is what schema_to_grammar does. Lenient leaves out what a grammar cannot
 * say (not, multipleOf, uniqueItems, ...) instead of refusing it: for the
 * parameters of tools, which are a help to the model, not a promise to the
 * client. */
enum schema_mode { SCHEMA_STRICT, SCHEMA_LENIENT };

/* A grammar put together from rules and schemas (tool calls). */
struct grammar_builder;
/* budget must outlive the builder. */
struct grammar_builder *grammar_builder_create(struct budget *budget, struct error *err);
void grammar_builder_free(struct grammar_builder *b);
/* Add a rule; name's odd characters become '-'. Equal bodies share a name, and
 * a name taken by another body gets a number. Returns the name really used,
 * owned by the builder; NULL when out of memory. */
const char *grammar_builder_rule(struct grammar_builder *b, const char *name, const char *body);
/* Add the rules of a schema ("" or "root" makes it the root); returns the name
 * of the rule that stands for it, owned by the builder; NULL with *err as
 * schema_to_grammar. */
const char *grammar_builder_schema(struct grammar_builder *b, const char *name,
                                   const json_t *schema, enum schema_mode mode, struct error *err);
/* Append the text of all rules, sorted by name. Fails when out of memory. */
bool grammar_builder_text(struct grammar_builder *b, struct str *out, struct error *err);
/* Append which of the rules are objects whose members the grammar may take in any order,
 * though its text has them in the schema's: for sampler_settings.grammar_objects. Fails
 * when out of memory. */
bool grammar_builder_objects(const struct grammar_builder *b, struct str *out);
/* A string as a GBNF literal, quotes included. Whatever comes from outside (names of
 * tools and parameters, values, markers of templates) goes into a grammar through
 * this function, or within a character class through the next one. */
bool grammar_append_literal(struct str *out, struct slice text);
/* A character as it stands between the brackets of a GBNF character class. */
bool grammar_append_class_char(struct str *out, uint32_t c);

#endif
