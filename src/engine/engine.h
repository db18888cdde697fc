/* engine.h - requests in, events out: slots, the batch, the scheduler.
 *
 * One scheduler thread owns the model's context. Requests wait in a queue, get
 * a slot, share the batch with everyone else's, and report through a mailbox.
 * The scheduler never formats, never parses and never waits for a reader.
 * Every function here may be called from any thread.
 * Depends on: base, files, kernels, text, model, sample. Knows no JSON, no HTTP. */
#ifndef MLXCEL_ENGINE_ENGINE_H
#define MLXCEL_ENGINE_ENGINE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/str.h"
#include "base/vec.h"
#include "files/files.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "sample/sample.h"
#include "text/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct engine;
struct engine_job;
struct engine_mailbox;

/* ---- starting and stopping --------------------------------------------- */

struct engine_settings {
    const char *model_path;
    struct model_file_settings file;
    struct model_settings model;
    struct context_settings context; /* its pools are made by the engine */
    struct worker_settings pool, pool_batch;
    const struct control_source *controls; /* control vectors; borrowed */
    size_t n_controls;
    int32_t control_first, control_last; /* layers that have one; 0: from 1, to the last */
    int32_t n_parallel;                  /* slots, at least 1 */
    int32_t n_predict;                   /* limit where a request has none; -1: none */
    bool context_shift, continuous_batching, warmup;
    bool print_special;           /* control tokens have text in answers */
    float slot_prompt_similarity; /* 0: never pick a slot by its prompt */
    int64_t cache_ram_mib;        /* idle prompts kept in memory; -1: no limit, 0: none */
    bool cache_idle_slots;        /* idle slots' prompts go to that cache too */
    int32_t n_checkpoints;        /* most context checkpoints of a slot, where the model has
                                   * sliding windows; 0: none */
    int32_t checkpoint_min_step;  /* least tokens between two of them, but for those that
                                   * stand near a prompt's end */
    int32_t sleep_idle_seconds;   /* -1: never unload */
    bool fit;                     /* context.n_ctx 0: no more than memory has room for, */
    int32_t fit_n_ctx;            /* but at least this, */
    int32_t fit_margin_mib;       /* with this left free */
};

enum engine_state {
    ENGINE_LOADING,
    ENGINE_READY,
    ENGINE_SLEEPING, /* the weights are unloaded until the next request */
    ENGINE_FAILED,   /* loading failed: engine_load_error */
    ENGINE_STOPPED
};

/* Start the scheduler, which loads the model in the background. Settings are
 * copied, model_path too; what file and the rest point to must outlive the
 * engine. Fails only for lack of memory or threads. */
bool engine_create(const struct engine_settings *settings, struct engine **out, struct error *err);
/* Stop the scheduler and free all. Jobs still held stay valid to release. */
void engine_free(struct engine *engine);
/* End every running and waiting job now (ERROR events with ERR_CANCELLED);
 * refuse new ones. */
void engine_stop(struct engine *engine);

enum engine_state engine_state(struct engine *engine);
/* Wait until the state is no longer LOADING; returns the state. */
enum engine_state engine_wait_loaded(struct engine *engine);
/* How much of the weights is loaded so far, in permille. */
int engine_load_progress(struct engine *engine);
/* Why loading failed. */
void engine_load_error(struct engine *engine, struct error *out);

/* The following are valid once the state was READY, then for the engine's
 * life, asleep or not. */
const struct tokenizer *engine_tokenizer(const struct engine *engine);
const struct model_info *engine_model_info(const struct engine *engine);
/* Metadata and sidecars. */
const struct model_file *engine_model_file(const struct engine *engine);
int32_t engine_slot_n_ctx(const struct engine *engine); /* context of one slot, in tokens */
int32_t engine_n_slots(const struct engine *engine);
/* Most tokens of a text to embed, which is computed in one piece. */
int32_t engine_n_ubatch(const struct engine *engine);
/* What becomes of its vectors: the settings', else the model's own. */
enum pooling engine_pooling(const struct engine *engine);

/* ---- requests ----------------------------------------------------------- */

/* Stop strings are looked for after every token, while others wait for theirs. */
enum { ENGINE_STOPS_MAX = 1024, ENGINE_STOP_BYTES_MAX = 64 << 10 /* of all together */ };

enum engine_task { ENGINE_COMPLETION, ENGINE_EMBEDDING, ENGINE_RERANK };

/* What a client asks for. Made by engine_request_create and filled by the
 * caller, its strings and arrays from its arena; engine_submit takes it. */
struct engine_request {
    struct arena arena;
    enum engine_task task;
    struct token_vec prompt; /* owned (VEC_FREE) */
    int32_t index;           /* the caller's number for it, comes back in events */
    int32_t n_completions;   /* completions of this prompt, sharing its cache; the
                              * k-th has index + k and, where a seed is given, seed + k */
    int32_t id_slot;         /* -1: any */

