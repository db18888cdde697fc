"""serving.py SERVER SHARED - options that change how a model is loaded, run and
logged do what they say on a running server."""
import json
import os
import pathlib
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

server, shared = sys.argv[1], pathlib.Path(sys.argv[2])
model = shared / "models/stories260k/stories260K.gguf"
if not model.exists():
    print(f"SKIPPED: the reference data ({shared}) is absent")
    sys.exit(1 if os.environ.get("CI") else 77)
scratch = pathlib.Path(tempfile.mkdtemp(prefix="mlxcel-serving-"))
environment = {"PATH": os.environ["PATH"], "HOME": str(scratch)}
failures = []


def check(what, truth, detail=""):
    if not truth:
        failures.append(what)
        print(f"FAILED: {what} {detail}")


class Server:
    """A server with options, stopped at the end of its with-block."""

    def __init__(self, *options, path=model):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.err = open(scratch / "stderr", "w+")
        self.process = subprocess.Popen(
            [server, "-m", str(path), "--port", str(self.port), "-c", "512", "-np", "1", *options],
            stdout=subprocess.DEVNULL, stderr=self.err, env=environment)

    def __enter__(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"ended at once: {self.log()}")
            try:
                if self.get("/health")["status"] == "ok":
                    return self
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.02)
        raise RuntimeError("not ready within a minute")

    def __exit__(self, *_):
        self.process.terminate()
        self.code = self.process.wait(20)
        check("a clean stop", self.code == 0, f"exit code {self.code}")
        self.err.close()

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
            return json.load(answer)

    def post(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}",
                                         json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def story(self, **more):
        """Sixteen greedy tokens."""
        body = {"prompt": "Once upon a time", "n_predict": 16, "temperature": 0, **more}
        return self.post("/completion", body)["content"]

    def log(self):
        self.err.flush()
        return (scratch / "stderr").read_text()

    def thread_cpus(self):
        """The CPUs that each thread may run on."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return [line.split(":")[1].strip() for task in tasks.iterdir()
                for line in (task / "status").read_text().splitlines()
                if line.startswith("Cpus_allowed_list")]


def refused(*options, path=model):
    run = subprocess.run([server, "-m", str(path), "--port", "0", *options], env=environment,
                         capture_output=True, text=True, timeout=60)
    check(f"{options} refused", run.returncode == 1, f"exit code {run.returncode}")
    return run.stderr


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

shutil.rmtree(scratch)
sys.exit(bool(failures))
