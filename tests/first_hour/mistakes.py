"""mistakes.py - the files and folders that people start a server with by mistake, and the odd
ones that are right."""
import json
import pathlib
import shutil
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "embedders"))
import generate
import gguf_file

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 2811234\n"


def folder_like(source, path, **changes):
    """A copy of a model's folder; changes: file name to text, None takes the file away."""
    shutil.copytree(source, path)
    for name, text in changes.items():
        file = path / name.replace("__", ".")
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
    return path


def folder_of(path, **files):
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def file_of(path, data):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def gguf(path, **meta):
    path.write_bytes(gguf_file.whole({k.replace("__", "."): v for k, v in meta.items()},
                                     [("x.weight", (4,), [0.0] * 4)]))
    return path


def vocabulary(tale, path, keep):
    """The model's folder with a tokenizer of another size."""
    folder_like(tale, path)
    tokenizer = json.loads((path / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    if keep < len(vocab):
        kept = {t: i for t, i in vocab.items() if i < keep}
        tokenizer["model"]["merges"] = [
            m for m in tokenizer["model"]["merges"]
            if "".join(m.split(" ") if isinstance(m, str) else m) in kept
            and all(part in kept for part in (m.split(" ") if isinstance(m, str) else m))]
        tokenizer["model"]["vocab"] = kept
        tokenizer["added_tokens"] = [t for t in tokenizer["added_tokens"] if t["id"] < keep]
    else:
        for i in range(len(vocab) + len(tokenizer["added_tokens"]), keep):
            vocab[f"<more{i}>"] = i
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return path


def make(scratch, tale):
    """All of them, by the names that cases.py has."""
    config = (tale / "config.json").read_text()
    weights = (tale / "model.safetensors").read_bytes()
    n_vocab = json.loads(config)["vocab_size"]
    files = {"tale": tale, "missing": scratch / "missing"}
    plain = {"empty_file.gguf": b"", "page.gguf": "<html><body>404</body></html>", "zip.bin": b"PK\x03\x04" + bytes(64),
             "json.gguf": '{"model": 1}', "lfs_file.gguf": LFS, "cut.gguf": gguf_file.whole({"general.architecture": "llama"}, [])[:20],
             "old_ggml.bin": b"lmgg" + bytes(64), "random.gguf": b"\x01\x02\x03\x04" * 16,
             "no_keys.txt": "", "comment_keys.txt": "# one\n# two\n", "crlf_keys.txt": b"sesame\r\nopen\r\n"}
    for name, data in plain.items():
        files[name.split(".")[0]] = file_of(scratch / name, data)
    files["lora"] = gguf(scratch / "lora.gguf", general__architecture="llama", general__type="adapter", adapter__type="lora")
    files["mmproj"] = gguf(scratch / "mmproj.gguf", general__architecture="clip", clip__has_vision_encoder=True)
    files["other_arch"] = gguf(scratch / "other.gguf", general__architecture="marsupial")
    files["peft"] = folder_of(scratch / "peft", adapter_config__json="{}", adapter_model__safetensors="x")
    folder_of(scratch / "models--me--tale" / "snapshots" / "0123abcd", config__json=config)
    files["hub"] = scratch / "models--me--tale"
    files["empty_folder"] = folder_of(scratch / "empty")
    files["gguf_folder"] = folder_of(scratch / "ggufs", one__gguf="GGUF")
    files["bin_folder"] = folder_of(scratch / "bins", config__json=config, pytorch_model__bin="x")
    files["no_weights"] = folder_of(scratch / "no-weights", config__json=config)
    index = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
    files["missing_shard"] = folder_of(scratch / "missing-shard", config__json=config)
    (files["missing_shard"] / "model.safetensors.index.json").write_text(index)
    (files["missing_shard"] / "model-00001-of-00002.safetensors").write_bytes(weights)
    files["two_of_three"] = folder_of(scratch / "two-of-three", config__json=config)
    for n in (1, 2):
        (files["two_of_three"] / f"model-0000{n}-of-00003.safetensors").write_bytes(weights)
    for name, changes in {
            "lfs_folder": {"model__safetensors": LFS}, "lfs_config": {"tokenizer__json": LFS},
            "bad_config": {"config__json": "{,}"}, "list_config": {"config__json": "[]"},
            "no_names": {"config__json": json.dumps({k: v for k, v in json.loads(config).items()
                                                      if k not in ("architectures", "model_type")})},
            "bom": {"config__json": "\ufeff" + config},
            "python_numbers": {"config__json": config.replace("{", '{"limit": [-Infinity, Infinity, NaN],', 1)}}.items():
        files[name] = folder_like(tale, scratch / name, **changes)
    files["stale_index"] = folder_like(tale, scratch / "stale")
    (files["stale_index"] / "model.safetensors.index.json").write_text(index)
    files["other_name"] = folder_like(tale, scratch / "other-name", model__safetensors=None)
    (files["other_name"] / "weights.safetensors").write_bytes(weights)
    files["small_vocabulary"] = vocabulary(tale, scratch / "small-vocabulary", n_vocab * 3 // 4)
    files["large_vocabulary"] = vocabulary(tale, scratch / "large-vocabulary", n_vocab + 100)
    generate.generate(scratch / "encoders")
    files["encoder"] = scratch / "encoders" / "bert.gguf"
    return files