    struct sampler_settings sampling; /* its budget is borrowed until the submission ends */
    bool post_sampling_probs;         /* n_probs after the chain, not before */
    int32_t n_predict;                /* -1: the engine's limit */
    int32_t n_keep;                   /* context shift keeps these; -1: the whole prompt */
    int32_t n_discard;                /* context shift drops these; 0: half */
    int32_t n_indent;                 /* least indentation of a new line, 0: none */
    int32_t n_cache_reuse;            /* least chunk moved inside the cache, 0: none */
    int64_t t_max_predict_ms;         /* counts once a line has ended; -1: none */
    int32_t *user_starts;             /* n_user_starts indices in prompt, ascending, where a user's
                                       * message begins; good places for context checkpoints */
    size_t n_user_starts;
    bool cache_prompt;    /* start from what the slot already holds */
    bool stream;          /* an event for every token */
    bool return_progress; /* PROGRESS events (with stream) */
    struct slice *stop;   /* n_stop stop strings */
    size_t n_stop;
    uint32_t *stop_borders;    /* the engine's: for each stop string's bytes, one after the
                                * other, how long the longest end of the string up to there
                                * is that is also its beginning */
    int32_t *preserved_tokens; /* ascending: control tokens that have text in this answer */
    size_t n_preserved_tokens;
    const char *completion_id; /* for engine_submit_reasoning_end; may be NULL */

    void *owner_data; /* the caller's, e.g. what /slots shows; freed with the request */
    void (*owner_free)(void *owner_data);
};

/* With the defaults of a request that says nothing. NULL: out of memory. */
struct engine_request *engine_request_create(void);
void engine_request_free(struct engine_request *request);

/* ---- events --------------------------------------------------------------- */

enum engine_event_kind {
    ENGINE_EVENT_BEGIN,     /* stream: the prompt is being processed */
    ENGINE_EVENT_PROGRESS,  /* stream and return_progress */
    ENGINE_EVENT_TOKEN,     /* stream: one token */
    ENGINE_EVENT_DONE,      /* last event of a completion */
    ENGINE_EVENT_EMBEDDING, /* last event of an embedding */
    ENGINE_EVENT_RERANK,    /* last event of a ranking */
    ENGINE_EVENT_SLOT,      /* a slot action is done */
    ENGINE_EVENT_CONTROL,   /* a control action is done */
    ENGINE_EVENT_ERROR      /* last event of a job that failed */
};

enum engine_stop { ENGINE_STOP_NONE, ENGINE_STOP_EOS, ENGINE_STOP_WORD, ENGINE_STOP_LIMIT };

struct engine_timings {
    int32_t n_prompt_cached;    /* prompt tokens the slot already held */
    int32_t n_prompt_processed; /* prompt tokens computed */
    int32_t n_generated;
    /* Microseconds on the monotonic clock; 0 while not reached. The prompt's end is
     * that of what was computed of it so far. */
    uint64_t t_start_us, t_prompt_end_us, t_last_token_us;
    uint64_t t_now_us; /* when the event was made */
};

struct engine_token_prob {
    int32_t token;
    float prob; /* a probability, not its logarithm */
};

/* A sampled token with what n_probs asked for. */
struct engine_token {
    int32_t token;
    struct slice text;             /* what was sent with it: bytes, where it completed a
                                    * character all of it, where a stop string may
                                    * follow none */
    float prob;                    /* of the token itself; 1 when n_probs is 0 */
    struct engine_token_prob *top; /* the n_top most probable, best first */
    size_t n_top;
};

struct engine_event {
    enum engine_event_kind kind;
    int32_t index;   /* of the request, plus the number of the completion */
    int32_t id_slot; /* -1 when it never had one */
    int32_t id_task;

    struct engine_timings timings;
    int32_t n_prompt; /* tokens of the prompt */

    /* TOKEN: text that may be shown now: whole UTF-8 sequences, nothing that may
     * become a stop string. DONE of a stream: what was still held back (mostly
     * empty). DONE otherwise: the whole text. Always valid UTF-8. */
    struct slice text;
    /* With n_probs. TOKEN: one. DONE of a request without stream: all that were sent,
     * those of a stopping word cut off. A token that left a character incomplete
     * was not sent. */
    struct engine_token *tokens;
    size_t n_tokens;
    /* TOKEN: one. DONE of a request without stream: all that were sampled. */
    int32_t *ids;
    size_t n_ids;

    /* PROGRESS */
    int32_t n_processed; /* prompt tokens done, the cached ones included */

    /* DONE */
    enum engine_stop stop;
    struct slice stopping_word;
    bool truncated, has_new_line;
    int32_t n_tokens_cached; /* what the slot holds now */
    struct slice whole_text; /* all generated text, streamed or not */
    uint32_t seed;           /* the seed that was really used */

    /* EMBEDDING: n_vectors rows of n_embd; RERANK: the score is vectors[0] */
    float *vectors;
    int32_t n_vectors, n_embd;

    /* SLOT */
    int32_t n_slot_tokens; /* saved, restored or erased */
    uint64_t n_bytes;
    double t_ms;
    struct str slot_file; /* a save's, not yet written; see engine_slot_save_finish */
    char *slot_path;      /* where to; owned */
    atomic_int *saving;   /* the engine's count of those, until this one is written */

