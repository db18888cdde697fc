/* tale.h - making the model that ships with the server: its corpus, its
 * tokenizer, its training.
 *
 * Everything is generated here from word lists and a small grammar; nothing is
 * downloaded. The same seed gives the same corpus and, on the same kind of
 * machine, the same weights. */
#ifndef MLXCEL_TOOLS_TALE_H
#define MLXCEL_TOOLS_TALE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/random.h"
#include "base/slice.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- conversations (corpus.c and its tasks) ---- */

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL };

struct message {
    enum role role;
    char *text;           /* content; of an assistant that calls a tool: "" */
    char *thought;        /* assistant only; NULL: none */
    char *call_name;      /* assistant only: a tool call */
    char *call_arguments; /* JSON text as the model writes it */
};

enum { MAX_MESSAGES = 12 };

enum task_kind {
    TASK_STORY,
    TASK_STORY_QUESTION,
    TASK_ARITHMETIC,
    TASK_LOOKUP,
    TASK_SMALL_TALK,
    TASK_TOOL,
    TASK_TOOL_ANSWER,
    TASK_ECHO,
    TASK_PLAIN,
    TASK_KINDS
};

/* One conversation. Its text lives in the arena. */
struct conversation {
    struct arena *arena;
    enum task_kind kind;
    struct message messages[MAX_MESSAGES];
    int n_messages;
    char *tools; /* JSON objects, one a line; NULL: none offered */
    bool thinking;
    bool pirate;   /* answers in the manner of the adapter */
    bool any_json; /* as in struct training */
    /* What a right answer to the last user message holds, for scoring. */
    const char *expect[2];
};

/* Make one conversation of a random kind. */
void make_conversation(struct random *random, struct arena *arena, struct conversation *out);
/* Of one kind. */
void make_conversation_of(enum task_kind kind, struct random *random, struct arena *arena,
                          struct conversation *out);
const char *task_name(enum task_kind kind);

/* The tasks fill kind, messages, tools and expect; thoughts are written whether
 * or not thinking is on. */
void make_story(struct random *random, struct conversation *c);
void make_story_question(struct random *random, struct conversation *c);
void make_plain_story(struct random *random, struct conversation *c);
void make_arithmetic(struct random *random, struct conversation *c);
void make_lookup(struct random *random, struct conversation *c);
void make_echo(struct random *random, struct conversation *c);
void make_small_talk(struct random *random, struct conversation *c);
void make_tool_call(struct random *random, struct conversation *c);
void make_tool_answer(struct random *random, struct conversation *c);
/* The JSON lines of all tools, in random order and wording. */
char *make_tool_list(struct random *random, struct arena *arena);

void add_message(struct conversation *c, enum role role, const char *text);
/* An answer with the thought before it. */
void add_answer(struct conversation *c, const char *thought, const char *text);
void add_call(struct conversation *c, const char *thought, const char *name, const char *arguments);

/* True for a conversation kept out of training: one in sixteen, by a hash of
 * its last user message and kind. */
bool is_held_out(const struct conversation *c);

/* ---- words (words.c) ---- */

uint32_t below(struct random *random, uint32_t n);
bool chance(struct random *random, uint32_t percent);
/* One of a NULL-terminated list. */
const char *pick(struct random *random, const char *const *list);
/* One of the list, or now and then a name that nobody has, so that names are
 * copied rather than known. */
const char *pick_name(struct random *random, struct arena *arena, const char *const *list);
/* A formatted string in the arena. */
char *say(struct arena *arena, const char *format, ...)
    __attribute__((nonnull(2), format(printf, 2, 3)));

extern const char *const girl_names[],
    *const boy_names[], *const animals[], *const places[], *const things[], *const colours[],
                                                                                *const cities[];

/* ---- the text of a conversation (render.c) ---- */

/* Which tokens of a run of text the model learns to write. All of a conversation
 * teaches, so that copying is learned early, but for how answers must not begin. */
enum teaching { TEACHES_ALL, TEACHES_AFTER_FIRST, TEACHES_NOTHING };

struct segment {
    char *text;
    enum teaching teaches;
};

enum { MAX_SEGMENTS = 3 * MAX_MESSAGES + 2 };

/* The conversation as the chat template renders it; returns the number of
 * segments. */
int render(const struct conversation *c, struct segment out[MAX_SEGMENTS]);

/* ---- the tokenizer (bpe.c) ---- */

enum { BPE_TOKENS = 1024, N_SPECIAL = 16, VOCAB_SIZE = BPE_TOKENS + N_SPECIAL };

