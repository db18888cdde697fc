/* chat_message.c - model text to a message.
 *
 * A parser marks what each piece of the text means; here the pieces become the
 * message. A text that is still growing gives a message that the next one
 * continues: arguments open braces and quotes that are closed once their end is
 * seen. */
#include "chat/peg.h"

#include "base/utf8.h"
#include "chat/chat_internal.h"
#include "chat/message_json.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>

struct chat_parser {
    atomic_int count;
    enum chat_format format;
    struct peg *peg;
    struct str generation_prompt; /* the text a model's answer goes on from */
};

/* ---- Parsers ------------------------------------------------------------- */

struct chat_parser *chat_parser_create(struct peg *g, enum chat_format format,
                                       struct slice generation_prompt, struct error *err)
{
    struct chat_parser *parser = peg_failed(g) ? NULL : calloc(1, sizeof *parser);
    if (!parser || !str_append_slice(&parser->generation_prompt, generation_prompt)) {
        peg_free(g);
        free(parser);
        error_memory(err);
        return NULL;
    }
    atomic_init(&parser->count, 1);
    parser->format = format;
    parser->peg = g;
    return parser;
}

struct chat_parser *chat_parser_plain(void)
{
    struct peg *g = peg_create();
    if (!g)
        return NULL;
    peg_set_root(g, SEQ(g, peg_tag(g, TAG_CONTENT, peg_rest(g)), peg_end(g)));
    return chat_parser_create(g, CHAT_FORMAT_CONTENT_ONLY, SLICE(""), NULL);
}

struct chat_parser *chat_parser_keep(struct chat_parser *parser)
{
    atomic_fetch_add(&parser->count, 1);
    return parser;
}

void chat_parser_release(struct chat_parser *parser)
{
    if (!parser || atomic_fetch_sub(&parser->count, 1) != 1)
        return;
    peg_free(parser->peg);
    str_free(&parser->generation_prompt);
    free(parser);
}

/* ---- Messages ------------------------------------------------------------ */

void chat_message_free(struct chat_message *message)
{
    str_free(&message->content);
    str_free(&message->reasoning_content);
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        str_free(&message->tool_calls[i].id);
        str_free(&message->tool_calls[i].name);
        str_free(&message->tool_calls[i].arguments);
    }
    free(message->tool_calls);
    *message = (struct chat_message){0};
}

static void set(struct str *text, struct slice value)
{
    str_clear(text);
    str_append_slice(text, value);
}

struct reader {
    struct chat_message *message;
    struct chat_tool_call call; /* being read */
    bool open, named;           /* there is one; its name is known */
    bool quote_open;            /* a string value waits for its closing quote */
    size_t n_arguments;
    bool failed;
};

static bool add_call(struct reader *r)
{
    struct chat_message *m = r->message;
    struct chat_tool_call *grown = realloc(m->tool_calls, (m->n_tool_calls + 1) * sizeof *grown);
    if (!grown) {
        r->failed = true;
        return false;
    }
    m->tool_calls = grown;
    m->tool_calls[m->n_tool_calls++] = r->call;
    r->call = (struct chat_tool_call){0};
    return true;
}

static void drop_call(struct reader *r)
{
    str_free(&r->call.id);
    str_free(&r->call.name);
    str_free(&r->call.arguments);
    r->call = (struct chat_tool_call){0};
    r->open = r->named = false;
}

/* The call being read: in the message once it has a name. */
static struct chat_tool_call *current(struct reader *r)
{
    return r->named ? &r->message->tool_calls[r->message->n_tool_calls - 1] : &r->call;
}

static void take_name(struct reader *r, struct slice name)
{
    if (r->named) {
        set(&current(r)->name, name);
        return;
    }
    set(&r->call.name, name);
    if (name.len == 0)
        return;
    if (r->call.arguments.len == 0)
        str_append_char(&r->call.arguments, '{');
    r->named = add_call(r);
    r->open = r->named;
}

