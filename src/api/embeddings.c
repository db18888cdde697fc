/* embeddings.c - texts to vectors: /embedding, /embeddings, /v1/embeddings. */
#include "api/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Numbers of one answer: without pooling every token of every input has a
 * vector, and an answer must not be larger than memory. */
enum { NUMBERS_MAX = 1 << 26 };

/* What a client asked for, until it is answered. */
struct embedding {
    json_t *model; /* the name to answer with; owned */
    bool openai, base64;
    int64_t normalize;
    int32_t n_dimensions; /* leading components that are answered; 0: all */
};

static void embedding_release(void *arg)
{
    struct embedding *e = arg;
    json_decref(e->model);
    free(e);
}

/* ---- scaling --------------------------------------------------------------------- */

/* The p-norm; the largest component is taken out first, so that no power of a
 * component leaves a double's range. */
static double p_norm(const float *v, size_t n, double p)
{
    double largest = 0.0, sum = 0.0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)v[i]));
    for (size_t i = 0; i < n && largest > 0.0; i++)
        sum += pow(fabs((double)v[i]) / largest, p);
    return largest * pow(sum, 1.0 / p);
}

/* -1: as it is; 0: the largest becomes 32760; p: by the p-norm. */
static void normalize(float *v, size_t n, int64_t kind)
{
    enum { LARGEST = 32760 };
    double by = kind < 0 ? 1.0 : 0.0;
    for (size_t i = 0; i < n && kind == 0; i++)
        by = fmax(by, fabs((double)v[i]) / LARGEST);
    if (kind > 0)
        by = p_norm(v, n, (double)kind);
    float scale = by > 0.0 ? (float)(1.0 / by) : 0.0f;
    for (size_t i = 0; i < n; i++)
        v[i] *= scale;
}

/* ---- writing ---------------------------------------------------------------------- */

static void append_numbers(struct str *out, const float *v, size_t n)
{
    str_append_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            str_append_char(out, ',');
        if (isfinite(v[i]))
            str_append_format(out, "%.9g", (double)v[i]);
        else
            str_append_text(out, "null"); /* JSON knows no other */
    }
    str_append_char(out, ']');
}

/* The floats' little-endian bytes in base64 (RFC 4648), as a JSON string. */
static void append_base64(struct str *out, const float *v, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n_bytes = n * sizeof *v;
    str_append_char(out, '"');
    for (size_t at = 0; at < n_bytes; at += 3) {
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++) {
            uint32_t bits = 0;
            if (at + k < n_bytes)
                memcpy(&bits, &v[(at + k) / sizeof *v], sizeof bits);
            group = group << 8 | (bits >> (at + k) % sizeof *v * 8 & 0xFF);
        }
        for (size_t k = 0; k < 4; k++)
            str_append_char(out, at + k > n_bytes ? '=' : digits[group >> (18 - 6 * k) & 63]);
    }
    str_append_char(out, '"');
}

/* A vector for every token an input has, or one for all. */
static void append_native(struct str *out, const struct engine_event *event, size_t i)
{
    size_t n = (size_t)event->n_embd;
    str_append_format(out, "{\"index\":%zu,\"embedding\":[", i);
    for (int32_t k = 0; k < event->n_vectors; k++) {
        if (k > 0)
            str_append_char(out, ',');
        append_numbers(out, event->vectors + (size_t)k * n, n);
    }
    str_append_text(out, "]}");
}

static void append_openai(struct str *out, const struct embedding *e,
                          const struct engine_event *event, size_t i, size_t n)
{
    str_append_text(out, "{\"embedding\":");
    (e->base64 ? append_base64 : append_numbers)(out, event->vectors, n);
    str_append_format(out, ",\"index\":%zu,\"object\":\"embedding\"%s}", i,
                      e->base64 ? ",\"encoding_format\":\"base64\"" : "");
}

static void answer(struct http_exchange *x, const struct api *api,
                   const struct engine_event *const *events, size_t n, void *arg)
{
    const struct embedding *e = arg;
    struct str out = {0};
    int64_t n_tokens = 0;
    if (e->openai) {
        str_append_text(&out, "{\"model\":");
        json_append(&out, e->model);
        str_append_text(&out, ",\"object\":\"list\",\"data\":");
    }
    str_append_char(&out, '[');
    for (size_t i = 0; i < n; i++) {
        const struct engine_event *event = events[i];
        size_t width = (size_t)event->n_embd;
        if (e->n_dimensions > 0)
            width = (size_t)e->n_dimensions;
        if (engine_pooling(api->engine) != POOLING_NONE)
            normalize(event->vectors, width, e->normalize);
        if (i > 0)
            str_append_char(&out, ',');
        if (e->openai)
            append_openai(&out, e, event, i, width);
        else
            append_native(&out, event, i);
        n_tokens += event->n_prompt;
    }
    str_append_char(&out, ']');
    if (e->openai)
        str_append_format(
            &out, ",\"usage\":{\"prompt_tokens\":%" PRId64 ",\"total_tokens\":%" PRId64 "}}",
            n_tokens, n_tokens);
    http_reply_str(x, 200, HTTP_JSON, &out);
    str_free(&out);
}

/* ---- reading ---------------------------------------------------------------------- */

