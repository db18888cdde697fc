"""loop.py SERVER MODEL - what a program built on the shipped model goes through:
a question, a call of a tool, the tool's answer, the final answer; streamed and
not, with thinking and without; and the same text every time at temperature 0."""
import json
import sys

from tale import TOOLS, Server

program, model = sys.argv[1:3]
failures = 0

WEATHER = {"city": "Paris", "reply": {"temperature": 18, "condition": "sunny"}}


def check(what, truth, detail=""):
    global failures
    failures += not truth
    print("ok    " if truth else "FAILED", what, "" if truth else detail)


def loop(ask, thinking):
    """The whole loop with ask, a way to get an answer."""
    settings = {"tools": TOOLS, "chat_template_kwargs": {"enable_thinking": thinking}}
    messages = [{"role": "user", "content": f"What is the weather in {WEATHER['city']}?"}]
    first, reason = ask(messages, **settings)
    calls = first.get("tool_calls") or []
    if reason != "tool_calls" or len(calls) != 1:
        return f"no call: {first}, {reason}"
    if calls[0]["function"]["name"] != "get_weather" or not calls[0]["id"]:
        return f"another call: {calls}"
    if json.loads(calls[0]["function"]["arguments"]) != {"city": WEATHER["city"]}:
        return f"other arguments: {calls}"
    messages += [{"role": "assistant", "content": first["content"] or "", "tool_calls": calls},
                 {"role": "tool", "tool_call_id": calls[0]["id"],
                  "content": json.dumps(WEATHER["reply"])}]
    last, reason = ask(messages, **settings)
    for message in (first, last):
        if bool(message.get("reasoning_content")) != thinking:
            return f"thinking {thinking}, but the thought is {message}"
    if reason != "stop" or last.get("tool_calls"):
        return f"no final answer: {last}, {reason}"
    missing = [word for word in ("sunny", "Paris", "18") if word not in last["content"]]
    return f"'{last['content']}' lacks {missing}" if missing else ""


def text_of(server, **fields):
    message, _ = server.chat([{"role": "user", "content": "Tell me a story about Mia and a fox."}],
                             max_tokens=160, **fields)
    return message.get("reasoning_content") or "", message["content"]


with Server(program, model, "-np", "2") as server:
    for thinking in (True, False):
        manner = "with a thought" if thinking else "without a thought"
        for way, ask in (("whole", server.chat), ("streamed", server.chat_stream)):
            wrong = loop(ask, thinking)
            check(f"a tool loop, {way}, {manner}", not wrong, wrong)

    thought, story = text_of(server)
    check("thinking is on where nothing is said, and is kept apart",
          thought and "<think>" not in story and "</think>" not in story, (thought, story))
    check("a story is told about whom it was asked for", "Mia" in story and "fox" in story, story)
    check("the greedy answer is the same again", text_of(server) == (thought, story))
    check("the greedy answer does not depend on the cache",
          text_of(server, cache_prompt=False) == (thought, story))
    check("the greedy answer does not depend on the seed", text_of(server, seed=7) == (thought, story))
    warm = {"temperature": 0.8, "seed": 3}
    check("a seed's answer is the same again", text_of(server, **warm) == text_of(server, **warm))
    _, plain = text_of(server, chat_template_kwargs={"enable_thinking": False})
    check("without thinking there is a story and no thought",
          _ == "" and "Mia" in plain and "fox" in plain, plain)
    message, _ = server.chat([{"role": "user", "content": "What is 7 plus 5?"}])
    check("seven and five are twelve", "12" in message["content"], message)

with Server(program, model, "-t", "1", "-b", "32", "-ub", "32") as server:
    check("the greedy answer does not depend on threads and batches",
          text_of(server) == (thought, story))

sys.exit(failures != 0)