static void take_id(struct reader *r, struct slice id)
{
    while (id.len && isspace((unsigned char)id.data[id.len - 1]))
        id.len--;
    if (id.len >= 2 && id.data[0] == '"' && id.data[id.len - 1] == '"')
        id = (struct slice){id.data + 1, id.len - 2};
    set(&current(r)->id, id);
}

static void take_args(struct reader *r, struct slice args)
{
    while (args.len && isspace((unsigned char)args.data[args.len - 1]))
        args.len--;
    if (args.len && args.data[0] == '{')
        set(&current(r)->arguments, args);
}

static void take_arg_name(struct reader *r, struct slice name)
{
    struct str *args = &current(r)->arguments;
    if (args->len == 0)
        str_append_char(args, '{');
    if (r->n_arguments++ > 0)
        str_append_char(args, ',');
    str_append_char(args, '"');
    message_json_escape(args, name);
    str_append_text(args, "\":");
}

static void take_arg_value(struct reader *r, const struct peg_node *node)
{
    struct str *args = &current(r)->arguments;
    if (node->tag == TAG_TOOL_ARG_STRING_VALUE) {
        if (!r->quote_open)
            str_append_char(args, '"');
        r->quote_open = true;
        message_json_escape(args, node->text);
    } else {
        message_json_from_python(args, node->text);
    }
}

static void close_call(struct reader *r)
{
    struct chat_tool_call *call = current(r);
    if (r->quote_open)
        str_append_char(&call->arguments, '"');
    r->quote_open = false;
    for (int depth = message_json_depth(str_slice(&call->arguments)); depth > 0; depth--)
        str_append_char(&call->arguments, '}');
    r->failed = r->failed || call->arguments.failed;
    if (!r->named)
        drop_call(r);
}

static void read_node(struct reader *r, const struct peg_node *node)
{
    switch (node->tag) {
    case TAG_REASONING:
        utf8_append_sanitized(&r->message->reasoning_content, node->text);
        break;
    case TAG_CONTENT:
        utf8_append_sanitized(&r->message->content, node->text);
        break;
    case TAG_TOOL_OPEN:
        drop_call(r);
        r->open = true;
        r->n_arguments = 0;
        r->quote_open = false;
        break;
    default:
        break;
    }
    if (!r->open)
        return;
    switch (node->tag) {
    case TAG_TOOL_ID:
        take_id(r, node->text);
        break;
    case TAG_TOOL_NAME:
        take_name(r, node->text);
        break;
    case TAG_TOOL_ARGS:
        take_args(r, node->text);
        break;
    case TAG_TOOL_ARG_OPEN:
        r->quote_open = false;
        break;
    case TAG_TOOL_ARG_NAME:
        take_arg_name(r, node->text);
        break;
    case TAG_TOOL_ARG_VALUE:
    case TAG_TOOL_ARG_STRING_VALUE:
        take_arg_value(r, node);
        break;
    case TAG_TOOL_ARG_CLOSE:
        if (r->quote_open)
            str_append_char(&current(r)->arguments, '"');
        r->quote_open = false;
        break;
    case TAG_TOOL_CLOSE:
        close_call(r);
        break;
    default:
        break;
    }
}

static void read_nodes(struct reader *r, const struct peg_node *node)
{
    for (; node; node = node->next) {
        read_node(r, node);
        read_nodes(r, node->first);
    }
}

/* Families whose calls are read as trees. */
static void read_trees(struct reader *r, const struct peg_node *node, enum chat_format format)
{
    for (; node; node = node->next) {
        if (node->tag != TAG_TOOL) {
            if (node->tag == TAG_REASONING || node->tag == TAG_CONTENT)
                read_node(r, node);
            else
                read_trees(r, node->first, format);
            continue;
        }
        const struct peg_node *name = peg_find(node, TAG_TOOL_NAME, 4);
        const struct peg_node *args = peg_find(node, TAG_TOOL_ARGS, 4);
        if (!name || name->partial || (format == CHAT_FORMAT_PEG_GEMMA4 && !args))
            continue;
        utf8_append_sanitized(&r->call.name, name->text);
        if (format == CHAT_FORMAT_PEG_GEMMA4)
            message_json_from_gemma(&r->call.arguments, args->first);
        else
            message_json_from_tags(&r->call.arguments, node, true, !node->partial);
        add_call(r);
    }
}