static bool read_format(const json_t *body, bool *base64, struct error *err)
{
    const json_t *format = json_object_get(body, "encoding_format");
    *base64 = json_is_string(format) && slice_equal_text(json_slice(format), "base64");
    if (!format || *base64 ||
        (json_is_string(format) && slice_equal_text(json_slice(format), "float")))
        return true;
    return error_set(err, ERR_INVALID,
                     "The format to return the embeddings in. Can be either float or base64");
}

static bool read_normalize(const struct api *api, const json_t *body, int64_t *out,
                           struct error *err)
{
    const json_t *value = json_object_get(body, "embd_normalize");
    *out = api->options->context.embd_normalize;
    if (!value)
        return true;
    *out = member_integer(body, "embd_normalize", -2);
    if (!json_is_number(value) || *out < -1 || *out > INT32_MAX)
        return error_set(err, ERR_INVALID,
                         "\"embd_normalize\" must be -1 (not at all), 0 (the largest component), "
                         "1 (sum), 2 (euclidean) or another p of a p-norm");
    return true;
}

static bool may_cut(const struct model_info *info, int64_t n)
{
    bool listed = info->n_dims == 0;
    for (size_t i = 0; i < info->n_dims; i++)
        listed = listed || info->dims[i] == n;
    return n == info->n_embd_out || (info->is_matryoshka && listed);
}

/* Fewer components are of use only where the model was trained for that. */
static bool read_dimensions(const struct api *api, const json_t *body, int32_t *out,
                            struct error *err)
{
    const struct model_info *info = engine_model_info(api->engine);
    const json_t *value = json_object_get(body, "dimensions");
    *out = 0;
    if (!value || json_is_null(value))
        return true;
    int64_t n = json_is_number(value) ? member_integer(body, "dimensions", 0) : 0;
    if (n < 1 || n > info->n_embd_out)
        return error_set(err, ERR_INVALID, "\"dimensions\" must be a number from 1 to %d",
                         (int)info->n_embd_out);
    if (!may_cut(info, n))
        return error_set(err, ERR_INVALID,
                         "this model's embeddings have %d dimensions; it was not trained to be "
                         "cut to %d: leave \"dimensions\" out",
                         (int)info->n_embd_out, (int)n);
    *out = (int32_t)n;
    return true;
}

/* Every vector that will be answered must fit. */
static bool check_amount(const struct api *api, const struct prompts *inputs, struct error *err)
{
    int64_t n = 0;
    bool each_token = engine_pooling(api->engine) == POOLING_NONE;
    for (size_t i = 0; i < inputs->n; i++) {
        n += each_token ? (int64_t)inputs->data[i].n : 1;
        if (inputs->data[i].n == 0)
            return error_set(err, ERR_INVALID, "Input content cannot be empty");
    }
    n *= engine_model_info(api->engine)->n_embd_out;
    return n <= NUMBERS_MAX ||
           error_set(err, ERR_INVALID,
                     "the answer would hold %" PRId64 " numbers, more than the %d that one may "
                     "hold; send fewer inputs at once",
                     n, NUMBERS_MAX);
}

static bool read(const struct api *api, const json_t *body, struct budget *budget,
                 struct embedding *e, struct prompts *inputs, struct error *err)
{
    const json_t *input = json_object_get(body, "input");
    if (!input) {
        input = json_object_get(body, "content");
        e->openai = false;
    }
    if (!input)
        return error_set(err, ERR_INVALID, "\"input\" or \"content\" must be provided");
    if (!read_format(body, &e->base64, err) || !read_normalize(api, body, &e->normalize, err) ||
        (e->openai && !read_dimensions(api, body, &e->n_dimensions, err)) ||
        !prompts_read(api, input, true, true, budget, inputs, err))
        return false;
    if (check_amount(api, inputs, err))
        return true;
    prompts_free(inputs);
    return false;
}

static void embed(struct http_exchange *x, const struct api *api, bool openai)
{
    struct error err;
    struct prompts inputs;
    enum pooling pooling = engine_pooling(api->engine);
    if (!api_embeds(api) || pooling == POOLING_RANK) {
        reply_failure(x, FAIL_NOT_SUPPORTED,
                      pooling == POOLING_RANK && api_embeds(api)
                          ? "This server ranks and does not support embeddings. Start it without "
                            "`--reranking`"
                          : "This server does not support embeddings. Start it with "
                            "`--embeddings`");
        return;
    }
    if (openai && pooling == POOLING_NONE) {
        reply_failure(x, FAIL_INVALID,
                      "Pooling type 'none' is not OAI compatible. Please use a different pooling "
                      "type");
        return;
    }
    json_t *body = body_object(x);
    if (!body)
        return;
    struct budget budget = request_budget(x, body);
    struct embedding *e = calloc(1, sizeof *e);
    if (e)
        e->openai = openai;
    if (!e) {
        reply_failure(x, FAIL_SERVER, "out of memory");
    } else if (!read(api, body, &budget, e, &inputs, &err)) {
        reply_error(x, &err);
        embedding_release(e);
    } else {
        e->model = model_name_to_json(api, body);
        gather(x, api, ENGINE_EMBEDDING, &inputs, answer, e, embedding_release);
        prompts_free(&inputs);
    }
    json_decref(body);
}

void handle_embeddings(struct http_exchange *x, void *context)
{
    embed(x, context, false);
}

void handle_embeddings_openai(struct http_exchange *x, void *context)
{
    embed(x, context, true);
}
