"""bench.py MLXCEL - mlxcel bench: what it measures, as text and as JSON, and beside an
earlier run."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

failures = 0
QUICK = ("-p", "8", "-n", "2", "-r", "1", "-t", "1")


def check(what, truth, detail=""):
    global failures
    failures += not truth
    if not truth:
        print(f"FAILED: {what} {detail}")


def bench(*options, code=0):
    run = subprocess.run([sys.argv[1], "bench", *options], capture_output=True, text=True, timeout=120)
    check(f"{options}: exit code", run.returncode == code, f"{run.returncode} {run.stderr}")
    return run.stdout if code == 0 else run.stderr


def measured(*options):
    return json.loads(bench(*options, "--json"))


with tempfile.TemporaryDirectory(prefix="mlxcel-bench-") as scratch:
    model = ("--synthetic", "llama:10m:q4_0")
    one = measured(*model, *QUICK)
    check("the model", one["model"] == model[1] and one["arch"] == "llama" and one["threads"] == 1, one)
    prompt, generation = one["results"]
    for r, test, n in ((prompt, "prompt", 8), (generation, "generation", 2)):
        check(test, r["test"] == test and r["n_tokens"] == n and r["tokens_per_second"] > 0
              and r["depth"] == 0 and r["clients"] == 1 and "ratio" not in r, r)
    deep = measured(*model, *QUICK, "-p", "0", "-d", "100", "--clients", "3", "-ctk", "q8_0")["results"]
    check("depth and clients", [(r["test"], r["depth"], r["clients"]) for r in deep] ==
          [("generation", 100, 3)], deep)
    text = bench(*model, *QUICK, "-d", "16", "--clients", "2")
    check("text", re.search(r"^prompt +8 tokens at depth 16: +[\d.]+ tokens/s", text, re.M) and
          re.search(r"^generation +2 tokens at depth 16 for 2 clients: +[\d.]+ tokens/s", text, re.M), text)

    # A file is measured like what made it.
    gguf = pathlib.Path(scratch) / "model.gguf"
    bench(*model, "--write", str(gguf))
    check("a file", measured("-m", str(gguf), *QUICK)["n_params"] == one["n_params"])

    # Beside an earlier run, whose numbers come back with the ratio to them.
    earlier = pathlib.Path(scratch) / "earlier.json"
    one["results"][0]["tokens_per_second"] = 1e-3
    one["results"][1]["tokens_per_second"] = 1e9
    earlier.write_text(json.dumps(one))
    for r, then in zip(measured(*model, *QUICK, "--compare", str(earlier))["results"], (1e-3, 1e9)):
        check("compare", abs(r["ratio"] / (r["tokens_per_second"] / then) - 1) < 1e-6
              and r["earlier"] == then, r)
    text = bench(*model, *QUICK, "--compare", str(earlier))
    check("compare as text", len(re.findall(r"[\d.]+ times the earlier [\d.]+", text)) == 2, text)

    other = measured(*model, *QUICK, "-d", "16", "--compare", str(earlier))["results"]
    check("another depth is not compared", not any("ratio" in r for r in other), other)

    # Every format, and each beside its own.
    formats = measured("--formats", "10m", *QUICK)
    names = [run["model"].split(":")[2] for run in formats]
    check("formats", {"f16", "bf16", "q8_0", "q4_0", "q4_k_m", "iq4_nl", "tq1_0", "mxfp4"} <= set(names)
          and len(set(names)) == len(names), names)
    for run in formats:
        check("speeds of a format", all(r["tokens_per_second"] > 0 for r in run["results"]), run)
    for i, run in enumerate(formats):
        run["results"][0]["tokens_per_second"] = 1000 + i
    earlier.write_text(json.dumps(formats))
    again = measured("--formats", "10m", *QUICK, "-n", "0", "--compare", str(earlier))
    check("each format beside its own", [run["results"][0].get("earlier") for run in again] ==
          [1000 + i for i in range(len(formats))], again)

    check("one model", "give a model" in bench(*model, "--formats", "10m", code=1))
    check("an unknown size", "10m" in bench("--formats", "much", code=1))
    check("a missing file", "/none/such" in bench(*model, *QUICK, "--compare", "/none/such", code=1))

sys.exit(failures != 0)