static void drop_blank_reasoning(struct chat_message *m)
{
    struct slice text = str_slice(&m->reasoning_content);
    while (text.len && strchr(" \n\r\t", text.data[0]))
        text = slice_from(text, 1);
    if (text.len == 0)
        str_clear(&m->reasoning_content);
}

static void read_all(struct reader *r, const struct chat_parser *parser,
                     const struct peg_node *node)
{
    if (parser->format == CHAT_FORMAT_PEG_GEMMA4 || parser->format == CHAT_FORMAT_PEG_MINIMAX_M3) {
        read_trees(r, node, parser->format);
    } else {
        read_nodes(r, node);
        drop_blank_reasoning(r->message);
    }
}

/* How much of a text that does not fit does, as the beginning of a longer one. */
static size_t fitting(const struct chat_parser *parser, struct slice text, struct arena *arena)
{
    size_t fits = 0, wrong = text.len;
    while (wrong - fits > 1) {
        size_t middle = fits + (wrong - fits) / 2;
        struct slice part = {text.data, middle};
        if (peg_parse(parser->peg, part, 0, false, false, arena).kind == PEG_FAILED)
            wrong = middle;
        else
            fits = middle;
    }
    return fits;
}

/* Where text begins that is no part of a whole call: behind the last thought, content
 * or whole call that stands before a call that is cut. */
static size_t last_whole(const struct peg_node *node, size_t end, bool *cut)
{
    for (; node && !*cut; node = node->next) {
        bool opens = node->tag == TAG_TOOL || node->tag == TAG_TOOL_OPEN;
        bool text = node->tag == TAG_REASONING || node->tag == TAG_CONTENT;
        bool ends =
            text || ((node->tag == TAG_TOOL || node->tag == TAG_TOOL_CLOSE) && !node->partial);
        *cut = opens && node->partial;
        if (ends && node->end > end)
            end = node->end;
        if (!*cut)
            end = last_whole(node->first, end, cut);
    }
    return end;
}

/* A text that does not fit: what does is read, and from the call that goes wrong on
 * all is content. No request fails for what the model wrote. */
static void read_misfit(struct reader *r, const struct chat_parser *parser, struct slice text,
                        struct arena *arena)
{
    struct slice part = {text.data, fitting(parser, text, arena)};
    bool cut = false;
    struct peg_result result = peg_parse(parser->peg, part, 0, false, false, arena);
    /* a whole answer with something behind it, or one that is cut */
    size_t end = result.kind == PEG_MATCHED ? part.len : last_whole(result.first, 0, &cut);
    if (end < parser->generation_prompt.len)
        end = parser->generation_prompt.len;
    part.len = end;
    result = peg_parse(parser->peg, part, 0, false, false, arena);
    if (result.kind != PEG_FAILED)
        read_all(r, parser, result.first);
    drop_call(r);
    utf8_append_sanitized(&r->message->content, slice_from(text, end));
}

bool chat_parse(const struct chat_parser *parser, struct slice text, bool partial,
                struct chat_message *out, struct error *err)
{
    struct str whole = {0};
    struct arena arena = {0};
    if (!str_append_slice(&whole, str_slice(&parser->generation_prompt)) ||
        !str_append_slice(&whole, text)) {
        str_free(&whole);
        return error_memory(err);
    }
    struct reader r = {.message = out};
    struct slice input = str_slice(&whole);
    struct peg_result result = peg_parse(parser->peg, input, 0, !partial, false, &arena);
    if (result.kind != PEG_FAILED)
        read_all(&r, parser, result.first);
    else
        read_misfit(&r, parser, input, &arena);
    drop_call(&r);
    arena_free(&arena);
    str_free(&whole);
    return (!r.failed && !out->content.failed && !out->reasoning_content.failed) ||
           error_memory(err);
}
