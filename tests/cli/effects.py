"""effects.py SERVER SHARED - what options change can be seen on a running server: in
its answers, its threads, its sockets; and their variables change the same."""
import math
import os
import struct
import time

import server
from server import Server, check, refused

server.begin("effects")
scratch = server.scratch
BOS, EOS = 1, 2


def near(a, b):
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b) < 1e-5
    return a == b


def write(name, text):
    path = scratch / name
    path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
    return str(path)


OPTIONS = {spelling: option for option in server.surface()["options"]
           for spelling in option["spellings"]}
tried = set()  # variables


def by_environment(words):
    """The variables of the options that have one, and the words of the others."""
    variables, rest, i = {}, [], 0
    while i < len(words):
        option = OPTIONS[words[i]]
        n = len((option["value"] or "").split())
        name = option["env"]
        if name and name not in variables and words[i] not in ("-np", "--port", "--host"):
            on = "0" if words[i].startswith("--no-") else "1"
            variables[name] = words[i + 1] if n else on
        else:
            rest += words[i:i + 1 + n]
        i += 1 + n
    tried.update(variables)
    return variables, rest


# ---- Defaults of requests: each option, and what a request that names nothing gets.
# {option: (words, {setting: value})}; all are given to one server.
SETTINGS = {
    "--predict": ("5", {"n_predict": 5, "max_tokens": 5}),
    "--keep": ("7", {"n_keep": 7}),
    "--top-p": ("0.5", {"top_p": 0.5}),
    "--min-p": ("0.25", {"min_p": 0.25}),
    "--top-nsigma": ("1.5", {"top_n_sigma": 1.5}),
    "--xtc-probability": ("0.125", {"xtc_probability": 0.125}),
    "--xtc-threshold": ("0.25", {"xtc_threshold": 0.25}),
    "--typical": ("0.875", {"typical_p": 0.875}),
    "--repeat-last-n": ("32", {"repeat_last_n": 32}),
    "--repeat-penalty": ("1.125", {"repeat_penalty": 1.125}),
    "--presence-penalty": ("0.375", {"presence_penalty": 0.375}),
    "--frequency-penalty": ("-0.5", {"frequency_penalty": -0.5}),
    "--dry-multiplier": ("0.75", {"dry_multiplier": 0.75}),
    "--dry-base": ("1.5", {"dry_base": 1.5}),
    "--dry-allowed-length": ("3", {"dry_allowed_length": 3}),
    "--dry-penalty-last-n": ("40", {"dry_penalty_last_n": 40}),
    "--dry-sequence-breaker": ("a\\tb", {"dry_sequence_breakers": ["a\tb"]}),
    "--adaptive-target": ("0.5", {"adaptive_target": 0.5}),
    "--adaptive-decay": ("0.75", {"adaptive_decay": 0.75}),
    "--dynatemp-range": ("0.25", {"dynatemp_range": 0.25}),
    "--dynatemp-exp": ("1.5", {"dynatemp_exponent": 1.5}),
    "--mirostat": ("2", {"mirostat": 2}),
    "--mirostat-lr": ("0.25", {"mirostat_eta": 0.25}),
    "--mirostat-ent": ("4.5", {"mirostat_tau": 4.5}),
    "--samplers": ("top_k;temperature", {"samplers": ["top_k", "temperature"]}),
    "--reasoning-format": ("none", {"reasoning_format": "none"}),
}
words = [word for option, (value, _) in SETTINGS.items() for word in (option, value)]
variables, rest = by_environment(words)
for s in (Server(*words), Server(*rest, env=variables)):
    with s:
        got = s.complete(n_predict=None, temperature=None)["generation_settings"]
        default = s.get("/props")["default_generation_settings"]["params"]
        for option, (value, expected) in SETTINGS.items():
            for name, wanted in expected.items():
                check(f"{option} {value}: a request's {name}", near(got[name], wanted), got[name])
                if option not in ("--predict", "--keep"): # which /props leaves out
                    check(f"{option} {value}: /props' {name}",
                          name not in default or near(default[name], wanted), default.get(name))
