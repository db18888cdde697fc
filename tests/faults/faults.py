"""faults.py SERVER SHARED SHIM [--full] [--only NAME] - memory runs out at every place.

Each kind of request is sent again and again to a running server while its Nth
allocation fails, once only that one and once every one from there on (shim.c). The
answer is the right one, a 500 or 503 as JSON, or the connection's end; then the same
request, with memory, gets the right answer. Nothing dies, nothing waits for ever. A
server that starts so is ready, or ends with a message and exit code 1.

All N up to a number, then some of the rest, the same ones each time; --full takes
every N."""
import ctypes
import http.client
import json
import mmap
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import server
from server import Server, check

server.begin("faults")
shim, full = sys.argv[3], "--full" in sys.argv
only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
each = int(sys.argv[sys.argv.index("--each") + 1]) if "--each" in sys.argv else 40
OFF, COUNT, FAIL_ONE, FAIL_ALL_AFTER = range(4)
ALL_UP_TO, SOME = each, each  # allocations of a request that are tried
ANSWER_S = int(os.environ.get("FAULTS_ANSWER_S", "60"))  # longer than any request takes here: it hangs
MOST_DEATHS = 3                # of one kind of request; the rest of it is not tried then


class Faults(ctypes.Structure):
    _fields_ = [("mode", ctypes.c_int64), ("at", ctypes.c_int64),
                ("n_counted", ctypes.c_int64), ("n_failed", ctypes.c_int64),
                ("n_live", ctypes.c_int64)]


path = server.scratch / "faults"
path.write_bytes(bytes(ctypes.sizeof(Faults)))
with path.open("r+b") as file:
    mapping = mmap.mmap(file.fileno(), ctypes.sizeof(Faults))
faults = Faults.from_buffer(mapping)
with_shim = {"LD_PRELOAD": shim, "MLXCEL_FAULTS": str(path), "AIP_MODE": "PREDICTION",
             "AIP_HEALTH_ROUTE": "/alive", "AIP_HTTP_PORT": "0"}


if "MLXCEL_FAULTS_TRACE" in os.environ:
    with_shim["MLXCEL_FAULTS_TRACE"] = "1"


def arm(mode, at=0):
    faults.mode = OFF
    faults.at, faults.n_counted, faults.n_failed = at, 0, 0
    faults.mode = mode


# ---- requests ------------------------------------------------------------------------

GREEDY = {"temperature": 0, "seed": 1}
CHAT = {"messages": [{"role": "system", "content": "Be kind."},
                     {"role": "user", "content": [{"type": "text", "text": "Tell a story"}]}],
        "max_tokens": 4, **GREEDY}
TOOLS = [{"type": "function", "function": {
    "name": "look", "description": "look around", "parameters": {
        "type": "object", "required": ["where"], "properties": {
            "where": {"type": "string", "enum": ["up", "down"]},
            "far": {"type": "integer", "minimum": 3}}}}}]
SCHEMA = {"type": "object", "required": ["a"], "properties": {
    "a": {"type": "array", "items": {"enum": ["x", 1, None]}, "maxItems": 2},
    "b": {"type": "string", "pattern": "^[a-c]+$"}}, "additionalProperties": False}
NATIVE = {"prompt": "Once upon a time", "n_predict": 4, **GREEDY}
AFTER_CALL = {**CHAT, "tools": TOOLS, "messages": CHAT["messages"] + [
    {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {
        "name": "look", "arguments": '{"where":"up"}'}}]},
    {"role": "tool", "tool_call_id": "1", "content": "a bird"}]}
RESPONSES = {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Tell"}]}],
             "instructions": "Be kind.", "max_output_tokens": 4, **GREEDY}
MESSAGES = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Tell"}]}],
            "system": "Be kind.", "max_tokens": 4, **GREEDY}
CLAUDE_TOOLS = [{"name": "look", "input_schema": TOOLS[0]["function"]["parameters"]}]


def streamed(body):
    return {**body, "stream": True}


