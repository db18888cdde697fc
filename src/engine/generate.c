/* generate.c - what a sampled token means for its slot: text to show, stop
 * strings, limits. The order of the checks is the reference's, because the
 * reported reason is that of the last one that holds. */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <stdlib.h>

/* Find the stop string that begins first in text (equal places: the one named
 * first). Only what the last token can have completed is searched.
 * Returns its offset, or text.len when there is none. */
static size_t find_stop(struct slot *slot, struct slice text, size_t last_token_len)
{
    const struct engine_request *request = slot->job->request;
    size_t best = text.len;
    for (size_t i = 0; i < request->n_stop; i++) {
        struct slice word = request->stop[i];
        size_t reach = word.len + last_token_len;
        size_t begin = text.len > reach ? text.len - reach : 0;
        size_t at = slice_find(text, begin, word);
        if (at >= best)
            continue;
        best = at;
        slot->stop = ENGINE_STOP_WORD;
        slot->stopping_word = word;
        slot->has_next_token = false;
    }
    return best;
}

/* Whether text ends in the beginning of a word. Linear in the word, whatever it is. */
static bool ends_in_beginning(struct slice text, struct slice word, const uint32_t *borders)
{
    size_t same = 0; /* of the word's beginning, at the end of what was looked at */
    size_t from = text.len > word.len ? text.len - word.len : 0;
    for (size_t i = from; i < text.len && word.len > 0; i++) {
        while (same > 0 && (same == word.len || text.data[i] != word.data[same]))
            same = borders[same - 1];
        same += text.data[i] == word.data[same];
    }
    return same > 0;
}

/* True when text ends in the beginning of a stop string. */
static bool may_become_stop(const struct slot *slot, struct slice text)
{
    const struct engine_request *request = slot->job->request;
    const uint32_t *borders = request->stop_borders;
    for (size_t i = 0; i < request->n_stop; i++) {
        struct slice word = request->stop[i];
        if (ends_in_beginning(text, word, borders))
            return true;
        borders += word.len;
    }
    return false;
}

/* Keep a copy of the token with its probabilities for DONE. */
static void remember_token(struct slot *slot, const struct engine_token *token)
{
    if (slot->job->request->sampling.n_probs <= 0)
        return;
    struct engine_token copy = *token;
    copy.text.data = arena_duplicate(&slot->token_arena, token->text);
    copy.top = arena_alloc_array(&slot->token_arena, token->n_top, sizeof *copy.top);
    if (!copy.text.data || !copy.top) {
        slot->no_memory = true;
        return;
    }
    if (copy.n_top)
        memcpy(copy.top, token->top, copy.n_top * sizeof *copy.top);
    if (!VEC_PUSH(&slot->tokens, copy))
        slot->no_memory = true;
}

/* The text that may be shown after the latest token; sets what stops it. */
static struct slice take_visible_text(struct engine *engine, struct slot *slot,
                                      const struct engine_token *token)
{
    struct slice fresh = slice_from(str_slice(&slot->generated), slot->n_sent);
    size_t stop_at = find_stop(slot, fresh, token->text.len);
    bool show = true;
    if (stop_at < fresh.len)
        str_truncate(&slot->generated, slot->n_sent + stop_at);
    else if (!tokenizer_is_eog(engine->tokenizer, token->token))
        show = !may_become_stop(slot, fresh);
    if (!show)
        return (struct slice){"", 0};
    struct slice visible = slice_from(str_slice(&slot->generated), slot->n_sent);
    slot->n_sent += visible.len;
    return visible;
}

static void stop_for_limit(struct slot *slot)
{
    slot->stop = ENGINE_STOP_LIMIT;
    slot->has_next_token = false;
}

/* A new line must be indented by at least n_indent: else it ends there, and is
 * cut off. */
static void check_indentation(struct slot *slot)
{
    int32_t wanted = slot->job->request->n_indent;
    struct slice text = str_slice(&slot->generated);
    if (wanted <= 0)
        return;
    if (slot->last_newline > 0) {
        size_t at = slot->last_newline;
        int32_t indent = 0;
        while (at < text.len && (text.data[at] == ' ' || text.data[at] == '\t')) {
            indent++;
            at++;
        }
        if (at < text.len && indent < wanted) {
            stop_for_limit(slot);
            str_truncate(&slot->generated, at);
            text = str_slice(&slot->generated);
            if (slot->n_sent > text.len)
                slot->n_sent = text.len;
        }
    }
    size_t newline = slice_find(text, slot->last_newline, SLICE("\n"));
    if (newline != SLICE_NOT_FOUND)
        slot->last_newline = newline + 1;
}

static bool budget_is_spent(const struct slot *slot)
{
    return slot->n_predict_max != -1 && slot->timings.n_generated >= slot->n_predict_max;
}

static bool time_is_up(const struct slot *slot)
{
    int64_t limit_ms = slot->job->request->t_max_predict_ms;
    uint64_t spent_us = slot->timings.t_last_token_us - slot->timings.t_prompt_end_us;
    return limit_ms > 0 && spent_us / 1000 > (uint64_t)limit_ms;
}

bool slot_take_token(struct engine *engine, struct slot *slot, const struct engine_token *token)
{
    bool stream = slot->job->request->stream;
    struct slice visible = token->text; /* or, in a whole character, what may be shown */
    slot->sampled = token->token;
    slot->has_next_token = true;
    if (!str_append_slice(&slot->generated, token->text))
        slot->no_memory = true;

    if (!stream)
        (void)VEC_PUSH(&slot->ids, token->token);

    /* Half a character decides nothing yet. */
    if (utf8_open_tail(str_slice(&slot->generated)) == 0) {
        struct engine_token sent = *token;
        sent.text = visible = take_visible_text(engine, slot, token);
        if (stream)
            slot_send_token(slot, &sent);
        else
            remember_token(slot, &sent);
    }
    bool newline = slice_find(visible, 0, SLICE("\n")) != SLICE_NOT_FOUND;

    if (!engine->settings.context_shift && slot->cache.n + 1 >= (size_t)engine->n_ctx_slot) {
        slot->truncated = true;
        stop_for_limit(slot);
    }
    if (slot->timings.n_generated > 0 && slot->has_next_token && budget_is_spent(slot))
        stop_for_limit(slot);
    if (slot->has_new_line)
        check_indentation(slot);
    if (newline) {
        slot->has_new_line = true;
        if (time_is_up(slot))
            stop_for_limit(slot);
    }
    if (tokenizer_is_eog(engine->tokenizer, token->token)) {
        slot->stop = ENGINE_STOP_EOS;
        slot->has_next_token = false;
    }
    return slot->has_next_token;
}
