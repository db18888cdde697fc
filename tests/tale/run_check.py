"""run_check.py ROOT - ./run alone, as somebody who has just cloned the project
uses it: it says what to try, and what it says works. The folder "release" of
$MLXCEL_BUILD must be built: ./run looks after it."""
import json
import os
import re
import socket
import subprocess
import sys
import threading

root = sys.argv[1]
failures = 0


def check(what, truth, detail=""):
    global failures
    failures += not truth
    print("ok    " if truth else "FAILED", what, "" if truth else detail)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(*options, **variables):
    """A running ./run and what it printed until it was ready, or ended."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("LLAMA_ARG_")}
    process = subprocess.Popen([f"{root}/run", *options], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True,
                               env={**environment, **variables})
    printed = ""
    for line in process.stdout:
        printed += line
        if "server is ready on" in line:
            break
    # Whatever it says from now on must not fill the pipe.
    threading.Thread(target=process.stdout.read, daemon=True).start()
    return process, printed


def stop(process):
    process.terminate()
    return process.wait(30)


port = free_port()
process, printed = start("--port", str(port))
check("./run without a model serves one", process.poll() is None, printed)
check("it prints the web address", f"http://127.0.0.1:{port}" in printed, printed)
line = re.search(r"^ *(curl [^']*'[^']*')$", printed, re.MULTILINE)
check("it prints a curl line to try", line, printed)
if line:
    answer = subprocess.run(line[1], shell=True, capture_output=True, text=True, timeout=60).stdout
    try:
        message = json.loads(answer)["choices"][0]["message"]["content"]
    except (ValueError, KeyError):
        message = ""
    check("that line gets a sensible answer", "Mia" in message and "fox" in message, answer)
check("it stops when told to", stop(process) == 0)

for option in ("-m", "--model"):
    process, printed = start(option, "/none/such.gguf", "--port", str(port))
    check(f"./run {option} serves what it names",
          process.wait(30) == 1 and "/none/such.gguf" in printed and "curl" not in printed, printed)
process, printed = start("--port", str(port), LLAMA_ARG_MODEL="/none/such.gguf")
check("LLAMA_ARG_MODEL names a model too",
      process.wait(30) == 1 and "/none/such.gguf" in printed and "curl" not in printed, printed)
process, printed = start("--port", "0")
ready = re.search(r"server is ready on (\S+)", printed)
check("with a free port it prints no address but the true one",
      ready and not ready[1].endswith(":0") and "127.0.0.1:0" not in printed, printed)
check("it stops when told to", stop(process) == 0)

process, printed = start("--version")
check("./run --version is the server's", process.wait(30) == 0 and "curl" not in printed, printed)

sys.exit(failures != 0)
