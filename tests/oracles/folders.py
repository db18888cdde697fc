"""folders.py - Hugging Face folders with weights by formula: what another program computed
from one can be compared with what we compute, and nothing but its shape is committed.

A weight depends on its tensor's name and its place in it. Norms are near one, biases small,
matrices keep a vector's length, so that no layer is lost in the others' noise."""
import array
import json
import pathlib
import random
import struct
import sys

VOCABULARY = 64


def values(name, shape):
    """The numbers of a tensor, row after row, in float32."""
    draw = random.Random("mlxcel " + name).random
    n = 1
    for size in shape:
        n *= size
    if len(shape) == 1 and name.endswith("weight"):
        return array.array("f", [1 + 0.4 * (draw() - 0.5) for _ in range(n)])
    scale = 0.4 if len(shape) == 1 else 3.4 / shape[-1] ** 0.5
    if "embed" in name:
        scale = 2.0
    return array.array("f", [scale * (draw() - 0.5) for _ in range(n)])


def write_safetensors(path, tensors):
    """tensors: {name: shape}; F32."""
    header, body = {}, bytearray()
    for name, shape in tensors.items():
        numbers = values(name, shape)
        if sys.byteorder == "big":
            numbers.byteswap()
        begin = len(body)
        body += numbers.tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(body)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(body))


def tokenizer():
    """One token a byte, as far as they go: prompts here are ids."""
    whole = ["<s>", "</s>"] + [chr(c) for c in range(33, 33 + VOCABULARY - 2)]
    added = [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, w in enumerate(whole[:2])]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                              "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {w: i for i, w in enumerate(whole)}, "merges": []}}


def write(folder, config, tensors):
    folder = pathlib.Path(folder)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}))
    write_safetensors(folder / "model.safetensors", tensors)