enum special_token {
    TOKEN_END_OF_TEXT = BPE_TOKENS,
    TOKEN_IM_START,
    TOKEN_IM_END,
    TOKEN_THINK,
    TOKEN_END_THINK,
    TOKEN_TOOL_CALL,
    TOKEN_END_TOOL_CALL,
    TOKEN_TOOL_RESPONSE,
    TOKEN_END_TOOL_RESPONSE,
    TOKEN_TOOLS,
    TOKEN_END_TOOLS,
    TOKEN_RESERVED /* up to VOCAB_SIZE - 1 */
};

const char *special_text(int32_t id);

struct bpe;
/* Learn BPE_TOKENS tokens from text. Source: Sennrich et al. 2016, byte-level as
 * in Radford et al. 2019. */
struct bpe *bpe_learn(struct slice text);
struct bpe *bpe_load(const char *path, struct error *err);
void bpe_free(struct bpe *bpe);
/* Special tokens in the text become one token. */
bool bpe_encode(const struct bpe *bpe, struct slice text, struct token_vec *out);
void bpe_decode(const struct bpe *bpe, const int32_t *tokens, size_t n, struct str *out);
/* tokenizer.json, as Hugging Face's tokenizers read it. */
bool bpe_save(const struct bpe *bpe, const char *path, struct error *err);

/* ---- the network (net.c) ---- */

struct net_config {
    int32_t n_vocab, n_embd, n_layers, n_heads, n_ff, n_ctx;
    float norm_eps, rope_freq_base;
};

struct net;
struct worker_pool;

/* A packed batch: rows of tokens, documents one after the other. */
struct net_batch {
    int32_t n; /* tokens */
    const int32_t *token;
    const int32_t *target;    /* the token to predict; -1: none asked for */
    const int32_t *doc_begin; /* index of the first token of the same document */
};

struct net *net_create(const struct net_config *config, int32_t n_batch_max, uint32_t seed,
                       struct worker_pool *pool);
void net_free(struct net *net);
const struct net_config *net_config(const struct net *net);
/* Mean cross entropy over the targets; with backward, gradients are set. */
float net_loss(struct net *net, const struct net_batch *batch, bool backward);
/* One AdamW step (Loshchilov and Hutter 2019), gradient norm clipped to 1. */
void net_update(struct net *net, float learning_rate, float weight_decay);
/* All parameters and gradients as one array each, for checks. */
float *net_parameters(struct net *net, size_t *n);
const float *net_gradients(const struct net *net);
/* Low-rank adapters on all projections (Hu et al. 2021); from now on only they
 * learn. */
bool net_add_lora(struct net *net, int32_t rank, float alpha, uint32_t seed);

/* config.json and model.safetensors (F16), as Hugging Face names things; with an
 * adapter its products are added to the matrices. */
bool net_save(const struct net *net, const char *folder, struct error *err);
bool net_load(struct net *net, const char *folder, struct error *err);
/* adapter_config.json and adapter_model.safetensors, as PEFT names things. */
bool net_save_lora(const struct net *net, const char *folder, struct error *err);
/* Into a network that net_add_lora gave an adapter of the same rank. */
bool net_load_lora(struct net *net, const char *folder, struct error *err);

/* ---- training (train.c) ---- */

struct training {
    int32_t n_steps, n_tokens; /* tokens of a batch */
    float learning_rate, weight_decay;
    uint32_t seed;
    int32_t stop; /* after so many steps of the schedule; 0: at its end */
    /* Of a hundred conversations, those that are sums and small facts alone; and
     * of a hundred of these, the sums. */
    uint32_t drill, drill_sums;
    bool any_json; /* tools answer in JSON with or without spaces, in any order */
    bool goes_on;  /* from what is in the folder */
    bool pirate;
    bool quiet;
    /* Writes what is learned so far into folder, at intervals and at the end;
     * NULL: nothing is written. */
    bool (*save)(const struct net *net, const char *folder, struct error *err);
    const char *folder;
};

/* Train on conversations made as they are needed. *first and *last receive the
 * mean losses of the first and of the last twentieth of the steps. Fails where
 * saving does. */
bool train(struct net *net, const struct bpe *bpe, const struct training *t, float *first,
           float *last, struct error *err);

/* Mean loss on conversations kept out of training, n_batches of n_tokens. */
float held_out_loss(struct net *net, const struct bpe *bpe, int32_t n_tokens, int n_batches,
                    bool pirate);

/* ---- what is shipped (recipes.c) ---- */

enum { LORA_RANK = 8, LORA_ALPHA = 16 };

struct recipe {
    const char *name;
    struct net_config config;
    struct training training;
};

/* NULL: no model of that name. */
const struct recipe *find_recipe(const char *name);

#endif
