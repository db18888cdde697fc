/* other_versions.c - options that are not ours: of other versions of llama-server and of the
 * programs beside it, with what to use instead; and the nearest names of one misspelt. */
#include "options/table.h"

#include <stdio.h>

#define CLI                                                                                        \
    "is an option of llama-cli; a server takes prompts in requests (POST /v1/chat/completions)"
#define TTS   "belongs to text-to-speech, which llama-server does not serve"
#define TOOL  "is an option of another llama.cpp program, not of llama-server"
#define LOGS  "was removed; use --log-file FNAME and --verbosity N"
#define FILES "was removed; media go into requests"

static const struct {
    const char *names, *advice;
} others[] = {
    {"--slots-endpoint-disable", "was renamed; use --no-slots"},
    {"--clear-idle", "was renamed; use --cache-idle-slots"},
    {"--no-clear-idle", "was renamed; use --no-cache-idle-slots"},
    {"-cpent --checkpoint-every-n-tokens", "was renamed; use --checkpoint-min-step"},
    {"-cd --ctx-size-draft --spec-draft-ctx-size",
     "was removed; a draft model takes the context of the model"},
    {"--mtp", "was replaced; use --spec-type draft-mtp"},
    {"--eagle3", "was replaced; use --spec-type draft-eagle3"},
    {"--dflash", "was replaced; use --spec-type draft-dflash"},
    {"--spec-draft-replace --spec-replace",
     "was removed; a draft model must have the vocabulary of the model"},
    {"-ps --p-split --spec--draft-p-split", "was removed; drafts do not branch any more"},
    {"--p-accept", "was removed; use --spec-draft-p-min"},
    {"--spec-ngram-check-rate", "was removed; use --spec-type ngram-mod and its options"},
    {"--cpu-range-batch-draft --spec-draft-cpu-range-batch",
     "was removed; use --spec-draft-cpu-range"},
    {"-spf --system-prompt-file -sys --system-prompt -sysf",
     "was removed; send a message of the role \"system\" in each request"},
    {"-gan --grp-attn-n -gaw --grp-attn-w",
     "was removed with self-extend; use --rope-scaling yarn to stretch the context"},
    {"--memory-f32", "was removed; use -ctk f32 -ctv f32"},
    {"--low-vram -mmq --mul-mat-q -nommq --no-mul-mat-q -mv", "was removed; leave it out"},
    {"--lora-base", "was removed; give adapters only: --lora FNAME"},
    {"-gqa --gqa -eps --rms-norm-eps", "was removed; the model file says it"},
    {"--penalize-nl --no-penalize-nl",
     "was removed; set logit_bias for the newline token in the request"},
    {"--tfs", "was removed; use --top-p or --min-p"},
    {"-dkvc --dump-kv-cache", "was removed; GET /slots shows what slots hold"},
    {"-cml --chatml", "was removed; use --chat-template chatml"},
    {"--infill", "was removed; POST /infill is always there"},
    {"--log-enable --log-new --log-append --log-test -ld --logdir", LOGS},
    {"--image --audio --video", FILES},
    {"--no-special", "was removed; special tokens are hidden unless --special is given"},
    {"--embd-bge-small-en-default",
     "was removed; use -hf ggml-org/bge-small-en-v1.5-Q8_0-GGUF --embeddings"},
    {"--embd-e5-small-en-default",
     "was removed; use -hf ggml-org/e5-small-v2-Q8_0-GGUF --embeddings"},
    {"--embd-gte-small-default", "was removed; use -hf ggml-org/gte-small-Q8_0-GGUF --embeddings"},
    {"-p --prompt -f --file -bf --binary-file --in-file -if -i --interactive --interactive-first "
     "-ins --instruct -cnv --conversation -no-cnv --no-conversation -st --single-turn -co --color "
     "--multiline-input -mli --simple-io --in-prefix --in-prefix-bos --in-suffix --verbose-prompt "
     "--display-prompt --no-display-prompt --prompt-cache --prompt-cache-all --prompt-cache-ro "
     "--random-prompt --show-timings --no-show-timings --cfg-negative-prompt "
     "--cfg-negative-prompt-file --cfg-scale --interactive-specials",
     CLI},
    {"--model-vocoder -hfv -hfrv -hffv --hf-repo-v --hf-file-v --tts-oute-default "
     "--tts-speaker-file --tts-use-guide-tokens --tts-lang",
     TTS},
    {"--all-logits --perplexity --ppl --hellaswag --winogrande --multiple-choice --kl-divergence "
     "--chunks --ppl-stride --ppl-output-type -npp -ntg -npl --sequences -ns --output -o "
     "--attention "
     "--embd-output-format --embd-separator --cls-separator --pca-batch --pca-iter "
     "--positive-file --negative-file --save-logits --logits-output-dir --optimizer -opt",
     TOOL},
};

