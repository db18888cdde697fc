"""score.py SERVER TALE MODEL [N] - what a model answers to N held-out requests of
each kind, asked as a client asks. Prints the scores; fails below the marks.

TALE is the program that makes the requests (tools/tale); a request held out is
one that no conversation of the training had (is_held_out in corpus.c)."""
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tale import Server

# Right answers in a hundred that each kind of request must reach.
MARKS = {"tool": 95, "arithmetic": 90, "lookup": 90, "story": 95, "story_question": 80,
         "tool_answer": 90, "thought": 100, "prompt": 100}


def call_is_right(message, expect):
    calls = message.get("tool_calls") or []
    if len(calls) != 1 or calls[0]["function"]["name"] != expect[0]:
        return False
    try:
        return json.loads(calls[0]["function"]["arguments"]) == json.loads(expect[1])
    except ValueError:
        return False


def answer_is_right(task, message, expect):
    if task == "tool":
        return call_is_right(message, expect)
    return not message.get("tool_calls") and all(part in message["content"] for part in expect)


def thought_is_whole(server, request):
    """Exactly one thought, opened first and closed, before an answer."""
    raw = server.post("/completion", {"prompt": request["prompt"], "temperature": 0,
                                      "n_predict": 300})["content"]
    before, opened, rest = raw.partition("<think>")
    thought, closed, answer = rest.partition("</think>")
    return (bool(opened and closed) and not before.strip() and bool(thought.strip())
            and bool(answer.strip()) and "think>" not in answer)


def ask(server, request):
    """What is right about the answer to one request: name -> truth."""
    settings = {"chat_template_kwargs": {"enable_thinking": request["thinking"]},
                "max_tokens": 300}
    if request["tools"]:
        settings["tools"] = request["tools"]
    message, reason = server.chat(request["messages"], **settings)
    prompt = server.post("/apply-template", {
        "messages": request["messages"], "tools": request["tools"] or None,
        "chat_template_kwargs": settings["chat_template_kwargs"]})["prompt"]
    seen = {request["task"]: reason in ("stop", "tool_calls")
            and answer_is_right(request["task"], message, request["expect"]),
            "prompt": prompt == request["prompt"]}
    thought = message.get("reasoning_content")
    text = message.get("content") or ""
    if request["thinking"]:
        seen["thought"] = (bool(thought) and "think>" not in text + thought
                           and thought_is_whole(server, request))
    else:
        seen["thought"] = not thought and "think>" not in text
    if os.environ.get("MLXCEL_SHOW_MISSES") and not all(seen.values()):
        print(json.dumps({"request": request, "message": message, "seen": seen}))
    return seen


def main():
    program, tale, model = sys.argv[1:4]
    n = int(sys.argv[4]) if len(sys.argv) > 4 else 50
    lines = subprocess.run([tale, "held-out", str(n)], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    requests = [json.loads(line) for line in lines]
    right, asked = dict.fromkeys(MARKS, 0), dict.fromkeys(MARKS, 0)
    with Server(program, model, "-np", "2", "-c", "2048") as server, \
            ThreadPoolExecutor(2) as pool:
        for seen in pool.map(lambda request: ask(server, request), requests):
            for what, truth in seen.items():
                asked[what] += 1
                right[what] += truth
    failed = False
    for what, mark in MARKS.items():
        percent = 100 * right[what] / asked[what]
        failed |= percent < mark
        print(f"{what:16} {right[what]:5} of {asked[what]:5} {percent:6.1f} %"
              + (f"  (at least {mark} %)" if mark else "")
              + ("  MISSED" if percent < mark else ""))
    sys.exit(failed)


if __name__ == "__main__":
    main()
