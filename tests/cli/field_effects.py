"""field_effects.py SERVER MODELS [INVENTORY] - every field of a completion that
--dump-surface names is set to something that is no default, and its effect is seen on the
answer of a running server, which answers without the field otherwise. A field that this
table has no row for is a failure, and so is a row for no field."""
import json
import pathlib
import re
import sys
import urllib.request

import server
from server import Server, check

tale = pathlib.Path(sys.argv[2]) / "tale"
server.use(sys.argv[1], "field-effects")
MARK, MARK_TEXT, END = 1025, "<|im_start|>", 1026 # control tokens; the second ends the text
ROWS, INERT = {}, {}

# ---- Asking.

def ask(body, path="/completion"):
    return running.post(path, {"cache_prompt": False, "temperature": 0, **body})


def stream(body, path="/completion"):
    with running.open(path, {"cache_prompt": False, "temperature": 0, **body, "stream": True}) as a:
        return [json.loads(l[6:]) for l in a.read().decode().splitlines() if l.startswith("data: {")]


def chat(body):
    return ask({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, **body},
               "/v1/chat/completions")


def settings(body):
    return ask({"prompt": "Once", "n_predict": 1, **body})["generation_settings"]


def text(body):
    return ask({"prompt": "Once upon a time", "n_predict": 12, **body})["content"]


def story(body):
    """A text that is drawn by chance, but the same chance."""
    return ask({"prompt": "Once upon a time", "n_predict": 40, "temperature": 1, "seed": 7, **body}
               )["content"]


def drawn_from(body):
    """Candidates that a token is drawn from, the likeliest first, and how likely."""
    answer = ask({"prompt": "one two three. one two three. one two", "n_predict": 1, "seed": 1,
                  "temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "n_probs": 1040,
                  "post_sampling_probs": True, **body})
    return {t["id"]: t["prob"] for t in answer["completion_probabilities"][0]["top_probs"]}


def first(candidates):
    return next(iter(candidates.values()))

# ---- The table: a field, a value, how the answer is seen, and what is true of it, given what
# is seen without the field. What both bodies have beside it is in base.

def row(field, value, view, holds, **base):
    assert field not in ROWS and field not in INERT
    ROWS[field] = lambda: judge(field, value, view, holds, base)


def judge(field, value, view, holds, base):
    without, got = view(dict(base)), view({**base, **value} if isinstance(value, Several)
                                          else {**base, field: value})
    check(f"{field}: {value}", holds(without, got), f"{str(without)[:300]} / {str(got)[:300]}")


class Several(dict):
    """Members that belong together."""


def differs(without, got):
    return without != got


def is_now(*values):
    return lambda without, got: without not in values and got in values


def inert(field, value, why, **base):
    """A field without effect on the text, in the reference too; what shows it is settings."""
    INERT[field] = why
    assert field not in ROWS
    ROWS[field] = lambda: check(f"{field}: inert", text(base) == text({**base, field: value}))


def member(*path):
    def get(answer):
        for key in path:
            answer = answer.get(key) if isinstance(answer, dict) else answer[key]
        return answer
    return get


# Shape of the answer.
row("verbose", True, lambda b: "__verbose" in chat(b), is_now(True))
row("timings_per_token", True,
    lambda b: all("timings" in e for e in stream({"prompt": "Once", "n_predict": 3, **b})), is_now(True))
row("stream", True, lambda b: "data: " in str(running.exchange("/completion", {
    "prompt": "Once", "n_predict": 3, **b})[1]), is_now(True))
usage = lambda b: any(not e["choices"] and "usage" in e for e in stream(
    {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3, **b},
    "/v1/chat/completions"))
row("stream_options", {"include_usage": True}, usage, is_now(True))
row("stream_options.include_usage", Several(stream_options={"include_usage": True}), usage, is_now(True),
    stream_options={"include_usage": False})
