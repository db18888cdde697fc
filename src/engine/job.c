/* job.c - requests, and the reference-counted jobs that carry them. */
#include "engine/internal.h"

#include <stdlib.h>

struct engine_request *engine_request_create(void)
{
    struct engine_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->n_completions = 1;
    request->id_slot = -1;
    request->sampling = sampler_settings_defaults();
    request->n_predict = -1;
    request->t_max_predict_ms = -1;
    request->cache_prompt = true;
    return request;
}

void engine_request_free(struct engine_request *request)
{
    if (!request)
        return;
    if (request->owner_free)
        request->owner_free(request->owner_data);
    VEC_FREE(&request->prompt);
    arena_free(&request->arena);
    free(request);
}

struct engine_job *job_retain(struct engine_job *job)
{
    atomic_fetch_add(&job->references, 1);
    return job;
}

void engine_job_release(struct engine_job *job)
{
    if (!job || atomic_fetch_sub(&job->references, 1) != 1)
        return;
    for (int32_t i = 0; i < job->n_children; i++)
        engine_job_release(job->children[i]);
    free(job->children);
    sampler_free(job->sampler);
    mailbox_release(job->mailbox);
    if (atomic_fetch_sub(job->request_references, 1) == 1) {
        engine_request_free(job->request);
        free(job->request_references);
    }
    free(job);
}

void engine_job_cancel(struct engine_job *job)
{
    atomic_store(&job->cancelled, true);
    for (int32_t i = 0; i < job->n_children; i++)
        atomic_store(&job->children[i]->cancelled, true);
}

/* The job of the k-th completion, which shares the request's references. */
static struct engine_job *new_job(struct engine *engine, struct engine_request *request,
                                  atomic_int *request_references, struct engine_mailbox *mailbox,
                                  int32_t k)
{
    struct engine_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    atomic_init(&job->references, 1);
    atomic_init(&job->cancelled, false);
    atomic_fetch_add(request_references, 1);
    job->request = request;
    job->request_references = request_references;
    job->mailbox = mailbox_retain(mailbox);
    job->id_task = atomic_fetch_add(&engine->next_id_task, 1);
    job->id_parent = -1;
    job->index = request->index + k;
    return job;
}

/* The sampler of the k-th completion: the request's settings, its own seed; first: of
 * an earlier one, NULL for the first. Made here, on the caller's thread, because
 * parsing a grammar may take long. */
static bool make_sampler(struct engine *engine, struct engine_job *job, int32_t k,
                         const struct sampler *first, struct error *err)
{
    if (job->request->task != ENGINE_COMPLETION)
        return true;
    struct sampler_settings settings = job->request->sampling;
    struct budget budget = {.steps = BUDGET_REQUEST_STEPS, .bytes = BUDGET_REQUEST_BYTES};
    if (!settings.budget)
        settings.budget = &budget;
    if (settings.seed != SAMPLER_SEED_RANDOM)
        settings.seed += (uint32_t)k;
    job->sampler = first ? sampler_create_sibling(first, &settings, engine->n_ctx_slot, err)
                         : sampler_create(engine->vocab, &settings, engine->n_ctx_slot, err);
    return job->sampler || error_prefix(err, "Failed to initialize samplers");
}

static bool add_children(struct engine *engine, struct engine_job *job, int32_t n,
                         struct error *err)
{
    job->children = calloc((size_t)n, sizeof(struct engine_job *));
    if (!job->children)
        return error_memory(err);
    for (int32_t k = 1; k <= n; k++) {
        struct engine_job *child =
            new_job(engine, job->request, job->request_references, job->mailbox, k);
        if (!child)
            return error_memory(err);
        job->children[job->n_children++] = child;
        child->id_parent = job->id_task;
        if (!make_sampler(engine, child, k, job->sampler, err))
            return false;
    }
    return true;
}

/* The failure function of Knuth, Morris and Pratt 1977. */
static void find_borders(struct slice word, uint32_t *borders)
{
    size_t length = 0;
    borders[0] = 0;
    for (size_t i = 1; i < word.len; i++) {
        while (length > 0 && word.data[i] != word.data[length])
            length = borders[length - 1];
        length += word.data[i] == word.data[length];
        borders[i] = (uint32_t)length;
    }
}

bool job_prepare_stops(struct engine_request *request)
{
    size_t n_bytes = 0, at = 0;
    for (size_t i = 0; i < request->n_stop; i++)
        n_bytes += request->stop[i].len;
    request->stop_borders =
        arena_alloc_array(&request->arena, n_bytes + 1, sizeof *request->stop_borders);
    for (size_t i = 0; request->stop_borders && i < request->n_stop; i++) {
        find_borders(request->stop[i], request->stop_borders + at);
        at += request->stop[i].len;
    }
    return request->stop_borders;
}

struct engine_job *job_create(struct engine *engine, struct engine_request *request,
                              struct engine_mailbox *mailbox, struct error *err)
{
    atomic_int *references = calloc(1, sizeof *references);
    struct engine_job *job = references && job_prepare_stops(request)
                                 ? new_job(engine, request, references, mailbox, 0)
                                 : NULL;
    if (!job) {
        free(references);
        engine_request_free(request);
        error_memory(err);
        return NULL;
    }
    int32_t n_children = request->n_completions - 1;
    bool ok = make_sampler(engine, job, 0, NULL, err) &&
              (n_children <= 0 || add_children(engine, job, n_children, err));
    request->sampling.budget = NULL; /* its owner does not outlive the submission */
    if (!ok) {
        engine_job_release(job);
        return NULL;
    }
    return job;
}
