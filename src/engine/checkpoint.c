/* checkpoint.c - what sliding windows held at some points of a slot's prompt.
 *
 * Layers with a sliding window keep little more than it. A prompt that leaves the
 * slot's cache further back than that can start from a checkpoint: a copy of the
 * windows, made while an earlier prompt was computed. When there is none, the
 * prompt is computed whole. Where checkpoints are made, kept and looked for
 * follows the reference step by step, as clients are told what was reused. */
#include "engine/internal.h"

#include "base/log.h"

#include <stdlib.h>

/* ---- lists ---- */

static void release(struct checkpoint *checkpoint)
{
    if (--checkpoint->n_references > 0)
        return;
    str_free(&checkpoint->state);
    free(checkpoint);
}

static void remove_at(struct checkpoint_vec *list, size_t at)
{
    release(list->data[at]);
    list->n--;
    memmove(list->data + at, list->data + at + 1, (list->n - at) * sizeof *list->data);
}

void checkpoints_free(struct checkpoint_vec *list)
{
    for (size_t i = 0; i < list->n; i++)
        release(list->data[i]);
    VEC_FREE(list);
}

bool checkpoints_share(struct checkpoint_vec *to, const struct checkpoint_vec *from)
{
    if (!VEC_RESERVE(to, from->n))
        return false;
    for (size_t i = 0; i < from->n; i++) {
        from->data[i]->n_references++;
        to->data[to->n++] = from->data[i];
    }
    return true;
}

size_t checkpoints_bytes(const struct checkpoint_vec *list)
{
    size_t total = 0;
    for (size_t i = 0; i < list->n; i++)
        total += list->data[i]->state.len;
    return total;
}

/* ---- starting from one ---- */

/* The first position that a prompt computes behind this checkpoint: the last token
 * it holds is computed again, if there are others. */
static int32_t next_position(const struct checkpoint *c)
{
    return c->pos_max > c->pos_min ? c->pos_max : c->pos_min + 1;
}

/* The latest checkpoint whose windows reach back far enough for the prompt of n
 * tokens that goes on at position `next`; NULL: none. One at the prompt's very end
 * will not do: the last token is computed in any case, and does not see enough. */
static const struct checkpoint *find(const struct checkpoint_vec *list, int32_t n, int32_t next,
                                     int32_t threshold)
{
    for (size_t i = list->n; i-- > 0;) {
        const struct checkpoint *c = list->data[i];
        if (c->pos_max <= next && next_position(c) < n &&
            (c->pos_min < threshold || c->pos_min == 0))
            return c;
    }
    return NULL;
}

/* Take the slot's windows back; returns how many tokens can be kept. */
static size_t restore(struct engine *engine, struct slot *slot, const struct checkpoint *c,
                      int32_t next)
{
    struct error err;
    if (!kv_seq_load_window(engine->context, slot->id, str_slice(&c->state), &err)) {
        log_warn("slot %d: a context checkpoint could not be restored: %s", slot->id, err.message);
        return 0;
    }
    log_debug("slot %d: context checkpoint of %d tokens restored", slot->id, c->n_tokens);
    int32_t kept = next_position(c);
    kept = kept < next ? kept : next;
    return (size_t)(kept < c->n_tokens ? kept : c->n_tokens);
}

size_t checkpoints_start(struct engine *engine, struct slot *slot, size_t n_past)
{
    int32_t next = (int32_t)n_past, n_swa = engine->n_swa;
    if (n_swa == 0)
        return n_past;
    size_t n_prompt = slot->job->request->prompt.n;
    /* Where nothing is new, the last token is computed again. */
    int64_t reach = (int64_t)next - n_swa - (n_past == n_prompt);
    int32_t threshold = reach > 0 ? (int32_t)reach : 0;
    if (n_past > 0 && kv_seq_pos_min(engine->context, slot->id) >= threshold) {
        const struct checkpoint *c = find(&slot->checkpoints, (int32_t)n_prompt, next, threshold);
        n_past = c ? restore(engine, slot, c, next) : 0;
        if (n_past == 0)
            log_debug("slot %d: the whole prompt is computed: its sliding windows are gone",
                      slot->id);
        next = (int32_t)n_past;
    }
    /* What was behind is of another text now. */
    for (size_t i = slot->checkpoints.n; i-- > 0;) {
        const struct checkpoint *c = slot->checkpoints.data[i];
        if (c->pos_max > next || next_position(c) > next)
            remove_at(&slot->checkpoints, i);
    }
    return n_past;
}