row("cache_prompt", False, lambda b: [running.post("/completion", {
    "prompt": "Where is the lantern?", "n_predict": 1, **b})["timings"]["cache_n"] for _ in "12"][1],
    is_now(0))
row("return_tokens", True, lambda b: len(ask({"prompt": "Once", "n_predict": 5, **b})["tokens"]), is_now(5))
row("return_progress", True,
    lambda b: any("prompt_progress" in e for e in stream({"prompt": "Once", "n_predict": 2, **b})),
    is_now(True))


def pings(body):
    """Whether a comment comes while a stream has nothing to say: control tokens have no text."""
    request = urllib.request.Request(running.address + "/v1/chat/completions", json.dumps({
        "messages": [{"role": "user", "content": "Hello"}], "stream": True,
        "max_tokens": 10**5 if "sse_ping_interval" in body else 50, "logit_bias": [[MARK, 1000]],
        **body}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return any(line.startswith(b":") for line in answer)


row("sse_ping_interval", 1, pings, is_now(True))
row("response_fields", ["content", "timings/prompt_n"],
    lambda b: sorted(ask({"prompt": "Once", "n_predict": 1, **b})),
    is_now(["content", "timings/prompt_n"]))

# How much is generated.
count = lambda b: ask({"prompt": "Once", **b})["tokens_predicted"]
for name, n in (("n_predict", 3), ("max_tokens", 4), ("max_completion_tokens", 5)):
    row(name, n, count, is_now(n), grammar='root ::= "abcdefghijk"')
row("n_indent", 2, lambda b: ask({"prompt": "Once", "n_predict": 40, **b})["content"],
    lambda without, got: without == "a:\n  b\nc\nd" and got == "a:\n  b\n",
    grammar='root ::= "a:\\n  b\\nc\\nd"')
shifted = lambda b: (lambda a: (a["content"], a["tokens_cached"]))(ask(
    {"prompt": "The fox had a lantern and a small boat. " * 8, "n_predict": 600, "ignore_eos": True,
     **b}))
row("n_keep", 40, shifted, differs)
row("n_discard", 5, shifted, differs)
row("n_cmpl", 2, lambda b: len(r) if isinstance(r := ask({"prompt": "Once", "n_predict": 1, **b}), list)
    else 1, is_now(2))
row("n", 2, lambda b: len(chat(b)["choices"]), is_now(2))
row("t_max_predict_ms", 1, lambda b: ask({"prompt": "Once", "n_predict": 400, **b})["tokens_predicted"],
    lambda without, got: got < without == 400, grammar='root ::= ("a" "\\n"){200}')


def moved(body):
    """What is taken of a prompt whose middle was cut out."""
    parts = ["The fox had a lantern. ", "A bird came to the boat at night. ",
             "The bell rang over the quiet harbor and everybody woke up. "]
    running.post("/completion", {"prompt": "".join(parts), "n_predict": 1})
    answer = running.post("/completion", {"prompt": parts[0] + parts[2], "n_predict": 1, **body})
    return answer["timings"]["cache_n"]


row("n_cache_reuse", 4, moved, lambda without, got: got > without + 8)
inert("t_max_prompt_ms", 1, "the reference names it and does not read it")

# What a token is drawn from.
row("top_k", 3, lambda b: len(drawn_from(b)), is_now(3))
row("top_p", 0.5, drawn_from, lambda without, got: 0 < len(got) < len(without) / 10)
row("min_p", 0.5, drawn_from,
    lambda without, got: len(got) < len(without) and min(got.values()) >= 0.5 * first(got) - 1e-6)
row("top_n_sigma", 1.0, lambda b: len(drawn_from(b)), lambda without, got: 0 < got < without)
row("xtc_probability", 1.0, drawn_from, lambda without, got: next(iter(without)) not in got,
    xtc_threshold=0.005, top_k=3)
row("xtc_threshold", 0.005, drawn_from, lambda without, got: next(iter(without)) not in got,
    xtc_probability=1.0, top_k=3)
row("typical_p", 0.3, lambda b: len(drawn_from(b)), lambda without, got: 0 < got < without)
row("temperature", 2.0, drawn_from, lambda without, got: first(got) < first(without))
row("dynatemp_range", 0.9, drawn_from, lambda without, got: first(got) != first(without))
row("dynatemp_exponent", 3.0, drawn_from, differs, dynatemp_range=0.9)
row("repeat_last_n", 1, drawn_from, differs, repeat_penalty=1.5)
row("repeat_penalty", 2.0, drawn_from, lambda without, got: first(got) != first(without))
row("frequency_penalty", 1.0, drawn_from, differs)
row("presence_penalty", 1.0, drawn_from, differs)
row("dry_multiplier", 5.0, drawn_from, differs)
row("dry_base", 4.0, drawn_from, differs, dry_multiplier=1.0)
row("dry_allowed_length", 50, drawn_from, differs, dry_multiplier=5.0)
row("dry_penalty_last_n", 4, drawn_from, differs, dry_multiplier=5.0)
row("dry_sequence_breakers", [" one", " two", "o"], drawn_from, differs, dry_multiplier=5.0)
row("mirostat", 2, drawn_from, differs)
row("mirostat_tau", 0.5, story, differs, mirostat=2)
row("mirostat_eta", 0.9, story, differs, mirostat=2)
row("adaptive_target", 0.2, story, differs, samplers=["temperature", "adaptive_p"])
row("adaptive_decay", 0.1, story, differs, samplers=["temperature", "adaptive_p"],
    adaptive_target=0.2)
row("seed", 8, story, differs)
probs = lambda b: [sorted(p) for p in ask({"prompt": "Once", "n_predict": 1, **b}).get(
    "completion_probabilities", [])]
top = lambda b: [len(p["top_logprobs"]) for p in ask({"prompt": "Once", "n_predict": 1, **b}).get(
    "completion_probabilities", [])]
row("n_probs", 4, top, is_now([4]))
row("logprobs", 4, top, is_now([4]))
row("min_keep", 5, lambda b: len(drawn_from(b)), is_now(5), top_p=0.01, samplers=["top_p"])
row("post_sampling_probs", True, probs, lambda without, got: "top_probs" in got[0] and
    "top_probs" not in without[0], n_probs=2)
inert("backend_sampling", True, "the processor samples wherever the reference's backends do")
row("samplers", ["min_p"], drawn_from, lambda without, got: len(got) > len(without) == 1, top_k=1, min_p=0.001)
row("logit_bias", [["x", 1000]], lambda b: text({**b, "n_predict": 3}), is_now("xxx"))
row("ignore_eos", True, lambda b: ask({"prompt": "Once", "n_predict": 4, **b})["tokens_predicted"],
    is_now(4), logit_bias=[[END, 1000]])
row("stop", ["€"], lambda b: ask({"prompt": "Once", "n_predict": 20, **b})["stopping_word"], is_now("€"),
    grammar='root ::= "10€ or more"')

# Grammars.
row("grammar", 'root ::= "yes"', text, is_now("yes"))
row("json_schema", {"const": "yes"}, text, is_now('"yes"'))
lazy = {"grammar": 'root ::= "xyes"', "logit_bias": [["x", 1000]], "n_predict": 6}
PATTERN = 2
row("grammar_lazy", True, text, lambda without, got: without == "xyes" and got == "xxxxxx",
    grammar_triggers=[{"type": PATTERN, "value": "q"}], **lazy)
row("grammar_triggers", [{"type": PATTERN, "value": "(x)"}], text,
    lambda without, got: without == "xxxxxx" and got == "xyes", grammar_lazy=True,
    **{**lazy, "grammar_triggers": [{"type": PATTERN, "value": "q"}]})
row("preserved_tokens", [MARK_TEXT], text, is_now(3 * MARK_TEXT), logit_bias=[[MARK, 1000]], n_predict=3)

# Chat.
THOUGHT = 'root ::= "<think>a</think>b"'
message = lambda b: chat({"grammar": THOUGHT, **b})["choices"][0]["message"]
row("chat_format", 1, lambda b: settings(b)["chat_format"], differs)
row("reasoning_format", "none", lambda b: message({"max_tokens": 30, **b})["content"],
    lambda without, got: "<think>" in got and "<think>" not in without)
row("generation_prompt", '"y', text, is_now('es"'), json_schema={"const": "yes"})
inert("parse_tool_calls", False, "the reference reads it and parses what the tools ask for")
row("chat_parser", "x", lambda b: running.exchange("/completion", {"prompt": "a", **b})[0], is_now(400))
said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "There was"}]
told = lambda b: "".join(c["delta"].get("content") or "" for e in stream(
    {"messages": said, "max_tokens": 3, **b}, "/v1/chat/completions") for c in e["choices"])
