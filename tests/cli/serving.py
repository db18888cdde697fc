"""serving.py SERVER SHARED - options that change how a model is loaded, run and
logged do what they say on a running server."""
import os
import stat
import struct

import server
from server import Server, check, refused

server.begin("serving")
shared, scratch = server.shared, server.scratch
with Server() as s:
    plain = s.story()
    train = s.get("/v1/models")["data"][0]["meta"]["n_ctx_train"]
    log = s.log()
check("a story", len(plain) > 20, plain)
check("prompts stay out of the log", "upon a time" not in log)

# Loading: every way gives the same weights.
for mode in ("auto", "none", "mmap", "mlock", "mmap+mlock", "dio"):
    with Server("--load-mode", mode) as s:
        check(f"--load-mode {mode}", s.story() == plain)
for options in (["--mlock"], ["--no-mmap"], ["--direct-io"], ["--no-repack"], ["--no-warmup"],
                ["--check-tensors"]):
    with Server(*options) as s:
        check(f"{options}", s.story() == plain)
        deprecated = options[0] in ("--mlock", "--no-mmap", "--direct-io")
        check(f"{options} warns", ("deprecated" in s.log()) == deprecated, s.log())

# Threads: the answer stays, the threads go where they are told.
usable = sorted(os.sched_getaffinity(0))
first = usable[0]
with Server("-t", "2", "-tb", "1", "-C", hex(1 << first), "--prio", "1", "--poll", "0") as s:
    check("--cpu-mask keeps the answer", s.story() == plain)
    check("--cpu-mask pins", str(first) in s.thread_cpus(), str(s.thread_cpus()))
with Server("-t", "1", "-tb", "2", "-Crb", f"{first}-{first}", "--cpu-strict-batch", "1",
            "--poll-batch", "1", "--prio-batch", "1") as s:
    check("batch threads keep the answer", s.story() == plain)
    check("--cpu-range-batch pins", str(first) in s.thread_cpus(), str(s.thread_cpus()))
for numa in ("distribute", "isolate", "numactl"):
    with Server("--numa", numa, "-t", "2") as s:
        check(f"--numa {numa}", s.story() == plain)

# The context.
with Server("-c", "0") as s:
    check("-c 0 takes the model's own", s.get("/props")["default_generation_settings"]["n_ctx"]
          == train)
with Server("-n", "3") as s:
    check("-n limits", s.post("/completion", {"prompt": "Once", "temperature": 0})
          ["tokens_predicted"] == 3)
with Server("--rope-scale", "4") as s:
    stretched = s.story()
check("--rope-scale changes the text", stretched != plain)
with Server("--rope-freq-scale", "0.25") as s:
    check("--rope-freq-scale 1/N is --rope-scale N", s.story() == stretched)
with Server("--rope-freq-base", "10") as s:
    check("--rope-freq-base changes the text", s.story() != plain)
with Server("--rope-scaling", "yarn", "--rope-scale", "4", "--yarn-orig-ctx", "128") as s:
    yarn = s.story()
check("--rope-scaling yarn is not linear", yarn != stretched)
with Server("--swa-full") as s:
    check("--swa-full without windows changes nothing", s.story() == plain)

# Metadata.
with Server("--override-kv", "tokenizer.ggml.add_bos_token=bool:false") as s:
    tokens = s.post("/tokenize", {"content": "Once", "add_special": True})["tokens"]
    check("--override-kv is read", 1 not in tokens, str(tokens))
check("a wrong override is told", "KEY=int:N" in refused("--override-kv", "x=maybe:1"))
broken = bytearray((shared / "models/stories260k/stories260K.gguf").read_bytes())
broken[-64:-60] = struct.pack("<f", float("nan"))
(scratch / "nan.gguf").write_bytes(broken)
message = refused("--check-tensors", path=scratch / "nan.gguf")
check("--check-tensors names the tensor", "nan.gguf: tensor '" in message, message)

# Defaults of requests.
with Server("--temp", "0", "-s", "42", "-r", "little", "--top-k", "7") as s:
    settings = s.get("/props")["default_generation_settings"]["params"]
    check("--seed", settings["seed"] == 42)
    check("--top-k", settings["top_k"] == 7)
    text = s.post("/completion", {"prompt": "Once upon a time", "n_predict": 64})
    check("--reverse-prompt stops", text["stopping_word"] == "little", str(text["content"]))

# The log.
with Server("--log-disable") as s:
    check("--log-disable", s.story() == plain and s.log() == "", s.log())
with Server("--log-file", str(scratch / "log"), "--no-log-prefix", "--no-log-timestamps",
            "--log-colors", "on") as s:
    s.story()
    check("--log-colors on", "\x1b[" in s.log() or not s.log())
log = (scratch / "log").read_text()
check("--log-file is written", "server" in log, log)
check("--no-log-prefix --no-log-timestamps", not log.startswith(("I ", "0.")), log[:80])
check("no colours in a file", "\x1b[" not in log)
prompts = scratch / "deep/prompts"
with Server("--log-prompts-dir", str(prompts)) as s:
    s.story()
files = list(prompts.iterdir())
check("--log-prompts-dir writes", len(files) == 1 and files[0].read_text() == "Once upon a time")
check("--log-prompts-dir is private", stat.S_IMODE(prompts.stat().st_mode) == 0o700)
with Server("-lv", "1") as s:
    s.story()
    check("-lv 1 shows errors only", s.log() == "", s.log())

server.end()
