"""check.py SERVER MLXCEL MODELS - every case of cases.py, and memory that is too small."""
import http.client
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import cases
import mistakes
import server
from server import check

binary, mlxcel, models = sys.argv[1:4]
server.use(binary, "first-hour")
tale = pathlib.Path(models) / "tale"
(server.scratch / "encoders").mkdir()
paths = {name: str(path) for name, path in mistakes.make(server.scratch, tale).items()}
environment = {k: v for k, v in os.environ.items() if not k.startswith(("LLAMA_", "HF_", "MLXCEL_"))}


def fill(text):
    return re.sub(r"\{(\w+)\}", lambda m: paths.get(m[1], m[0]), text)


def program(name, words):
    words = [fill(word) for word in words]
    if name == "server":
        return [binary, *([] if "--port" in words else ["--port", "0"]), *words]
    return [mlxcel, *words] if name == "mlxcel" else [mlxcel, name, *words]


def ended(command, variables, text):
    """Exit code and what was printed, of a command that ends by itself."""
    try:
        run = subprocess.run(command, env={**environment, **variables}, input=text or "", text=True,
                             capture_output=True, timeout=60)
    except subprocess.TimeoutExpired as late:
        return None, {"out": str(late.stdout), "err": str(late.stderr)}
    return run.returncode, {"out": run.stdout, "err": run.stderr}


def started(command, variables):
    """What a server said until it was ready; its exit code where it ended."""
    log = server.scratch / "log"
    with open(log, "w") as file:
        process = subprocess.Popen(command, env={**environment, **variables}, stdout=file, stderr=file)
        until = time.monotonic() + 60
        while process.poll() is None and "server is ready on" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.01)
        code = process.poll()
        process.terminate()
        process.wait(20)
    return code, {"err": log.read_text()}


def run_case(name, words, code, stream, says, not_says=(), variables=None, text=None):
    command = program(name, words)
    what = " ".join([name, *words])
    got, printed = (started(command, variables or {}) if code is None else
                    ended(command, variables or {}, text))
    check(f"{what}: exit code", got == code, f"{got}: {printed}")
    for word in map(fill, says):
        check(f"{what}: says '{word}'", word in printed[stream], printed[stream][-700:])
    for word in not_says:
        check(f"{what}: does not say '{word}'", word not in printed[stream], printed[stream][-700:])
    if code:
        check(f"{what}: one line is enough", 0 < len(printed["err"]) < 3000, printed["err"])
        check(f"{what}: no bare excuse", "out of memory\n" not in printed["err"], printed["err"])


for row in cases.COMMANDS:
    run_case(*row)


# ---- requests, and what the log says of them --------------------------------------------

