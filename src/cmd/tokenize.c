/* tokenize.c - "mlxcel tokenize" and "mlxcel detokenize". */
#include "cmd/cmd.h"

#include "base/json.h"
#include "base/printable.h"
#include "text/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char tokenize_usage[] =
    "usage: mlxcel tokenize -m FILE [OPTIONS] [TEXT...]\n"
    "\n"
    "Print the ids of the tokens of a text as a JSON array.\n"
    "\n"
    "  -m, --model FILE     a GGUF file (a vocabulary is enough), a Hugging Face folder,\n"
    "                       a tokenizer.json or a tokenizer.model\n"
    "      --stdin, -       read the text from standard input, as when no text is given\n"
    "                       and standard input is a pipe or a file\n"
    "      --json           the text is a JSON array of texts; print one array for each,\n"
    "                       a line each\n"
    "      --no-bos         do not put bos, eos and the like around the text\n"
    "      --no-parse-special   read \"<|im_end|>\" and its kind as plain text\n"
    "      --pieces         print the texts of the tokens, not their ids\n";

static const char detokenize_usage[] =
    "usage: mlxcel detokenize -m FILE [OPTIONS] [IDS...]\n"
    "\n"
    "Print the text of tokens, given as numbers or as JSON arrays of numbers.\n"
    "\n"
    "  -m, --model FILE     as for mlxcel tokenize\n"
    "      --stdin, -       read the ids from standard input, as when none are given and\n"
    "                       standard input is a pipe or a file\n"
    "      --no-special     leave out control tokens\n";

struct arguments {
    const char *model;
    bool from_stdin, json, no_bos, no_parse_special, pieces, no_special, help;
    struct str text; /* what is not an option, or standard input; owned */
};

static int fail(const char *command, const struct error *err)
{
    fprintf(stderr, "mlxcel ");
    error_print(command, err);
    return 1;
}

static bool read_stdin(struct str *out, struct error *err)
{
    char block[1 << 14];
    size_t n;
    while ((n = fread(block, 1, sizeof block, stdin)) > 0)
        str_append(out, block, n);
    if (ferror(stdin))
        return error_set(err, ERR_IO, "standard input: %s", strerror(errno));
    return !out->failed || error_memory(err);
}

/* A negative number is an id that does not exist, not an option. */
static bool is_number(const char *text)
{
    return text[0] == '-' && text[1] && text[1 + strspn(text + 1, "0123456789")] == '\0';
}

static bool read_arguments(int argc, char **argv, struct arguments *args, struct error *err)
{
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"--stdin", &args->from_stdin}, {"--json", &args->json},
        {"--no-bos", &args->no_bos},    {"--no-parse-special", &args->no_parse_special},
        {"--pieces", &args->pieces},    {"--no-special", &args->no_special},
        {"--help", &args->help},        {"-h", &args->help},
    };
    bool options = true, have_text = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        bool taken = false;
        if (options && strcmp(arg, "--") == 0) {
            options = false;
            continue;
        }
        if (options && (strcmp(arg, "-m") == 0 || strcmp(arg, "--model") == 0)) {
            if (++i == argc)
                return error_set(err, ERR_INVALID, "%s: a file is missing", arg);
            args->model = argv[i];
            continue;
        }
        for (size_t k = 0; options && !taken && k < sizeof flags / sizeof *flags; k++)
            if (strcmp(arg, flags[k].name) == 0)
                taken = *flags[k].flag = true;
        if (taken)
            continue;
        if (options && strcmp(arg, "-") == 0) {
            args->from_stdin = true;
            continue;
        }
        if (options && arg[0] == '-' && !is_number(arg))
            return error_set(err, ERR_INVALID,
                             "unknown option '%s'; --help lists all (put -- before a text that "
                             "begins so)",
                             arg);
        if (have_text)
            str_append_char(&args->text, ' ');
        str_append_text(&args->text, arg);
        have_text = true;
    }
    if (args->help)
        return true;
    if (!args->model)
        return error_set(err, ERR_INVALID, "-m FILE is missing; it names the model or tokenizer");
    if (!have_text && !args->from_stdin) {
        if (isatty(STDIN_FILENO))
            return error_set(err, ERR_INVALID, "give a text, or - to read standard input");
        args->from_stdin = true;
    }
    if (args->from_stdin && have_text)
        return error_set(err, ERR_INVALID, "give a text or --stdin, not both");
    return !args->from_stdin || read_stdin(&args->text, err);
}

