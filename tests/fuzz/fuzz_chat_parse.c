/* fuzz_chat_parse.c - any model text, in any family, in any pieces: what a
 * stream showed adds up to its message. The first byte picks the family and the
 * size of the pieces, the rest is the text. */
#include "../unit/chat/family_templates.h"
#include "chat/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct chat_parser *parsers[N_FAMILY_TEMPLATES];

static void make_parsers(void)
{
    for (int i = 0; i < N_FAMILY_TEMPLATES; i++) {
        struct chat_template_settings settings = {.source = slice_of(family_templates[i].source),
                                                  .use_jinja = true};
        struct chat_templates *templates;
        struct chat_request request = {
            .tools = json_parse(slice_of(family_tools), NULL),
            .messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "Hi"),
            .kwargs = json_object(),
            .reasoning_format = CHAT_REASONING_AUTO,
            .add_generation_prompt = true,
            .parallel_tool_calls = true,
            .enable_thinking = true};
        struct chat_prompt prompt = {0};
        struct error err;
        if (!chat_templates_load(&settings, &templates, &err) ||
            !chat_apply(templates, &request, &prompt, &err))
            __builtin_trap();
        parsers[i] = chat_parser_keep(prompt.parser);
        chat_prompt_free(&prompt);
        chat_request_free(&request);
        chat_templates_free(templates);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!parsers[0])
        make_parsers();
    if (size == 0)
        return 0;
    size_t step = 1 + data[0] / N_FAMILY_TEMPLATES;
    struct chat_stream_settings settings = {.merge_tool_headers = size % 2};
    struct chat_stream *stream =
        chat_stream_create(parsers[data[0] % N_FAMILY_TEMPLATES], &settings);
    struct str content = {0}, reasoning = {0};
    struct error err;
    bool ok = true;
    size--;
    for (size_t at = 0; ok && at <= size; at += step) {
        struct chat_deltas deltas = {0};
        size_t n = size - at < step ? size - at : step;
        ok = chat_stream_add(stream, (struct slice){(const char *)data + 1 + at, n},
                             at + step > size, &deltas, &err);
        for (size_t i = 0; i < deltas.n; i++) {
            if (deltas.data[i].kind == CHAT_DELTA_CONTENT)
                str_append_slice(&content, str_slice(&deltas.data[i].text));
            if (deltas.data[i].kind == CHAT_DELTA_REASONING)
                str_append_slice(&reasoning, str_slice(&deltas.data[i].text));
        }
        chat_deltas_free(&deltas);
    }
    const struct chat_message *message = chat_stream_message(stream);
    if (!slice_starts_with(str_slice(&content), str_slice(&message->content)) ||
        !slice_starts_with(str_slice(&reasoning), str_slice(&message->reasoning_content)))
        __builtin_trap();
    str_free(&content);
    str_free(&reasoning);
    chat_stream_free(stream);
    return 0;
}
