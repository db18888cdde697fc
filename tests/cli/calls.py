"""calls.py SERVER SHARED - what a model writes that is no call of a tool that was
offered is content, and no request fails for it: with a scripted model, through the
real server, streamed and not."""
import json

import scripted
import server
from server import Server, check

server.use(server.sys.argv[1], "calls")
TEMPLATE = """{%- if tools %}{{ tools|tojson }}{% endif %}{% for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for c in m.tool_calls or [] %}
<tool_call>
{{ {'name': c.function.name, 'arguments': c.function.arguments}|tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
template = server.scratch / "template.jinja"
template.write_text(TEMPLATE)
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                         "required": ["city"]}}}]
BODY = {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS, "max_tokens": 64,
        "temperature": 0}
GOOD = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "P"}}\n</tool_call>'
UNKNOWN = '<tool_call>\n{"name": "get_wind", "arguments": {"city": "P"}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "P\n</tool_call>'
MISSING = '<tool_call>\n{"name": "get_weather" "arguments": {"city": "P"}}\n</tool_call>'
WRONG = '<tool_call>\n{"name": "get_weather", "arguments": ["P"]}\n</tool_call>'


def arguments_of(text):
    """As JSON, or as written where they are none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def events(s, path, body):
    with s.open(path, {**body, "stream": True}) as answer:
        lines = answer.read().decode().split("\n")
    return [json.loads(l[6:]) for l in lines if l.startswith("data: ") and l != "data: [DONE]"]


def streamed(s, body):
    """The streamed answer put together: content and calls."""
    content, calls = "", []
    for event in events(s, "/v1/chat/completions", body):
        check("no error in the stream", "error" not in event, event)
        for choice in event.get("choices", []):
            delta = choice["delta"]
            content += delta.get("content") or ""
            for call in delta.get("tool_calls", []):
                while len(calls) <= call["index"]:
                    calls.append(["", ""])
                calls[call["index"]][0] += call["function"].get("name", "")
                calls[call["index"]][1] += call["function"].get("arguments", "")
    return content, [(name, arguments_of(arguments)) for name, arguments in calls]


def whole(s, body):
    status, answer = s.exchange("/v1/chat/completions", body)
    check("an answer", status == 200, (status, answer))
    if status != 200:
        return None
    message = answer["choices"][0]["message"]
    calls = [c["function"] for c in message.get("tool_calls") or []]
    return message.get("content") or "", [(c["name"], arguments_of(c["arguments"])) for c in calls]


CALL = ("get_weather", {"city": "P"})
# what the model writes, and the content and calls it is read as
SCRIPTS = {
    "text": (["Hello", " there", "."], "Hello there.", []),
    "a call as one token": ([GOOD], "", [CALL]),
    "a call after text": (["Let me see. ", GOOD], "Let me see.", [CALL]),
    "an unknown tool": ([UNKNOWN], UNKNOWN, []),
    "an unknown tool within text": (["Let me see. ", UNKNOWN, " So."],
                                    "Let me see. " + UNKNOWN + " So.", []),
    "broken JSON": (["Now: ", BROKEN, " So."], "Now:",
                    [("get_weather", '{"city": "P\n</tool_call> So.')]),
    "JSON that goes wrong": ([MISSING, " So."], MISSING + " So.", []),
    "arguments that are a list": ([WRONG, " So."], WRONG + " So.", []),
    "an unknown tool, then one": ([UNKNOWN, GOOD], UNKNOWN + GOOD, []),
    "a thing like a marker": (["1 <tool", " 2"], "1 <tool 2", []),
}
for name, (pieces, content, calls) in SCRIPTS.items():
    path = scripted.write(server.scratch / "model.gguf", pieces)
    with Server("--chat-template-file", str(template), "-c", "8192", path=path) as s:
        for what, got in (("whole", whole(s, BODY)), ("streamed", streamed(s, BODY))):
            if got:
                check(f"{name}, {what}: content", got[0].strip() == content.strip(), got)
                check(f"{name}, {what}: calls", got[1] == calls, got)
        for surface, body in (("/v1/responses", {"input": "Hi", "max_output_tokens": 64}),
                              ("/v1/messages", {"messages": BODY["messages"], "max_tokens": 64})):
            tools = [{"type": "function", **TOOLS[0]["function"]}] if "input" in body else \
                [{"name": "get_weather", "input_schema": TOOLS[0]["function"]["parameters"]}]
            status, answer = s.exchange(surface, {**body, "tools": tools, "temperature": 0})
            check(f"{name}: {surface}", status == 200, (status, answer))
            if surface == "/v1/messages" and status == 200:
                texts = [b["text"] for b in answer["content"] if b["type"] == "text"]
                uses = [(b["name"], b["input"]) for b in answer["content"] if b["type"] == "tool_use"]
                check(f"{name}: {surface} has the text", "".join(texts).strip() == content.strip(), texts)
                check(f"{name}: {surface} has the calls", len(uses) == len(calls), uses)
            for event in events(s, surface, {**body, "tools": tools, "temperature": 0}):
                check(f"{name}: {surface} streamed", event.get("type") not in
                      ("error", "response.failed") and "error" not in event, event)

# Arguments in another order than the parameters', with members that are not required between:
# streamed and not, from the first call on and after one.
WRITE = {"type": "function", "function": {"name": "write", "parameters": {
    "type": "object", "properties": {"content": {"type": "string"}, "mode": {"type": "integer"},
                                     "filePath": {"type": "string"},
                                     "edit": {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
                                              "required": ["a", "b"]}},
    "required": ["content", "filePath"]}}}
ORDERS = ('{"filePath": "x", "content": "y"}', '{"mode": 7, "filePath": "x", "content": "y"}',
          '{"filePath": "x", "edit": {"b": null, "a": null}, "content": "y", "mode": 7}',
          '{"content": "y", "filePath": "x"}')
for arguments in ORDERS:
    call = ["<tool_call>\n", '{"name": "write", "arguments": ', *arguments.split(" "), "}\n</tool_call>"]
    words = call[:2] + [word + " " for word in call[2:-2]] + call[-2:]
    path = scripted.write(server.scratch / "model.gguf", words)
    with Server("--chat-template-file", str(template), "-c", "8192", path=path) as s:
        for choice in ("auto", "required"):
            body = {**BODY, "tools": [*TOOLS, WRITE], "tool_choice": choice}
            for what, got in (("whole", whole(s, body)), ("streamed", streamed(s, body))):
                check(f"{arguments}, {choice}, {what}", got and got[1][:1] == [("write", json.loads(arguments))], got)

# A marker and then a function nobody offered, a token each: the grammar, awake by then,
# has it sampled again.
path = scripted.write(server.scratch / "model.gguf", ["<tool_call>\n", '{"name": "get_wind', '"}'])
with Server("--chat-template-file", str(template), "-c", "8192", path=path) as s:
    got = whole(s, BODY)
    check("an unknown tool after its marker: no such call",
          got is not None and all(call[0] == "get_weather" for call in got[1]), got)
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        status, answer = s.exchange("/v1/chat/completions", {**BODY, "tool_choice": choice})
        check(f"{choice}: an answer", status == 200, (status, answer))
server.end()
