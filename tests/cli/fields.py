"""fields.py SERVER SHARED - every field that --dump-surface names is read by
POST /completion with its type and its limits, null counting as absent."""
import server
from server import check

server.begin("fields")
fields = server.surface()["fields"]


def fail(text):
    check(text, False)


def complete(**more):
    return running.exchange("/completion", {"prompt": "Once", "n_predict": 1, "temperature": 0,
                                            **more})


def settings(answer):
    return (answer[0] if isinstance(answer, list) else answer).get("generation_settings", {})


def is_refused(name, value):
    status, answer = complete(**{name: value})
    if status != 400 or answer["error"]["type"] != "invalid_request_error":
        fail(f"{name}: {value} is answered with {status}")
    elif name not in answer["error"]["message"]:
        fail(f"{name}: {value}: the message does not name it: {answer['error']['message']}")


with server.Server("-c", "256", "-np", "2", "--no-warmup") as running:
    for field in fields:
        name = field["name"]
        status, answer = complete(**{name: None})
        if status != 200:
            fail(f"{name}: null is answered with {status}: {answer}")
        if field.get("ignored"):
            if complete(**{name: 1})[0] != 200:
                fail(f"{name} is not ignored")
            continue
        # A wrong type is refused by name.
        # (The message counts only beside end tags, and is not looked at without.)
        if field["type"] in ("num", "str") and name != "reasoning_budget_message":
            is_refused(name, {"an": "object"})
        # Limits: refused or clamped, as claimed.
        for limit, beyond in (("min", -1), ("max", 1)):
            bound = field.get(limit)
            if bound == "slots":
                bound = 2
            if bound is None or abs(bound) > 2**31 - 2:
                continue
            value = int(bound + beyond) if float(bound).is_integer() else bound + beyond
            if field["out_of_range"] == "error":
                is_refused(name, value)
            else:
                status, answer = complete(**{name: value})
                got = settings(answer).get(name)
                if status != 200 or got is None or abs(got - bound) > 1e-6:
                    fail(f"{name}: {value} is not clamped to {bound}: {status}, {got}")

    # Aliases reach the field they stand for.
    for name, n in (("n_predict", 3), ("max_tokens", 4), ("max_completion_tokens", 5)):
        body = {"n_predict": None, name: n}
        status, answer = complete(**body)
        if status != 200 or answer["tokens_predicted"] != n:
            fail(f"{name}: {n} gave {answer}")
    for name in ("n_cmpl", "n"):
        status, answer = complete(**{name: 2})
        if status != 200 or len(answer) != 2:
            fail(f"{name}: 2 gave {answer}")
    for name in ("n_probs", "logprobs"):
        status, answer = complete(**{name: 2})
        if status != 200 or len(answer["completion_probabilities"][0]["top_logprobs"]) != 2:
            fail(f"{name}: 2 gave {answer}")
    for body in ({"grammar": 'root ::= "yes"'}, {"json_schema": {"const": "yes"}}):
        status, answer = complete(n_predict=8, **body)
        if status != 200 or "yes" not in answer["content"]:
            fail(f"{body} gave {answer}")
    known = {alias for field in fields for alias in field["aliases"]}
    tried = {"max_tokens", "max_completion_tokens", "n", "logprobs", "grammar",
             "reasoning_budget_end_tag"}
    if known != tried:
        fail(f"aliases that this test does not try: {known ^ tried}")

print(len(fields), "fields")
server.end()
