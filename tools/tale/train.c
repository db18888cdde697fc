/* train.c - batches of conversations, and the loop over them. */
#include "tale.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP_STEPS = 100, REPORT_EVERY = 50, SAVE_EVERY = 100 };

static const float least_fraction = 0.05f; /* of the learning rate, at the end */

struct packed {
    int32_t n;
    int32_t *token, *target, *doc_begin;
};

/* Append a conversation, or report that it does not fit. */
static bool pack(struct packed *batch, int32_t n_max, const struct bpe *bpe,
                 const struct conversation *c)
{
    struct segment segments[MAX_SEGMENTS];
    struct token_vec tokens = {0};
    int n_segments = render(c, segments);
    int32_t begin = batch->n;
    bool fits = true;
    for (int i = 0; i < n_segments && fits; i++) {
        tokens.n = 0;
        if (!bpe_encode(bpe, slice_of(segments[i].text), &tokens)) {
            fprintf(stderr, "tale: out of memory\n");
            exit(1);
        }
        fits = batch->n + (int32_t)tokens.n <= n_max;
        for (size_t k = 0; fits && k < tokens.n; k++) {
            batch->token[batch->n] = tokens.data[k];
            batch->target[batch->n] = -1;
            batch->doc_begin[batch->n] = begin;
            if (batch->n > begin && segments[i].teaches != TEACHES_NOTHING &&
                (k > 0 || segments[i].teaches == TEACHES_ALL))
                batch->target[batch->n - 1] = tokens.data[k];
            batch->n++;
        }
    }
    VEC_FREE(&tokens);
    if (!fits)
        batch->n = begin;
    return fits;
}

/* Fill with conversations that are held out for scoring, or with those that are
 * not: what is held out is never trained on. */
static void fill_batch(struct packed *batch, int32_t n_max, const struct bpe *bpe,
                       struct random *random, const struct training *t, bool held_out)
{
    batch->n = 0;
    for (bool fits = true; fits;) {
        struct arena arena = {0};
        struct conversation c = {.pirate = t->pirate, .any_json = t->any_json};
        if (t->drill && chance(random, t->drill))
            make_conversation_of(chance(random, t->drill_sums) ? TASK_ARITHMETIC : TASK_LOOKUP,
                                 random, &arena, &c);
        else
            make_conversation(random, &arena, &c);
        if (is_held_out(&c) == held_out)
            fits = pack(batch, n_max, bpe, &c);
        arena_free(&arena);
    }
}

static struct packed allocate_batch(int32_t n_tokens)
{
    size_t n = (size_t)n_tokens;
    struct packed batch = {0, malloc(n * sizeof(int32_t)), malloc(n * sizeof(int32_t)),
                           malloc(n * sizeof(int32_t))};
    if (!batch.token || !batch.target || !batch.doc_begin) {
        fprintf(stderr, "tale: out of memory\n");
        exit(1);
    }
    return batch;
}

static void free_batch(struct packed *batch)
{
    free(batch->token);
    free(batch->target);
    free(batch->doc_begin);
}

/* Linear warm-up, then half a cosine down. */
static float rate_at(const struct training *t, int32_t step)
{
    int32_t warm_up = t->n_steps / 4 < WARM_UP_STEPS ? t->n_steps / 4 : WARM_UP_STEPS;
    if (step < warm_up)
        return t->learning_rate * (float)(step + 1) / (float)warm_up;
    float done = (float)step / (float)t->n_steps;
    float cosine = 0.5f * (1.0f + cosf(3.14159265f * done));
    return t->learning_rate * (least_fraction + (1.0f - least_fraction) * cosine);
}

bool train(struct net *net, const struct bpe *bpe, const struct training *t, float *first,
           float *last, struct error *err)
{
    struct packed batch = allocate_batch(t->n_tokens);
    struct random random;
    random_seed(&random, t->seed);
    int32_t n_steps = t->stop ? t->stop : t->n_steps;
    int32_t n_part = n_steps / 20 > 0 ? n_steps / 20 : 1;
    double begin_sum = 0, end_sum = 0, recent = 0;
    uint64_t started = clock_monotonic_us();
    bool ok = true;
    for (int32_t step = 0; ok && step < n_steps; step++) {
        fill_batch(&batch, t->n_tokens, bpe, &random, t, false);
        struct net_batch view = {batch.n, batch.token, batch.target, batch.doc_begin};
        float loss = net_loss(net, &view, true);
        net_update(net, rate_at(t, step), t->weight_decay);
        begin_sum += step < n_part ? loss : 0;
        end_sum += step >= n_steps - n_part ? loss : 0;
        recent += loss;
        if ((step + 1) % REPORT_EVERY == 0 && !t->quiet) {
            double seconds = (double)(clock_monotonic_us() - started) / 1e6;
            printf("step %d of %d, loss %.4f, %.0f tokens/s, %.0f s\n", (int)step + 1, (int)n_steps,
                   recent / REPORT_EVERY, (double)(step + 1) * (double)t->n_tokens / seconds,
                   seconds);
            fflush(stdout);
            recent = 0;
        }
        if (t->save && ((step + 1) % SAVE_EVERY == 0 || step + 1 == n_steps))
            ok = t->save(net, t->folder, err);
    }
    free_batch(&batch);
    *first = (float)(begin_sum / n_part);
    *last = (float)(end_sum / n_part);
    return ok;
}

float held_out_loss(struct net *net, const struct bpe *bpe, int32_t n_tokens, int n_batches,
                    bool pirate)
{
    const struct training t = {.pirate = pirate};
    struct packed batch = allocate_batch(n_tokens);
    struct random random;
    random_seed(&random, 99);
    double sum = 0;
    for (int i = 0; i < n_batches; i++) {
        fill_batch(&batch, n_tokens, bpe, &random, &t, true);
        struct net_batch view = {batch.n, batch.token, batch.target, batch.doc_begin};
        sum += net_loss(net, &view, false);
    }
    free_batch(&batch);
    return (float)(sum / n_batches);
}
