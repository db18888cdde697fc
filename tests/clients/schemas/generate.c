/* generate.c - documents at random from the grammars of schemas.
 *
 *   generate SCHEMAS N
 *
 * SCHEMAS is a JSON list of {"schema": ...}. For each it prints, a line each, N
 * times {"schema": index, "text": document}, or {"schema": index, "refused":
 * message}. The model is noise, with a liking for what closes a document, more
 * so the longer it gets. */
#include "base/json.h"
#include "base/random.h"
#include "sample/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    N_BYTES = 255, /* every byte but 0 */
    LONG_TEXT = 120,
    TOKENS_MAX = 4000,
    TRIES = 20,
};

static char bytes[N_BYTES][2];
static const char *const words[] = {
    "ab",    "true", "null",  "\":", "\": ",  "\",", ", \"", "12",    "é",  "日", "}}",  "0.",
    "false", " a",   "\"a\"", "-1",  "\\u00", "[]",  "{}",   "\",\"", "-0", "e1", "x-y", "000"};
enum {
    N_WORDS = sizeof words / sizeof *words,
    N_TOKENS = N_BYTES + N_WORDS + 1,
    END = N_TOKENS - 1
};

static struct slice piece(const void *context, int32_t token)
{
    (void)context;
    if (token < N_BYTES)
        return (struct slice){bytes[token], 1};
    return slice_of(token == END ? "</s>" : words[token - N_BYTES]);
}

static bool is_eog(const void *context, int32_t token)
{
    (void)context;
    return token == END;
}

/* The largest of logit + Gumbel noise is a sample of the softmax. */
static void noise(struct random *random, size_t length, float *logits)
{
    bool closing = length > LONG_TEXT;
    for (int32_t i = 0; i < N_TOKENS; i++) {
        struct slice text = piece(NULL, i);
        char c = text.data[0];
        float liking = text.len == 1 && c >= ' ' && c < 0x7F ? 1.0f : 0.0f;
        if (i == END)
            liking = 3.0f;
        else if (strchr("]}", c) && text.len == 1)
            liking = closing ? 12.0f : 2.0f;
        else if (c == '"')
            liking = closing ? 9.0f : 2.5f;
        else if (c == ',' || c == ' ')
            liking = closing ? -2.0f : 1.0f;
        logits[i] = liking - logf(-logf((float)(random_double(random) * 0.999998 + 1e-6)));
    }
}

/* One document; false when it did not come to an end. */
static bool generate(const struct sampler *start, struct random *random, struct str *text)
{
    static float logits[N_TOKENS];
    struct error err = {0};
    struct sampler *s = sampler_clone(start, &err);
    bool ended = false, ok = s;
    for (int i = 0; ok && !ended && i < TOKENS_MAX; i++) {
        int32_t token;
        noise(random, text->len, logits);
        ok = sampler_sample(s, logits, &token, &err);
        ended = token == END;
        ok = ok && sampler_accept(s, token, true, &err);
        if (ok && !ended)
            str_append_slice(text, piece(NULL, token));
    }
    if (!ok)
        fprintf(stderr, "%s\n", err.message);
    sampler_free(s);
    return ok && ended;
}

static void print_line(size_t index, const char *key, const char *value)
{
    json_t *line =
        json_pack("{s:I,s:o}", "schema", (json_int_t)index, key, json_string_from(slice_of(value)));
    struct str text = {0};
    json_append(&text, line);
    puts(str_text(&text));
    str_free(&text);
    json_decref(line);
}

static bool run_schema(const struct vocab *vocab, size_t index, const json_t *schema, int n)
{
    struct error err = {0};
    struct str gbnf = {0}, text = {0};
    if (!schema_to_grammar(schema, NULL, &gbnf, NULL, &err)) {
        print_line(index, "refused", err.message);
        return true;
    }
    struct sampler_settings set = sampler_settings_defaults();
    set.temperature = 0;
    set.grammar = str_slice(&gbnf);
    struct sampler *start = sampler_create(vocab, &set, 0, &err);
    bool ok = start;
    struct random random;
    random_seed(&random, (uint32_t)index + 1);
    for (int i = 0; ok && i < n; i++) {
        ok = false;
        for (int try = 0; !ok && try < TRIES; try++) {
            str_clear(&text);
            ok = generate(start, &random, &text);
        }
        if (ok)
            print_line(index, "text", str_text(&text));
    }
    if (!ok)
        fprintf(stderr, "schema %zu: no document came to an end: %s\n%s", index, err.message,
                str_text(&gbnf));
    sampler_free(start);
    str_free(&gbnf);
    str_free(&text);
    return ok;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    for (int i = 0; i < N_BYTES; i++)
        bytes[i][0] = (char)(i + 1);
    struct vocab_source source = {
        .n_tokens = N_TOKENS, .eot = -1, .eos = END, .piece = piece, .is_eog = is_eog};
    json_t *list = argc == 3 ? json_parse_file(argv[1], &err) : NULL;
    struct vocab *vocab = vocab_create(&source, &err);
    bool ok = list && vocab;
    for (size_t i = 0; ok && i < json_array_size(list); i++)
        ok =
            run_schema(vocab, i, json_object_get(json_array_get(list, i), "schema"), atoi(argv[2]));
    if (!ok)
        fprintf(stderr, "failed: %s\n", err.message);
    vocab_free(vocab);
    json_decref(list);
    return ok ? 0 : 1;
}
