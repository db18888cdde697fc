/* metrics.c - GET /metrics in Prometheus' text format. */
#include "api/internal.h"

#include "base/clock.h"

#include <stdio.h>

enum metric_kind { COUNTER, GAUGE };

struct metric {
    enum metric_kind kind;
    const char *name, *help;
    double value;
};

static double per_second(uint64_t n, uint64_t us)
{
    return us ? (double)n * 1e6 / (double)us : 0.0;
}

/* Throughput since the last scrape. */
static void windows(struct api *api, const struct engine_metrics *m, double *prompt,
                    double *predicted)
{
    pthread_mutex_lock(&api->metrics_lock);
    *prompt = per_second(m->n_prompt_tokens - api->metrics_prompt_n,
                         m->t_prompt_us - api->metrics_prompt_us);
    *predicted = per_second(m->n_generation_steps - api->metrics_generation_n,
                            m->t_generation_us - api->metrics_generation_us);
    api->metrics_prompt_n = m->n_prompt_tokens;
    api->metrics_prompt_us = m->t_prompt_us;
    api->metrics_generation_n = m->n_generation_steps;
    api->metrics_generation_us = m->t_generation_us;
    pthread_mutex_unlock(&api->metrics_lock);
}

static void append(struct str *out, const struct metric *m)
{
    str_append_format(out, "# HELP llamacpp:%s %s\n# TYPE llamacpp:%s %s\n", m->name, m->help,
                      m->name, m->kind == COUNTER ? "counter" : "gauge");
    /* Whole numbers in full: a counter must not lose its last digits. */
    if (m->value == (double)(int64_t)m->value)
        str_append_format(out, "llamacpp:%s %lld\n", m->name, (long long)m->value);
    else
        str_append_format(out, "llamacpp:%s %.9g\n", m->name, m->value);
}

void handle_metrics(struct http_exchange *x, void *context)
{
    struct api *api = context;
    struct engine_metrics m;
    double prompt, predicted;
    if (!api->options->http.endpoint_metrics) {
        reply_failure(x, FAIL_NOT_SUPPORTED,
                      "This server does not support metrics endpoint. Start it with `--metrics`");
        return;
    }
    engine_metrics(api->engine, &m);
    windows(api, &m, &prompt, &predicted);
    double n_decode = (double)m.n_decode_calls;
    const struct metric metrics[] = {
        {COUNTER, "prompt_tokens_total",
         "Number of prompt tokens processed, excluding cached tokens", (double)m.n_prompt_tokens},
        {COUNTER, "prompt_tokens_cached_total", "Number of prompt tokens reused from the cache",
         (double)m.n_prompt_cached},
        {COUNTER, "prompt_seconds_total", "Total time spent processing prompts",
         (double)m.t_prompt_us / 1e6},
        {COUNTER, "tokens_predicted_total", "Number of generation tokens processed",
         (double)m.n_generated},
        {COUNTER, "tokens_predicted_seconds_total", "Total time spent generating tokens",
         (double)m.t_generation_us / 1e6},
        {COUNTER, "n_decode_total",
         "Total number of llama_decode() calls, excluding speculative decoding and multimodal "
         "decoding",
         n_decode},
        {COUNTER, "n_tokens_max", "Largest observed sequence length (prompt + generation)",
         (double)m.n_tokens_max},
        {COUNTER, "spec_decode_num_draft_tokens_total", "Speculative: Total draft tokens generated",
         0},
        {COUNTER, "spec_decode_num_accepted_tokens_total",
         "Speculative: Total draft tokens accepted by the target model", 0},
        {COUNTER, "spec_decode_num_drafts_total",
         "Speculative: Total speculative decoding verification steps", 0},
        {GAUGE, "prompt_tokens_seconds", "Average prompt throughput in tokens/s", prompt},
        {GAUGE, "predicted_tokens_seconds", "Average generation throughput in tokens/s", predicted},
        {GAUGE, "requests_processing", "Number of requests processing", (double)m.n_processing},
        {GAUGE, "requests_deferred", "Number of requests deferred", (double)m.n_deferred},
        {GAUGE, "n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call",
         (double)m.n_busy_slots / (n_decode > 1 ? n_decode : 1)},
    };
    struct str text = {0};
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        append(&text, &metrics[i]);
    char start[32];
    snprintf(start, sizeof start, "%lld", (long long)api->started_at);
    http_answer_header(x, "Process-Start-Time-Unix", start);
    http_reply_str(x, 200, "text/plain; version=0.0.4", &text);
}