row("continue_final_message", True, lambda b: running.exchange("/v1/chat/completions", {
    "messages": said, "max_tokens": 3, **b})[0], differs, add_generation_prompt=True)
row("echo", True, told, lambda without, got: got == "There was" + without,
    continue_final_message=True, add_generation_prompt=False)

# Thoughts.
thought = {"generation_prompt": "<think>", "reasoning_budget_start_tag": "<think>",
           "reasoning_budget_end_tags": ["</think>"], "n_predict": 14, "ignore_eos": True,
           "logit_bias": [["x", 1000]], "reasoning_budget_message": ""}
row("reasoning_budget_tokens", 3, text, lambda without, got: "</think>" in got and
    "</think>" not in without, **thought)
row("reasoning_budget_message", " Enough.", text, is_now("xxx Enough.</think>xxxx"),
    **{k: v for k, v in thought.items() if k != "reasoning_budget_message"}, reasoning_budget_tokens=3)
row("reasoning_budget_start_tag", "<tools>", text, differs, **thought, reasoning_budget_tokens=3)
row("reasoning_budget_end_tags", ["</tools>"], text, lambda without, got: "</tools>" in got,
    **{**thought, "reasoning_budget_tokens": 3})
row("reasoning_budget_end_tag", "</tools>", text, lambda without, got: "</tools>" in got,
    **{k: v for k, v in thought.items() if k != "reasoning_budget_end_tags"},
    reasoning_budget_tokens=3)


