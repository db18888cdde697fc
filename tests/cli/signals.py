"""signals.py SERVER SHARED - every signal does what the table of signals says, and no
text from a file does anything to the log."""
import resource
import signal
import struct
import subprocess
import time

import server
from server import Server, check

server.begin("signals")
scratch = server.scratch


def wait_for(what, truth):
    """Bounded only so that a failure ends."""
    for _ in range(3000):
        if truth():
            return
        time.sleep(0.01)
    check(what, False)


# Ignored: the server goes on answering.
IGNORED = ("SIGPIPE", "SIGXFSZ", "SIGTTOU", "SIGTTIN", "SIGUSR1", "SIGUSR2", "SIGIO", "SIGCHLD",
           "SIGURG", "SIGWINCH", "SIGCONT")
with Server() as s:
    for name in IGNORED:
        s.process.send_signal(getattr(signal, name))
        check(f"{name} is ignored", s.story() != "")
    s.process.send_signal(signal.SIGHUP)
    wait_for("SIGHUP without a log file is told", lambda: "no log file to open anew" in s.log())
    check("SIGHUP is no end", s.story() != "")

# To stop: cleanly, with what runs ended by an event.
for name in ("SIGINT", "SIGTERM", "SIGXCPU", "SIGALRM", "SIGPWR"):
    with Server() as s:
        s.process.send_signal(getattr(signal, name))
        check(f"{name} stops with 0", s.process.wait(60) == 0)
        check(f"{name} is told", f"{name}: stopping" in s.log(), s.log())

# A fault still ends the process as a fault.
s = Server().__enter__()
resource.prlimit(s.process.pid, resource.RLIMIT_CORE, (0, 0))
s.process.send_signal(signal.SIGSEGV)
check("SIGSEGV ends it", s.process.wait(60) == -signal.SIGSEGV, s.process.returncode)

# SIGHUP opens the log file anew, while requests are answered.
log, moved = scratch / "log", scratch / "log.1"
with Server("--log-file", str(log)) as s:
    with s.open("/completion", {"prompt": "Once", "n_predict": 300, "stream": True,
                                "ignore_eos": True}) as stream:
        stream.readline()
        log.rename(moved)
        s.process.send_signal(signal.SIGHUP)
        wait_for("a new log file", log.exists)
        check("the stream goes on", sum(line.startswith(b"data") for line in stream) > 10)
    wait_for("it is written to", lambda: "opened anew" in log.read_text())
    check("the old one ends there", "opened anew" not in moved.read_text())
    log.unlink()
    log.mkdir()
    s.process.send_signal(signal.SIGHUP)
    wait_for("no file there", lambda: "goes on in the old file" in s.log())
    check("and the server goes on", s.story() != "")

# While the model loads, too.
process = subprocess.Popen([server.binary, "-m", server.model, "--port", "0"],
                           stderr=subprocess.PIPE, env=server.environment, text=True)
line = process.stderr.readline()
process.terminate()
check("SIGTERM at the start", process.wait(60) in (0, -signal.SIGTERM), process.returncode)


# ---- Text of files in the log.
def gguf_text(text):
    return struct.pack("<Q", len(text)) + text


def named_gguf(path, architecture):
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_text(b"general.architecture") +
                     struct.pack("<I", 8) + gguf_text(architecture))
    return path


evil = b"llama\r\n0.00.000.001 I forged \x1b[2J\x1b]0;title\x07 \xc2\x9b31m \xff"
path = named_gguf(scratch / "evil.gguf", evil)
done = subprocess.run([server.binary, "-m", path, "--port", "0"], capture_output=True,
                      env=server.environment, timeout=60)
lines = done.stderr.split(b"\n")
check("it is refused", done.returncode == 1, done.stderr)
check("no line is forged", not any(b"I forged" in line and not b"llama\\r\\n" in line
                                   for line in lines), done.stderr)
check("no byte is obeyed", not set(done.stderr) & (set(range(32)) - {10} | {0x7f}) and
      b"\xc2\x9b" not in done.stderr and b"\xff" not in done.stderr, done.stderr)
check("all is shown", b"llama\\r\\n0.00.000.001 I forged \\x1b[2J" in done.stderr, done.stderr)

# In a name on the command line, before there is a log.
done = subprocess.run([server.binary, "--grammar-file", "a\n\x1b[31mb"], capture_output=True,
                      env=server.environment, timeout=60)
check("nor in a message at the start", b"a\\n\\x1b[31mb" in done.stderr and
      b"\x1b" not in done.stderr, done.stderr)

# What is meant to have lines has them.
for option in ("--help", "--version", "--license"):
    done = subprocess.run([server.binary, option], capture_output=True, timeout=60)
    check(f"{option} has lines", done.stdout.count(b"\n") > 1 and b"\\n" not in done.stdout[:200])

server.end()