# name, method, path, body (bytes as they are), status, options of the request
GENERATION = [
    ("health", "GET", "/health"),
    ("health-v1", "GET", "/v1/health"),
    ("health-gcp", "GET", "/alive"),
    ("models", "GET", "/models"),
    ("models-v1", "GET", "/v1/models"),
    ("props", "GET", "/props"),
    ("props-set", "POST", "/props", {}),
    ("metrics", "GET", "/metrics"),
    ("slots", "GET", "/slots"),
    ("lora", "GET", "/lora-adapters"),
    ("lora-set", "POST", "/lora-adapters", []),
    ("static", "GET", "/page.html"),
    ("missing", "GET", "/no/such/route", None, 404),
    ("cors-proxy", "GET", "/cors-proxy", None, 403),
    ("cors-proxy-post", "POST", "/cors-proxy", {}, 403),
    ("tools", "GET", "/tools", None, 403),
    ("tools-post", "POST", "/tools", {}, 403),
    ("completion", "POST", "/completion", NATIVE),
    ("completion-stream", "POST", "/completion", streamed(NATIVE)),
    ("completion-probs", "POST", "/completions", {**NATIVE, "n_probs": 3, "stop": ["zz"],
                                                  "logit_bias": [[5, 1.5], ["and", False]]}),
    ("completion-probs-stream", "POST", "/completion",
     streamed({**NATIVE, "n_probs": 3, "return_progress": True, "timings_per_token": True})),
    ("completion-many", "POST", "/completion", {**NATIVE, "prompt": ["one", [5, 6, 7], ["a", 8]],
                                                "n_predict": 2}),
    ("completion-grammar", "POST", "/completion", {**NATIVE, "grammar": 'root ::= ("ab" | "c")+'}),
    ("completion-schema", "POST", "/completion", {**NATIVE, "json_schema": SCHEMA, "n_predict": 8}),
    ("completion-samplers", "POST", "/completion",
     {**NATIVE, "temperature": 0.8, "dry_multiplier": 0.5, "dry_sequence_breakers": ["a", "\n"],
      "mirostat": 0, "repeat_penalty": 1.1, "top_n_sigma": 2, "xtc_probability": 0.2,
      "typical_p": 0.9, "id_slot": 0, "cache_prompt": False}),
    ("completion-mirostat", "POST", "/completion", {**NATIVE, "mirostat": 2, "temperature": 0.8}),
    ("completion-long", "POST", "/completion", {**NATIVE, "prompt": "word " * 400}, 400),
    ("completion-range", "POST", "/completion", {**NATIVE, "n_predict": "many"}, 400),
    ("bad-json", "POST", "/completion", b'{"prompt": "a" "b"}', 400),
    ("wide-integer", "POST", "/completion", b'{"prompt":"a","n_predict":1,"temperature":0,'
     b'"unknown":100000000000000000000}'),
    ("large-body", "POST", "/tokenize", {"content": "Once upon a time. " * 20000}),
    ("refused-body", "POST", "/tokenize", b'{"content":[' + b"{}," * 70000 + b"{}]}", 400),
    ("completions", "POST", "/v1/completions", {"prompt": ["Once", "Twice"], "max_tokens": 4,
                                                "logprobs": 2, **GREEDY}),
    ("completions-stream", "POST", "/v1/completions", {
        "prompt": "Once", "max_tokens": 4, "stream": True,
        "stream_options": {"include_usage": True}, **GREEDY}),
    ("chat", "POST", "/v1/chat/completions", CHAT),
    ("chat-short", "POST", "/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 2}),
    ("chat-stream", "POST", "/v1/chat/completions", streamed(CHAT)),
    ("chat-tools", "POST", "/v1/chat/completions", {**CHAT, "tools": TOOLS, "max_tokens": 24,
                                                    "tool_choice": "required"}),
    ("chat-tools-stream", "POST", "/v1/chat/completions",
     streamed({**CHAT, "tools": TOOLS, "max_tokens": 24, "tool_choice": "required"})),
    ("chat-after-call", "POST", "/v1/chat/completions", AFTER_CALL),
    ("chat-schema", "POST", "/v1/chat/completions",
     {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
    ("chat-schema-stream", "POST", "/v1/chat/completions", streamed(
        {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}})),
    ("chat-n", "POST", "/v1/chat/completions", {**CHAT, "n": 2}),
    ("chat-wrong", "POST", "/v1/chat/completions", {"messages": [{"role": "user"}]}, 400),
    ("chat-kept", "POST", "/v1/chat/completions", streamed(CHAT), 200, {"X-Conversation-Id": "c"}),
    ("streams", "POST", "/v1/streams/lookup", {"conversation_ids": ["c", "d"]}),
    ("stream-read", "GET", "/v1/stream?conv_id=c"),
    ("stream-delete", "DELETE", "/v1/stream?conv_id=none", None, 204),
    ("control", "POST", "/v1/chat/completions/control", {"id": "none",
                                                         "action": "reasoning_end"}),
    ("transcriptions", "POST", "/v1/audio/transcriptions", {"file": "a"}, 501),
    ("transcriptions-short", "POST", "/audio/transcriptions", {"file": "a"}, 501),
    ("responses", "POST", "/v1/responses", RESPONSES),
    ("responses-short", "POST", "/responses", {**RESPONSES, "tools": [
        {"type": "function", **TOOLS[0]["function"]}], "tool_choice": "required",
        "max_output_tokens": 24}),
    ("responses-stream", "POST", "/v1/responses", streamed(RESPONSES)),
    ("messages", "POST", "/v1/messages", MESSAGES),
    ("messages-stream", "POST", "/v1/messages", streamed(MESSAGES)),
    ("messages-tools", "POST", "/v1/messages", {**MESSAGES, "tools": CLAUDE_TOOLS,
                                                "max_tokens": 24, "tool_choice": {"type": "any"}}),
    ("count-messages", "POST", "/v1/messages/count_tokens", MESSAGES),
    ("count-chat", "POST", "/chat/completions/input_tokens", CHAT),
    ("count-chat-v1", "POST", "/v1/chat/completions/input_tokens", CHAT),
    ("count-responses", "POST", "/responses/input_tokens", RESPONSES),
    ("count-responses-v1", "POST", "/v1/responses/input_tokens", RESPONSES),
    ("apply-template", "POST", "/apply-template", {**AFTER_CALL, "add_generation_prompt": True}),
    ("tokenize", "POST", "/tokenize", {"content": ["one \u00e9", 5], "with_pieces": True,
                                       "add_special": True}),
    ("detokenize", "POST", "/detokenize", {"tokens": [1, 300, 301]}),
    ("infill", "POST", "/infill", {"input_prefix": "one ", "input_suffix": "two", "prompt": "a",
                                   "input_extra": [{"filename": "f", "text": "t"}],
                                   "n_predict": 3, **GREEDY}),
    ("form", "POST", "/completion", b'--B\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n'
     b"Once\r\n--B\r\nContent-Disposition: form-data; name=\"grammar\"\r\n\r\n"
     b'root ::= "ab"\r\n--B--\r\n', 200, {"Content-Type": "multipart/form-data; boundary=B"}),
    ("slot-save", "POST", "/slots/0?action=save", {"filename": "a.bin"}),
    ("slot-restore", "POST", "/slots/0?action=restore", {"filename": "a.bin"}),
    ("slot-erase", "POST", "/slots/1?action=erase", {}),
    ("predict", "POST", "/predict", {"instances": [
        {"@requestFormat": "completions", **NATIVE},
        {"@requestFormat": "tokenize", "content": "one"}, {"@requestFormat": "none"}]}),
]
VECTORS = [
    ("embedding", "POST", "/embedding", {"content": "one"}),
    ("embeddings", "POST", "/embeddings", {"content": ["one", [5, 6]]}),
    ("embeddings-v1", "POST", "/v1/embeddings", {"input": ["one", "two"], "model": "m",
                                                 "encoding_format": "base64"}),
]
RANKS = [("rerank" + path.replace("/", "-"), "POST", path,
          {"query": "a cat", "documents": ["a dog", "a cat", "one"], "top_n": 2})
         for path in ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking")]


# ---- answers ----------------------------------------------------------------------------

# Members that differ between two answers to one request.
VOLATILE = {"id", "created", "created_at", "timings", "completed_at", "id_slot", "item_id",
            "t_ms", "save_ms", "restore_ms", "call_id", "response_id", "id_task", "usage",
            "tokens_cached", "tokens_evaluated", "prompt_progress", "n_saved", "n_written",
            "n_read", "n_erased", "bytes", "time_ms", "size_written", "started_at", "expires_at"}


def stable(value):
    if isinstance(value, dict):
        return {k: stable(v) for k, v in value.items() if k not in VOLATILE}
    return [stable(v) for v in value] if isinstance(value, list) else value


def meaning(path, text):
    """What must be the same in two answers to the request."""
    if path in ("/metrics", "/slots"):
        return bool(text)  # numbers that grow
    if text.startswith(("data:", "event:", "\n")):
        events = [e for e in text.split("\n\n") if e.strip()]
        data = [re.sub(r"^(event: .*\n)?data: ", "", e) for e in events if e.strip() != ":"]
        return [d if d == "[DONE]" else stable(json.loads(d)) for d in data]
    try:
        return stable(json.loads(text))
    except ValueError:
        return text


class Kind:
    """One kind of request."""

    def __init__(self, name, method, path, body=None, status=200, headers=None):
        self.name, self.method, self.path, self.status = name, method, path, status
        self.body = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = {"Content-Type": "application/json", **(headers or {})}

    def send(self, address):
        """Status and text; None where the connection ended before the answer did."""
        connection = http.client.HTTPConnection(urllib.parse.urlparse(address).netloc,
                                                timeout=ANSWER_S)
        try:
            connection.request(self.method, self.path, self.body, self.headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except socket.timeout:
            return "no answer", ""
        except (OSError, http.client.HTTPException):
            return None, ""
        finally:
            connection.close()

    def fault(self, status, text, expected):
        """What is wrong with an answer when memory ran out; None where nothing is."""
        if status is None:
            return None
        if status in (500, 503):
            try:
                return None if json.loads(text)["error"]["message"] else "no message"
            except (ValueError, KeyError, TypeError):
                return f"{status} without an error as JSON: {text[:200]!r}"
        if status != self.status:
            return f"status {status}: {text[:200]!r}"
        try:
            got = meaning(self.path, text)
        except ValueError:
            return f"events that are not JSON: {text[-300:]!r}"
        if got == expected or (isinstance(expected, list) and "error" in text):
            return None
        if self.path == "/predict" and len(got["predictions"]) == len(expected["predictions"]):
            pairs = zip(got["predictions"], expected["predictions"])
            if all(a == b or (isinstance(a, dict) and a.get("error", {}).get("code") in (500, 503))
                   for a, b in pairs):
                return None
        return f"another answer: {text[-400:]!r}"


# ---- runs ----------------------------------------------------------------------------------

n_cases = 0


def numbers(total):
    if full or total <= ALL_UP_TO + SOME:
        return range(1, total + 1)
    some = random.Random(total // 100).sample(range(ALL_UP_TO + 1, total + 1), SOME)
    return [*range(1, ALL_UP_TO + 1), *sorted(some)]


class Run:
    """A server that is started again when it died."""

    def __init__(self, *options, path=None):
        self.options, self.path, self.running = options, path, None

    def start(self):
        arm(OFF)
        self.running = Server("-t", "1", *self.options, path=self.path, env=with_shim)
        self.running.__enter__()
        # What later requests look for.
        for kind in (Kind(*row) for row in GENERATION if row[0] in ("slot-save", "chat-kept")):
            kind.send(self.running.address)

    def died(self):
        if self.running.process.poll() is None:
            return False
        log = self.running.log()[-3000:]
        print(f"  exit code {self.running.process.returncode}: {log}", flush=True)
        self.start()
        return True

    def one(self, kind, expected, mode, at):
        """One failure. False when the server died or hangs."""
        global n_cases
        n_cases += 1
        arm(mode, at)
        status, text = kind.send(self.running.address)
        arm(OFF)
        what = f"{kind.name}, {'only' if mode == FAIL_ONE else 'from'} allocation {at}"
        if status == "no answer":
            check(f"{what}: an answer", False)
            self.running.process.kill()
            self.running.process.wait()
        if self.died():
            check(f"{what}: the server lives", False)
            return False
        fault = kind.fault(status, text, expected)
        check(what, not fault, fault)
        if fault and "MLXCEL_FAULTS_TRACE" in os.environ:
            print(self.running.log().rpartition("----")[0].rpartition("----")[2])
        status, text = kind.send(self.running.address)
        right = status == kind.status and meaning(kind.path, text) == expected
        check(f"{what}: answered afterwards", right, f"{status} {text[-300:]!r}")
        if status == "no answer":
            self.running.process.kill()
            self.running.process.wait()
        return not self.died() and right

    def try_kind(self, kind):
        for _ in range(2):  # the first request may allocate what stays
            status, text = kind.send(self.running.address)
        arm(COUNT)
        status, text = kind.send(self.running.address)
        total = faults.n_counted
        arm(OFF)
        check(f"{kind.name}: {kind.status}", status == kind.status, f"{status} {text[:300]}")
        if status != kind.status:
            return
        expected = meaning(kind.path, text)
        print(f"{kind.name}: {total} allocations", flush=True)
        for mode in (FAIL_ONE, FAIL_ALL_AFTER):
            n_deaths, n_live = 0, faults.n_live
            for at in numbers(total):
                n_deaths += not self.one(kind, expected, mode, at)
                if n_deaths >= MOST_DEATHS:
                    break
            # Slots and caches keep a little, once; a leak is one or more each time. What
            # the last request held is freed a little after its answer.
            n = len(numbers(total))
            for _ in range(200):
                if faults.n_live - n_live < max(8, n // 2):
                    break
                time.sleep(0.01)
            grown = faults.n_live - n_live
            modes = {FAIL_ONE: "", FAIL_ALL_AFTER: " from there on"}
            check(f"{kind.name}: no leak", n_deaths > 0 or grown < max(8, n // 2),
                  f"{grown} more blocks after {n} failures{modes[mode]}")

    def kinds(self, rows):
        self.start()
        for row in rows:
            if only in row[0]:
                self.try_kind(Kind(*row))
        self.running.__exit__()


# ---- the start ---------------------------------------------------------------------------


def start(mode, at):
    """A server that starts while memory runs out: its exit code and what it says; 0 where
    it is ready and stops when asked."""
    log = server.scratch / "start.log"
    arm(mode, at)
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [server.binary, "-m", str(server.model), "-c", "512", "-t", "1", "--jinja", "--port", "0"],
            env={**server.environment, **with_shim}, stdout=subprocess.DEVNULL, stderr=stderr)
    deadline = time.monotonic() + ANSWER_S
    while process.poll() is None and time.monotonic() < deadline:
        if "ready on" in log.read_text():
            break
        time.sleep(0.005)
    total = faults.n_counted
    arm(OFF)
    if process.poll() is None:
        ready = "ready on" in log.read_text()
        (process.terminate if ready else process.kill)()
    return process.wait(), log.read_text(), total


def try_start():
    global n_cases
    code, said, total = start(COUNT, 0)
    check("start", code == 0, f"{code} {said[-300:]}")
    print(f"start: {total} allocations", flush=True)
    for mode in (FAIL_ONE, FAIL_ALL_AFTER):
        for at in numbers(total):
            n_cases += 1
            code, said, _ = start(mode, at)
            ok = code == 0 or (code == 1 and said.strip())
            check(f"start, {'only' if mode == FAIL_ONE else 'from'} allocation {at}", ok,
                  f"exit code {code}: {said[-3000 if 'MLXCEL_FAULTS_TRACE' in os.environ else -300:]}")


served = {(route["method"], route["path"]) for route in server.surface()["routes"]}
tried = {(row[1], row[2].partition("?")[0]) for row in GENERATION + VECTORS + RANKS}
tried |= {("POST", "/slots/:id_slot"), ("GET", "{AIP_HEALTH_ROUTE}"),
          ("POST", "{AIP_PREDICT_ROUTE}"), ("GET", "/{file}")}
check("every route has a request here", served <= tried, served - tried)

if only in "start":
    try_start()
pages = server.scratch / "pages"
pages.mkdir()
(pages / "page.html").write_text("<p>" + "a page " * 1000)
Run("-np", "2", "-c", "1024", "-n", "32", "--slots", "--metrics", "--props", "--jinja", "--alias", "m",
    "--path", str(pages), "--slot-save-path", str(server.scratch) + "/",
    "--override-kv", ",".join(f"tokenizer.ggml.fim_{name}_token_id=int:{id}"
                              for name, id in (("pre", 3), ("suf", 4), ("mid", 5)))
    ).kinds(GENERATION)
tiny = server.shared / "models/tiny"
Run("--embeddings", path=tiny / "bert.gguf").kinds(VECTORS)
Run("--rerank", path=tiny / "bert-rerank.gguf").kinds(RANKS)
print(n_cases, "cases")
server.end()
