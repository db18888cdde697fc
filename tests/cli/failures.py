"""failures.py SERVER SHARED - errors of /v1/responses and /v1/messages as the clients of
these APIs read them: before a stream, and within one (the server is told to stop while
it streams). And a system block that differs per session is left out of the prompt."""
import json
import urllib.error
import urllib.request

import scripted
import server
from server import Server, check

server.use(server.sys.argv[1], "failures")
endless = scripted.write(server.scratch / "endless.gguf", ["word "], loop=True)
USER = [{"role": "user", "content": "Hi"}]
TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
         413: "request_too_large", 503: "overloaded_error"}


def is_anthropic_error(what, answer, kind):
    check(f"{what}: Anthropic's shape", isinstance(answer, dict) and answer.get("type") == "error"
          and set(answer) == {"type", "error", "request_id"} and
          answer["error"].get("type") == kind and isinstance(answer["error"].get("message"), str),
          answer)


def last_event(path, body):
    """The name and data of a stream's last event, the server being told to stop within it."""
    with Server("-c", "32768", path=endless) as s:
        with s.open(path, {**body, "stream": True}) as answer:
            text = ""
            while "word" not in text:
                text += answer.readline().decode()
            s.process.terminate()
            text += answer.read().decode()
        s.process.wait(60)
    event = text.strip().split("\n\n")[-1].split("\n")
    fields = dict(line.split(": ", 1) for line in event)
    return fields.get("event"), json.loads(fields["data"])


name, data = last_event("/v1/responses", {"input": "Hi"})
check("responses: the event's name", name == "response.failed" == data.get("type"), (name, data))
response = data.get("response", {})
check("responses: it failed", response.get("status") == "failed" and
      response.get("error", {}).get("code") == "server_error" and
      "shutting down" in response["error"]["message"], data)
name, data = last_event("/v1/messages", {"messages": USER, "max_tokens": 30000})
check("messages: the event's name", name == "error", name)
is_anthropic_error("messages, within a stream", data, "overloaded_error")
_, data = last_event("/v1/chat/completions", {"messages": USER})
check("chat: as ever", data.get("error", {}).get("code") == 503, data)

with Server("-c", "512", "--api-key", "k", path=endless) as s:
    def ask(path, body, key="k"):
        request = urllib.request.Request(s.address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "x-api-key": key})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    for what, path, body, key, expected in (
            ("no messages", "/v1/messages", {}, "k", 400),
            ("a wrong key", "/v1/messages", {"messages": USER}, "x", 401),
            ("nothing to count", "/v1/messages/count_tokens", {}, "k", 400),
            ("too long", "/v1/messages",
             {"messages": [{"role": "user", "content": "a" * 2000}], "max_tokens": 4}, "k", 400),
            ("no such route", "/v1/messages/x", {}, "k", 404)):
        status, answer = ask(path, body, key)
        check(f"{what}: {expected}", status == expected, (status, answer))
        if what == "too long":
            check("too long: says how long", set(answer.get("error", {})) > {"type", "message"},
                  answer)
            continue
        is_anthropic_error(what, answer, TYPES[expected])
    status, answer = ask("/v1/chat/completions", {}, "x")
    check("other routes: as ever", answer["error"].get("code") == 401, answer)

    # The block that differs is no part of the prompt: the second session finds all of it.
    def session(stamp):
        system = [{"type": "text", "text": f"x-anthropic-billing-header: cc=2; cch={stamp};"},
                  {"type": "text", "text": "You are a helper of some kind."}]
        status, answer = ask("/v1/messages",
                             {"system": system, "messages": USER, "max_tokens": 2})
        check("a session", status == 200, answer)
        return answer["usage"]

    first, second = session("aaaaa 1"), session("bbbbbbbb 2")
    check("the whole prompt is found again", second["input_tokens"] <= 1, (first, second))
    check("the block is not counted", first["input_tokens"] + first["cache_read_input_tokens"] ==
          second["input_tokens"] + second["cache_read_input_tokens"], (first, second))
server.end()
