/* breakers_test.c - DRY's sequence breakers as tokens of real vocabularies. What is
 * expected was read from the reference's source: a token counts as what it reads as by
 * itself, where SentencePiece's space in front is dropped. */
#include "unit/sample/helpers.h"
#include "unit/unit.h"

#include "sample/dry_breakers.h"
#include "text/text.h"

#include <string.h>

struct model {
    struct tokenizer *tok;
    struct vocab *vocab;
};

static struct model open_model(const char *folder, const char *path)
{
    char whole[1024];
    struct error err = {0};
    struct model m = {0};
    snprintf(whole, sizeof whole, "%s/%s", folder, path);
    if (!tokenizer_open(whole, &m.tok, &err) || !(m.vocab = vocab_from_tokenizer(m.tok, &err)))
        fail_msg("%s", err.message);
    return m;
}

static void close_model(struct model *m)
{
    vocab_free(m->vocab);
    tokenizer_free(m->tok);
}

static struct dry_breakers *read_breaker(const struct model *m, const char *text)
{
    struct slice breaker = slice_of(text);
    struct sampler_settings set = sampler_settings_defaults();
    struct error err = {0};
    set.dry_sequence_breakers = &breaker;
    set.n_dry_sequence_breakers = 1;
    struct dry_breakers *b = dry_breakers_create(m->vocab, &set, &err);
    if (!b)
        fail_msg("%s", err.message);
    return b;
}

/* The sequences, one a line: the pieces with '|' between head and tail, in the order
 * of the heads; only those whose head's piece is one of heads, if that is not NULL. */
static char *sequences(const struct model *m, const char *breaker, const char *const *heads)
{
    struct dry_breakers *b = read_breaker(m, breaker);
    struct str out = {0};
    size_t k = 0;
    for (int32_t id = 0; id < tokenizer_n_vocab(m->tok); id++) {
        struct slice piece = tokenizer_text(m->tok, id);
        bool wanted = heads == NULL;
        for (size_t i = 0; heads && heads[i]; i++)
            wanted = wanted || slice_equal_text(piece, heads[i]);
        if (wanted && dry_breaks_alone(b, id))
            str_append_format(&out, "%.*s\n", (int)piece.len, piece.data);
        for (; k < b->n && b->list[k].head == id; k++) {
            if (!wanted)
                continue;
            str_append_format(&out, "%.*s", (int)piece.len, piece.data);
            for (size_t i = 0; i < b->list[k].n_tail; i++) {
                struct slice next = tokenizer_text(m->tok, b->tails.data[b->list[k].tail + i]);
                str_append_format(&out, "|%.*s", (int)next.len, next.data);
            }
            str_append_char(&out, '\n');
        }
    }
    dry_breakers_drop(b);
    return str_detach(&out);
}

static void assert_sequences(const struct model *m, const char *breaker, const char *const *heads,
                             const char *expected)
{
    char *text = sequences(m, breaker, heads);
    assert_string_equal(text, expected);
    free(text);
}

#define S "\xE2\x96\x81" /* SentencePiece's visible space */

static void a_space_in_front_belongs_to_no_token(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared);
    struct model m = open_model(shared, "models/stories260k/stories260K.gguf");
    static const char *const words[] = {S "the", "the", S, "he", S "he", NULL};
    /* "▁the" reads "the": it holds no space, so that none breaks " the" or " ". */
    assert_sequences(&m, " the", words, "");
    assert_sequences(&m, " ", words, "");
    assert_sequences(&m, "the", words, S "the\n");
    assert_sequences(&m, "he", words, "he\n" S "the\n" S "he\n");
    close_model(&m);
}

/* The rest of a breaker is tokenized by itself, with the space put in front. */
static void a_tail_begins_as_a_text_does(void **state)
{
    (void)state;
    REQUIRE_SHARED(shared);
    struct model m = open_model(shared, "tokenizers/ggml-vocab-llama-spm.gguf");
    static const char *const heads[] = {S S, S "the", "the", "\n", "<0x0A>", S "User", NULL};
    assert_sequences(&m, " the", heads, S S "|" S "the\n");
    assert_sequences(&m, "the end", heads, S "the|" S "|" S "end\nthe|" S "|" S "end\n");
    assert_sequences(&m, "\nthe", heads, "<0x0A>|" S "the\n");
    assert_sequences(&m, "User:", heads, S "User|" S ":\n");
    close_model(&m);
}

/* A byte-level vocabulary puts no space in front: there it does belong to tokens. */
static void other_vocabularies_keep_their_spaces(void **state)
{
    (void)state;
    struct model m = open_model(MLXCEL_SOURCE, "models/tale");
    static const char *const heads[] = {"\xC4\xA0the", "the", "\xC4\xA0", NULL};
    assert_sequences(&m, " the", heads, "\xC4\xA0|t|he\n\xC4\xA0the\n");
    close_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_space_in_front_belongs_to_no_token),
        cmocka_unit_test(a_tail_begins_as_a_text_does),
        cmocka_unit_test(other_vocabularies_keep_their_spaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
