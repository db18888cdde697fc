/* render.c - a conversation as models/tale/chat_template.jinja renders it; a
 * test compares the two. */
#include "tale.h"

#include <stdio.h>
#include <stdlib.h>

static void close_segment(struct segment *out, int *n, struct str *text, enum teaching teaches,
                          struct arena *arena)
{
    if (!text->len)
        return;
    if (*n == MAX_SEGMENTS) {
        fprintf(stderr, "tale: too many segments\n");
        exit(1);
    }
    out[*n] = (struct segment){arena_duplicate(arena, str_slice(text)), teaches};
    ++*n;
    str_clear(text);
}

static void render_system(const struct conversation *c, struct str *text)
{
    bool has_system = c->n_messages > 0 && c->messages[0].role == ROLE_SYSTEM;
    if (!has_system && !c->tools)
        return;
    str_append_text(text, "<|im_start|>system\n");
    if (has_system)
        str_append_text(text, c->messages[0].text);
    if (c->tools)
        str_append_format(text,
                          "%sTools:\n<tools>\n%s\n</tools>\nTo use one, write:\n<tool_call>\n"
                          "{\"name\": NAME, \"arguments\": ARGUMENTS}\n</tool_call>",
                          has_system ? "\n\n" : "", c->tools);
    str_append_text(text, "<|im_end|>\n");
}

static void render_reply(const struct message *m, struct str *text)
{
    if (m->call_name)
        str_append_format(text, "<tool_call>\n{\"name\": \"%s\", \"arguments\": %s}\n</tool_call>",
                          m->call_name, m->call_arguments);
    else
        str_append_text(text, m->text);
    str_append_text(text, "<|im_end|>");
}

int render(const struct conversation *c, struct segment out[MAX_SEGMENTS])
{
    struct str text = {0};
    int n = 0;
    if (c->kind == TASK_PLAIN) {
        str_append_format(&text, "%s<|endoftext|>", c->messages[0].text);
        close_segment(out, &n, &text, TEACHES_ALL, c->arena);
        str_free(&text);
        return n;
    }
    render_system(c, &text);
    for (int i = 0; i < c->n_messages; i++) {
        const struct message *m = &c->messages[i];
        switch (m->role) {
        case ROLE_SYSTEM:
            break;
        case ROLE_USER:
            str_append_format(&text, "<|im_start|>user\n%s<|im_end|>\n", m->text);
            break;
        case ROLE_TOOL:
            str_append_format(&text,
                              "<|im_start|>user\n<tool_response>\n%s\n</tool_response><|im_end|>\n",
                              m->text);
            break;
        case ROLE_ASSISTANT: {
            /* Thoughts of earlier answers are not shown again. */
            bool last = i == c->n_messages - 1;
            str_append_text(&text, "<|im_start|>assistant\n");
            close_segment(out, &n, &text, TEACHES_ALL, c->arena);
            if (last && !c->thinking)
                str_append_text(&text, "<think>\n\n</think>\n\n");
            close_segment(out, &n, &text, TEACHES_NOTHING, c->arena);
            if (last && c->thinking)
                str_append_format(&text, "<think>\n%s\n</think>\n\n", m->thought);
            render_reply(m, &text);
            /* Earlier answers stand without their thoughts, which is not how
             * they are to begin. */
            close_segment(out, &n, &text, last ? TEACHES_ALL : TEACHES_AFTER_FIRST, c->arena);
            str_append_char(&text, '\n');
            break;
        }
        }
    }
    str_free(&text);
    return n;
}