def send(s, method, path, body):
    host, port = s.address.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    data = body if isinstance(body, bytes) or body is None else server.json.dumps(body).encode()
    connection.request(method, path, data, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def lines_after(s, n, path):
    """The log's lines from the n-th on, with that of the path, which may come after the
    answer; path None: none is expected."""
    for _ in range(500):
        lines = s.log().splitlines()[n:]
        if path is None or any(f" {path} " in line for line in lines):
            break
        time.sleep(0.01)
    return "\n".join(lines)


with server.Server("-c", "1024", path=tale) as s:
    for method, path, body, status, says, logged in cases.REQUESTS:
        what = f"{method} {path} {str(body)[:60]}"
        n = len(s.log().splitlines())
        got, text = send(s, method, path, body)
        check(f"{what}: status", got == status, f"{got} {text}")
        for word in says:
            check(f"{what}: says '{word}'", word in text, text)
        said = lines_after(s, n, None if logged is None else path)
        check(f"{what}: one line in the log", said.count(f" {path} ") == (logged is not None), said)
        for word in logged or ():
            check(f"{what}: the log says '{word}'", word in said, said)
        check(f"{what}: no text in the log", "Hello" not in said and "Once" not in said, said)
    host, port = s.address.removeprefix("http://").split(":")
    page = http.client.HTTPConnection(host, int(port), timeout=60)
    page.request("GET", "/", headers={"Accept": "text/html,application/xhtml+xml"})
    html = page.getresponse().read().decode()
    for word in ("<h1>mlxcel</h1>", "ready", "curl http://" + s.address[7:], "/v1/chat/completions"):
        check(f"the page in a browser has {word}", word in html, html)
    check("and no script", "<script" not in html, html)

# A client that leaves is told as such.
with server.Server("-c", "8192", path=tale) as s:
    host, port = s.address.removeprefix("http://").split(":")
    leaver = http.client.HTTPConnection(host, int(port), timeout=60)
    body = {"prompt": "Once", "n_predict": 100000, "stream": True, "ignore_eos": True}
    leaver.request("POST", "/completion", server.json.dumps(body), {"Content-Type": "application/json"})
    leaver.getresponse().read(10)
    leaver.close()
    for _ in range(500):
        if "ended=client-left" in s.log():
            break
        time.sleep(0.01)
    check("a client that left is told as such", "ended=client-left" in s.log(), s.log())

# Keys of a file with the line ends of Windows.
with server.Server("-c", "512", "--api-key-file", paths["crlf_keys"], path=tale) as s:
    host, port = s.address.removeprefix("http://").split(":")
    for key, status in (("sesame", 200), ("open", 200), ("sesame\r", 401), ("sesam", 401)):
        asked = http.client.HTTPConnection(host, int(port), timeout=60)
        try:
            asked.request("GET", "/props", headers={"Authorization": f"Bearer {key}"})
            got = asked.getresponse().status
        except ValueError:
            got = 401  # a key with a line end cannot be sent
        check(f"the key {key!r}", got == status, got)

# -v explains a slow one.
with server.Server("-c", "1024", "-v", path=tale) as s:
    s.complete(prompt="Once upon a time there was a fox.", n_predict=4)
    s.complete(prompt="Once upon a time there was a bear.", n_predict=4, json_schema={"type": "object"})
    s.complete(prompt="Once upon", n_predict=4, cache_prompt=False)
    for word in ("the slot holds nothing", "differs from there on", "cache_prompt is off", "grammars included"):
        check(f"-v says '{word}'", word in s.log(), s.log()[-3000:])

# ---- memory that is too small --------------------------------------------------------------

MIB = 1 << 20


def limited(mib, *options):
    """A server that may have so much address space."""
    run = subprocess.run([binary, "-m", str(tale), "--port", "0", "-t", "1", *options], env=environment,
                         capture_output=True, text=True, timeout=60,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB)))
    return run.returncode, run.stderr


for options, says in ((("-c", "400000"), ("MiB for its cache", "MiB of memory", "-c", "-ctk q8_0", "-np")),
                      (("-c", "130000"), ("MiB for its cache", "available beside the weights", "--fit off")),
                      (("-c", "130000", "--fit", "off"), ("-c",))):
    code, said = limited(400, *options)
    check(f"{options} within 400 MiB: refused", code == 1, f"{code} {said}")
    for word in says:
        check(f"{options} within 400 MiB: says {word}", word in said, said)
    check(f"{options}: no bare excuse", "E out of memory\n" not in said, said)

def in_group(mib, *options):
    """A server in a control group of so much memory; None where none can be made."""
    root = pathlib.Path("/sys/fs/cgroup")
    version_2 = (root / "cgroup.controllers").exists()
    group = (root if version_2 else root / "memory") / f"mlxcel-first-hour-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.max" if version_2 else "memory.limit_in_bytes")).write_text(str(mib * MIB))
    except OSError as why:
        print(f"SKIPPED: no control group can be made here ({why}); its limits were not tried")
        if group.exists():
            group.rmdir()
        return None
    run = subprocess.run([binary, "-m", str(tale), "--port", "0", "-t", "1", *options], env=environment,
                         capture_output=True, text=True, timeout=60,
                         preexec_fn=lambda: (group / "cgroup.procs").write_text("0"))
    group.rmdir()
    return run.returncode, run.stderr


found = in_group(100, "-c", "60000")
if found:
    check("in a control group of 100 MiB: refused", found[0] == 1 and "MiB for its cache" in found[1], found)
print(len(cases.COMMANDS), "commands,", len(cases.REQUESTS), "requests")
server.end()
