"""sizes.py SERVER SHARED - numbers that no memory has room for are refused before any
memory is taken; the judge is the most that the process ever had."""
import os
import resource
import struct
import subprocess

import server
from server import Server, check

server.begin("sizes")
scratch = server.scratch
MOST_KIB = 200 << 10  # the model has 1 MB
LARGEST = (1 << 31) - 1


def peak(pid):
    status = open(f"/proc/{pid}/status").read()
    return int(status.split("VmHWM:")[1].split()[0])


def refused(what, *options, path=None, words="use a smaller context (-c)"):
    process = subprocess.Popen([server.binary, "-m", path or server.model, "--port", "0", *options],
                               stderr=subprocess.PIPE, env=server.environment, text=True)
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    check(f"{what}: refused", process.returncode == 1, f"{process.returncode} {message}")
    check(f"{what}: says why", words in message and "-c" in message, message)
    check(f"{what}: costs nothing", usage.ru_maxrss < MOST_KIB, usage.ru_maxrss)


for options in (("-c", LARGEST), ("-c", LARGEST, "-np", 1), ("-c", LARGEST, "-np", 64),
                ("-c", LARGEST, "--no-kv-unified", "-np", 4), ("-c", LARGEST, "-ctk", "f32"),
                ("-c", LARGEST, "-b", LARGEST, "-ub", LARGEST)):
    refused(options, *map(str, options))

# In the file: a context that memory has room for is taken instead; with -c 0, all of it
# is asked for.
data = bytearray(server.model.read_bytes())
key = b"llama.context_length"
at = data.index(key) + len(key)
assert struct.unpack_from("<I", data, at)[0] == 4  # UINT32
struct.pack_into("<I", data, at + 4, LARGEST)
long = scratch / "long.gguf"
long.write_bytes(data)
refused("-c 0", "-c", "0", path=long)
refused("--fit off", "--fit", "off", path=long)
with Server("--ctx-size", "512", path=long) as s:
    check("a context that fits is served", s.story() != "")
process = subprocess.Popen([server.binary, "-m", str(long), "--port", "0"],
                           stderr=subprocess.PIPE, env=server.environment, text=True)
lines = []
for line in process.stderr:
    lines.append(line)
    if "server is ready" in line or "listening" not in line and " E " in line:
        break
if process.poll() is None:
    check("its own context: less is used", any("does not fit into free memory" in line
                                               for line in lines), lines)
    check("its own context: memory is taken as cells fill", peak(process.pid) < MOST_KIB,
          peak(process.pid))
process.terminate()
check("and stops", process.wait(60) == 0, lines)

# An address space that is limited counts as memory.
limit = 1 << 30
process = subprocess.Popen([server.binary, "-m", server.model, "--port", "0", "-c", str(1 << 24)],
                           stderr=subprocess.PIPE, env=server.environment, text=True,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
message = process.stderr.read()
check("RLIMIT_AS", process.wait(60) == 1 and ("1024 MiB of memory in all" in message), message)

server.end()
