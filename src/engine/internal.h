/* internal.h - what the engine's files share; private to the room.
 *
 * Two locks. engine.lock guards the queue, the commands and the state;
 * engine.slots_lock guards the slots and the metrics. The scheduler holds
 * slots_lock whenever it changes a slot, never while the model computes, so
 * that a reader waits for microseconds. Where both are taken, lock is first. */
#ifndef MLXCEL_ENGINE_INTERNAL_H
#define MLXCEL_ENGINE_INTERNAL_H

#include "engine/engine.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- jobs: a request on its way through the engine (job.c) ---- */

struct engine_job {
    atomic_int references;
    atomic_bool cancelled;
    struct engine_request *request; /* shared with the other completions of it */
    atomic_int *request_references;
    int32_t id_parent;              /* task whose prompt a child shares; -1: none */
    struct engine_mailbox *mailbox; /* a reference */
    struct sampler *sampler;        /* until a slot takes it; NULL for embeddings */
    int32_t id_task, index;
    bool told_to_wait;  /* in the log */
    int32_t n_children; /* of a parent, which holds a reference to each */
    struct engine_job **children;
    struct engine_job *next; /* in the queue */
};

struct engine_job *job_retain(struct engine_job *job);
/* Work out request->stop_borders, from its arena; false when out of memory. */
bool job_prepare_stops(struct engine_request *request);
/* One job for a request, its sampler made; takes the request over. NULL with
 * *err. */
struct engine_job *job_create(struct engine *engine, struct engine_request *request,
                              struct engine_mailbox *mailbox, struct error *err);

/* ---- mailboxes (mailbox.c) ---- */

struct engine_mailbox *mailbox_retain(struct engine_mailbox *mailbox);
void mailbox_release(struct engine_mailbox *mailbox);
/* Deliver; takes the event. NULL, one that found no memory: an ERROR event comes in
 * its place, once. */
void mailbox_put(struct engine_mailbox *mailbox, struct engine_event *event);

/* ---- checkpoints of sliding windows (checkpoint.c) ---- */

enum { CHECKPOINT_TAIL = 4 }; /* tokens that a prompt's last checkpoint stands before its end */

struct checkpoint {
    int32_t n_references; /* the scheduler's alone */
    int32_t id_task;      /* that made it */
    int32_t n_tokens;
    int32_t pos_min, pos_max; /* of the slot's cache then */
    struct str state;         /* kv_seq_save_window */
};

struct checkpoint_vec {
    struct checkpoint **data; /* a reference each; by n_tokens, ascending */
    size_t n, capacity;
};

struct slot;
void checkpoints_free(struct checkpoint_vec *list);
/* Append references to all of from; false when out of memory. */
bool checkpoints_share(struct checkpoint_vec *to, const struct checkpoint_vec *from);
size_t checkpoints_bytes(const struct checkpoint_vec *list);
/* n_past tokens of a starting job's prompt are in the slot's cache: how many of
 * them can be built on, with the windows put back to there where need be.
 * Checkpoints that no longer belong to the text are forgotten. */
size_t checkpoints_start(struct engine *engine, struct slot *slot, size_t n_past);
/* Whether this job makes checkpoints. */
bool checkpoints_wanted(const struct engine *engine, const struct slot *slot);
/* Whether the batch must end here, so that one can be made. */
bool checkpoints_break(const struct engine *engine, const struct slot *slot);
/* n_added tokens of the prompt are about to be computed: keep what the windows hold
 * before them, if that is a good place. */
void checkpoints_take(struct engine *engine, struct slot *slot, size_t n_added);

/* ---- slots (slot.c) ---- */

enum slot_state {
    SLOT_IDLE,
    SLOT_WAIT_PARENT, /* a child, until its parent's prompt is done */
    SLOT_STARTED,     /* has a job, nothing computed yet */
    SLOT_PROMPT,      /* its prompt is being computed */
    SLOT_DONE_PROMPT, /* the prompt's last token is in this step's batch */
    SLOT_GENERATING
};

struct slot {
    int32_t id; /* also its sequence in the KV cache */
    enum slot_state state;
    struct engine_job *job;      /* while not idle */
    struct engine_job *last_job; /* for /slots; a reference */
    struct sampler *sampler;     /* owned */
    struct token_vec cache;      /* tokens whose keys and values it holds, or will
                                  * after this step */
    size_t n_exact;              /* of them, from the front: as computing gives them.
                                  * What stands behind a moved token was computed in
                                  * sight of it, and is not */
    struct checkpoint_vec checkpoints;
    uint64_t t_last_used_us;

    /* of the running job */
    int32_t n_predict_max;           /* -1: none */
    int32_t batch_index;             /* of the row to sample from in this step; -1: none */
    int32_t sampled;                 /* the last token, not yet in the cache */
    struct str generated;            /* bytes, not necessarily UTF-8 */
    size_t n_sent;                   /* of them: shown, or decided about */
    size_t last_newline;             /* behind the last newline looked at */
    VEC(struct engine_token) tokens; /* what DONE reports without stream, with n_probs, */
    struct arena token_arena;        /* their top lists and texts */
    struct token_vec ids;            /* and in any case */
    bool has_next_token, has_new_line, truncated;
    bool no_memory; /* what it generated was not all kept */
    enum engine_stop stop;
    struct slice stopping_word; /* in the request */
    struct engine_timings timings;
    uint64_t t_sampling_us; /* of them: picking tokens, grammars included */
};

