"""fingerprint.py SERVER MODEL - whatever names its server does so by the reference's
release first: clients look at that. Nothing but the checkout is needed."""
import json
import sys

import server
from server import check

server.use(sys.argv[1], "fingerprint")
RELEASE = "b10621"
MESSAGES = [{"role": "user", "content": "Hello"}]
# Answers of these routes, whole and as a stream, name the server.
ROUTES = (("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2}),
          ("/v1/completions", {"prompt": "Once", "max_tokens": 2}))


def streamed(path, body):
    """The events of a stream."""
    with running.open(path, {**body, "stream": True}) as answer:
        return [json.loads(line[6:]) for line in answer if line.startswith(b"data: {")]


with server.Server("-c", "0", path=sys.argv[2]) as running:
    build = running.get("/props")["build_info"]
    check("/props", build.startswith(RELEASE + "-mlxcel-"), build)
    for path, body in ROUTES:
        name = running.post(path, body)["system_fingerprint"]
        check(path, name == build, name)
        events = streamed(path, body)
        check(f"{path}, streamed", events and all(
            event["system_fingerprint"] == build for event in events if "choices" in event), events)
server.end()
