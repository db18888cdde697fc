"""check_transformers.py SERVER DATA [NAME...] - log-probabilities of small Hugging Face folders
of every text family against those that transformers computed (transformers.json)."""
import json
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent.parent / "cli"))
import folders
import server
from server import check

server.use(sys.argv[1], "oracles")
data = json.loads(pathlib.Path(sys.argv[2]).read_text())
chosen = sys.argv[3:] or list(data["cases"])
WITHIN = 0.01


def log_probabilities(s, prompt):
    """Of every token behind the prompt, by id."""
    status, answer = s.ask("/completion", prompt=prompt, n_predict=1, n_probs=folders.VOCABULARY,
                           temperature=0, cache_prompt=False)
    if status != 200:
        raise RuntimeError(f"{prompt}: {answer}")
    found = {one["id"]: one["logprob"] for one in answer["completion_probabilities"][0]["top_logprobs"]}
    return [found[i] for i in range(folders.VOCABULARY)]


def worst_of(s, prompts, expected):
    """The largest difference among all prompts; of what hardly ever happens only that it does."""
    return max(abs(max(a, -30) - max(b, -30)) for prompt, row in zip(prompts, expected, strict=True)
               for a, b in zip(log_probabilities(s, prompt), row, strict=True))


with tempfile.TemporaryDirectory(prefix="mlxcel-oracles-") as scratch:
    for name in chosen:
        case = data["cases"][name]
        made = data["cases"][case.get("as", name)]
        folder = pathlib.Path(scratch) / name
        folders.write(folder, case["config"], made["tensors"])
        try:
            with server.Server("-c", str(made.get("n_ctx", 256)), "-np", "1", "-ctk", "f32", "-ctv", "f32", path=folder) as s:
                worst = worst_of(s, made.get("prompts", data["prompts"]), made["expected"])
            check(f"{name}: log-probabilities", worst < WITHIN, f"off by {worst:.3g}")
        except RuntimeError as error:
            check(name, False, str(error)[-600:])
server.end()
