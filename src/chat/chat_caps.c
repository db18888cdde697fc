/* chat_caps.c - what a template can do, found by rendering small conversations
 * and watching what it looks at and what it shows. */
#include "chat/chat_internal.h"

#include <stdlib.h>

struct probe {
    struct chat_probing *probing;
    struct jinja_run *run;
    struct jinja_value *messages, *tools;
    struct jinja_output out;
    bool ok; /* it rendered */
};

bool chat_probing_goes_on(const struct chat_probing *probing)
{
    return probing->limit.code == ERR_NONE;
}

bool chat_probing_note(struct chat_probing *probing, bool ok, const struct error *why)
{
    if (!ok && why->code == ERR_LIMIT && chat_probing_goes_on(probing))
        probing->limit = *why;
    return ok;
}

static void probe_end(struct probe *p)
{
    jinja_run_free(p->run);
    jinja_output_free(&p->out);
}

/* The variables for reasoning, as requests set them. */
enum wish { WISH_NONE, WISH_PRESERVE, WISH_EFFORT };

static bool set_wish(struct jinja_run *run, enum wish wish)
{
    static const struct {
        const char *name;
        bool value;
    } preserve[] = {{"preserve_thinking", true},
                    {"clear_thinking", false},
                    {"truncate_history_thinking", false},
                    {"drop_thinking", false}};
    if (wish == WISH_NONE)
        return true;
    if (!jinja_set(run, "enable_thinking", jinja_bool(run, true)))
        return false;
    for (size_t i = 0; wish == WISH_PRESERVE && i < sizeof preserve / sizeof *preserve; i++)
        if (!jinja_set(run, preserve[i].name, jinja_bool(run, preserve[i].value)))
            return false;
    return true;
}

/* Render messages and tools (JSON text). False only when out of memory. */
static bool probe_begin(const struct jinja_template *t, const char *messages, const char *tools,
                        enum wish wish, struct jinja_value **effort, struct probe *p)
{
    *p = (struct probe){.probing = p->probing};
    struct error why = {0};
    json_t *m = json_loads(messages, 0, NULL), *u = json_loads(tools ? tools : "[]", 0, NULL);
    p->run = m && u ? jinja_run_create(t, 0, true, NULL, &p->probing->budget) : NULL;
    if (p->run) {
        p->messages = jinja_from_json(p->run, m, true);
        p->tools = jinja_from_json(p->run, u, true);
        bool set = jinja_set(p->run, "messages", p->messages) &&
                   jinja_set(p->run, "tools", p->tools) &&
                   jinja_set(p->run, "bos_token", jinja_text(p->run, SLICE(""), false)) &&
                   jinja_set(p->run, "eos_token", jinja_text(p->run, SLICE(""), false)) &&
                   jinja_set(p->run, "add_generation_prompt", jinja_bool(p->run, true)) &&
                   set_wish(p->run, wish);
        if (set && wish == WISH_EFFORT) {
            *effort = jinja_text(p->run, SLICE("low"), false);
            set = jinja_set(p->run, "reasoning_effort", *effort) &&
                  jinja_set(p->run, "reasoning_strength", *effort);
        }
        p->ok = set && chat_probing_goes_on(p->probing) &&
                chat_probing_note(p->probing, jinja_render(p->run, &p->out, &why), &why);
    }
    json_decref(m);
    json_decref(u);
    return p->run != NULL;
}

#define USER "{\"role\":\"user\",\"content\":\"User message\"}"
#define CALL(id, arguments)                                                                        \
    "{\"id\":\"" id                                                                                \
    "\",\"type\":\"function\",\"function\":{\"name\":\"tool1\",\"arguments\":" arguments "}}"
