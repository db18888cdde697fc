"""gguf_file.py - the bytes of GGUF files (the format's specification, version 3), for
tests that make models of their own."""
import array
import struct
import sys


def pack(numbers):
    """F32, little-endian."""
    data = array.array("f", numbers)
    if sys.byteorder == "big":
        data.byteswap()
    return data.tobytes()


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def value(v):
    if isinstance(v, bool):
        return struct.pack("<I?", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    kind, one = {str: (8, text), float: (6, lambda x: struct.pack("<f", x)),
                 int: (5, lambda x: struct.pack("<i", x))}[type(v[0])]
    return struct.pack("<IIQ", 9, kind, len(v)) + b"".join(map(one, v))


def whole(meta, tensors):
    """A file of meta, a dictionary, and tensors, a list of (name, shape, numbers)."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(meta))
    head += b"".join(text(k) + value(v) for k, v in meta.items())
    body = bytearray()
    for name, shape, numbers in tensors:
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", 0, len(body))
        body += pack(numbers)
        body += bytes(-len(body) % 32)
    return head + bytes(-len(head) % 32) + bytes(body)
