"""streams.py - kept streams: read again from an offset, deleted, replaced, queued."""
import http.client
import json
import time
import urllib.parse

import server
from server import check

server.begin("streams")

LONG = {"prompt": "Once upon a time", "n_predict": 2000, "temperature": 0, "stream": True,
        "ignore_eos": True}
SHORT = {**LONG, "n_predict": 4}


def connect(s):
    return http.client.HTTPConnection("127.0.0.1", int(s.address.rsplit(":", 1)[1]), timeout=60)


def begin(s, conversation, body):
    """A stream's connection, its request sent."""
    c = connect(s)
    c.request("POST", "/completion", json.dumps(body), {"X-Conversation-Id": conversation})
    return c


def ask(s, method, path, body=None):
    c = connect(s)
    c.request(method, path, None if body is None else json.dumps(body))
    answer = c.getresponse()
    text = answer.read().decode()
    c.close()
    return answer.status, text


def read(s, conversation, offset=None):
    query = {"conv_id": conversation, **({} if offset is None else {"from": offset})}
    return ask(s, "GET", "/v1/stream?" + urllib.parse.urlencode(query))


def sessions(s, *conversations):
    return json.loads(ask(s, "POST", "/v1/streams/lookup",
                          {"conversation_ids": list(conversations)})[1])


def wait_for(what, truth):
    for _ in range(3000):
        if truth():
            return
        time.sleep(0.01)
    check(what, False, "waited for half a minute")


def n_waiting(s):
    text = ask(s, "GET", "/metrics")[1]
    return float(text.split("\nllamacpp:requests_deferred ")[1].split()[0])


with server.Server("-c", "4096", "-np", "1", "--metrics", "--context-shift") as s:
    c = begin(s, "short", SHORT)
    whole = c.getresponse().read().decode()
    c.close()
    wait_for("the session ended", lambda: sessions(s, "short")[0]["is_done"])
    check("from the beginning", read(s, "short", 0) == (200, whole))
    check("without an offset", read(s, "short") == (200, whole))
    check("from within", read(s, "short", 3)[1] == whole[whole.index("\n\n") + 2:])
    check("from the end", read(s, "short", len(whole)) == (200, ""))
    check("far past the end", read(s, "short", 2**64 - 1) == (200, ""))
    for bad in ("12abc", "0x10", "10^23", "1" + "0" * 23, str(2**64), "-1", "+1", " 1", "1 ", "1.0",
                "1e3"):
        status, text = read(s, "short", bad)
        check(f"from={bad!r}", status == 400 and "Invalid 'from' offset" in text, f"{status} {text[:80]}")
    check("no such stream", read(s, "none", 0)[0] == 404)
    check("too many ids", ask(s, "POST", "/v1/streams/lookup",
                              {"conversation_ids": ["a"] * 1025})[0] == 400)

    # Two ids that differ in their last letter.
    ids = ["x" * 2000 + end for end in "ab"]
    for each in ids:
        c = begin(s, each, SHORT)
        c.getresponse().read()
        c.close()
    check("long ids are two", len(sessions(s, *ids)) == 2)

    # One slot: the second stream waits for the first one's end.
    def queue(conversation):
        first = begin(s, "runs", LONG)
        answer = first.getresponse()
        answer.read(10)
        second = begin(s, conversation, LONG)
        wait_for("the second waits", lambda: n_waiting(s) == 1)
        return first, second

    first, second = queue("waits")
    check("delete one that waits", ask(s, "DELETE", "/v1/stream?conv_id=waits")[0] == 204)
    answer = second.getresponse()
    check("a waiting stream that is deleted has an answer",
          (answer.status, answer.read()) == (200, b""), f"{answer.status}")
    check("a stream's answer", answer.getheader("Content-Type") == "text/event-stream")
    check("the deleted one is gone", sessions(s, "waits") == [])
    check("the other one runs", not sessions(s, "runs")[0]["is_done"])
    second.close()
    first.close()

    first, second = queue("again")
    third = begin(s, "again", SHORT)
    answer = second.getresponse()
    check("a waiting stream that is replaced has an answer",
          (answer.status, answer.read()) == (200, b""), f"{answer.status}")
    check("end the one that runs", ask(s, "DELETE", "/v1/stream?conv_id=runs")[0] == 204)
    text = third.getresponse().read().decode()
    check("the one that replaced it goes on", '"stop":true' in text, text[-300:])
    for c in (first, second, third):
        c.close()

server.end()