#define CONVERSATION(calls)                                                                        \
    "[" USER ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[" calls "]},"              \
    "{\"role\":\"tool\",\"content\":\"Tool response\",\"tool_call_id\":\"call00001\"},"            \
    "{\"role\":\"assistant\",\"content\":\"The tool response was 'tool response'\"}," USER "]"
#define AS_OBJECT "{\"arg\":\"value\"}"
#define AS_TEXT   "\"{\\\"arg\\\": \\\"value\\\"}\""

static const char tools_json[] =
    "[{\"name\":\"tool\",\"type\":\"function\",\"function\":{\"name\":\"tool1\","
    "\"description\":\"Tool description\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"arg\":{\"type\":\"string\",\"description\":\"Arg description\"}},"
    "\"required\":[\"arg\"]}}}]";

static const struct jinja_value *function_of(const struct jinja_value *list, size_t i)
{
    return jinja_key(jinja_item(list, i), "function");
}

static const struct jinja_value *calls_of(const struct probe *p)
{
    return jinja_key(jinja_item(p->messages, 1), "tool_calls");
}

static bool probe_content(const struct jinja_template *t, struct chat_probing *probing,
                          struct chat_caps *caps)
{
    struct probe p = {.probing = probing};
    if (!probe_begin(t, "[{\"role\":\"user\",\"content\":\"STRING_MARKER\"}]", NULL, WISH_NONE,
                     NULL, &p))
        return false;
    bool as_list = jinja_was_used_as_list(jinja_key(jinja_item(p.messages, 0), "content"));
    caps->supports_typed_content = as_list;
    caps->supports_string_content =
        p.ok && !(as_list && !strstr(str_text(&p.out.text), "STRING_MARKER"));
    probe_end(&p);
    if (!probe_begin(t, "[{\"role\":\"system\",\"content\":\"System message\"}," USER "]", NULL,
                     WISH_NONE, NULL, &p))
        return false;
    caps->supports_system_role = jinja_was_used(jinja_key(jinja_item(p.messages, 0), "content"));
    probe_end(&p);
    return true;
}

static bool probe_calls(const struct jinja_template *t, struct chat_probing *probing,
                        struct chat_caps *caps)
{
    struct probe p = {.probing = probing};
    if (!probe_begin(t, CONVERSATION(CALL("call00001", AS_OBJECT)), tools_json, WISH_NONE, NULL,
                     &p))
        return false;
    if (p.ok) {
        if (!jinja_was_used(jinja_key(function_of(p.tools, 0), "name")))
            caps->supports_tools = false;
        const struct jinja_value *calls = calls_of(&p);
        if (!jinja_was_used(calls))
            caps->supports_tool_calls = false;
        else if (jinja_was_used(jinja_key(jinja_key(function_of(calls, 0), "arguments"), "arg")))
            caps->supports_object_arguments = true;
    }
    probe_end(&p);
    if (caps->supports_object_arguments)
        return true;
    if (!probe_begin(t, CONVERSATION(CALL("call00001", AS_TEXT)), tools_json, WISH_NONE, NULL, &p))
        return false;
    if (!p.ok || !jinja_was_used(jinja_key(function_of(p.tools, 0), "name")))
        caps->supports_tools = false;
    if (!p.ok || !jinja_was_used(calls_of(&p)))
        caps->supports_tool_calls = false;
    probe_end(&p);
    return true;
}

static bool probe_parallel_calls(const struct jinja_template *t, struct chat_probing *probing,
                                 struct chat_caps *caps)
{
    struct probe p = {.probing = probing};
    if (!probe_begin(
            t,
            caps->supports_object_arguments
                ? CONVERSATION(CALL("call00001", AS_OBJECT) "," CALL("call00002", AS_OBJECT))
                : CONVERSATION(CALL("call00001", AS_TEXT) "," CALL("call00002", AS_TEXT)),
            tools_json, WISH_NONE, NULL, &p))
        return false;
    caps->supports_parallel_tool_calls = p.ok && jinja_was_used(function_of(calls_of(&p), 1));
    probe_end(&p);
    return true;
}

static bool probe_reasoning(const struct jinja_template *t, struct chat_probing *probing,
                            struct chat_caps *caps)
{
    struct probe p = {.probing = probing};
    struct jinja_value *effort = NULL;
    if (!probe_begin(t,
                     "[" USER ",{\"role\":\"assistant\",\"content\":\"Assistant message\","
                     "\"reasoning_content\":\"<REASONING_CONTENT_PLACEHOLDER>\"}," USER
                     ",{\"role\":\"assistant\",\"content\":\"Assistant message\","
                     "\"reasoning_content\":\"Reasoning content\"}," USER "]",
                     NULL, WISH_PRESERVE, NULL, &p))
        return false;
    caps->supports_preserve_reasoning =
        p.ok && strstr(str_text(&p.out.text), "<REASONING_CONTENT_PLACEHOLDER>") != NULL;
    probe_end(&p);
    if (!probe_begin(t, "[" USER "]", NULL, WISH_EFFORT, &effort, &p))
        return false;
    caps->supports_reasoning_effort = jinja_was_used(effort);
    probe_end(&p);
    return true;
}

bool chat_probe(const struct jinja_template *t, struct chat_probing *probing,
                struct chat_caps *caps, struct error *err)
{
    *caps = (struct chat_caps){.supports_tools = true, .supports_tool_calls = true};
    return (probe_content(t, probing, caps) && probe_calls(t, probing, caps) &&
            probe_parallel_calls(t, probing, caps) && probe_reasoning(t, probing, caps)) ||
           error_memory(err);
}

json_t *chat_caps_to_json(const struct chat_caps *caps)
{
    return json_pack("{s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:b}", "supports_object_arguments",
                     caps->supports_object_arguments, "supports_parallel_tool_calls",
                     caps->supports_parallel_tool_calls, "supports_preserve_reasoning",
                     caps->supports_preserve_reasoning, "supports_reasoning_effort",
                     caps->supports_reasoning_effort, "supports_string_content",
                     caps->supports_string_content, "supports_system_role",
                     caps->supports_system_role, "supports_tool_calls", caps->supports_tool_calls,
                     "supports_tools", caps->supports_tools, "supports_typed_content",
                     caps->supports_typed_content);
}