    /* CONTROL: success; ERROR and an unsuccessful CONTROL: error. A prompt that
     * does not fit gives ERR_LIMIT with n_ctx > 0. */
    bool success;
    struct error error;
    int32_t n_ctx;

    struct arena arena; /* owns what the above points to */
    struct engine_event *next;
};

/* How many decode calls gave the tokens: the first comes from the prompt's. */
static inline int32_t engine_timings_steps(const struct engine_timings *t)
{
    return t->n_generated > 0 ? t->n_generated - 1 : 0;
}

void engine_event_free(struct engine_event *event);

/* ---- mailboxes: where events arrive, in order ------------------------------ */

/* notify, if not NULL, is called on the scheduler's thread after an event came
 * into an empty mailbox; it must be quick and must not call the engine. */
struct engine_mailbox *engine_mailbox_create(void (*notify)(void *arg), void *arg);
/* The next event, which the caller frees; NULL when none came within timeout_ms
 * (0: do not wait, -1: as long as it takes). */
struct engine_event *engine_mailbox_take(struct engine_mailbox *mailbox, int timeout_ms);
/* When this returns, notify is not called any more. Events still coming are
 * dropped. */
void engine_mailbox_free(struct engine_mailbox *mailbox);

/* ---- jobs -------------------------------------------------------------------- */

/* Queue a request; takes it over whatever the result. *job, where job is not
 * NULL, receives a reference for engine_job_cancel. Fails with ERR_STATE when
 * the engine is not loaded, failed or stops, with ERR_INVALID for what can be
 * seen at once (a token id out of range, an unknown slot, a text to embed that
 * is longer than the physical batch), with ERR_LIMIT for one that is longer than
 * a slot's context, with ERR_UNSUPPORTED for generation where vectors are
 * computed and the other way round. A sleeping engine wakes. */
bool engine_submit(struct engine *engine, struct engine_request *request,
                   struct engine_mailbox *mailbox, struct engine_job **job, struct error *err);
/* The same for n requests at once: all are queued, or none is. They share
 * batches from the first step on. jobs, where not NULL, receives n. */
bool engine_submit_all(struct engine *engine, struct engine_request **requests, size_t n,
                       struct engine_mailbox *mailbox, struct engine_job **jobs, struct error *err);
/* The work ends soon, whether it runs or waits; no event is promised. */
void engine_job_cancel(struct engine_job *job);
void engine_job_release(struct engine_job *job);

/* ---- slots, control, numbers --------------------------------------------------- */

enum engine_slot_action { ENGINE_SLOT_SAVE, ENGINE_SLOT_RESTORE, ENGINE_SLOT_ERASE };

/* Done when the slot is idle; answered by a SLOT or an ERROR event with index.
 * path: the file to write or read (NULL for ERASE); copied. A file to restore is read
 * and checked here, in the calling thread: ERR_INVALID for one that cannot be
 * restored. */
bool engine_submit_slot_action(struct engine *engine, enum engine_slot_action action,
                               int32_t id_slot, const char *path, int32_t index,
                               struct engine_mailbox *mailbox, struct error *err);

/* Write what the SLOT event of a SAVE holds into its file, in the calling thread: until
 * then nothing is written, and until it is written or freed no other slot is copied to
 * be saved. The event becomes an ERROR where that fails. Other events are left alone. */
void engine_slot_save_finish(struct engine_event *event);

/* End the running thought of the completion with that id; answered by a CONTROL
 * event soon, also in the middle of a generation. */
bool engine_submit_reasoning_end(struct engine *engine, const char *completion_id,
                                 struct engine_mailbox *mailbox, struct error *err);

/* What a slot is doing; a snapshot. */
struct engine_slot_status {
    int32_t id, n_ctx;
    bool is_processing;
    int32_t id_task;         /* of the running task or the last one; -1: none yet */
    int32_t n_prompt_tokens; /* in the slot's cache */
    struct engine_timings timings;
    bool has_next_token, has_new_line;
    int32_t n_remaining; /* -1: no limit */
    /* The running task's request or the last one's; NULL when none yet. */
    const struct engine_request *request;
    struct str generated;   /* so far, or of the last task */
    struct engine_job *job; /* keeps request alive */
};

/* A malloc'd array of engine_n_slots entries; NULL when out of memory or not
 * loaded. Never waits for the scheduler's work. */
struct engine_slot_status *engine_slot_statuses(struct engine *engine, int32_t *n);
void engine_slot_statuses_free(struct engine_slot_status *statuses, int32_t n);

struct engine_metrics {
    uint64_t n_prompt_tokens, n_prompt_cached, n_generated; /* since start */
    uint64_t n_generation_steps; /* decode calls of a slot that gave n_generated: a
                                  * first token comes from its prompt's */
    uint64_t n_prompt_shared;    /* of n_prompt_tokens: taken from another slot's cache */
    uint64_t t_prompt_us, t_generation_us;
    uint64_t n_decode_calls, n_busy_slots; /* slots summed over the decode calls */
    uint64_t n_tokens_max;                 /* most tokens a slot ever held */
    int32_t n_processing, n_deferred, n_idle;
};

void engine_metrics(struct engine *engine, struct engine_metrics *out);

#endif