def ends_a_thought(body):
    """Whether a thought that goes on for ever ends when it is told to."""
    want = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 10**6, "stream": True,
            "logit_bias": [["x", 1000]], "chat_template_kwargs": {"enable_thinking": True},
            "temperature": 0, **body}
    with running.open("/v1/chat/completions", want) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                return running.post("/v1/chat/completions/control", id=event["id"],
                                    action="reasoning_end")["success"]


row("reasoning_control", True, ends_a_thought, is_now(True))
inert_lora = lambda b: running.exchange("/completion", {"prompt": "a", "n_predict": 1, **b})[0]
row("lora", [{"id": 0, "scale": 1.0}], inert_lora, is_now(400))

surface = server.surface()["fields"]
names = [f["name"] for f in surface] + [a for f in surface for a in f["aliases"]] + \
    [f"{f['name']}.{s}" for f in surface for s in f.get("subfields", [])]
check("a row for every field", set(names) == set(ROWS), set(names) ^ set(ROWS))
pinned = json.loads(pathlib.Path(sys.argv[3]).read_text())["pinned_counts"]
check("as many as the release has", len(names) == pinned["native_request_fields"], len(names))
chosen = sys.argv[4:] or ROWS
with Server("-np", "2", "-c", "1024", "--context-shift", path=tale) as running:
    for name in chosen:
        try:
            ROWS[name]()
        except Exception as fault:
            check(f"{name}: {type(fault).__name__} {fault}", False)
print(len(chosen) - len(INERT), "fields seen to have their effect,", len(INERT), "without any:")
for name, why in INERT.items():
    print(f"  {name}: {why}")
server.end()
