"""body_members.py SERVER ROOT - every member of a body that generates and that is no plain
field of a completion is seen on the answer of a running server, or seen to have no effect
where the manifest says so. What the sources read of a body and the manifest does not name is
a failure."""
import json
import pathlib
import re
import sys

import server
from server import Server, check

root = pathlib.Path(sys.argv[2])
server.use(sys.argv[1], "body-members")
claims = json.loads((root / "compat/llama-server/b10621/members.json").read_text())["entries"]
surface = {f["name"] for f in server.surface()["fields"]}
TEMPLATE = server.scratch / "template.jinja"
# The model's own, with two variables of a request.
TEMPLATE.write_text("{{- mood or '' -}}{{- reasoning_effort or '' -}}" +
                    (root / "models/tale/chat_template.jinja").read_text())
USER = [{"role": "user", "content": "Hello"}]
TOOL = {"name": "look", "description": "Looks", "parameters": {
    "type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}
CHAT_TOOL = {"type": "function", "function": TOOL}
RESPONSES_TOOL = {"type": "function", **TOOL}
MESSAGES_TOOL = {"name": "look", "description": "Looks", "input_schema": TOOL["parameters"]}
PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions",
         "responses": "/v1/responses", "messages": "/v1/messages", "all": "/completion"}
BASES = {"chat": {"messages": USER, "max_tokens": 6},
         "completions": {"prompt": "Once", "max_tokens": 6},
         "responses": {"input": "Hello", "max_output_tokens": 6},
         "messages": {"messages": USER, "max_tokens": 6},
         "all": {"prompt": "Once", "n_predict": 6}}
ROWS = {}


def ask(where, body):
    """Status and answer. A value of None: the member is left out."""
    whole = {"temperature": 0, "top_k": 40, "cache_prompt": False, **BASES[where], **body}
    return running.exchange(PATHS[where], {k: v for k, v in whole.items() if v is not None})


def seen(answer):
    """What is left of an answer without what differs from one to the next."""
    text = json.dumps(answer, sort_keys=True)
    text = re.sub(r'"(id|item_id|created|created_at|completed_at|timings|call_id)": ("[^"]*"|\d+|{[^}]*})', "", text)
    return re.sub(r'"(prompt_tokens_details|input_tokens_details)": {[^}]*}', "", text)


def member(where, name, value, holds, **base):
    """value: of the member, or a whole body where the name leads into an object."""
    assert (where, name) not in ROWS

    def judge():
        more = value if "." in name else {name: value}
        (_, without), (status, got) = ask(where, base), ask(where, {**base, **more})
        check(f"{where} {name}: {value}", holds(without, got),
              f"{str(without)[:400]} / {status} {str(got)[:400]}")
    ROWS[where, name] = judge


def differs(without, got):
    return "error" not in got and seen(without) != seen(got)


def said(text):
    return lambda without, got: text in seen(got) and text not in seen(without)


def refused(text):
    return lambda without, got: "error" in got and text in got["error"]["message"]


def prompt_tokens(n):
    return lambda without, got: "usage" in got and abs(tokens_in(got) - tokens_in(without)) >= n


def tokens_in(answer):
    usage = answer["usage"]
    return usage.get("prompt_tokens") or usage["input_tokens"] + usage.get("cache_read_input_tokens", 0)


FORCED = {"grammar": 'root ::= "yes, it is"', "max_tokens": 12}
YES = {"type": "json_schema", "json_schema": {"schema": {"const": "yes"}}}
# ---- Every body that generates.
member("all", "id_slot", 1, lambda without, got: got["id_slot"] == 1, id_slot=0)
member("all", "model", "another", lambda without, got: seen(without) == seen(got))
ROWS["all", "message_delimiters"] = lambda: None # cli.effects: "a checkpoint where the user's"
member("all", "grammar_type", "tool_calls",
       lambda without, got: got["content"] == "es" and without["content"] == "yes",
       grammar='root ::= "yes"', generation_prompt="y")
member("completions", "prompt", "There was a fox", differs)

# ---- Chat.
member("chat", "messages", [{"role": "user", "content": "Who lost the lantern?"}], differs)
member("chat", "tools", [CHAT_TOOL], prompt_tokens(10))
member("chat", "tool_choice", "required", said('"grammar_lazy": false'), tools=[CHAT_TOOL],
       verbose=True)
member("chat", "parallel_tool_calls", False, differs, tools=[CHAT_TOOL], verbose=True,
       tool_choice="required", max_tokens=1)
member("chat", "response_format", YES, said('\\"yes\\"'), max_tokens=60)
member("chat", "chat_template_kwargs", {"mood": "a very good and quiet mood"}, prompt_tokens(3))
member("chat", "reasoning_effort", "as high as the mountain", prompt_tokens(3))
member("chat", "add_generation_prompt", False, prompt_tokens(2))
LAST = USER + [{"role": "assistant", "content": "There was a fox"}]
member("chat", "continue_final_message", True, refused("Cannot set both"), messages=USER)
member("chat", "reasoning_format", "none", said("<think>"), max_tokens=30,
       grammar='root ::= "<think>a</think>b"')
member("chat", "grammar", 'root ::= "xyz"', said("xyz"))
member("chat", "json_schema", {"const": "yes"}, said('\\"yes\\"'), max_tokens=60)
member("chat", "stop", "it", lambda without, got: said("yes, it is")(got, without), **FORCED)
member("chat", "stream", True, lambda without, got: "data: " in got)
member("chat", "logprobs", True, lambda without, got: "logprobs" in got["choices"][0] and
       len(got["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 20)
member("chat", "top_logprobs", 3, refused("top_logprobs requires logprobs"))
BUDGET = {"messages": LAST[:1], "max_tokens": 24, "ignore_eos": True, "reasoning_format": "none",
          "logit_bias": [[1027, 60], ["x", 50]], "presence_penalty": 20.0, "repeat_last_n": 64}
member("chat", "reasoning_budget_tokens", 0, said("</think>"), **BUDGET)
member("chat", "thinking_budget_tokens", 0, said("</think>"), **BUDGET)
member("chat", "reasoning_budget_message", "That is enough.", said("That is enough."),
       **BUDGET, reasoning_budget_tokens=0)
ROWS["chat", "reasoning_control"] = lambda: None # cli.field_effects ends a thought with it

# ---- Responses.
member("responses", "input", "Who lost the lantern?", differs)
member("responses", "instructions", "Speak as a fox does.", prompt_tokens(5))
member("responses", "previous_response_id", "resp_1", refused("previous_response_id"))
member("responses", "tools", [RESPONSES_TOOL], prompt_tokens(10))
member("responses", "max_output_tokens", 2,
       lambda without, got: got["usage"]["output_tokens"] == 2 < without["usage"]["output_tokens"],
       ignore_eos=True)
member("responses", "reasoning.effort", {"reasoning": {"effort": "as high as the mountain"}},
       prompt_tokens(3))

# ---- Messages.
member("messages", "system", "Speak as a fox does.", prompt_tokens(5))
member("messages", "messages", [{"role": "user", "content": "Who lost the lantern?"}], differs)
member("messages", "tools", [MESSAGES_TOOL], prompt_tokens(10))
member("messages", "tool_choice", {"type": "any"},
       lambda without, got: without["stop_reason"] == "end_turn" != got["stop_reason"],
       tools=[MESSAGES_TOOL], max_tokens=80)
STORY = {"messages": [{"role": "user", "content": "Tell me a story"}], "max_tokens": 40}
member("messages", "stop_sequences", ["e"], lambda without, got: got["stop_sequence"] == "e", **STORY)
member("messages", "max_tokens", 2, lambda without, got: got["usage"]["output_tokens"] == 2, **STORY)
drawn = {**STORY, "temperature": 5.0, "top_k": 1, "top_p": 1.0}
member("messages", "temperature", 50.0, differs, **{**drawn, "temperature": 0.0, "top_k": 0})
member("messages", "top_p", 0.0001, lambda without, got: seen(got) == first(), **{
    **drawn, "top_p": None, "top_k": 0})
member("messages", "top_k", 1, lambda without, got: seen(got) == first(), **{**drawn, "top_k": 0})
member("messages", "stream", True, lambda without, got: "event: message_start" in got)
member("messages", "chat_template_kwargs", {"mood": "a very good and quiet mood"}, prompt_tokens(3))


def first():
    return seen(ask("messages", {**STORY, "temperature": 0})[1])


member("messages", "thinking.budget_tokens", {"thinking": {"type": "enabled", "budget_tokens": -7}},
       refused("reasoning_budget_tokens"))
member("messages", "thinking.type", {"thinking": {"type": "enabled", "budget_tokens": -7}},
       refused("reasoning_budget_tokens"), thinking={"type": "disabled", "budget_tokens": -7})

# ---- Those without effect.
VALUES = {"suffix": " the end", "best_of": 3, "user": "u1", "store": True, "service_tier": "flex",
          "metadata": {"user_id": "u1"}, "truncation": "auto", "include": ["usage"],
          "text.format": {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}},
          "text.verbosity": {"text": {"verbosity": "low"}}}
for claim in claims:
    if claim.get("ignored"):
        member(claim["surface"], claim["member"], VALUES[claim["member"]],
               lambda without, got: "error" not in got and seen(without) == seen(got))


def read_by_sources():
    """(surface, name) of what the files that read such bodies take out of one."""
    files = {"src/api/chat_body.c": "chat", "src/chat/chat_request.c": "chat",
             "src/api/convert_responses.c": "responses", "src/api/convert_anthropic.c": "messages",
             "src/api/generate.c": "all", "src/api/fields.c": "all"}
    for file, where in files.items():
        source = (root / file).read_text()
        for name in re.findall(r'\b(?:r->)?body, "([a-z_]+)"', source):
            yield where, name
        for name in re.findall(r'\{\{"([a-z_]+)", "|^ {40,}\{"([a-z_]+)", "', source, re.M):
            if where == "messages":
                yield where, name[0] or name[1]


claimed = {(c["surface"], c["member"]) for c in claims}
outer = {(where, name.split(".")[0]) for where, name in claimed}
for where, name in sorted(set(read_by_sources())):
    check(f"{where} {name}: the manifest names it", (where, name) in outer or
          where == "all" and name in surface | {"grammar"})
check("a row for every claim", set(ROWS) == claimed, set(ROWS) ^ claimed)
with Server("-np", "2", "-c", "1024", "--jinja", "--chat-template-file", str(TEMPLATE),
            path=root / "models/tale") as running:
    for row in ROWS:
        if sys.argv[3:] and row[1] not in sys.argv[3:]:
            continue
        try:
            ROWS[row]()
        except Exception as fault:
            check(f"{row}: {type(fault).__name__} {fault}", False)
n_inert = sum(bool(c.get("ignored")) for c in claims)
print(len(claims) - n_inert, "members seen to be read,", n_inert, "without effect")
server.end()
