"""files.py SERVER SHARED - whatever file a name leads to, a pipe in its place is
refused with a message that names it, and nothing waits for somebody to write to it."""
import json
import os
import pathlib
import shutil
import socket
import subprocess

import server
from server import Server, check

server.begin("files")
shared, scratch = server.shared, server.scratch
hf = shared / "models/stories260k/hf"
BOUND = 60  # seconds; only ends a program that hangs, which then has no message
mlxcel = pathlib.Path(server.binary).with_name("mlxcel")


def pipe(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    return path


def run(*words, env=None):
    """Exit code and standard error; None for a program that had to be killed."""
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              env={**server.environment, **(env or {})}, timeout=BOUND)
    except subprocess.TimeoutExpired as late:
        return None, (late.stderr or b"").decode()
    return done.returncode, done.stderr


def refuses(what, path, *words, env=None, code=1):
    ended, message = run(*words, env=env)
    check(f"{what}: refused", ended == code, f"exit code {ended}: {message}")
    check(f"{what}: the message names the pipe", f"{path}: is a pipe" in message, message)


def serve(*words, path=None):
    return [server.binary, "-m", path or server.model, "--port", "0", *words]


# ---- Options: every one whose value is a file. The others are folders, files that are
# written, or names within a repository.
key, cert = scratch / "key.pem", scratch / "cert.pem"
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost"],
               check=True, capture_output=True)
fifo = pipe(scratch / "fifo")
FILES = {
    "--model": lambda: serve(path=fifo),
    "--grammar-file": lambda: serve("--grammar-file", fifo),
    "--json-schema-file": lambda: serve("--json-schema-file", fifo),
    "--ui-config-file": lambda: serve("--ui-config-file", fifo),
    "--chat-template-file": lambda: serve("--chat-template-file", fifo),
    "--api-key-file": lambda: serve("--api-key-file", fifo),
    "--ssl-key-file": lambda: serve("--ssl-key-file", fifo, "--ssl-cert-file", cert),
    "--ssl-cert-file": lambda: serve("--ssl-key-file", key, "--ssl-cert-file", fifo),
}
WARNED = {"--control-vector": fifo, "--control-vector-scaled": f"{fifo}:1"}
NOT_READ = {"--log-file", "--path", "--slot-save-path", "--log-prompts-dir", "--hf-file"}
takes_path = {o["id"] for o in server.surface()["options"] if o["state"] == "served"
              and any(word in (o["value"] or "") for word in ("FNAME", "FILE", "PATH"))}
check("every option that takes a path is in a table",
      takes_path == {*FILES, *WARNED, *NOT_READ}, str(takes_path ^ {*FILES, *WARNED, *NOT_READ}))
for option, words in FILES.items():
    refuses(option, fifo, *words())

# A control vector that cannot be read is left out, whatever is wrong with it.
for option, value in WARNED.items():
    with Server(option, str(value)) as s:
        check(f"{option} is left out", f"{fifo}: is a pipe" in s.log(), s.log())
        s.story()

# Settings files that are read when they are there.
for variable, name in (("XDG_CONFIG_HOME", "xdg/llama.cpp/config.ini"),
                       ("HOME", "home/.config/llama.cpp/config.ini")):
    ini = pipe(scratch / name)
    refuses(variable, ini, *serve(), env={variable: str(scratch / name.split("/")[0])})

# Standard input is a file where it is redirected from one.
(scratch / "yes.gbnf").write_text('root ::= "yes"')
with open(scratch / "yes.gbnf") as stdin:
    done = subprocess.run([server.binary, "--grammar-file", "/dev/stdin", "--version"],
                          stdin=stdin, capture_output=True, text=True, timeout=BOUND)
check("a redirected file is read", done.returncode == 0, done.stderr)

# ---- Files of a model's folder.
for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer.model",
             "tokenizer_config.json", "special_tokens_map.json", "generation_config.json",
             "modules.json", "model.safetensors.index.json", "chat_template.jinja"):
    folder = scratch / f"hf-{name}"
    shutil.copytree(hf, folder)
    if name == "tokenizer.model":  # read where there is no tokenizer.json
        (folder / "tokenizer.json").unlink()
    (folder / name).unlink(missing_ok=True)
    refuses(name, pipe(folder / name), *serve(path=folder))
    shutil.rmtree(folder)

# A shard of an index, and of a GGUF file.
folder = scratch / "sharded"
shutil.copytree(hf, folder)
(folder / "model.safetensors").rename(folder / "a.safetensors")
(folder / "model.safetensors.index.json").write_text(
    json.dumps({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}))
refuses("a shard", pipe(folder / "b.safetensors"), *serve(path=folder))
refuses("the first GGUF shard", pipe(scratch / "m-00001-of-00002.gguf"),
        *serve(path=scratch / "m-00001-of-00002.gguf"))

# ---- The cache of downloads: refs and snapshots.
cache = scratch / "cache"
commit = "0123456789abcdef0123456789abcdef01234567"
repo = cache / "models--org--name"
model = pipe(repo / f"snapshots/{commit}/name-Q8_0.gguf")
(repo / "refs").mkdir()
(repo / "refs/main").write_text(commit)
refuses("a cached model", model, server.binary, "-hf", "org/name:Q8_0", "--offline", "--port", "0",
        env={"HF_HUB_CACHE": str(cache)})
(repo / "refs/main").unlink()
pipe(repo / "refs/main")
code, message = run(server.binary, "-hf", "org/name:Q8_0", "--offline", "--port", "0",
                    env={"HF_HUB_CACHE": str(cache)})
check("a ref that is a pipe is no ref", code == 1 and "not in the cache" in message, message)

# ---- Tools.
refuses("mlxcel tokenize", fifo, mlxcel, "tokenize", "-m", fifo, "text")
tokenizer = scratch / "tokenizer"
for name in ("tokenizer.json", "tokenizer.model"):
    refuses(f"mlxcel tokenize {name}", pipe(tokenizer / name), mlxcel, "tokenize", "-m", tokenizer,
            "text")
    (tokenizer / name).unlink()
recording = scratch / "recording.json"
recording.write_text("[]")
for words, code in ((["conform", fifo, "--server", server.binary], 2),
                    (["conform", recording, "--server", server.binary, "--expect-failures", fifo], 2),
                    (["conform", recording, "--server", server.binary, "--by-design", fifo], 2)):
    refuses(f"mlxcel {words[0]} {words[-2]}", fifo, mlxcel, *words, code=code)
pin = pipe(scratch / "root/compat/llama-server/b10621/pin.json")
refuses("mlxcel manifest", pin, mlxcel, "manifest", "--root", scratch / "root")

# ---- Static files: a pipe, a socket and a folder are not there.
root = scratch / "static"
root.mkdir()
(root / "page.txt").write_text("a page")
pipe(root / "pipe.txt")
(root / "folder").mkdir()
listening = socket.socket(socket.AF_UNIX)
listening.bind(str(root / "socket"))
with Server("--path", str(root)) as s:
    check("a file is served", s.exchange("/page.txt") == (200, "a page"))
    for name in ("pipe.txt", "socket", "folder", "none"):
        check(f"/{name} is not", s.exchange(f"/{name}")[0] == 404)

server.end()
