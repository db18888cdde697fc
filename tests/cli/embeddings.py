"""embeddings.py SERVER SHARED - servers that embed and that rank: every shape of input and
answer, what shares a batch, who leaves, and what is refused."""
import base64
import concurrent.futures
import json
import math
import socket
import struct
import time
import urllib.parse

import server
from server import check

server.begin("embeddings")
bert, ranker = (server.shared / "models/tiny" / name for name in ("bert.gguf", "bert-rerank.gguf"))
stories = server.model


class Server(server.Server):
    def __init__(self, path, *options):
        super().__init__("-c", "1024", "-np", "2", "--metrics", *options, path=path)

    def vectors(self, texts, **more):
        status, answer = self.ask("/v1/embeddings", input=texts, **more)
        check("vectors", status == 200, str(answer)[:300])
        return [one["embedding"] for one in answer["data"]]

    def n_decodes(self):
        for line in self.ask("/metrics")[1].splitlines():
            if line.startswith("llamacpp:n_decode_total "):
                return int(line.split()[1])
        raise RuntimeError("no n_decode_total")


def distance(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def refused(s, what, path, says, status=400, **body):
    got, answer = s.ask(path, **body)
    message = answer.get("error", {}).get("message", "") if isinstance(answer, dict) else ""
    check(f"{what} is refused", got == status and says in message, f"{got} {str(answer)[:300]}")


TEXTS = ["Hello world", "The cat sat on the mat.", "naïve café 中文", "a", "x " * 40]
MANY = [f"text number {i} of many" for i in range(256)]

with Server(bert, "--embeddings") as s:
    alone = [s.vectors(text)[0] for text in TEXTS]
    # Shapes of input.
    check("a list is as its texts", max(map(distance, s.vectors(TEXTS), alone)) < 1e-5)
    ids = s.ask("/tokenize", content=TEXTS[0], add_special=True)[1]["tokens"]
    check("tokens are as text", distance(s.vectors(ids)[0], alone[0]) < 1e-5)
    check("lists of tokens and texts mix", max(map(distance, s.vectors([ids, TEXTS[1]]), alone)) < 1e-5)
    check("text and tokens mix in one input",
          distance(s.vectors(["Hello", *ids[2:]])[0], s.vectors([101, 7592, 102, *ids[2:]])[0]) < 1e-5)
    check("null dimensions and the whole width are no cut",
          s.vectors("a", dimensions=None) == s.vectors("a", dimensions=32) == s.vectors("a"))
    # Shapes of answers.
    status, answer = s.ask("/v1/embeddings", input=TEXTS[:2], model="mine")
    check("usage counts tokens", answer["usage"] == {"prompt_tokens": 13, "total_tokens": 13}, answer["usage"])
    check("the model's name comes back", answer["model"] == "mine" and answer["object"] == "list")
    check("indices count", [one["index"] for one in answer["data"]] == [0, 1])
    packed = s.vectors(TEXTS, encoding_format="base64")
    unpacked = [list(struct.unpack("<32f", base64.b64decode(p, validate=True))) for p in packed]
    check("base64 is the same floats", max(map(distance, unpacked, alone)) < 1e-6)
    for path in ("/embedding", "/embeddings"):
        for name in ("content", "input"):
            native = s.ask(path, **{name: TEXTS})[1]
            check(f"{path} {name}", [one["index"] for one in native] == list(range(5)) and
                  max(distance(one["embedding"][0], v) for one, v in zip(native, alone)) < 1e-5)
    check("content makes the answer native", isinstance(s.ask("/v1/embeddings", content="a")[1], list))
    # Scaling.
    raw = s.vectors("a", embd_normalize=-1)[0]
    for p, norm in ((1, sum(map(abs, raw))), (2, math.sqrt(sum(v * v for v in raw))),
                    (3, sum(abs(v) ** 3 for v in raw) ** (1 / 3)), (0, max(map(abs, raw)) / 32760)):
        scaled = s.vectors("a", embd_normalize=p)[0]
        check(f"embd_normalize {p}", distance(scaled, [v / norm for v in raw]) < 1e-5 * max(scaled, key=abs) ** 2 + 1e-5)
    check("a large p is the largest", abs(max(map(abs, s.vectors("a", embd_normalize=100000)[0])) - 1) < 1e-3)
    # What shares a batch: 256 short texts in few passes, and nothing of it shows.
    before = s.n_decodes()
    together = s.vectors(MANY)
    n_tokens = s.ask("/v1/embeddings", input=MANY)[1]["usage"]["prompt_tokens"]
    passes = s.n_decodes() - before
    least = -(-n_tokens // 512)
    check("many texts run in full batches", passes <= 2 * (least + 1), f"{passes} passes, {least} would do")
    check("a vector does not depend on the batch",
          max(distance(s.vectors(MANY[i])[0], together[i]) for i in range(0, 256, 37)) < 1e-5)
    # Requests of several clients share batches, a bad one harms none.
    with concurrent.futures.ThreadPoolExecutor(24) as clients:
        good = [clients.submit(s.vectors, MANY[i:i + 16]) for i in range(0, 256, 16)]
        bad = [clients.submit(s.ask, "/v1/embeddings", input=value)
               for value in (["a", "word " * 600], [], [1, 99999999], [[], "a"]) for _ in range(2)]
        check("bad neighbours", all(f.result()[0] == 400 for f in bad), [f.result() for f in bad])
        check("neighbours get their own vectors", max(
            max(map(distance, f.result(), together[16 * i:16 * i + 16])) for i, f in enumerate(good)) < 1e-5)
    # Who leaves is not worked for.
    heavy = json.dumps({"input": ["word " * 200] * 4000}).encode()
    before = s.n_decodes()
    with socket.create_connection(("127.0.0.1", urllib.parse.urlparse(s.address).port)) as gone:
        gone.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(heavy) + heavy)
        deadline = time.monotonic() + 60
        while s.n_decodes() < before + 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    began = time.monotonic()
    check("the next client is served", len(s.vectors("a")) == 1)
    check("and at once", time.monotonic() - began < 20, f"{time.monotonic() - began:.1f} s")
    time.sleep(0.2)
    after = s.n_decodes()
    time.sleep(0.3)
    check("who left is not worked for", s.n_decodes() == after < before + 2000, f"{before} {after} {s.n_decodes()}")
    # What is refused.
    for path in ("/embedding", "/v1/embeddings"):
        refused(s, "an empty list", path, "must not be empty", input=[])
        refused(s, "no input", path, '"input" or "content" must be provided', text="a")
        refused(s, "null", path, "must be a string", input=None)
        refused(s, "a number", path, "must be a string", input=5)
        refused(s, "an object", path, "must be a string", input={"a": 1})
        refused(s, "a list within a list within a list", path, "must be a string", input=[[["a"]]])
        refused(s, "an empty list among inputs", path, "cannot be empty", input=["a", []])
        refused(s, "a wrong id", path, "Prompt contains invalid tokens", input=[101, 10 ** 9, 102])
        refused(s, "a huge id", path, "Prompt contains invalid tokens", input=[101, 1e300])
        refused(s, "a long text", path, "input (602 tokens) is too large to process. increase the physical batch "
                "size (current batch size: 512)", input=["a", "word " * 600])
        refused(s, "a huge text", path, "too large to process", input="word " * 200000)
        refused(s, "100,000 inputs", path, "at most 4096", input=["a"] * 100000)
        refused(s, "a wrong scale", path, "embd_normalize", input="a", embd_normalize="2")
        refused(s, "a negative scale", path, "embd_normalize", input="a", embd_normalize=-2)
        refused(s, "an unknown format", path, "either float or base64", input="a", encoding_format="hex")
        refused(s, "a format that is no text", path, "either float or base64", input="a", encoding_format=5)
    refused(s, "a cut that was not trained", "/v1/embeddings", "not trained", input="a", dimensions=8)
    refused(s, "no dimensions", "/v1/embeddings", "from 1 to 32", input="a", dimensions=0)
    refused(s, "too many dimensions", "/v1/embeddings", "from 1 to 32", input="a", dimensions=33)
    for path, body in (("/completion", {"prompt": "a"}), ("/v1/completions", {"prompt": "a"}),
                       ("/v1/chat/completions", {"messages": []}), ("/v1/responses", {"input": "a"}),
                       ("/v1/messages", {"messages": []}), ("/infill", {"input_prefix": "a"})):
        refused(s, f"{path} of an embedding server", path, "Start it without `--embeddings`", 501, **body)
    refused(s, "ranking by an embedding server", "/rerank", "Start it with `--reranking`", 501, query="a", documents=["b"])

# Neither threads nor the physical batch show.
for options in (["-t", "1"], ["-t", "2"], ["-ub", "64"], ["-ub", "64", "-b", "1024"], ["--no-repack"],
                ["--parallel", "8"]):
    with Server(bert, "--embedding", *options) as s:
        check(f"{options} change nothing", max(map(distance, s.vectors(TEXTS), alone)) < 1e-5)
with Server(bert, "--embeddings", "--embd-normalize", "-1") as s:
    check("--embd-normalize", distance(s.vectors("a")[0], raw) < 1e-5)
with Server(bert, "--embeddings", "--pooling", "none") as s:
    status, answer = s.ask("/embedding", content=["Hello world", "a"], embd_normalize=2)
    check("without pooling each token has a vector", [len(one["embedding"]) for one in answer] == [4, 3])
    check("and none is scaled", max(map(abs, answer[0]["embedding"][0])) > 1)
    refused(s, "an OpenAI answer without pooling", "/v1/embeddings", "Pooling type 'none'", input="a")

# A decoder embeds too, and shares batches the same way.
with Server(stories, "--embeddings", "--pooling", "mean") as s:
    single = [s.vectors(text)[0] for text in MANY[:24]]
    check("a decoder's vectors do not depend on the batch", max(map(distance, s.vectors(MANY)[:24], single)) < 1e-5)
with Server(stories, "--embeddings", "--pooling", "mean", "-ub", "1024") as s:
    refused(s, "more than a slot's context", "/v1/embeddings", "max context size (512 tokens)", input="word " * 250)
with Server(stories, "--embeddings", "--pooling", "last", "-ub", "128") as s:
    single = [s.vectors(text)[0] for text in MANY[:24]]
    check("nor with the last token's", max(map(distance, s.vectors(MANY)[:24], single)) < 1e-5)
with Server(stories) as s:
    refused(s, "embeddings without the option", "/v1/embeddings", "Start it with `--embeddings`", 501, input="a")
with Server(bert) as s:
    refused(s, "text from an encoder", "/completion", "generates no text", 501, prompt="a")

# Ranking.
DOCUMENTS = ["Hello world", "The cat sat on the mat.", "naïve café 中文", "a", "x " * 40]
for name, options in (("--reranking", []), ("--rerank", ["-t", "1", "-ub", "128", "-b", "128"])):
    with Server(ranker, name, *options) as s:
        for path in ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking"):
            status, answer = s.ask(path, query="What is a cat?", documents=DOCUMENTS)
            check(path, [one["index"] for one in answer["results"]] == [3, 2, 0, 4, 1] and
                  abs(answer["results"][0]["relevance_score"] - 3.4958) < 2e-3 and
                  answer["usage"]["prompt_tokens"] == 89, str(answer)[:300])
        scores = {one["index"]: one["relevance_score"] for one in answer["results"]}
        one = s.ask("/rerank", query="What is a cat?", documents=[DOCUMENTS[1]])[1]["results"][0]
        check("a score does not depend on the batch", abs(one["relevance_score"] - scores[1]) < 1e-5)
        tei = s.ask("/rerank", query="What is a cat?", texts=DOCUMENTS, return_text=True, top_n=2)[1]
        check("texts are answered in their own form", [(t["index"], t["text"]) for t in tei] ==
              [(3, DOCUMENTS[3]), (2, DOCUMENTS[2])] and abs(tei[0]["score"] - scores[3]) < 1e-5, str(tei))
        check("top_n 0", s.ask("/rerank", query="a", documents=["b"], top_n=0)[1]["results"] == [])
        check("top_n beyond all", len(s.ask("/rerank", query="a", documents=["b"], top_n=9)[1]["results"]) == 1)
        many = s.ask("/rerank", query="What is a cat?", documents=MANY)[1]["results"]
        check("many documents, the best first", len(many) == 256 and
              [o["relevance_score"] for o in many] == sorted((o["relevance_score"] for o in many), reverse=True))
        for what, says, body in (
                ("no documents", "non-empty string array", {"query": "a", "documents": []}),
                ("documents that are no list", "non-empty string array", {"query": "a", "documents": "b"}),
                ("a document that is no text", "non-empty string array", {"query": "a", "documents": ["a", 5]}),
                ("no query", '"query" must be provided', {"documents": ["a"]}),
                ("a query that is no text", '"query" must be a string', {"query": ["a"], "documents": ["a"]}),
                ("a wrong top_n", "top_n", {"query": "a", "documents": ["a"], "top_n": "1"}),
                ("a negative top_n", "top_n", {"query": "a", "documents": ["a"], "top_n": -1}),
                ("a wrong return_text", "return_text", {"query": "a", "texts": ["a"], "return_text": 1}),
                ("100,000 documents", "at most 4096", {"query": "a", "documents": ["a"] * 100000}),
                ("a long document", "too large to process", {"query": "a", "documents": ["b", "word " * 600]})):
            refused(s, what, "/v1/rerank", says, **body)
        refused(s, "vectors of a rank server", "/v1/embeddings", "Start it without `--reranking`", 501, input="a")
        refused(s, "text of a rank server", "/completion", "Start it without `--reranking`", 501, prompt="a")
with Server(ranker, "--embeddings") as s:
    refused(s, "ranking without the option", "/rerank", "Start it with `--reranking`", 501, query="a", documents=["b"])

server.end()
