"""memory.py SERVER SHARED - what a request's body costs, and that it is given back.

Sizes are the process's own, by /proc: what it holds (VmRSS) and the most it ever held
(VmHWM), which is set back before each request."""
import re
import sys
import time
import urllib.error
import urllib.request

import server
from server import Server, check

MIB, MILLION = 1 << 20, 1000 * 1000
server.begin("memory")


def size(name):
    status = open(f"/proc/{running.process.pid}/status").read()
    return int(re.search(name + r":\s+(\d+) kB", status)[1]) * 1024


def send(path, body):
    """Status and beginning of the answer."""
    request = urllib.request.Request(running.address + path, body,
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.read()[:200]
    except urllib.error.HTTPError as error:
        return error.code, error.read()[:200]


def falls_to(limit):
    """The server is done with a request soon after its answer: wait for that."""
    for _ in range(200):
        if size("VmRSS") <= limit:
            return True
        time.sleep(0.05)
    return False


def cost(name, path, body, status, peak):
    """The most memory that a request may take, and that little of it stays."""
    with open(f"/proc/{running.process.pid}/clear_refs", "w") as control:
        control.write("5")
    before = size("VmRSS")
    got, answer = send(path, body)
    check(f"{name}: status", got == status, f"{got} {answer}")
    took = size("VmHWM") - before
    check(f"{name}: at most {peak // MIB} MiB", took <= peak, f"{took / MIB:.0f} MiB")
    kept = len(body) + 24 * MIB
    check(f"{name}: given back", falls_to(before + kept),
          f"{(size('VmRSS') - before) / MIB:.0f} MiB stay")


def listed(piece, n=MILLION):
    return b"[" + (piece + b",") * (n - 1) + piece + b"]"


if "VmHWM" not in open("/proc/self/status").read():
    print("SKIPPED: /proc says nothing about sizes")
    sys.exit(77)
with Server("-np", "2", "--embeddings", "--pooling", "mean") as running:
    cost("a thousand texts to embed", "/v1/embeddings",
         b'{"input":' + listed(b'"a"', 1000) + b"}", 200, 64 * MIB)
with Server("-np", "2") as running:
    send("/completion", b'{"prompt":"Once","n_predict":4}')
    # Three MB each of what no field needs; the same in a field that takes much.
    for piece in (b"{}", b"[]", b'""', b"1.5", b'{"a":1}'):
        body = b'{"prompt":"a","n_predict":1,"extra":' + listed(piece) + b"}"
        cost(f"unknown member of {piece}", "/completion", body, 400, 3 * len(body) + 8 * MIB)
    for path, field in (("/completion", b"prompt"), ("/v1/chat/completions", b"messages"),
                        ("/v1/responses", b"input"), ("/v1/messages", b"messages"),
                        ("/tokenize", b"content"), ("/completion", b"json_schema")):
        body = b'{"n_predict":1,"max_tokens":1,"prompt":"a","' + field + b'":' + listed(b"{}") + b"}"
        cost(f"{path} {field} of objects", path, body, 400, 144 * MIB)
    cost("ten million objects", "/completion", b'{"prompt":' + listed(b"{}", 10 * MILLION) + b"}",
         400, 96 * MIB)
    # What is long by nature is served, and does not stay.
    cost("a million ids", "/tokenize", b'{"content":' + listed(b"1") + b"}", 200, 160 * MIB)
    cost("ids to text", "/detokenize", b'{"tokens":' + listed(b"300") + b"}", 200, 160 * MIB)
    cost("a long text", "/tokenize", b'{"content":"' + b"a b " * MILLION + b'"}', 200, 400 * MIB)
    # Read whole, as a large vocabulary wants it; the sampler has no use for so many.
    cost("a bias for each of 256 Ki tokens", "/completion",
         b'{"prompt":"a","n_predict":1,"logit_bias":' + listed(b"[7,1.5]", 1 << 18) + b"}", 400,
         192 * MIB)
    cost("a bias for each token, many times", "/completion",
         b'{"prompt":"a","n_predict":1,"logit_bias":' + listed(b"[7,1.5]", 5000) + b"}", 200,
         32 * MIB)
    message = b'{"role":"user","content":"a"},{"role":"assistant","content":"b"}'
    cost("a hundred thousand messages", "/apply-template",
         b'{"messages":' + listed(message, 50000) + b"}", 200, 400 * MIB)
    send("/completion", b'{"prompt":"Once","n_predict":4}')
    check("after all of that", falls_to(128 * MIB), f"{size('VmRSS') / MIB:.0f} MiB")
# Text that is JSON again, where the template wants a call's arguments as values.
template = server.scratch / "template.jinja"
template.write_text("{% for m in messages %}{% for c in m.tool_calls or [] %}"
                    "{% for k, v in c.function.arguments.items() %}{{ k }}{{ v }}{% endfor %}"
                    "{% endfor %}{{ m.content }}{% endfor %}")
with Server("--jinja", "--chat-template-file", str(template)) as running:
    calls = b'{"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[' \
        b'{"type":"function","function":{"name":"f","arguments":"{\\"a\\":' + listed(b"{}") + \
        b'}"}}]},{"role":"user","content":"b"}]}'
    cost("arguments of a tool call", "/apply-template", calls, 400, 144 * MIB)
server.end()