static bool print_tokens(const struct tokenizer *tok, const struct arguments *args,
                         struct slice text, struct error *err)
{
    struct token_vec ids = {0};
    unsigned flags = (args->no_bos ? 0u : (unsigned)TEXT_ADD_SPECIAL) |
                     (args->no_parse_special ? 0u : (unsigned)TEXT_PARSE_SPECIAL);
    json_t *out = json_array();
    bool ok = out && text_encode(tok, text, flags, &ids, err);
    for (size_t i = 0; ok && i < ids.n; i++)
        json_array_append_new(out, args->pieces
                                       ? json_string_from(text_piece(tok, ids.data[i], true))
                                       : json_integer(ids.data[i]));
    struct str line = {0};
    ok = ok && (json_append(&line, out) || error_memory(err));
    if (ok)
        puts(str_text(&line));
    str_free(&line);
    json_decref(out);
    VEC_FREE(&ids);
    return ok;
}

static bool print_all(const struct tokenizer *tok, const struct arguments *args, struct error *err)
{
    if (!args->json)
        return print_tokens(tok, args, str_slice(&args->text), err);
    json_t *texts = json_parse(str_slice(&args->text), err);
    bool ok = texts != NULL;
    if (ok && !json_is_array(texts))
        ok = error_set(err, ERR_FORMAT, "--json: expected a JSON array of texts");
    for (size_t i = 0; ok && i < json_array_size(texts); i++)
        ok = print_tokens(tok, args, json_slice(json_array_get(texts, i)), err);
    json_decref(texts);
    return ok;
}

int cmd_tokenize(int argc, char **argv)
{
    struct arguments args = {0};
    struct error err = {0};
    struct tokenizer *tok = NULL;
    bool ok = read_arguments(argc, argv, &args, &err);
    if (ok && args.help)
        fputs(tokenize_usage, stdout);
    else if (ok)
        ok = tokenizer_open(args.model, &tok, &err) && print_all(tok, &args, &err);
    tokenizer_free(tok);
    str_free(&args.text);
    return ok ? 0 : fail("tokenize", &err);
}

/* Numbers with anything that a JSON array may have between them. */
static bool read_ids(const char *text, int32_t n_vocab, struct token_vec *ids, struct error *err)
{
    for (;;) {
        text += strspn(text, " \t\r\n,[]");
        if (!*text)
            return true;
        char *end;
        long id = strtol(text, &end, 10);
        if (end == text)
            return error_set(err, ERR_FORMAT, "'%.20s' is not a token id", text);
        if (id < 0 || id >= n_vocab)
            return error_set(err, ERR_FORMAT, "token id %ld does not exist; ids are 0 to %d", id,
                             (int)n_vocab - 1);
        if (!VEC_PUSH(ids, (int32_t)id))
            return error_memory(err);
        text = end;
    }
}

static bool print_text(const struct tokenizer *tok, const struct arguments *args, struct error *err)
{
    struct token_vec ids = {0};
    struct str text = {0};
    unsigned flags = args->no_special ? TEXT_REMOVE_SPECIAL : TEXT_SHOW_SPECIAL;
    bool ok = read_ids(str_text(&args->text), tokenizer_n_vocab(tok), &ids, err) &&
              text_decode(tok, ids.data, ids.n, flags, &text, err);
    if (ok) {
        fwrite(str_text(&text), 1, text.len, stdout);
        putchar('\n');
    }
    VEC_FREE(&ids);
    str_free(&text);
    return ok;
}

int cmd_detokenize(int argc, char **argv)
{
    struct arguments args = {0};
    struct error err = {0};
    struct tokenizer *tok = NULL;
    bool ok = read_arguments(argc, argv, &args, &err);
    if (ok && args.help)
        fputs(detokenize_usage, stdout);
    else if (ok)
        ok = tokenizer_open(args.model, &tok, &err) && print_text(tok, &args, &err);
    tokenizer_free(tok);
    str_free(&args.text);
    return ok ? 0 : fail("detokenize", &err);
}
