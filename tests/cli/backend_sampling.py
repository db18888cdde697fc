"""backend_sampling.py SERVER MODEL - sampling "on the backend" is taken, by option,
variable and request, and gives the same answers: the backend is the CPU. Nothing but
the checkout is needed."""
import sys

import server
from server import check

server.use(sys.argv[1], "backend-sampling")
MODEL = sys.argv[2]
# Greedy, random, with probabilities of either kind, and with what the reference
# never samples on its backend.
REQUESTS = {
    "greedy": {"temperature": 0},
    "random": {"temperature": 1.5, "seed": 7},
    "probabilities": {"temperature": 1, "seed": 7, "n_probs": 5},
    "probabilities after sampling": {"temperature": 1, "seed": 7, "n_probs": 5,
                                     "post_sampling_probs": True},
    "grammar": {"temperature": 1, "seed": 7, "grammar": 'root ::= [a-z ]+'},
}
MEANT = ("content", "completion_probabilities", "tokens_predicted", "stop_type")


def answer(running, fields):
    """What an answer says, and whether it says that the backend sampled."""
    got = running.complete(n_predict=24, cache_prompt=False, **fields)
    return {key: got.get(key) for key in MEANT}, got["generation_settings"]["backend_sampling"]


with server.Server(path=MODEL) as running:
    expected = {}
    for name, fields in REQUESTS.items():
        expected[name], shown = answer(running, fields)
        check(f"{name}: off unless asked for", shown is False)
        got, shown = answer(running, {**fields, "backend_sampling": True})
        check(f"{name}: the same by request", got == expected[name], f"{got} {expected[name]}")
        check(f"{name}: the request's word is shown", shown is (name != "grammar"))
    check("the answers differ from each other",
          len({value["content"] for value in expected.values()}) >= 3, expected)
    shown = running.get("/props")["default_generation_settings"]["params"]["backend_sampling"]
    check("/props says off", shown is False)

for options, env in ((("-bs",), None), (("--backend-sampling",), None),
                     ((), {"LLAMA_ARG_BACKEND_SAMPLING": "1"})):
    with server.Server(*options, path=MODEL, env=env) as running:
        for name, fields in REQUESTS.items():
            got, shown = answer(running, fields)
            check(f"{name}, {options}: the same", got == expected[name], f"{got} {expected[name]}")
            check(f"{name}, {options}: shown", shown is (name != "grammar"))
        shown = running.get("/props")["default_generation_settings"]["params"]["backend_sampling"]
        check(f"/props, {options}", shown is True)
        _, shown = answer(running, {"temperature": 0, "backend_sampling": False})
        check(f"a request may say no, {options}", shown is False)
server.end()