with Server("--sampler-seq", "kt", "--no-escape", "--dry-sequence-breaker", "a\\tb") as s:
    got = s.complete()["generation_settings"]
    check("--sampler-seq", got["samplers"] == ["top_k", "temperature"], got["samplers"])
    check("--no-escape", got["dry_sequence_breakers"] == ["a\\tb"], got["dry_sequence_breakers"])

# ---- One server each: options, and what holds of it. `plain` is the answer without.
with Server() as s:
    plain = s.complete(n_probs=1)
    quiet = len(s.log())


def logprobs(answer):
    return [p["logprob"] for p in answer["completion_probabilities"]]


def differs(s):
    """Other numbers than without the options."""
    return max(abs(a - b) for a, b in zip(logprobs(s.complete(n_probs=1)), logprobs(plain))) > 1e-4


def same(s):
    return s.story() == plain["content"]


YARN = ("--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "128")
with Server(*YARN) as s:
    yarn = logprobs(s.complete(n_probs=1))


def other_yarn(s):
    return max(abs(a - b) for a, b in zip(logprobs(s.complete(n_probs=1)), yarn)) > 1e-4


def no_ext_factor(s):
    """Other numbers than with the extrapolation factor 0 alone."""
    with Server(*YARN, "--yarn-ext-factor", "0") as alone:
        return s.complete(n_probs=1) and \
            abs(logprobs(s.complete(n_probs=1))[0] - logprobs(alone.complete(n_probs=1))[0]) > 1e-4


def progress(s):
    """How many tokens of a long prompt were read at each report."""
    import json
    import urllib.request
    body = {"prompt": list(range(300, 340)), "n_predict": 1, "stream": True, "return_progress": True}
    request = urllib.request.Request(s.address + "/completion", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        events = [json.loads(line[6:]) for line in answer.read().decode().splitlines()
                  if line.startswith("data: {")]
    return [e["prompt_progress"]["processed"] for e in events if "prompt_progress" in e]


def cached_again(s, between=None):
    """Cached tokens of the same prompt asked a second time."""
    body = {"prompt": "The cat sat on the mat and looked at the big dog", "n_predict": 1}
    s.post("/completion", body)
    if between:
        s.post("/completion", prompt=between, n_predict=1)
    return s.post("/completion", body)["timings"]["cache_n"]


OTHER = "Once there was a boy who had a red ball and he ran"
THINK = ("{% for m in messages %}{% if m.role == 'assistant' %}{% if m.reasoning_content %}"
         "<think>{{ m.reasoning_content }}</think>{% endif %}A:{{ m.content }}\n"
         "{% else %}U:{{ m.content }}\n{% endif %}{% endfor %}[{{ enable_thinking }}|"
         "{{ reasoning_effort }}|{{ preserve_thinking }}|{{ who }}]"
         "{% if add_generation_prompt %}<think>{% if enable_thinking is false %}</think>{% endif %}"
         "{% endif %}")
template = ("--jinja", "--chat-template-file", write("think.jinja", THINK))


def rendered(s):
    return s.post("/apply-template", messages=[{"role": "user", "content": "Hi"}])["prompt"]


def thought(s, **more):
    """The message of an answer that thinks, as a grammar makes the model."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 64,
            "grammar": 'root ::= "one two three</think>four"', **more}
    return s.post("/v1/chat/completions", body)["choices"][0]["message"]


def similar_slot(s):
    """The slot of a prompt like one that slot 0 had, when slot 1 is idle for longer."""
    cat = "The cat sat on the mat and looked at the big dog"
    s.post("/completion", prompt=OTHER, n_predict=1, id_slot=1)
    s.post("/completion", prompt=cat, n_predict=1, id_slot=0)
    return s.post("/completion", prompt=cat + " in the", n_predict=1)["id_slot"]


def saved_of_idle(s):
    """Tokens that slot 0 still has after another slot was asked."""
    s.post("/completion", prompt=OTHER, n_predict=1, id_slot=0)
    s.post("/completion", prompt="The cat sat", n_predict=1, id_slot=1)
    return s.post("/slots/0?action=save", filename="idle.bin")["n_saved"]


slots = scratch / "slots"
slots.mkdir()
idle = ("-np", "2", "--kv-unified", "--slot-save-path", str(slots))
# A thought opened by one token, which the vocabulary has.
MARKED = ("{% for m in messages %}{% if m.role == 'assistant' %}{% if m.reasoning_content %}"
          "<s>{{ m.reasoning_content }}</s>{% endif %}A:{{ m.content }}\n"
          "{% else %}U:{{ m.content }}\n{% endif %}{% endfor %}"
          "{% if add_generation_prompt %}<s>{% endif %}")
marked = ("--jinja", "--chat-template-file", write("marked.jinja", MARKED))


def marked_thought(s):
    body = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 24, "temperature": 0}
    return s.post("/v1/chat/completions", body)["choices"][0]["message"]["reasoning_content"]


fim = ("--override-kv", ",".join(f"tokenizer.ggml.fim_{name}_token_id=int:{id}"
                                 for name, id in (("pre", 300), ("suf", 301), ("mid", 302))))


def infill_order(s):
    """Whether the text before the gap comes first."""
    prompt = s.post("/infill", input_prefix="one ", input_suffix="two", n_predict=1)["prompt"]
    return prompt.index("one") < prompt.index("two")


def reused(s):
    """Cached tokens of a prompt whose middle went away."""
    begin, middle, rest = list(range(300, 310)), list(range(310, 316)), list(range(320, 380))
    s.post("/completion", prompt=begin + middle + rest, n_predict=1)
    return s.post("/completion", prompt=begin + rest, n_predict=1)["timings"]["cache_n"]


EFFECTS = [
    # sampling
    (("--logit-bias", f"{EOS}+100"), lambda s: s.complete()["stop_type"] == "eos"),
    (("--logit-bias", f"{EOS}+100", "--ignore-eos"), lambda s: s.complete()["stop_type"] == "limit"),
    (("--grammar", 'root ::= "yes"'), lambda s: s.story() == "yes"),
    (("--json-schema-file", write("schema.json", '{"const": "hi"}')),
     lambda s: s.story() == '"hi"'),
    (("--special", "--logit-bias", f"{BOS}+100"), lambda s: s.story(n_predict=2) == "<s><s>"),
    (("--logit-bias", f"{BOS}+100"), lambda s: s.story(n_predict=2) == ""),
    # the pass over the model
    (("--batch-size", "16"), lambda s: progress(s) == [0, 16, 32, 40] and same(s)),
    (("--batch-size", "64", "--ubatch-size", "1"), lambda s: progress(s) == [0, 40] and same(s)),
    ((*YARN, "--yarn-ext-factor", "0"), other_yarn),
    ((*YARN, "--yarn-ext-factor", "0", "--yarn-attn-factor", "2"), no_ext_factor),
    ((*YARN, "--yarn-beta-slow", "5"), other_yarn),
    ((*YARN, "--yarn-beta-fast", "2"), other_yarn),
    (("-np", "2", "--kv-unified"),
     lambda s: s.get("/props")["default_generation_settings"]["n_ctx"] == 512),
    (("-np", "2", "--no-kv-unified"),
     lambda s: s.get("/props")["default_generation_settings"]["n_ctx"] == 256),
    # what is kept of prompts
    ((), lambda s: cached_again(s) > 8),
    (("--no-cache-prompt",), lambda s: cached_again(s) == 0),
    ((), lambda s: cached_again(s, OTHER) > 8),
    (("--cache-ram", "0"), lambda s: cached_again(s, OTHER) < 2),
    ((), lambda s: reused(s) == 10),
    (("--cache-reuse", "8"), lambda s: reused(s) == 69),
    (("-np", "2"), lambda s: similar_slot(s) == 0),
    (("-np", "2", "--slot-prompt-similarity", "0"), lambda s: similar_slot(s) == 1),
    (idle, lambda s: saved_of_idle(s) == 0),
    ((*idle, "--no-cache-idle-slots"), lambda s: saved_of_idle(s) == 21),
    (fim, infill_order),
    ((*fim, "--spm-infill"), lambda s: not infill_order(s)),
    # the log
    (("--verbose",), lambda s: s.story() and len(s.log()) > quiet),
    # chat
    (template, lambda s: "[True|||]<think>" in rendered(s)),
    ((*template, "--chat-template-kwargs", '{"who": "me"}'), lambda s: "|me]" in rendered(s)),
    ((*template, "--reasoning", "off"), lambda s: "[False|" in rendered(s)),
    ((*template, "--reasoning-effort", "high"), lambda s: "|high|" in rendered(s)),
    ((*template, "--reasoning-preserve"), lambda s: "|True|" in rendered(s)),
    ((*template, "--no-reasoning-preserve"), lambda s: "|False|" in rendered(s)),
    (template, lambda s: thought(s) == {"role": "assistant", "content": "four",
                                        "reasoning_content": "one two three"}),
    ((*template, "--reasoning-format", "none"),
     lambda s: thought(s)["content"].endswith("one two three</think>four")),
    ((*template, "--skip-chat-parsing"),
     lambda s: "</think>four" in thought(s)["content"]),
    (marked, lambda s: marked_thought(s).startswith(" Once upon a time, there was")),
    ((*marked, "--reasoning-budget", "4"), lambda s: marked_thought(s) == " Once upon a time"),
    ((*marked, "--reasoning-budget", "4", "--reasoning-budget-message", " Enough."),
     lambda s: marked_thought(s) == " Once upon a time  Enough."),
    # the server
    (("--ui-config", '{"a": 1}'), lambda s: s.get("/props")["ui_settings"] == {"a": 1}),
    (("--ui-config-file", write("ui.json", '{"b": 2}')),
     lambda s: s.get("/props")["ui_settings"] == {"b": 2}),
]
for options, holds in EFFECTS:
    variables, rest = by_environment(options)
    for env, words in [({}, options), (variables, rest)][:2 if variables else 1]:
        what = f"{' '.join(words)} {env}"
        with Server(*words, env=env) as s:
            try:
                check(what, holds(s))
            except Exception as error:
                check(what, False, repr(error))

# ---- Sliding windows: a text, a longer one, and what another end of it is spared.
def spared(s):
    text = list(range(300, 400))
    for prompt in (text, text + list(range(100, 400))):
        s.post("/completion", prompt=prompt, n_predict=1)
    return s.post("/completion", prompt=text + [7, 8, 9], n_predict=1)["timings"]["cache_n"]


windowed = server.shared / "models/tiny/gemma3.gguf"
for options, wanted in [((), 63), # the first text's checkpoint 36 tokens before its end
                        (("--checkpoint-min-step", "0"), 95), # the one 4 before
                        (("--ctx-checkpoints", "1"), 0),
                        (("--ctx-checkpoints", "0"), 0),
                        (("--swa-full",), 100)]:
    variables, rest = by_environment(options)
    for env, words in [({}, options), (variables, rest)][:2 if variables else 1]:
        with Server("--ubatch-size", "32", *words, path=windowed, env=env) as s:
            got = spared(s)
            check(f"sliding windows with {' '.join(words)} {env}", got == wanted, got)


def spared_turn(s, first, delimiters):
    """The same for a prompt of which only the last message is another."""
    text = list(range(first, first + 100)) + s.post("/tokenize", content="user:")["tokens"]
    s.post("/completion", prompt=text + list(range(100, 400)), n_predict=1,
           message_delimiters=delimiters)
    return s.post("/completion", prompt=text + [7, 8, 9], n_predict=1)["timings"]["cache_n"]


with Server("--ubatch-size", "32", path=windowed) as s:
    got = [spared_turn(s, 300, []), spared_turn(s, 330, [7, {"role": "user"}]),
           spared_turn(s, 360, [{"role": "assistant", "delimiter": "user:"}]),
           spared_turn(s, 390, [{"role": "user", "delimiter": "user:"}])]
    check("a checkpoint where the user's message begins", got == [0, 0, 0, 99], got)
check("--checkpoint-min-step -1 is refused", refused("--checkpoint-min-step", "-1"))

# ---- The cache's types: each is used, for keys and for values, and costs no more than its
# bits; attention is one, whether it is asked to be flash attention or not.
def cached_as(*options):
    with Server("-ctk", "f32", "-ctv", "f32", *options,
                path=server.shared / "models/tiny/qwen3-hd32.gguf") as s:
        return logprobs(s.complete(prompt=list(range(300, 340)), n_predict=1, n_probs=1))[0]


exact = cached_as()
for kind, most in (("f16", 0.01), ("bf16", 0.01), ("q8_0", 0.01), ("q5_0", 0.1), ("q5_1", 0.1),
                   ("q4_0", 0.3), ("q4_1", 0.3), ("iq4_nl", 0.3)):
    for option in ("-ctk", "-ctv"):
        off_by = abs(cached_as(option, kind) - exact)
        check(f"{option} {kind}", 0 < off_by < most, off_by)
for mode in ("on", "off", "auto"):
    check(f"-fa {mode}", cached_as("-fa", mode) == exact)
check("-fa off wants values that are not quantized",
      "--flash-attn" in refused("-fa", "off", "-ctv", "q4_0"))

# ---- Threads and sockets.
usable = sorted(os.sched_getaffinity(0))
if len(usable) > 1:
    first, second = usable[:2]
    mask = hex(1 << first | 1 << second)
    with Server("-t", "2", "--cpu-range", f"{first}-{first}") as s:
        check("--cpu-range pins", same(s) and str(first) in s.thread_cpus(), s.thread_cpus())
    with Server("-t", "2", "--cpu-mask", mask, "--cpu-strict", "1") as s:
        check("--cpu-strict gives each thread its own",
              same(s) and {str(first), str(second)} <= set(s.thread_cpus()), s.thread_cpus())
    with Server("-t", "1", "-tb", "2", "--cpu-mask-batch", hex(1 << second)) as s:
        check("--cpu-mask-batch pins", same(s) and str(second) in s.thread_cpus(), s.thread_cpus())


def threads_and_rest(*options):
    """How many threads answer, and how much of the second after it they still compute."""
    with Server("--threads-http", "2", *options) as s:
        check(f"{options}: the same text", same(s))
        time.sleep(0.3) # the longest that they spin
        before = s.cpu_seconds()
        time.sleep(1)
        return s.n_threads(), s.cpu_seconds() - before


one, _ = threads_and_rest("-t", "1")
for options, more in ((("-t", "3"), 2), (("-t", "1", "-tb", "3"), 2), (("-t", "3", "-tb", "1"), 2),
                      (("-t", "3", "-tb", "3"), 2), (("-t", "2", "-tb", "3"), 3),
                      (("-t", "3", "--poll", "0"), 2), (("-t", "3", "--poll", "100"), 2)):
    n, busy = threads_and_rest(*options)
    check(f"{options}: as many threads as asked for", n - one == more, n - one)
    check(f"{options}: parked when there is nothing to do", busy < 0.1, busy)
if len(usable) > 1:
    with Server("--threads-http", "2") as s:
        everywhere = s.n_threads()
    os.sched_setaffinity(0, usable[:1]) # which servers inherit
    with Server("--threads-http", "2") as s:
        check("no more threads than cores it may use", everywhere - s.n_threads() == len(usable) - 1,
              (everywhere, s.n_threads()))
    os.sched_setaffinity(0, usable)
counts = []
for server_of in (lambda n: Server("--threads-http", n),
                  lambda n: Server(env=by_environment(("--threads-http", n))[0])):
    for n in ("2", "6"):
        with server_of(n) as s:
            counts.append(s.n_threads())
check("--threads-http makes as many", counts[1] - counts[0] == 4 and counts[:2] == counts[2:],
      counts)
port = str(server.free_port())
with Server("--host", "127.0.0.3", "--port", port) as s:
    check("--host and --port", same(s) and s.address == f"http://127.0.0.3:{port}")
port = str(server.free_port())
with Server("--port", port, "--reuse-port") as s:
    with Server("--port", port, "--reuse-port") as other:
        # The first may have answered for it.
        while other.process.poll() is None and "is ready on" not in other.log():
            time.sleep(0.02)
        check("--reuse-port shares", same(s) and other.process.poll() is None)
    check("without it the port is taken", port in refused("--port", port))
with Server("--sleep-idle-seconds", "1") as s:
    time.sleep(2.5)
    check("--sleep-idle-seconds sleeps", s.get("/props")["is_sleeping"])
    check("and wakes", same(s) and not s.get("/props")["is_sleeping"])


print(len(tried), "variables:", *sorted(tried))

# ---- Control vectors.
def gguf(name, tensors):
    """A file with F32 rows and no metadata."""
    info, data = b"", b""
    for tensor, values in tensors:
        info += struct.pack("<Q", len(tensor)) + tensor.encode()
        info += struct.pack("<IQIQ", 1, len(values), 0, len(data))
        data += struct.pack(f"<{len(values)}f", *values) + b"\0" * (-4 * len(values) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0) + info
    return write(name, head + b"\0" * (-len(head) % 32) + data)


def row(seed, n=64):
    return [math.sin(seed * 7.3 + i * i * 0.37) for i in range(n)]


a = gguf("a.gguf", [(f"direction.{i}", row(i)) for i in (1, 2, 3, 4)])
b = gguf("b.gguf", [("direction.2", row(9)), ("direction.99", row(1))])
# The texts and numbers are the reference's with these files.
STEERED = [
    (("--control-vector", a), ",,,,            ", [-0.082, -0.926, -1.062, -1.380]),
    (("--control-vector-scaled", f"{a}:0.3"), ", there was a little girl named After a w",
     [-0.010, -0.282, -0.049, -0.016]),
    (("--control-vector-scaled", f"{a}:0.3,{b}:-0.5", "--control-vector-layer-range", "2", "3"),
     plain["content"], [-0.024, -0.053, -0.033, -0.001]),
    (("--control-vector-scaled", f"{b}:2", "--control-vector-layer-range", "0", "2"),
     " warrrrrrrrrrrrrrr", [-0.993, -0.893, -0.159, -0.504]),
    (("--control-vector-scaled", f"{b}:2", "--control-vector-layer-range", "3", "4"),
     plain["content"], logprobs(plain)[:4]),
    (("--control-vector", a, "--control-vector-scaled", f"{a}:-1"), plain["content"],
     logprobs(plain)[:4]),
]
for options, text, numbers in STEERED:
    with Server(*options) as s:
        answer = s.complete(n_probs=1)
        check(f"{options}: the text", answer["content"] == text, repr(answer["content"]))
        check(f"{options}: the numbers",
              all(abs(x - y) < 0.002 for x, y in zip(logprobs(answer), numbers)), logprobs(answer))
# What is no direction of this model is left out, with a warning that names it.
for name, tensors, told in (("none.gguf", None, "none.gguf: there is no such file"),
                            ("zero.gguf", [("direction.0", row(1))], "tensor 'direction.0'"),
                            ("name.gguf", [("vector.1", row(1))], "tensor 'vector.1'"),
                            ("wide.gguf", [("direction.1", row(1, 65))], "65 components")):
    path = gguf(name, tensors) if tensors else str(scratch / name)
    with Server("--control-vector", path) as s:
        check(f"{name}: serves without", same(s))
        check(f"{name}: warns", told in s.log() and "without control vectors" in s.log(), s.log())
check("a scale is a number", "FNAME:SCALE" in refused("--control-vector-scaled", f"{a}:much"))

server.end()
