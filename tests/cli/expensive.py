"""expensive.py - requests that would cause unbounded work: they end, others go on.

What is abandoned ends with its client, /health answers whatever the workers do, and
SIGTERM ends the server while they are at it."""
import http.client
import json
import signal
import socket
import subprocess
import time

import server
from server import check

server.begin("expensive")

# Thirty levels, each of which asks for the one below twice.
DOUBLING = {
    "$ref": "#/$defs/a30",
    "$defs": {"a0": {"type": "object", "properties": {"x": {"type": "string"}}},
              **{f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i - 1}"}, {"$ref": f"#/$defs/a{i - 1}"}]}
                 for i in range(1, 31)}},
}
# A template that does as much when the message asks for it.
LOOPS = ("{% if messages[0].content == 'loop' %}"
         "{% for a in range(2000) %}{% for b in range(2000) %}{% for c in range(2000) %}"
         "{% endfor %}{% endfor %}{% endfor %}{% endif %}{{ messages[0].content }}")


def raw(port, path, body):
    """A request whose answer is not waited for; its socket."""
    text = json.dumps(body).encode()
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" %
              (path.encode(), len(text)) + text)
    return s


def get(port, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("GET", path)
    answer = c.getresponse()
    answer.read()
    c.close()
    return answer.status


SCHEMA = {"prompt": "Once", "n_predict": 1, "json_schema": DOUBLING}
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1,
        "response_format": {"type": "json_schema", "json_schema": {"schema": DOUBLING}}}
TEMPLATE = {"messages": [{"role": "user", "content": "loop"}]}
LONG = {"prompt": "word and another " * 300_000, "n_predict": 1}
KINDS = [("/completion", SCHEMA), ("/v1/chat/completions", CHAT), ("/completion", LONG),
         ("/apply-template", TEMPLATE), ("/v1/chat/completions", TEMPLATE),
         ("/tokenize", {"content": LONG["prompt"]})]
OPTIONS = ["--threads-http", "2", "-np", "1", "--chat-template", LOOPS]


def port_of(s):
    return int(s.address.rsplit(":", 1)[1])


with server.Server(*OPTIONS) as s:
    for path, body in KINDS:
        answer = None
        clients = [raw(port_of(s), path, body) for _ in range(8)]
        for route in ("/health", "/v1/health", "/props", "/slots", "/v1/models"):
            check(f"{route} while {path} is busy", get(port_of(s), route) == 200)
        for c in clients:
            c.close()
    # Whatever they asked for is over: the workers are there for others.
    status, answer = s.exchange("/tokenize", {"content": "Once"})
    check("workers are free again", status == 200, f"{status} {answer}")
    for path, body in KINDS:
        status, answer = s.exchange(path, body)
        check(f"{path} has an answer", status in (200, 400), f"{status} {str(answer)[:200]}")

with server.Server(*OPTIONS) as s:
    clients = [raw(port_of(s), path, body) for path, body in KINDS for _ in range(3)]
    check("health before the end", get(port_of(s), "/health") == 200)
    s.process.send_signal(signal.SIGTERM)
    try:
        code = s.process.wait(60)
    except subprocess.TimeoutExpired:
        code = "none"
    check("SIGTERM ends a busy server", code == 0, f"exit code {code}")
    for c in clients:
        c.close()

server.end()
