/* rerank.c - how well documents answer a query: /rerank and its kin, in Jina's
 * form and in that of text-embeddings-inference ("texts"). */
#include "api/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { DOCUMENTS_MAX = 4096 };

struct ranking {
    json_t *body;            /* owned; what follows is borrowed from it */
    const json_t *documents; /* strings */
    struct slice query;
    bool tei, return_text;
    size_t top_n;
};

static void ranking_release(void *arg)
{
    struct ranking *r = arg;
    json_decref(r->body);
    free(r);
}

/* ---- answering ---------------------------------------------------------------------- */

struct rank {
    size_t index;
    float score;
};

/* Best first; equal ones, and what is no number, in the order they came. */
static int by_score(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    float sx = isnan(x->score) ? -INFINITY : x->score;
    float sy = isnan(y->score) ? -INFINITY : y->score;
    if (sx != sy)
        return sx > sy ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static json_t *results(const struct ranking *r, const struct rank *ranks)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->top_n; i++) {
        json_t *o = json_object();
        float score = ranks[i].score;
        put(o, "index", json_integer((json_int_t)ranks[i].index));
        put(o, r->tei ? "score" : "relevance_score",
            isfinite(score) ? json_real((double)score) : json_null());
        if (r->return_text)
            put(o, "text", json_incref(json_array_get(r->documents, ranks[i].index)));
        push(list, o);
    }
    return list;
}

static void answer(struct http_exchange *x, const struct api *api,
                   const struct engine_event *const *events, size_t n, void *arg)
{
    const struct ranking *r = arg;
    int64_t n_tokens = 0;
    struct rank *ranks = calloc(n, sizeof *ranks);
    if (!ranks) {
        reply_failure(x, FAIL_SERVER, "out of memory");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        ranks[i] = (struct rank){i, events[i]->vectors[0]};
        n_tokens += events[i]->n_prompt;
    }
    qsort(ranks, n, sizeof *ranks, by_score);
    json_t *list = results(r, ranks);
    free(ranks);
    if (r->tei) {
        reply_json(x, list);
        return;
    }
    json_t *usage = json_pack("{s:I,s:I}", "prompt_tokens", (json_int_t)n_tokens, "total_tokens",
                              (json_int_t)n_tokens);
    reply_json(x, json_pack("{s:o,s:s,s:o,s:o}", "model", model_name_to_json(api, r->body),
                            "object", "list", "usage", usage, "results", list));
}

/* ---- reading ------------------------------------------------------------------------ */

static bool is_texts(const json_t *list)
{
    size_t i;
    json_t *text;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return false;
    json_array_foreach(list, i, text) if (!json_is_string(text)) return false;
    return true;
}

static bool read(struct ranking *r, struct error *err)
{
    const json_t *query = json_object_get(r->body, "query");
    const json_t *top_n = member(r->body, "top_n");
    const json_t *return_text = member(r->body, "return_text");
    r->tei = json_object_get(r->body, "texts") != NULL;
    r->documents = member(r->body, "documents");
    if (!r->documents)
        r->documents = member(r->body, "texts");
    if (!query)
        return error_set(err, ERR_INVALID, "\"query\" must be provided");
    if (!json_is_string(query))
        return error_set(err, ERR_INVALID, "\"query\" must be a string");
    if (!is_texts(r->documents))
        return error_set(err, ERR_INVALID, "\"documents\" must be a non-empty string array");
    size_t n = json_array_size(r->documents);
    if (n > DOCUMENTS_MAX)
        return error_set(err, ERR_INVALID, "\"documents\" holds %zu texts; at most %d are taken", n,
                         DOCUMENTS_MAX);
    int64_t wanted = member_integer(r->body, "top_n", (int64_t)n);
    if (top_n && (!json_is_number(top_n) || wanted < 0))
        return error_set(err, ERR_INVALID, "\"top_n\" must be a number, 0 or more");
    if (return_text && !json_is_boolean(return_text))
        return error_set(err, ERR_INVALID, "\"return_text\" must be true or false");
    r->query = json_slice(query);
    r->top_n = wanted < (int64_t)n ? (size_t)wanted : n;
    r->return_text = r->tei && json_is_true(return_text);
    return true;
}

/* ---- putting query and document together --------------------------------------------- */

