"""by_design.py SERVER MODELS - what is answered otherwise than the reference does on purpose
and belongs to no option, route or field alone: the behaviours of the manifest."""
import json
import pathlib
import sys
import threading

import scripted
import server
from server import Server, check

tale = pathlib.Path(sys.argv[2]) / "tale"
server.use(sys.argv[1], "by-design")
tried = set()


def behaviour(name):
    """Marks a function as the proof of a behaviour of the manifest."""
    def mark(function):
        tried.add(name)
        return function
    return mark


@behaviour("typical_p beside impossible tokens")
def typical():
    """A token that cannot be drawn changes nothing for the others: its share of the entropy is
    nothing. The reference multiplies nothing by infinity there, and orders by what is no number."""
    def drawn_from(**more):
        body = {"prompt": "one two three", "n_predict": 1, "temperature": 1, "seed": 1,
                "samplers": ["typ_p"], "typical_p": 0.6, "n_probs": 1040, "post_sampling_probs": True}
        answer = running.post("/completion", {**body, **more})
        return {t["id"]: round(t["prob"], 4)
                for t in answer["completion_probabilities"][0]["top_probs"]}
    plain = drawn_from()
    check("some are left out", 0 < len(plain) < 900, len(plain))
    least = sorted(drawn_from(typical_p=1.0, samplers=[]).items(), key=lambda t: t[1])[:100]
    got = drawn_from(logit_bias=[[i, False] for i, _ in least])
    check("the same are drawn from", set(got) == set(plain), (plain, got))


@behaviour("a busy slot asked for by id")
def busy_slot():
    """Who waits for a slot leaves alone what it computes, and finds what the prompt cache has
    when it is free."""
    known = "The fox had a lantern and went to the harbor at night, where the boats were."
    other = "Once upon a time a small bird sat on a branch in the quiet wood and sang a song."
    long = {"prompt": other, "n_predict": 120, "temperature": 0, "ignore_eos": True, "id_slot": 0}
    alone = running.post("/completion", long)["content"]
    running.post("/completion", prompt=known, n_predict=1, id_slot=0)
    running.post("/completion", {**long, "n_predict": 1})
    n_known = len(running.post("/tokenize", content=known)["tokens"])
    waited = {}
    with running.open("/completion", {**long, "stream": True, "n_predict": 120}) as answer:
        lines = iter(answer)
        first = next(lines)
        thread = threading.Thread(target=lambda: waited.update(running.post(
            "/completion", prompt=known + " They", n_predict=1, id_slot=0)))
        thread.start()
        text = b"".join([first, *lines]).decode()
        thread.join()
    events = [json.loads(l[6:]) for l in text.splitlines() if l.startswith("data: {")]
    check("the one before is left alone", "".join(e["content"] for e in events) == alone, events[-1])
    check("the cache's prompt is found", waited["timings"]["cache_n"] == n_known, waited["timings"])
    check("in that slot", waited["id_slot"] == 0)


@behaviour("the prompt cache without --slot-prompt-similarity")
def without_similarity():
    known = "The fox had a lantern and went to the harbor at night, where the boats were."
    first = running.post("/completion", prompt=known, n_predict=1, id_slot=0)["timings"]
    running.post("/completion", prompt="Once upon a time a small bird sat on a branch.",
                 n_predict=1, id_slot=0)
    again = running.post("/completion", prompt=known, n_predict=1, id_slot=0)["timings"]
    check("a slot asked for by id takes what the cache has",
          again["cache_n"] == first["prompt_n"] + first["cache_n"] - 1, (first, again))


@behaviour("grammars admit characters only")
def characters():
    """No text that a grammar admits has an overlong sequence, a surrogate or a code point past
    U+10FFFF: the bytes that would begin or continue one are never drawn."""
    spelled = json.loads((tale / "tokenizer.json").read_text())["model"]["vocab"]
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    letter = {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}
    token = {b: spelled[letter[b]] for b in range(256)}
    for bad in ([0xC0], [0xC1, 0x81], [0xF5], [0xFF], [0xE0, 0x80], [0xED, 0xA0], [0xF0, 0x80],
                [0xF4, 0x90]):
        body = {"prompt": "Once", "n_predict": 2, "temperature": 0, "return_tokens": True,
                "logit_bias": [[token[b], 1000 - i] for i, b in enumerate(bad)]}
        check("else it begins", running.post("/completion", body)["tokens"][0] == token[bad[0]])
        answer = running.post("/completion", {**body, "grammar": "root ::= [^a]{9}"})
        check(f"not {bytes(bad)}", answer["tokens"][:len(bad)] != [token[b] for b in bad], answer)
        check("two tokens", len(answer["tokens"]) == 2, answer)
    file = server.scratch / "bad.gbnf"
    file.write_bytes(b'root ::= "\xc0\x80"')
    with Server("--grammar-file", str(file), path=tale) as s:
        status, answer = s.ask("/completion", prompt="Once", n_predict=1)
    check("nor is such a grammar read", status == 400 and "parse grammar" in str(answer), answer)


