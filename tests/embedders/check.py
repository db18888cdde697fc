"""check.py SERVER VECTORS [--record] - vectors and scores of a miniature of every family of
embedders and rankers, as GGUF and as a Hugging Face folder, against those that another
program computed from the same GGUF files.

With --record SERVER is that program (llama-server), and VECTORS is written: see README.md."""
import json
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent.parent / "cli"))
import server
from server import check
import generate

server.use(sys.argv[1], "embedders")
vectors_path = pathlib.Path(sys.argv[2])
recording = "--record" in sys.argv[3:]
WITHIN = 2e-3  # of the largest component, or of one
IDS = [[2, 5, 9, 3], [2, *range(6, 25), 3], [7]]
TEXTS = ["the cat sat on the mat", "hello world", "a"]
QUERY, DOCUMENTS = "the cat", ["sat on the mat", "hello", "a cat"]


class Server(server.Server):
    def __init__(self, path, *options):
        super().__init__("-c", "2048", "-np", "2", "-ctk", "f32", "-ctv", "f32", *options, path=path)

    def embed(self, value, **more):
        status, answer = self.ask("/v1/embeddings", input=value, embd_normalize=-1, **more)
        if status != 200:
            raise RuntimeError(f"{value}: {answer}")
        return [one["embedding"] for one in answer["data"]]

    def rank(self, documents):
        status, answer = self.ask("/rerank", query=QUERY, documents=documents)
        if status != 200:
            raise RuntimeError(f"{documents}: {answer}")
        scores = {one["index"]: one["relevance_score"] for one in answer["results"]}
        return [scores[i] for i in range(len(documents))], answer["usage"]["prompt_tokens"]


def short(numbers):
    return [float(f"{x:.6g}") for x in numbers]


def record(s, ranks):
    """Each input on its own: no neighbour can have a part in it."""
    if ranks:
        alone = [s.rank([document]) for document in DOCUMENTS]
        return {"scores": short([score[0] for score, _ in alone]), "prompt_tokens": sum(n for _, n in alone)}
    return {"tokens": [s.ask("/tokenize", content=text, add_special=True)[1]["tokens"] for text in TEXTS],
            "vectors": [short(s.embed(value)[0]) for value in IDS + TEXTS]}


def compare(name, s, ranks, wanted):
    if ranks:
        scores, n = s.rank(DOCUMENTS)
        check(f"{name}: scores", max(abs(a - b) for a, b in zip(scores, wanted["scores"])) < WITHIN,
              f"{scores} {wanted['scores']}")
        check(f"{name}: tokens of pairs", n == wanted["prompt_tokens"], f"{n} {wanted['prompt_tokens']}")
        return
    tokens = [s.ask("/tokenize", content=text, add_special=True)[1]["tokens"] for text in TEXTS]
    check(f"{name}: tokens", tokens == wanted["tokens"], f"{tokens} {wanted['tokens']}")
    for value, got, want in zip(IDS + TEXTS, s.embed(IDS) + s.embed(TEXTS), wanted["vectors"], strict=True):
        scale = max(1, max(map(abs, want)))
        worst = max(abs(a - b) for a, b in zip(got, want, strict=True)) / scale
        check(f"{name}: vector of {value}", worst < WITHIN, f"off by {worst:.2g}")


def check_cuts(s):
    """Where the model was trained for it, dimensions are cut and scaled anew."""
    whole = s.ask("/v1/embeddings", input="the cat")[1]["data"][0]["embedding"]
    cut = s.ask("/v1/embeddings", input="the cat", dimensions=8)[1]["data"][0]["embedding"]
    norm = sum(x * x for x in whole[:8]) ** 0.5
    check("dimensions", len(cut) == 8 and max(abs(a - b / norm) for a, b in zip(cut, whole)) < 1e-5, str(cut))


with tempfile.TemporaryDirectory(prefix="mlxcel-embedders-") as scratch:
    generate.generate(scratch)
    results = {} if recording else json.loads(vectors_path.read_text())
    for name, model in generate.MODELS.items():
        ranks = model["pooling"] == generate.RANK
        for path in (f"{name}.gguf", name):
            full = pathlib.Path(scratch) / path
            if not full.exists() or (recording and full.is_dir()):
                continue
            try:
                with Server(full, "--reranking" if ranks else "--embeddings") as s:
                    if recording:
                        results[name] = record(s, ranks)
                        continue
                    compare(path, s, ranks, results[name])
                    if model.get("hf", {}).get("is_matryoshka") and full.is_dir():
                        check_cuts(s)
                    if name == "xlm-roberta" and full.is_dir():
                        check_cuts(s)
                        status, answer = s.ask("/v1/embeddings", input="a", dimensions=9)
                        check("a width that was not trained", status == 400, str(answer))
            except RuntimeError as error:
                check(path, False, str(error))
    if recording:
        lines = ",\n".join(f' "{name}": ' + json.dumps(result) for name, result in results.items())
        vectors_path.write_text("{\n" + lines + "\n}\n")
server.end()