/* ---- making them ---- */

bool checkpoints_wanted(const struct engine *engine, const struct slot *slot)
{
    return engine->settings.n_checkpoints > 0 && engine->n_swa > 0 &&
           slot->job->request->task == ENGINE_COMPLETION;
}

static int by_position(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool is_user_start(const struct engine_request *request, size_t n)
{
    int32_t position = (int32_t)n;
    return request->n_user_starts > 0 &&
           bsearch(&position, request->user_starts, request->n_user_starts, sizeof position,
                   by_position);
}

static bool is_last_user_start(const struct engine_request *request, size_t n)
{
    size_t n_starts = request->n_user_starts;
    return n_starts > 0 && (size_t)request->user_starts[n_starts - 1] == n;
}

/* Whether the last checkpoint is further back from n tokens than the least step. */
static bool is_far(const struct engine *engine, const struct slot *slot, size_t n)
{
    const struct checkpoint_vec *list = &slot->checkpoints;
    int64_t step = engine->settings.checkpoint_min_step;
    return list->n == 0 || (int64_t)n > list->data[list->n - 1]->n_tokens + step;
}

bool checkpoints_break(const struct engine *engine, const struct slot *slot)
{
    const struct engine_request *request = slot->job->request;
    size_t n = slot->cache.n, left = request->prompt.n - n;
    if (is_user_start(request, n) && (is_last_user_start(request, n) || is_far(engine, slot, n)))
        return true;
    /* So that the same prompt with another end can start from near its end. */
    size_t n_batch = (size_t)context_n_batch(engine->context);
    const size_t before_end[] = {CHECKPOINT_TAIL + (size_t)context_n_ubatch(engine->context),
                                 CHECKPOINT_TAIL};
    for (size_t i = 0; i < 2; i++)
        if (left == (before_end[i] < n_batch ? before_end[i] : n_batch))
            return true;
    return false;
}

/* Make room: older jobs' checkpoints that are close to one before them go first,
 * then the oldest. */
static void thin_out(const struct engine *engine, struct checkpoint_vec *list, int32_t id_task)
{
    int64_t last = -1;
    for (size_t i = 0; i < list->n;) {
        const struct checkpoint *c = list->data[i];
        if (c->id_task != id_task && last >= 0 &&
            c->n_tokens <= last + engine->settings.checkpoint_min_step) {
            remove_at(list, i);
            continue;
        }
        last = c->n_tokens;
        i++;
    }
    while (list->n >= (size_t)engine->settings.n_checkpoints)
        remove_at(list, 0);
}

static void create(struct engine *engine, struct slot *slot, size_t n_tokens)
{
    thin_out(engine, &slot->checkpoints, slot->job->id_task);
    struct checkpoint *c = calloc(1, sizeof *c);
    if (!c)
        goto fail;
    *c = (struct checkpoint){.n_references = 1,
                             .id_task = slot->job->id_task,
                             .n_tokens = (int32_t)n_tokens,
                             .pos_min = kv_seq_pos_min(engine->context, slot->id),
                             .pos_max = kv_seq_pos_max(engine->context, slot->id)};
    if (!kv_seq_save_window(engine->context, slot->id, &c->state) ||
        !VEC_PUSH(&slot->checkpoints, c))
        goto fail;
    log_debug("slot %d: context checkpoint at %d tokens, %zu KiB", slot->id, c->n_tokens,
              c->state.len >> 10);
    return;
fail:
    log_warn("slot %d: no memory for a context checkpoint", slot->id);
    if (c)
        release(c);
}

void checkpoints_take(struct engine *engine, struct slot *slot, size_t n_added)
{
    const struct engine_request *request = slot->job->request;
    size_t n_before = slot->cache.n - n_added;
    bool ends = slot->cache.n == request->prompt.n;
    bool near_end = request->prompt.n < slot->cache.n + (size_t)context_n_ubatch(engine->context);
    if (kv_seq_pos_min(engine->context, slot->id) < 0 ||
        (!ends && !near_end && !is_user_start(request, n_before)))
        return;
    if (near_end || is_last_user_start(request, n_before) || is_far(engine, slot, n_before))
        create(engine, slot, n_before);
}