bool slot_is_busy(const struct slot *slot);
/* Give an idle slot a job. */
void slot_launch(struct engine *engine, struct slot *slot, struct engine_job *job);
/* Take the job away again; the cache stays unless it was a child's. */
void slot_release(struct engine *engine, struct slot *slot);
void slot_forget_cache(struct engine *engine, struct slot *slot);
/* Whether its job wants vectors. */
bool slot_embeds(const struct slot *slot);
/* Its job is over, whatever its last event was. */
void slot_end_job(struct engine *engine, struct slot *slot);
/* An idle slot's cells are given up. False when there is none. */
bool engine_free_idle_slot(struct engine *engine);
/* Make cache agree with what the context really holds. */
void slot_trim_to_context(struct engine *engine, struct slot *slot);
void slot_free(struct slot *slot);
/* The length of the common prefix of two token arrays. */
size_t tokens_common_prefix(const struct token_vec *a, const struct token_vec *b);

/* ---- what a slot says (report.c) ---- */

void slot_send_begin(struct slot *slot);
void slot_send_progress(struct slot *slot);
/* token->text is what may be shown now. */
void slot_send_token(struct slot *slot, const struct engine_token *token);
void slot_send_done(struct engine *engine, struct slot *slot);
void slot_send_error(struct slot *slot, enum error_code code, int32_t n_ctx, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
void job_send_error(struct engine_job *job, const struct error *error, int32_t n_ctx);
/* An event for a job, its common fields filled; NULL when out of memory. */
struct engine_event *event_create(enum engine_event_kind kind, const struct engine_job *job,
                                  const struct slot *slot);

/* ---- cells that slots share (share.c) ---- */

/* Whether another slot is computing a beginning of this slot's prompt, which it
 * may then take: it starts later. */
bool slot_waits_to_share(const struct engine *engine, const struct slot *slot);
/* Behind what the slot holds, take what another one has of the prompt. Returns
 * how many tokens. */
size_t slot_share_prefix(struct engine *engine, struct slot *slot);

/* ---- turning a sampled token into text and a verdict (generate.c) ---- */

/* Append the token to what the slot has generated, send what may be shown,
 * decide whether to go on. token is what n_probs reports (its arrays are
 * copied), its text the token's own bytes. Returns whether there is a next token. */
bool slot_take_token(struct engine *engine, struct slot *slot, const struct engine_token *token);

/* ---- the batch of a step (batch.c) ---- */

/* One row of the batch; the arrays that model_decode wants are beside it. */
struct step_batch {
    int32_t n, n_max;
    int32_t n_generating; /* the first rows: tokens of those that generate */
    int32_t *token, *pos, *seq;
    bool *want_logits;
    bool *wide; /* of a long prompt: see struct batch */
};

struct step_batch *step_batch_create(int32_t n_tokens_max);
void step_batch_free(struct step_batch *batch);
void step_batch_build(struct engine *engine);
/* The prompt is in this step's batch to its end: the sampler hears it. */
void slot_end_prompt(struct slot *slot, int32_t last_row);

/* ---- one step of everybody (step.c) ---- */

/* Build a batch, run the model, sample, report. Called with slots_lock held. */
void engine_step(struct engine *engine);

/* ---- idle prompts in memory (prompt_cache.c) ---- */

struct prompt_entry {
    struct token_vec tokens;
    size_t n_exact;   /* as in its slot */
    struct str state; /* kv_seq_save */
    struct checkpoint_vec checkpoints;
};

struct prompt_cache {
    VEC(struct prompt_entry) entries; /* oldest first */
    size_t limit_bytes;               /* 0: none */
    size_t limit_tokens;
    bool enabled;
};

/* Keep a copy of what the slot holds, within the limit in bytes. False when there
 * was nothing to keep. */
bool prompt_cache_save(struct engine *engine, const struct slot *slot);
/* If an entry fits tokens better than what the slot holds, move it there. */
void prompt_cache_load(struct engine *engine, struct slot *slot, const struct token_vec *tokens);
/* The oldest entries go until both limits hold. Without one in bytes that in tokens
 * is as it was set; with one, tokens may exceed theirs as far as the bytes allow.
 * What was just saved may push out what the next prompt would load: so load first. */
void prompt_cache_limit(struct prompt_cache *cache);
/* Save, and keep to the limits: where no prompt is waiting to be loaded. */
void prompt_cache_keep(struct engine *engine, const struct slot *slot);
void prompt_cache_clear(struct prompt_cache *cache);

/* ---- slot files (slot_file.c) ---- */

enum { SLOT_FILE_HEAD = 40 };

/* What files of this engine's slots may hold. */
struct slot_file_limits {
    uint64_t fingerprint; /* of the model and the cache's types */
    int32_t n_ctx, n_vocab;
    struct kv_layout layout;
};

/* A file in memory that was checked to its last byte, so that restoring it can fail
 * only for lack of memory or cells. */
struct slot_file {
    char *bytes; /* owned; NULL where only a caller's bytes were checked */
    size_t n_bytes;
    int32_t n_tokens;
    uint64_t n_state;
    const unsigned char *tokens;
    struct slice state; /* for kv_seq_load */
};

/* With the context loaded. */
void slot_file_limits(const struct engine *engine, struct slot_file_limits *out);
/* What the slot holds, as a file without its checksum, which slot_file_seal adds. */
bool slot_file_build(struct engine *engine, const struct slot *slot, struct str *out,
                     struct error *err);
void slot_file_seal(struct str *file);
/* From the first SLOT_FILE_HEAD bytes of a file of this size (fewer if it is
 * smaller): n_tokens and n_state, or why not. */
bool slot_file_check_head(const struct slot_file_limits *limits, const unsigned char *bytes,
                          uint64_t size, struct slot_file *out, struct error *err);
/* Everything; *out points into bytes. */
bool slot_file_check(const struct slot_file_limits *limits, struct slice bytes,
                     struct slot_file *out, struct error *err);
int32_t slot_file_token(const struct slot_file *file, int32_t i);
/* From a path; ERR_INVALID for whatever is wrong with it. */
bool slot_file_read(const struct slot_file_limits *limits, const char *path, struct slot_file *out,
                    struct error *err);
void slot_file_free(struct slot_file *file);

/* ---- saving, restoring, erasing (slot_command.c) ---- */

struct command;
/* Run a save, restore or erase on an idle slot and answer. */
void slot_run_command(struct engine *engine, struct slot *slot, const struct command *command);
/* The copy that a save's event holds is not needed any more. */
void slot_save_release(struct engine_event *event);

/* ---- commands: small things for the scheduler to do ---- */

enum command_kind { COMMAND_SLOT, COMMAND_REASONING_END };

struct command {
    enum command_kind kind;
    enum engine_slot_action action;
    int32_t id_slot, index;
    char *text;            /* path or completion id; owned */
    struct slot_file file; /* to restore; owned */
    uint64_t t_read_us;    /* it took to read and check it */
    struct engine_mailbox *mailbox;
    struct command *next;
};

void command_free(struct command *command);

/* ---- the engine ---- */

struct engine {
    struct engine_settings settings; /* model_path is owned */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;    /* the scheduler: something to do */
    pthread_cond_t changed; /* others: the state changed */
    enum engine_state state;
    struct error load_error;
    bool was_ready; /* the getters' values are there */
    bool stopping;
    struct engine_job *queue, **queue_end;
    struct command *commands, **commands_end;
    int32_t n_queued;
    atomic_int next_id_task;
    atomic_int load_progress; /* permille */
    atomic_bool abort_step;   /* everything in this step was cancelled */
    atomic_int n_saving;      /* copies of slots that are still to be written to files */

    /* Made by load.c: the first load sets them, and then nobody, so that others read
     * them without a lock. So are the settings. */
    struct model_file *file;
    struct tokenizer *tokenizer;
    struct vocab *vocab;
    struct model_info info;
    struct arena info_arena;
    struct worker_pool *pool, *pool_batch;
    int32_t n_ctx; /* of all slots; 0: not loaded yet */
    int32_t n_ctx_slot, n_ubatch;
    int32_t n_swa; /* context_n_swa */
    struct slot_file_limits file_limits;
    enum pooling pooling;
    int32_t n_slots; /* n_parallel, and more behind them where it embeds */

    /* the scheduler's */
    struct model *model;
    struct model_context *context;
    struct slot *slots; /* n_slots */
    struct prompt_cache prompts;
    struct step_batch *batch;

    pthread_mutex_t slots_lock;
    struct engine_metrics metrics;
};

/* Add a job's numbers to the metrics; once, before its last event is sent. */
void engine_count_finished(struct engine *engine, struct slot *slot);
/* A batch went through the model. */
void engine_count_decode(struct engine *engine);
/* Whether this control token has text in this slot's answers. */
bool engine_shows_special(const struct engine *engine, const struct slot *slot, int32_t token);

/* Whether the context computes vectors and no logits. */
bool engine_embeds(const struct engine *engine);

/* Whether nobody waits for the running step any more. */
bool engine_step_is_cancelled(struct engine *engine);

/* ---- loading (load.c) ---- */

/* Open the file, the tokenizer, the pools: once. */
bool engine_open(struct engine *engine, struct error *err);
/* The weights and the context: again after each sleep. */
bool engine_load(struct engine *engine, struct error *err);
void engine_unload(struct engine *engine);
void engine_close(struct engine *engine);

/* ---- the scheduler (scheduler.c) ---- */

/* The scheduler thread: load, then steps until stopped. */
void *engine_run(void *engine);
/* Everything that waits, refused with this error; with lock held. */
void engine_refuse_all(struct engine *engine, const struct error *why);

#endif