/* What replaces the mark that stands at the head of text; data NULL: none does. */
static struct slice filler(struct slice text, const struct ranking *r, struct slice document,
                           size_t *mark_len)
{
    static const struct slice query = {"{query}", 7}, doc = {"{document}", 10};
    if (slice_starts_with(text, query)) {
        *mark_len = query.len;
        return r->query;
    }
    if (slice_starts_with(text, doc)) {
        *mark_len = doc.len;
        return document;
    }
    return (struct slice){NULL, 0};
}

/* A template names the two places. What comes from users is text there: no
 * special token is read in it, and no place. */
static bool fill_template(const struct api *api, const struct ranking *r, struct slice document,
                          struct budget *budget, struct token_vec *out, struct error *err)
{
    struct str text = {0};
    VEC(struct text_range) plain = {0};
    bool ok = true;
    for (size_t at = 0; at < api->rerank_template.len && ok;) {
        size_t mark_len = 1;
        struct slice rest = slice_from(api->rerank_template, at);
        struct slice filled = filler(rest, r, document, &mark_len);
        at += mark_len;
        if (!filled.data) {
            ok = str_append_char(&text, rest.data[0]);
            continue;
        }
        size_t begin = text.len;
        ok = str_append_slice(&text, filled) &&
             VEC_PUSH(&plain, (struct text_range){begin, text.len});
    }
    ok = (ok || error_memory(err)) &&
         text_encode_within(engine_tokenizer(api->engine), str_slice(&text), TEXT_PARSE_SPECIAL,
                            plain.data, plain.n, budget, out, err);
    VEC_FREE(&plain);
    str_free(&text);
    return ok;
}

static bool push_token(struct token_vec *out, bool wanted, int32_t token, struct error *err)
{
    return !wanted || token < 0 || VEC_PUSH(out, token) || error_memory(err);
}

/* As cross-encoders were trained: [CLS] query [SEP] document [SEP]. */
static bool join_pair(const struct api *api, const struct ranking *r, struct slice document,
                      struct budget *budget, struct token_vec *out, struct error *err)
{
    const struct tokenizer *tok = engine_tokenizer(api->engine);
    const struct special_tokens *s = tokenizer_special(tok);
    int32_t eos = s->eos >= 0 ? s->eos : s->sep;
    return push_token(out, s->add_bos, s->bos, err) &&
           text_encode_within(tok, r->query, 0, NULL, 0, budget, out, err) &&
           push_token(out, s->add_eos, eos, err) && push_token(out, s->add_sep, s->sep, err) &&
           text_encode_within(tok, document, 0, NULL, 0, budget, out, err) &&
           push_token(out, s->add_eos, eos, err);
}

static bool make_inputs(const struct api *api, const struct ranking *r, struct budget *budget,
                        struct prompts *out, struct error *err)
{
    size_t n = json_array_size(r->documents);
    *out = (struct prompts){.data = calloc(n, sizeof *out->data), .n = n};
    if (!out->data)
        return error_memory(err);
    bool has_template = api->rerank_template.len > 0;
    for (size_t i = 0; i < n; i++) {
        struct slice document = json_slice(json_array_get(r->documents, i));
        if (!(has_template ? fill_template : join_pair)(api, r, document, budget, &out->data[i],
                                                        err)) {
            prompts_free(out);
            return false;
        }
    }
    return true;
}

void handle_rerank(struct http_exchange *x, void *context)
{
    const struct api *api = context;
    struct error err;
    struct prompts inputs;
    if (!api_ranks(api)) {
        reply_failure(x, FAIL_NOT_SUPPORTED,
                      "This server does not support reranking. Start it with `--reranking`");
        return;
    }
    struct ranking *r = calloc(1, sizeof *r);
    if (!r) {
        reply_failure(x, FAIL_SERVER, "out of memory");
        return;
    }
    r->body = body_object(x);
    struct budget budget = request_budget(x, r->body);
    if (r->body && read(r, &err) && make_inputs(api, r, &budget, &inputs, &err)) {
        gather(x, api, ENGINE_RERANK, &inputs, answer, r, ranking_release);
        prompts_free(&inputs);
        return;
    }
    if (r->body)
        reply_error(x, &err);
    ranking_release(r);
}
