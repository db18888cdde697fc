"""server.py - a running server for the tests beside this file and in other folders.

    import server
    server.begin("NAME")                 reads SERVER SHARED from the command line
    with server.Server("-c", "512") as s:
        server.check("what", s.post(...)...)
    server.end()

Without the reference data the test is skipped with a line, which fails in CI. A test
that has models of its own says server.use(SERVER, "NAME") instead, and each path."""
import atexit
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

failures = []


def use(program, name):
    global binary, scratch, environment
    binary = program
    scratch = pathlib.Path(tempfile.mkdtemp(prefix=f"mlxcel-{name}-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(scratch)}


def begin(name):
    global shared, model
    shared = pathlib.Path(sys.argv[2])
    model = shared / "models/stories260k/stories260K.gguf"
    if not model.exists():
        print(f"SKIPPED: the reference data ({shared}) is absent")
        sys.exit(1 if os.environ.get("CI") else 77)
    use(sys.argv[1], name)


def end():
    print(len(failures), "failures")
    sys.exit(bool(failures))


def check(what, truth, detail=""):
    if not truth:
        failures.append(what)
        print(f"FAILED: {what} {detail}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def surface():
    """What --dump-surface prints."""
    run = subprocess.run([binary, "--dump-surface"], capture_output=True, check=True)
    return json.loads(run.stdout)


def refused(*options, path=None):
    """The message of a server that must not start."""
    run = subprocess.run([binary, "-m", str(path or model), "--port", "0", *options],
                         env=environment, capture_output=True, text=True, timeout=60)
    check(f"{options} refused", run.returncode == 1, f"exit code {run.returncode}")
    return run.stderr


class Server:
    """A server with options, stopped at the end of its with-block. Where they name
    no port it has a free one, no context 512 tokens, no slots one."""

    def __init__(self, *options, path=None, env=None):
        options = list(options)
        for names, value in ((("-c", "--ctx-size"), "512"), (("-np", "--parallel"), "1"),
                             (("--port",), "0")):
            if not set(names) & set(options):
                options += [names[0], value]
        self.options = options
        self.file = tempfile.NamedTemporaryFile("w+", dir=scratch, prefix="log-")
        self.process = subprocess.Popen([binary, "-m", str(path or model), *options],
                                        stdout=subprocess.DEVNULL, stderr=self.file,
                                        env={**environment, **(env or {})})
        self.address = None

    def __enter__(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.options} ended at once: {self.log()}")
            try:
                if not self.address:
                    self.address = self.find_address()
                if self.address and self.get("/health")["status"] == "ok":
                    return self
            except (urllib.error.URLError, ConnectionError):
                pass
            time.sleep(0.02)
        self.process.kill()
        raise RuntimeError(f"{self.options} not ready within a minute: {self.log()}")

    def find_address(self):
        port = self.options[self.options.index("--port") + 1]
        if port != "0":
            host = self.options[self.options.index("--host") + 1] if "--host" in self.options \
                else "127.0.0.1"
            return f"http://{host}:{port}"
        # A log that is off or goes elsewhere does not say the port: /proc does.
        ready = re.search(r"ready on (http://[^\s\x1b]+)", self.log())
        return ready.group(1) if ready else self.listening()

    def listening(self):
        """The address of the socket that the server listens on."""
        sockets = set()
        for entry in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                sockets.add(os.readlink(entry))
            except OSError:
                pass
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                return f"http://127.0.0.1:{int(fields[1].split(':')[1], 16)}"
        return None

    def __exit__(self, *_):
        self.process.terminate()
        self.code = self.process.wait(20)
        check(f"{self.options}: a clean stop", self.code == 0, f"exit code {self.code}")
        self.file.close()

    def open(self, path, body=None):
        """The answer, to be read; a refusal is an exception."""
        request = urllib.request.Request(self.address + path,
                                         None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=120)

    def exchange(self, path, body=None):
        """Status and answer, JSON where it is."""
        try:
            with self.open(path, body) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        return status, json.loads(text) if text.startswith(("{", "[")) else text

    def ask(self, path, **body):
        """Status and answer."""
        return self.exchange(path, body or None)

    def get(self, path):
        with self.open(path) as answer:
            return json.load(answer)

    def post(self, path, body=None, **more):
        """The answer, which must be a success; the body as a dict, as names, or both."""
        status, answer = self.exchange(path, {**(body or {}), **more})
        if status != 200:
            raise RuntimeError(f"{path}: {status} {answer}")
        return answer

    def complete(self, **more):
        """Sixteen greedy tokens, or what is asked instead (None: not named)."""
        body = {"prompt": "Once upon a time", "n_predict": 16, "temperature": 0, **more}
        return self.post("/completion", {k: v for k, v in body.items() if v is not None})

    def story(self, **more):
        return self.complete(**more)["content"]

    def log(self):
        return pathlib.Path(self.file.name).read_text()

    def n_threads(self):
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()))

    def cpu_seconds(self):
        """What its threads have computed so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def thread_cpus(self):
        """The CPUs that each thread may run on."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return [line.split(":")[1].strip() for task in tasks.iterdir()
                for line in (task / "status").read_text().splitlines()
                if line.startswith("Cpus_allowed_list")]
