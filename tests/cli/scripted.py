"""scripted.py - models that answer with exactly the pieces given, one token each.

    import scripted
    path = scripted.write(folder / "x.gguf", ["Let me see.", "<tool_call>", "..."])

A llama of one layer whose attention and feed-forward are zero: what a token gives
depends on it alone. Each piece is an entry of the vocabulary with a direction of its
own in the embeddings, and the output matrix leads from it to the next piece, from the
last one to the end of the text, and from every other token (the prompt is read byte by
byte) to the first. Whatever is sampled or forced instead of a piece leads to the first
again; with loop=True the last piece does too. A piece that stands in the list twice is two tokens of the same text."""
import array
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import gguf_file

BYTES = [f"<0x{i:02X}>" for i in range(256)]
SPECIAL = ["<unk>", "<s>", "</s>"]
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
CONTEXT, FEED_FORWARD = 8192, 32


def matrix(rows, columns, ones=()):
    """Zeros, with a number at each (row, column) of ones."""
    numbers = array.array("f", bytes(4 * rows * columns))
    for row, column, number in ones:
        numbers[row * columns + column] = number
    return (rows, columns), numbers


def tensors(n_vocab, n_embd, first, n_pieces, loop):
    follower = {t: first for t in range(n_vocab)}
    for i in range(n_pieces):
        follower[first + i] = first + i + 1
    follower[first + n_pieces - 1] = first if loop else SPECIAL.index("</s>")
    ones = ((n_embd,), [1.0] * n_embd)
    yield "token_embd.weight", matrix(n_vocab, n_embd, ((t, t, 1.0) for t in range(n_vocab)))
    yield "output.weight", matrix(n_vocab, n_embd, ((n, t, 8.0) for t, n in follower.items()))
    yield "output_norm.weight", ones
    yield "blk.0.attn_norm.weight", ones
    yield "blk.0.ffn_norm.weight", ones
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        yield f"blk.0.{name}.weight", matrix(n_embd, n_embd)
    yield "blk.0.ffn_gate.weight", matrix(FEED_FORWARD, n_embd)
    yield "blk.0.ffn_up.weight", matrix(FEED_FORWARD, n_embd)
    yield "blk.0.ffn_down.weight", matrix(n_embd, FEED_FORWARD)


def write(path, pieces, loop=False):
    tokens = SPECIAL + BYTES + [p.replace(" ", "\u2581") for p in pieces]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces)
    n_embd = (len(tokens) + 63) // 64 * 64
    meta = {"general.architecture": "llama", "general.name": "scripted",
            "llama.context_length": CONTEXT, "llama.embedding_length": n_embd,
            "llama.block_count": 1, "llama.feed_forward_length": FEED_FORWARD,
            "llama.attention.head_count": n_embd // 64, "llama.attention.head_count_kv": n_embd // 64,
            "llama.rope.dimension_count": 64, "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.scores": [-1000.0 - i for i in range(len(tokens))],
            "tokenizer.ggml.token_type": types, "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.add_space_prefix": False}
    made = tensors(len(tokens), n_embd, len(SPECIAL + BYTES), len(pieces), loop)
    path.write_bytes(gguf_file.whole(meta, [(name, *rest) for name, rest in made]))
    return path
