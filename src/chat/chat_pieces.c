/* chat_pieces.c - small parsers that several families are put together from. */
#include "chat/chat_build.h"

peg_id chat_tool_choice(struct chat_build *b,
                        peg_id (*one)(struct chat_build *, const struct chat_tool *, const void *),
                        const void *context)
{
    struct peg_ids tools = {0};
    struct chat_tool tool;
    for (size_t i = 0; chat_build_tool(b, i, &tool); i++) {
        struct slice name = chat_build_text(b, "tool-%.*s", (int)tool.name.len, tool.name.data);
        chat_ids_add(b, &tools, peg_rule(b->g, name, one(b, &tool, context), false));
    }
    return chat_choice_of(b, &tools);
}

peg_id chat_content_until(struct peg *g, const char *text)
{
    return peg_tag(g, TAG_CONTENT, peg_until(g, text));
}

peg_id chat_content_rest(struct peg *g)
{
    return peg_tag(g, TAG_CONTENT, peg_rest(g));
}

peg_id chat_tool_name(struct peg *g, const struct chat_tool *tool)
{
    return peg_atomic(g, peg_tag(g, TAG_TOOL_NAME, peg_literal(g, tool->name)));
}

peg_id chat_tool_open(struct peg *g, peg_id inner)
{
    return peg_atomic(g, peg_tag(g, TAG_TOOL_OPEN, inner));
}
