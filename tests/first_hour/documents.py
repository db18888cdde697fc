"""documents.py BIN ROOT - every command of the documents is run: what stands in blocks of "sh".

A block is run line by line in a folder of its own. A line that starts a server is left
running until the block ends; the others must succeed. Models have their names from a table
here, ports are free ones, and what would go to the network is kept from it (--offline) and
must say so. README's architectures are those that the program names."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import server
from server import check

programs, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
server.use(str(programs / "mlxcel-server"), "documents")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import gguf_file
import scripted

DOCUMENTS = ["README.md", "CHANGELOG.md", "docs/serving.md", "docs/migrating.md", "docs/exposing.md",
             "docs/troubleshooting.md"]
ELSEWHERE = {"README.md": {"./run": "tale.run runs it", "./test": "this is it", "mlxcel": "shown in a table"}}
environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(server.scratch),
               "PYTHONDONTWRITEBYTECODE": "1"}


def commands(text):
    """Blocks of commands; a line that ends in a backslash goes on."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        lines = [re.sub(r"\s+# .*$", "", line).strip() for line in block.replace("\\\n", " ").splitlines()]
        yield [line for line in lines if line]


def prepare(folder):
    """The models of the documents."""
    scripted.write(folder / "model.gguf", ["Hello", " there", "."])
    for name in ("hf-folder", "mlx-folder"):
        shutil.copytree(root / "models/tale", folder / name)


def starts_server(line):
    return re.search(r"(^|\s)mlxcel-server\s", line) and "--version" not in line and "--cache-list" not in line


def wait_ready(process, log):
    until = time.monotonic() + 60
    while process.poll() is None and "server is ready on" not in log.read_text() and time.monotonic() < until:
        time.sleep(0.01)
    return "server is ready on" in log.read_text()


def run_block(name, number, lines):
    folder = server.scratch / f"{name.replace('/', '-')}-{number}"
    folder.mkdir()
    prepare(folder)
    ports = {}
    servers = []
    for line in lines:
        for port in re.findall(r"(?:localhost|127\.0\.0\.1):(\d+)|--port (\d+)", line):
            wanted = port[0] or port[1]
            ports.setdefault(wanted, str(server.free_port()))
        real = re.sub(r"((?:localhost|127\.0\.0\.1):|--port )(\d+)", lambda m: m[1] + ports[m[2]], line)
        what = f"{name}: {line}"
        if starts_server(real):
            if "--port" not in real and ".sock" not in real:
                real += " --port 0"
            if "-hf" in real:
                run = subprocess.run(real + " --offline", shell=True, cwd=folder, env=environment,
                                     capture_output=True, text=True, timeout=60)
                check(what, run.returncode == 1 and "is not in the cache" in run.stderr, run.stderr)
                continue
            log = folder / f"log-{len(servers)}"
            with open(log, "w") as file:
                process = subprocess.Popen("exec " + real, shell=True, cwd=folder, env=environment,
                                           stdout=file, stderr=file)
            servers.append(process)
            check(what, wait_ready(process, log), log.read_text())
            continue
        run = subprocess.run(real, shell=True, cwd=folder, env=environment, capture_output=True,
                             text=True, timeout=120)
        check(what, run.returncode == 0, run.stdout + run.stderr)
        if real.startswith("curl"):
            check(f"{what}: an answer", run.stdout and '"error"' not in run.stdout, run.stdout)
    for process in servers:
        process.terminate()
        check(f"{name}, block {number}: a clean stop", process.wait(20) == 0)


count = 0
for name in DOCUMENTS:
    text = (root / name).read_text()
    for number, lines in enumerate(commands(text)):
        elsewhere = ELSEWHERE.get(name, {})
        lines = [line for line in lines if line.split()[0] not in elsewhere]
        count += len(lines)
        if lines:
            run_block(name, number, lines)
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        check(f"{name}: the link {link} leads somewhere", (root / name).parent.joinpath(link).exists())

other = server.scratch / "other.gguf"
other.write_bytes(gguf_file.whole({"general.architecture": "marsupial"}, [("x.weight", (4,), [0.0] * 4)]))
said = subprocess.run([str(programs / "mlxcel-server"), "-m", str(other), "--port", "0"], env=environment,
                      capture_output=True, text=True, timeout=60).stderr
known = re.search(r"supported are (.*)", said)[1].strip()
listed = re.search(r"<!-- architectures -->\nArchitectures: (.*)\.\n", (root / "README.md").read_text())[1]
check("README lists the architectures that the program knows", known == listed, f"\n{known}\n{listed}")
check("enough commands were found", count > 20, count)
print(count, "commands")
server.end()