static bool has_name(const char *names, struct slice wanted)
{
    struct slice word;
    while (next_word(&names, &word))
        if (slice_equal(word, wanted))
            return true;
    return false;
}

/* ---- nearest names -------------------------------------------------------------------- */

enum { NAME_MAX_LEN = 48, SHOWN_MAX = 3 };

/* How many letters must be changed, left out, put in or swapped with their neighbour to make
 * one word of the other (Damerau 1964). */
static size_t distance(struct slice a, struct slice b)
{
    size_t rows[3][NAME_MAX_LEN + 1];
    size_t *before = rows[0], *above = rows[1], *here = rows[2];
    for (size_t j = 0; j <= b.len; j++)
        above[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        here[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t best = above[j - 1] + (a.data[i - 1] != b.data[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = here[j - 1] + 1 < best ? here[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] &&
                a.data[i - 2] == b.data[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            here[j] = best;
        }
        size_t *free_row = before;
        before = above;
        above = here;
        here = free_row;
    }
    return above[b.len];
}

struct nearest {
    struct slice names[SHOWN_MAX];
    size_t distances[SHOWN_MAX], n;
};

static void consider(struct nearest *found, struct slice wanted, struct slice name)
{
    size_t most = wanted.len < 6 ? 1 : wanted.len / 5 + 1;
    if (name.len > NAME_MAX_LEN || wanted.len > NAME_MAX_LEN)
        return;
    size_t d = distance(wanted, name);
    bool begins = wanted.len >= 6 && slice_starts_with(name, wanted);
    if (d > most && !begins)
        return;
    d = begins && d > most ? most : d;
    size_t at = found->n < SHOWN_MAX ? found->n++ : SHOWN_MAX;
    for (; at > 0 && found->distances[at - 1] > d; at--)
        if (at < SHOWN_MAX) {
            found->names[at] = found->names[at - 1];
            found->distances[at] = found->distances[at - 1];
        }
    if (at < SHOWN_MAX) {
        found->names[at] = name;
        found->distances[at] = d;
    }
}

static void find_nearest(struct slice wanted, struct nearest *found)
{
    const struct option *o;
    for (size_t i = 0; (o = option_at(i)); i++) {
        const char *lists[] = {o->names, o->names_off};
        struct slice word;
        for (size_t k = 0; k < 2 && !o->hidden && o->type != OPT_REMOVED; k++)
            for (const char *rest = lists[k]; next_word(&rest, &word);)
                consider(found, wanted, word);
    }
}

bool option_explain_unknown(const char *word, struct error *err)
{
    char plain[NAME_MAX_LEN + 1];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(word, "="), word);
    for (char *c = plain; !strncmp(plain, "--", 2) && *c; c++)
        if (*c == '_')
            *c = '-';
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_name(others[i].names, slice_of(plain)))
            return error_set(err, ERR_INVALID, "%s %s", plain, others[i].advice);
    if (word[0] != '-')
        return error_set(err, ERR_INVALID,
                         "'%.200s' is not an option; options begin with '-', and the model is "
                         "given by -m: -m %.200s",
                         word, word);
    struct nearest found = {0};
    find_nearest(slice_of(plain), &found);
    struct str names = {0};
    for (size_t i = 0; i < found.n; i++)
        str_append_format(&names, "%s%.*s", i ? ", " : "", (int)found.names[i].len,
                          found.names[i].data);
    if (found.n)
        error_set(err, ERR_INVALID, "unknown option '%.200s'; did you mean %s? --help lists all",
                  word, str_text(&names));
    else
        error_set(err, ERR_INVALID, "unknown option '%.200s'; --help lists all", word);
    str_free(&names);
    return false;
}
