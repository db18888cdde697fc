"""slot_files.py SERVER SHARED - files that slots are saved to and restored from: what
is no slot file is refused before it is read, whatever its numbers say; a server that
is killed leaves nothing that could be taken for one."""
import json
import os
import resource
import signal
import struct
import threading
import urllib.error
import zlib

import server
from server import Server, check

server.begin("slot_files")
slots = server.scratch / "slots"
slots.mkdir()
HEAD, STATE_HEAD = 40, 56
PROMPT = "Once upon a time there was a little girl who liked to play with her ball"
OPTIONS = ("--slot-save-path", str(slots), "-np", "2", "-c", "1024")


def act(s, action, name, slot=0):
    return s.ask(f"/slots/{slot}?action={action}", filename=name)


def bytes_read(s):
    """By the process so far, from files and sockets."""
    with open(f"/proc/{s.process.pid}/io") as io:
        return int(io.readline().split()[1])


def sealed(data):
    """With the checksum that belongs to it."""
    return data[:12] + struct.pack("<I", zlib.crc32(data[16:])) + data[16:]


def patched(good, at, form, value):
    size = struct.calcsize(form)
    return sealed(good[:at] + struct.pack(form, value) + good[at + size:])


def refused(s, what, name, words=""):
    status, answer = act(s, "restore", name)
    message = answer["error"]["message"] if status == 400 else str(answer)
    check(f"{what}: 400", status == 400, f"{status} {answer}")
    check(f"{what}: says why", words in message, message)


with Server(*OPTIONS) as s:
    s.complete(prompt=PROMPT, id_slot=0, n_predict=4)
    status, saved = act(s, "save", "good")
    check("saved", status == 200 and saved["n_written"] == (slots / "good").stat().st_size, saved)
    good = (slots / "good").read_bytes()
    n_tokens = struct.unpack_from("<Q", good, 24)[0]
    check("it is as many tokens", n_tokens == saved["n_saved"], saved)
    status, restored = act(s, "restore", "good", 1)
    check("restored elsewhere", status == 200 and restored["n_restored"] == n_tokens, restored)
    check("whoever may read it is the owner", (slots / "good").stat().st_mode & 0o777 == 0o600)
    (slots / "good").write_bytes(b"in the way")
    status, saved = act(s, "save", "good")
    check("replaced", status == 200 and (slots / "good").read_bytes() == good, saved)

    # What is no regular file, while somebody else is answered.
    os.mkfifo(slots / "pipe")
    (slots / "folder").mkdir()
    os.symlink("/dev/zero", slots / "endless")
    with s.open("/completion", {"prompt": "Once", "n_predict": 400, "stream": True, "id_slot": 1,
                                "ignore_eos": True}) as stream:
        stream.readline()
        for name, words in (("pipe", "pipe: is a pipe"), ("folder", "is a folder"),
                            ("endless", "is a device"), ("none", "invalid slot save file")):
            refused(s, name, name, words)
        n_events = sum(line.startswith(b"data") for line in stream)
        check("the stream went on", n_events > 10, n_events)
    status, answer = act(s, "save", "pipe")
    check("nor is it written to", status == 400 and "is a pipe" in str(answer), answer)

    # Three gigabytes that are not there: refused from the head, before more is read.
    large = 3 << 30
    heads = {"zeros": b"", "a good file's head": good,
             "a head that claims it all": good[:32] + struct.pack("<Q", large - HEAD - 4 * n_tokens),
             "no tokens": good[:24] + struct.pack("<QQ", 0, large - HEAD)}
    for what, head in heads.items():
        (slots / "sparse").write_bytes(head[:HEAD + 4 * n_tokens + STATE_HEAD])
        os.truncate(slots / "sparse", large)
        before = bytes_read(s)
        refused(s, what, "sparse")
        check(f"{what}: is not read", bytes_read(s) - before < 1 << 20, bytes_read(s) - before)
    os.unlink(slots / "sparse")

    # Every number at its limits, with a checksum that is right.
    state = HEAD + 4 * n_tokens
    integers = [("<Q", at, value) for at in (16, 24, 32)
                for value in (0, 1, n_tokens - 1, n_tokens + 1, 1 << 31, 1 << 32, 1 << 62,
                              (1 << 64) - 1)]
    integers += [("<i", at, value)
                 for at in (*range(state, state + STATE_HEAD, 4),  # the state's head
                            state + STATE_HEAD, state + STATE_HEAD + 4,  # positions
                            state + STATE_HEAD + 4 * (n_tokens - 1))
                 for value in (-1, 0x7FFFFFFF, -0x80000000, 1 << 20)]
    integers += [("<i", at, value) for at in (HEAD, state - 4)  # token ids
                 for value in (-1, 512, 0x7FFFFFFF, -0x80000000)]
    for form, at, value in integers:
        bad = patched(good, at, form, value)
        if bad != good:
            (slots / "bad").write_bytes(bad)
            refused(s, f"{value} at {at}", "bad")
    for n in (0, 1, 7, 8, 12, 16, 39, 40, 41, state, state + 4, state + STATE_HEAD, len(good) - 1):
        (slots / "bad").write_bytes(good[:n])
        refused(s, f"cut at {n}", "bad")
    (slots / "bad").write_bytes(sealed(good + b"\0"))
    refused(s, "a byte too many", "bad")
    print(len(integers), "numbers tried")
    again = s.complete(prompt=PROMPT, id_slot=0, n_predict=1)
    check("the slot kept what it had",
          again["timings"]["cache_n"] == again["tokens_evaluated"] - 1, again["timings"])

    # Names that the server gives while it writes are nobody else's.
    (slots / ".mlxcel..1.1.tmp").write_bytes(good)
    check("no temporary name is restored", act(s, "restore", ".mlxcel..1.1.tmp")[0] == 400)

# The next start removes what a killed one left.
with Server(*OPTIONS) as s:
    check("left-overs are removed", not (slots / ".mlxcel..1.1.tmp").exists() and
          "removed 1 unfinished" in s.log(), s.log())

# A file that may not grow to its size: an error, the server goes on, nothing is left.
entries = sorted(os.listdir(slots))


class Limited(Server):
    def __init__(self, *options):
        super().__init__(*options)
        hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (16384, hard))


with Limited(*OPTIONS) as s:
    s.complete(prompt=PROMPT, id_slot=0)
    for name in ("limited", "good"):
        status, answer = act(s, "save", name)
        check("a limit of file sizes is an error", status == 500 and
              "File too large" in str(answer), f"{status} {answer}")
    check("and the server goes on", s.story() != "")
check("nothing is left of it", sorted(os.listdir(slots)) == entries, os.listdir(slots))
check("nor is the old file touched", (slots / "good").read_bytes() == good)

# Killed while it saves, again and again.
for i in range(6):
    s = Server(*OPTIONS)
    s.__enter__()
    s.complete(prompt=PROMPT, id_slot=0, n_predict=4)
    saving = threading.Event()

    def save_on():
        try:
            while True:
                act(s, "save", "good")
                act(s, "save", f"new-{i}")
                saving.set()
        except (urllib.error.URLError, OSError, json.JSONDecodeError):
            pass

    thread = threading.Thread(target=save_on)
    thread.start()
    saving.wait(30)
    s.process.send_signal(signal.SIGKILL)
    s.process.wait()
    thread.join()
    with Server(*OPTIONS) as s:
        for name in os.listdir(slots):
            if name not in ("pipe", "folder", "endless", "bad"):
                check(f"{name} is whole", act(s, "restore", name)[0] == 200)
        check("only whole files", not [n for n in os.listdir(slots) if n.endswith(".tmp")])

server.end()