# What the reference's template engine says it has not implemented.
RENDERED = [("{{ [1, 2, 1]|unique|join('-') }}", "1-2"),
            ("{{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }}", '{"a": 2, "b": 1}'),
            ("{{ 'aab'.replace('a', 'x', 1) }}", "xab"),
            ("{{ ([{'n': 2}, {'n': 1}]|min(attribute='n')).n }}", "1"),
            ("{{ none is sameas none }}", "True")]


@behaviour("templates that only we render")
def templates():
    template = server.scratch / "template.jinja"
    template.write_text("|".join(source for source, _ in RENDERED))
    with Server("--jinja", "--chat-template-file", str(template), path=tale) as s:
        got = s.post("/apply-template", messages=[{"role": "user", "content": "x"}])["prompt"]
    check("all are rendered", got.split("|") == [text for _, text in RENDERED], got)


@behaviour("text held back when a stream ends")
def held_back():
    """What could have begun a stop string, or a character, is sent when the text ends with it:
    a stream says as much as an answer in one piece."""
    body = {"prompt": "Once", "n_predict": 3, "temperature": 0, "grammar": 'root ::= "abcdef"',
            "logit_bias": [["a", 50], ["b", 50], ["c", 50]], "stop": ["bcxyz"]}
    whole = running.post("/completion", body)["content"]
    with running.open("/completion", {**body, "stream": True}) as answer:
        events = [json.loads(l[6:]) for l in answer.read().decode().splitlines() if l[:7] == "data: {"]
    check("some was held back", events[-1]["content"] != "", events[-1])
    check("and is sent", "".join(e["content"] for e in events) == whole == "abc", whole)


FORMAT = {"type": "object", "properties": {"content": {"type": "string"}, "note": {"type": "string"},
                                           "filePath": {"type": "string"}},
          "required": ["content", "filePath"], "additionalProperties": False}
# what a model writes, a token each, and what becomes of it
WRITTEN = {"the schema's order": ['{"', 'content', '":"b","', 'filePath', '":"a"}'],
           "another order": ['{"', 'filePath', '":"a","', 'content', '":"b"}'],
           "a member that is not required first": ['{"note":"', 'c","filePath":"a",', '"content":"b"}']}


def answers(s):
    """A response format's text from each surface, streamed and not."""
    messages = [{"role": "user", "content": "Hi"}]
    chat = {"messages": messages, "temperature": 0, "max_tokens": 40, "response_format":
            {"type": "json_schema", "json_schema": {"name": "f", "strict": True, "schema": FORMAT}}}
    yield "chat", s.post("/v1/chat/completions", chat)["choices"][0]["message"]["content"]
    with s.open("/v1/chat/completions", {**chat, "stream": True}) as answer:
        events = [json.loads(l[6:]) for l in answer.read().decode().splitlines() if l[:7] == "data: {"]
    yield "stream", "".join(c["delta"].get("content") or "" for e in events for c in e["choices"])


@behaviour("members of objects in any order")
def any_order():
    for name, pieces in WRITTEN.items():
        path = scripted.write(server.scratch / "order.gguf", pieces)
        with Server("-c", "8192", "--chat-template", "chatml", path=path) as s:
            for surface, text in answers(s):
                check(f"{name}, {surface}", text == "".join(pieces), text)
            native = s.post("/completion", prompt="Hi", json_schema=FORMAT, temperature=0, n_predict=40)
            kept = native["content"] == "".join(pieces)
            check(f"{name}: the native field has the schema's", kept == (name == "the schema's order"), native)
            check("and shows it", native["generation_settings"]["grammar"].index("content-kv \",\" space filePath-kv") > 0)
    for name, pieces in (("a member twice", ['{"content":"b",', '"content":"b",']),
                         ("a required one missing", ['{"filePath":"a"}', "!"])):
        path = scripted.write(server.scratch / "order.gguf", pieces)
        with Server("-c", "8192", "--chat-template", "chatml", path=path) as s:
            for surface, text in answers(s):
                check(f"{name}, {surface}", not text.startswith("".join(pieces)), text)


with Server("-np", "2", "-c", "1024", path=tale) as running:
    typical()
    busy_slot()
    characters()
    held_back()
with Server("-np", "1", "--slot-prompt-similarity", "0", path=tale) as running:
    without_similarity()
templates()
any_order()
claims = json.loads((pathlib.Path(sys.argv[2]).parent /
                     "compat/llama-server/b10621/behaviours.json").read_text())["entries"]
here = {c["id"] for c in claims if c["test"] == "cli.by_design"}
check("every claim is tried", here == tried, here ^ tried)
print(len(tried), "behaviours")
server.end()
