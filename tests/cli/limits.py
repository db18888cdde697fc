"""limits.py - what would be looked through for every token, while others wait for
theirs, has a limit: within it a request is answered, past it a 400 says the limit."""
import server
from server import check

server.begin("limits")

GRAMMAR = {"grammar": 'root ::= "x"+', "grammar_lazy": True}
TAGS = {"reasoning_budget_tokens": 5, "reasoning_budget_start_tag": "<think>",
        "reasoning_budget_end_tags": ["</think>"]}


def triggers(kind, text, n):
    return {**GRAMMAR, "grammar_triggers": [{"type": kind, "value": text}] * n}


DRY = {"dry_multiplier": 1}
ROWS = [  # a request that is answered, one that is not, what its message holds
    (triggers(2, "a+b", 64), triggers(2, "a+b", 3000), "64 patterns"),
    (triggers(3, "a+b", 64), triggers(3, "a+b", 65), "64 patterns"),
    (triggers(1, "abc", 4096), triggers(1, "abc", 4097), "4096"),
    (triggers(2, "a" * 4096, 1), triggers(2, "a" * 4097, 1), "4096 bytes"),
    ({"stop": ["~~"] * 1024}, {"stop": ["~~"] * 1025}, "1024"),
    ({"stop": "~" * 65536}, {"stop": "~" * 65537}, "65536"),
    ({"logit_bias": [[5, 0.1]] * 5000}, {"logit_bias": [[5, 0.1]] * 6000}, "logit_bias"),
    ({**DRY, "dry_sequence_breakers": ["abc"] * 1024},
     {**DRY, "dry_sequence_breakers": ["abc"] * 20000}, "1024"),
    (TAGS, {**TAGS, "reasoning_budget_end_tags": ["<end>"] * 5000}, "4096"),
    (TAGS, {**TAGS, "reasoning_budget_start_tag": "a b " * 5000}, "4096"),
    (TAGS, {**TAGS, "reasoning_budget_message": "a b " * 5000}, "4096"),
]

with server.Server("-np", "4") as s:
    for good, bad, part in ROWS:
        name = f"{[k for k in bad if bad[k] != good.get(k)]}"
        body = {"prompt": "Once", "n_predict": 2, "n": 2}
        status, answer = s.exchange("/completion", {**body, **good})
        check(f"{name} within its limit", status == 200, f"{status} {str(answer)[:200]}")
        status, answer = s.exchange("/completion", {**body, **bad})
        message = answer["error"]["message"] if status == 400 else str(answer)[:200]
        check(f"{name} past its limit", status == 400 and part in message, f"{status} {message}")

    # Patterns that need too much end their own request, and no other.
    slow = {"prompt": "Once upon a time", "n_predict": 400, "ignore_eos": True, "temperature": 0,
            **triggers(2, "^([A-Za-z ,.]+)+[~#]", 1)}
    status, answer = s.exchange("/completion", slow)
    check("a pattern without end", status == 400 and "more steps" in answer["error"]["message"],
          f"{status} {str(answer)[:200]}")
    check("the server goes on", s.complete()["tokens_predicted"] == 16)

server.end()
