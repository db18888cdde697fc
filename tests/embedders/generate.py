"""generate.py FOLDER - a miniature of random weights for every family of embedders and
rankers, as NAME.gguf and, where Hugging Face has a class for it, as the folder NAME with the
same weights under that class's names, with the tokenizer both share.

The weights depend on nothing but the names, so that what another program computes from a
file here (vectors.json) can be compared with what we compute from it."""
import json
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import gguf_file

E, F, HEADS, V, CTX = 32, 64, 4, 64, 64  # width, feed-forward, heads, vocabulary, context
NO = None  # not in folders

# ---- weights ------------------------------------------------------------------------------


def values(name, shape):
    """Norms near one, biases small, matrices that keep a vector's length."""
    rng = random.Random("mlxcel " + name)
    n = 1
    for size in shape:
        n *= size
    if len(shape) == 1 and name.endswith(".weight"):
        return [1 + 0.2 * (rng.random() - 0.5) for _ in range(n)]
    scale = 0.2 if len(shape) == 1 else 3.4 / shape[-1] ** 0.5
    return [scale * (rng.random() - 0.5) for _ in range(n)]


# ---- GGUF -----------------------------------------------------------------------------------

def write_gguf(path, meta, tensors):
    path.write_bytes(gguf_file.whole(
        meta, [(name, shape, values(name, shape)) for name, shape in tensors]))


# ---- safetensors ------------------------------------------------------------------------------

def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, shape, numbers in tensors:
        data = gguf_file.pack(numbers)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + body)


# ---- vocabularies ---------------------------------------------------------------------------

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def wordpiece():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["the", "cat", "sat", "on", "mat", "hello", "world"]
    whole = special + words + list(LETTERS) + ["##" + c for c in LETTERS]
    gguf = [w if w in special else w[2:] if w.startswith("##") else "\u2581" + w for w in whole]
    ids = {"unknown": 1, "seperator": 3, "padding": 0, "cls": 2, "mask": 4}
    meta = {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": gguf,
            "tokenizer.ggml.token_type": [3 if w in special else 1 for w in whole],
            "tokenizer.ggml.token_type_count": 2, "tokenizer.ggml.bos_token_id": 2,
            **{f"tokenizer.ggml.{k}_token_id": v for k, v in ids.items()}}
    added = [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, w in enumerate(special)]
    around = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    hf = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
          "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                         "strip_accents": None, "lowercase": True},
          "pre_tokenizer": {"type": "BertPreTokenizer"},
          "post_processor": {"type": "TemplateProcessing", "single": around,
                             "pair": around + [{"Sequence": {"id": "B", "type_id": 1}},
                                               {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                             "special_tokens": {w: {"id": w, "ids": [whole.index(w)], "tokens": [w]}
                                                for w in ("[CLS]", "[SEP]")}},
          "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
          "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                    "max_input_chars_per_word": 100, "vocab": {w: i for i, w in enumerate(whole)}}}
    config = {"tokenizer_class": "BertTokenizer", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]",
              "pad_token": "[PAD]", "mask_token": "[MASK]"}
    return meta, hf, config


def unigram():
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = ["\u2581"] + ["\u2581" + w for w in ("the", "cat", "sat", "on", "mat", "hello", "world")] + list(LETTERS)
    whole = special + pieces
    whole += [f"\u2581x{i}" for i in range(V - len(whole) - 1)] + ["<mask>"]
    scores = [0.0 if w in special or w == "<mask>" else -2.0 - 0.125 * i for i, w in enumerate(whole)]
    kinds = [2 if w == "<unk>" else 3 if w in special or w == "<mask>" else 1 for w in whole]
    meta = {"tokenizer.ggml.model": "t5", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": whole,
            "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.token_type_count": 1, "tokenizer.ggml.add_space_prefix": True,
            "tokenizer.ggml.remove_extra_whitespaces": True, "tokenizer.ggml.bos_token_id": 0,
            "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 3,
            "tokenizer.ggml.seperator_token_id": 2, "tokenizer.ggml.padding_token_id": 1,
            "tokenizer.ggml.cls_token_id": 0, "tokenizer.ggml.mask_token_id": len(whole) - 1,
            "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True,
            "tokenizer.ggml.add_sep_token": True}
    added = [{"id": whole.index(w), "content": w, "single_word": False, "lstrip": w == "<mask>", "rstrip": False,
              "normalized": False, "special": True} for w in special + ["<mask>"]]
    around = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    pair = around + [{"SpecialToken": {"id": "</s>", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}},
                     {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    hf = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
          "normalizer": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
          "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
          "post_processor": {"type": "TemplateProcessing", "single": around, "pair": pair,
                             "special_tokens": {w: {"id": w, "ids": [whole.index(w)], "tokens": [w]}
                                                for w in ("<s>", "</s>")}},
          "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
          "model": {"type": "Unigram", "unk_id": 3, "vocab": [[w, s] for w, s in zip(whole, scores)],
                    "byte_fallback": False}}
    config = {"tokenizer_class": "XLMRobertaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
              "sep_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>", "mask_token": "<mask>"}
    return meta, hf, config


def bytepair(first, last, add_last):
    """Letters and a few pairs; G with a dot is the byte-level space."""
    pairs = [("t", "h"), ("th", "e"), ("c", "a"), ("ca", "t"), ("\u0120", "th"), ("\u0120th", "e"), ("\u0120", "ca"),
             ("n", "o"), ("y", "e"), ("ye", "s")]
    whole = [first, last] + list(LETTERS) + ["\u0120", ".", "|", "{", "}", "<", ">", ":", "\u010a"]
    whole += [a + b for a, b in pairs]
    whole += [f"[unused{i}]" for i in range(V - len(whole))]
    meta = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": whole,
            "tokenizer.ggml.token_type": [3 if i < 2 else 1 for i in range(len(whole))],
            "tokenizer.ggml.merges": [f"{a} {b}" for a, b in pairs], "tokenizer.ggml.bos_token_id": 0,
            "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.padding_token_id": 1,
            "tokenizer.ggml.seperator_token_id": 1, "tokenizer.ggml.add_bos_token": not add_last,
            "tokenizer.ggml.add_eos_token": True, "tokenizer.ggml.add_sep_token": not add_last}
    added = [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, w in enumerate((first, last))]
    body = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": last, "type_id": 0}}]
    if not add_last:
        body.insert(0, {"SpecialToken": {"id": first, "type_id": 0}})
    hf = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
          "post_processor": {"type": "TemplateProcessing", "single": body, "pair": body,
                             "special_tokens": {w: {"id": w, "ids": [i], "tokens": [w]}
                                                for i, w in enumerate((first, last))}},
          "decoder": {"type": "ByteLevel"},
          "model": {"type": "BPE", "vocab": {w: i for i, w in enumerate(whole)},
                    "merges": [f"{a} {b}" for a, b in pairs]}}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": first, "eos_token": last, "pad_token": last}
    return meta, hf, config


def sentencepiece():
    whole = ["<pad>", "<eos>", "<bos>", "<unk>", "\u2581"] + list(LETTERS) + ["th", "the", "\u2581the", "ca", "cat",
                                                                           "\u2581cat"]
    whole += [f"x{i}" for i in range(V - len(whole))]
    kinds = [2 if w == "<unk>" else 3 if i < 3 else 1 for i, w in enumerate(whole)]
    meta = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": whole,
            "tokenizer.ggml.scores": [-float(i) for i in range(len(whole))], "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.unknown_token_id": 3,
            "tokenizer.ggml.padding_token_id": 0, "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.add_eos_token": True, "tokenizer.ggml.add_space_prefix": False}
    added = [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, w in enumerate(whole[:4])]
    body = [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "<eos>", "type_id": 0}}]
    merges = ["t h", "th e", "\u2581 the", "c a", "ca t", "\u2581 cat"]
    hf = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
          "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
          "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                            "invert": False},
          "post_processor": {"type": "TemplateProcessing", "single": body, "pair": body,
                             "special_tokens": {w: {"id": w, "ids": [whole.index(w)], "tokens": [w]}
                                                for w in ("<bos>", "<eos>")}},
          "decoder": {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
          "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": False,
                    "vocab": {w: i for i, w in enumerate(whole)}, "merges": merges}}
    config = {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>",
              "pad_token": "<pad>", "add_bos_token": True, "add_eos_token": True}
    return meta, hf, config


# ---- families: rows of (GGUF name, folder's name, shape...) ----------------------------------------

def both(gguf, hf, *shape, bias=True):
    """A weight and its bias."""
    rows = [(gguf + ".weight", hf and hf + ".weight", *shape)]
    return rows + [(gguf + ".bias", hf and hf + ".bias", shape[0])] if bias else rows


def bert_layer(i, e=E, f=F):
    b, h = f"blk.{i}.", f"encoder.layer.{i}."
    return (both(b + "attn_q", h + "attention.self.query", e, e) + both(b + "attn_k", h + "attention.self.key", e, e) +
            both(b + "attn_v", h + "attention.self.value", e, e) +
            both(b + "attn_output", h + "attention.output.dense", e, e) +
            both(b + "attn_output_norm", h + "attention.output.LayerNorm", e) +
            both(b + "ffn_up", h + "intermediate.dense", f, e) + both(b + "ffn_down", h + "output.dense", e, f) +
            both(b + "layer_output_norm", h + "output.LayerNorm", e))


def bert(types=2, layers=2):
    rows = [("token_embd.weight", "embeddings.word_embeddings.weight", V, E),
            ("token_types.weight", "embeddings.token_type_embeddings.weight", types, E),
            ("position_embd.weight", "embeddings.position_embeddings.weight", CTX, E)]
    rows += both("token_embd_norm", "embeddings.LayerNorm", E)
    for i in range(layers):
        rows += bert_layer(i)
    return rows


def ranking_head():
    return both("cls", "classifier.dense", E, E) + both("cls.output", "classifier.out_proj", 1, E)


def nomic(moe):
    rows = [("token_embd.weight", "embeddings.word_embeddings.weight", V, E),
            ("token_types.weight", "embeddings.token_type_embeddings.weight", 1 if moe else 2, E)]
    rows += both("token_embd_norm", "emb_ln", E)
    for i in range(2):
        b, h = f"blk.{i}.", f"encoder.layers.{i}."
        rows += both(b + "attn_qkv", h + "attn.Wqkv", 3 * E, E, bias=moe)
        rows += both(b + "attn_output", h + "attn.out_proj", E, E, bias=moe)
        rows += both(b + "attn_output_norm", h + "norm1", E) + both(b + "layer_output_norm", h + "norm2", E)
        if moe and i % 2 == 1:
            rows += [(b + "ffn_gate_inp.weight", NO, 4, E), (b + "ffn_up_exps.weight", NO, 4, F, E),
                     (b + "ffn_down_exps.weight", NO, 4, E, F)]
        else:
            rows += both(b + "ffn_up", h + "mlp.fc11", F, E, bias=moe) + both(b + "ffn_down", h + "mlp.fc2", E, F, bias=moe)
            rows += [] if moe else both(b + "ffn_gate", h + "mlp.fc12", F, E, bias=False)
    return rows


def jina(e, more):
    rows = [("token_embd.weight", "embeddings.word_embeddings.weight", V, e),
            ("token_types.weight", "embeddings.token_type_embeddings.weight", 2, e)]
    rows += both("token_embd_norm", "embeddings.LayerNorm", e)
    for i in range(2):
        b, h = f"blk.{i}.", f"encoder.layer.{i}."
        rows += [r for r in bert_layer(i, e) if "ffn" not in r[0] and "layer_output_norm" not in r[0]]
        rows += both(b + "ffn_up", h + "mlp.gated_layers", 2 * F, e, bias=False) + both(b + "ffn_down", h + "mlp.wo", e, F)
        rows += both(b + "layer_output_norm", h + "mlp.layernorm", e)
        if more:
            rows += both(b + "attn_q_norm", NO, e) + both(b + "attn_k_norm", NO, e) + both(b + "attn_norm_2", NO, e)
    return rows


def modern(head):
    rows = [("token_embd.weight", "embeddings.tok_embeddings.weight", V, E),
            ("token_embd_norm.weight", "embeddings.norm.weight", E), ("output_norm.weight", "final_norm.weight", E)]
    for i in range(4):
        b, h = f"blk.{i}.", f"layers.{i}."
        rows += [(b + "attn_norm.weight", h + "attn_norm.weight", E)] if i else []
        rows += [(b + "attn_qkv.weight", h + "attn.Wqkv.weight", 3 * E, E), (b + "attn_output.weight", h + "attn.Wo.weight", E, E),
                 (b + "ffn_norm.weight", h + "mlp_norm.weight", E), (b + "ffn_up.weight", h + "mlp.Wi.weight", 2 * F, E),
                 (b + "ffn_down.weight", h + "mlp.Wo.weight", E, F)]
    if head:
        rows += [("cls.weight", "head.dense.weight", E, E), ("cls.norm.weight", "head.norm.weight", E)]
        rows += both("cls.output", "classifier", 1, E)
    return rows


def decoder(layers, kv, head_dim, gemma, more=()):
    rows = [("token_embd.weight", "embed_tokens.weight", V, E), ("output_norm.weight", "norm.weight", E), *more]
    for i in range(layers):
        b, h = f"blk.{i}.", f"layers.{i}."
        rows += [(b + "attn_norm.weight", h + "input_layernorm.weight", E),
                 (b + "attn_q.weight", h + "self_attn.q_proj.weight", HEADS * head_dim, E),
                 (b + "attn_k.weight", h + "self_attn.k_proj.weight", kv * head_dim, E),
                 (b + "attn_v.weight", h + "self_attn.v_proj.weight", kv * head_dim, E),
                 (b + "attn_output.weight", h + "self_attn.o_proj.weight", E, HEADS * head_dim),
                 (b + "attn_q_norm.weight", h + "self_attn.q_norm.weight", head_dim),
                 (b + "attn_k_norm.weight", h + "self_attn.k_norm.weight", head_dim),
                 (b + "ffn_norm.weight", h + ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm") + ".weight", E),
                 (b + "ffn_gate.weight", h + "mlp.gate_proj.weight", F, E), (b + "ffn_up.weight", h + "mlp.up_proj.weight", F, E),
                 (b + "ffn_down.weight", h + "mlp.down_proj.weight", E, F)]
        if gemma:
            rows += [(b + "post_attention_norm.weight", h + "post_attention_layernorm.weight", E),
                     (b + "post_ffw_norm.weight", h + "post_feedforward_layernorm.weight", E)]
    return rows


# ---- the miniatures -----------------------------------------------------------------------------------

MEAN, CLS, LAST, RANK = 1, 2, 3, 4
MODES = {MEAN: "pooling_mode_mean_tokens", CLS: "pooling_mode_cls_token", LAST: "pooling_mode_lasttoken"}
BERT_CONFIG = {"hidden_size": E, "num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": F,
               "max_position_embeddings": CTX, "layer_norm_eps": 1e-12, "vocab_size": V, "type_vocab_size": 2,
               "hidden_act": "gelu", "pad_token_id": 0}
XLMR_CONFIG = {**BERT_CONFIG, "model_type": "xlm-roberta", "max_position_embeddings": CTX + 2, "pad_token_id": 1,
               "type_vocab_size": 1, "layer_norm_eps": 1e-5}
QWEN3_CONFIG = {"model_type": "qwen3", "hidden_size": E, "num_hidden_layers": 2, "num_attention_heads": HEADS,
                "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": F, "max_position_embeddings": CTX,
                "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "vocab_size": V}
# The question that Qwen3's reranker was trained with.
RERANK = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
          "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a "
          "web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}"
          "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
WIDE = 512  # context of the one that is asked so much

MODELS = {
    "bert": dict(arch="bert", rows=bert(), vocab=wordpiece, pooling=CLS, eps=1e-12,
                 hf=dict(BERT_CONFIG, architectures=["BertModel"], model_type="bert")),
    "bert-rank": dict(arch="bert", rows=bert() + both("cls", "pooler.dense", E, E) + both("cls.output", "classifier", 1, E),
                      vocab=wordpiece, pooling=RANK, eps=1e-12, root="bert.", beside="classifier",
                      hf=dict(BERT_CONFIG, architectures=["BertForSequenceClassification"], model_type="bert",
                              id2label={"0": "LABEL_0"})),
    "xlm-roberta": dict(arch="bert", rows=bert(1), vocab=unigram, pooling=MEAN, eps=1e-5, before=2,
                        hf=dict(XLMR_CONFIG, architectures=["XLMRobertaModel"], matryoshka_dimensions=[8, 16])),
    "xlm-roberta-rank": dict(arch="bert", rows=bert(1) + ranking_head(), vocab=unigram, pooling=RANK, eps=1e-5, before=2,
                             root="roberta.", beside="classifier",
                             hf=dict(XLMR_CONFIG, architectures=["XLMRobertaForSequenceClassification"],
                                     id2label={"0": "LABEL_0"})),
    "nomic-bert": dict(arch="nomic-bert", rows=nomic(False), vocab=wordpiece, pooling=MEAN, eps=1e-12,
                       meta={"rope.freq_base": 1000.0},
                       hf={"architectures": ["NomicBertModel"], "model_type": "nomic_bert", "n_embd": E, "n_layer": 2,
                           "n_head": HEADS, "n_inner": F, "n_positions": 2 * CTX, "max_trained_positions": CTX,
                           "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
                           "type_vocab_size": 2, "activation_function": "swiglu", "vocab_size": V}),
    "nomic-bert-moe": dict(arch="nomic-bert-moe", rows=nomic(True), vocab=unigram, pooling=MEAN, eps=1e-5,
                           meta={"rope.freq_base": 10000.0, "moe_every_n_layers": 2, "expert_count": 4,
                                 "expert_used_count": 2}),
    "jina-bert-v2": dict(arch="jina-bert-v2", rows=jina(48, False), vocab=wordpiece, pooling=MEAN, eps=1e-12, embd=48, heads=6,
                         hf=dict(BERT_CONFIG, architectures=["JinaBertForMaskedLM"], model_type="bert", hidden_size=48,
                                 num_attention_heads=6, position_embedding_type="alibi", feed_forward_type="geglu")),
    "jina-bert-v2-normed": dict(arch="jina-bert-v2", rows=jina(32, True), vocab=wordpiece, pooling=MEAN, eps=1e-12),
    "modern-bert": dict(arch="modern-bert", rows=modern(False), vocab=lambda: bytepair("[CLS]", "[SEP]", False),
                        pooling=MEAN, eps=1e-5, layers=4, root="model.",
                        meta={"attention.sliding_window": 8, "attention.sliding_window_pattern": 3,
                              "rope.freq_base": 160000.0, "rope.freq_base_swa": 10000.0},
                        hf={"architectures": ["ModernBertForMaskedLM"], "model_type": "modernbert", "hidden_size": E,
                            "num_hidden_layers": 4, "num_attention_heads": HEADS, "intermediate_size": F,
                            "max_position_embeddings": CTX, "norm_eps": 1e-5, "local_attention": 8,
                            "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0,
                            "hidden_activation": "gelu", "vocab_size": V}),
    "modern-bert-rank": dict(arch="modern-bert", rows=modern(True), vocab=lambda: bytepair("[CLS]", "[SEP]", False),
                             pooling=RANK, eps=1e-5, layers=4,
                             meta={"attention.sliding_window": 8, "attention.sliding_window_pattern": 3,
                                   "rope.freq_base": 160000.0, "hidden_activation": "silu"}),
    "gemma-embedding": dict(arch="gemma-embedding", vocab=sentencepiece, pooling=MEAN, rms=1e-6, layers=7, kv=1, head_dim=16,
                            rows=decoder(7, 1, 16, True, [("dense_2.weight", NO, 4 * E, E), ("dense_3.weight", NO, E, 4 * E)]),
                            meta={"attention.sliding_window": 8, "rope.freq_base": 1000000.0, "dense_2_feat_in": E,
                                  "dense_2_feat_out": 4 * E, "dense_3_feat_in": 4 * E, "dense_3_feat_out": E},
                            less_one=True, dense={"2_Dense": (E, 4 * E), "3_Dense": (4 * E, E)},
                            hf={"architectures": ["Gemma3TextModel"], "model_type": "gemma3_text", "hidden_size": E,
                                "num_hidden_layers": 7, "num_attention_heads": HEADS, "num_key_value_heads": 1,
                                "head_dim": 16, "intermediate_size": F, "max_position_embeddings": CTX,
                                "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
                                "sliding_window": 8, "vocab_size": V, "hidden_activation": "gelu_pytorch_tanh",
                                "query_pre_attn_scalar": 16, "use_bidirectional_attention": True}),
    "qwen3-embedding": dict(arch="qwen3", rows=decoder(2, 2, 16, False), vocab=lambda: bytepair("<|im_start|>", "<|im_end|>", True),
                            pooling=LAST, rms=1e-6, kv=2, head_dim=16, meta={"rope.freq_base": 1000000.0},
                            hf={**QWEN3_CONFIG, "architectures": ["Qwen3Model"], "tie_word_embeddings": True,
                                "is_matryoshka": True}),
    "qwen3-reranker": dict(arch="qwen3", rows=decoder(2, 2, 16, False, [("cls.output.weight", NO, 2, E)]),
                           vocab=lambda: bytepair("<|im_start|>", "<|im_end|>", True), pooling=RANK, rms=1e-6, kv=2, head_dim=16,
                           root="model.",
                           meta={"rope.freq_base": 1000000.0, "classifier.output_labels": ["yes", "no"],
                                 "context_length": WIDE},
                           more={"tokenizer.chat_template.rerank": RERANK}, answers=("yes", "no"), beside="lm_head",
                           hf={**QWEN3_CONFIG, "architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": False,
                               "max_position_embeddings": WIDE, "_name_or_path": "Qwen/Qwen3-Reranker-0.6B"}),
}


def gguf_meta(name, m):
    arch, meta = m["arch"], m["vocab"]()[0]
    head_dim = m.get("head_dim")
    own = {"context_length": CTX, "embedding_length": m.get("embd", E), "block_count": m.get("layers", 2),
           "feed_forward_length": F, "attention.head_count": m.get("heads", HEADS), "pooling_type": m["pooling"],
           "vocab_size": V}
    if "eps" in m:
        own.update({"attention.layer_norm_epsilon": m["eps"], "attention.causal": False})
    if "rms" in m:
        own["attention.layer_norm_rms_epsilon"] = m["rms"]
    if "kv" in m:
        own.update({"attention.head_count_kv": m["kv"], "attention.key_length": head_dim, "attention.value_length": head_dim})
    own.update(m.get("meta", {}))
    return {"general.architecture": arch, "general.name": name, "general.file_type": 0,
            **{f"{arch}.{k}": v for k, v in own.items()}, **meta, **m.get("more", {})}


def output_rows(m):
    """An output layer whose rows of the answers are what the GGUF file has of it."""
    whole = m["vocab"]()[0]["tokenizer.ggml.tokens"]
    numbers, rows = values("lm_head", (V, E)), values("cls.output.weight", (2, E))
    for i, answer in enumerate(m["answers"]):
        at = whole.index(answer) * E
        numbers[at:at + E] = rows[i * E:i * E + E]
    return "lm_head.weight", (V, E), numbers


def folder_tensors(m):
    if "answers" in m:
        yield output_rows(m)
    for gguf, hf, *shape in m["rows"]:
        if not hf:
            continue
        numbers = values(gguf, shape)
        before = m.get("before", 0) if gguf == "position_embd.weight" else 0
        numbers = [9.0] * (before * E) + numbers  # rows that no position is
        if m.get("less_one") and len(shape) == 1:
            numbers = [x - 1 for x in numbers]
        beside = m.get("beside")
        root = "" if beside and hf.startswith(beside) else m.get("root", "")
        yield root + hf, [shape[0] + before, *shape[1:]], numbers


def write_folder(folder, m):
    folder.mkdir(exist_ok=True)
    _, tokenizer, config = m["vocab"]()

    def put(name, content):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))

    put("config.json", m["hf"])
    put("tokenizer.json", tokenizer)
    put("tokenizer_config.json", config)
    if m["pooling"] in MODES:
        put("modules.json", [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])
        put("1_Pooling/config.json", {"word_embedding_dimension": E,
                                      **{mode: mode == MODES[m["pooling"]] for mode in MODES.values()}})
    modules = json.loads((folder / "modules.json").read_text()) if m["pooling"] in MODES else []
    for path, (n_in, n_out) in m.get("dense", {}).items():
        modules.insert(-1, {"idx": len(modules), "name": path[0], "path": path, "type": "sentence_transformers.models.Dense"})
        put(f"{path}/config.json", {"in_features": n_in, "out_features": n_out, "bias": False,
                                    "activation_function": "torch.nn.modules.linear.Identity"})
        name = f"dense_{path[0]}.weight"
        write_safetensors(folder / path / "model.safetensors", [("linear.weight", (n_out, n_in), values(name, (n_out, n_in)))])
        put("modules.json", modules)
    write_safetensors(folder / "model.safetensors", list(folder_tensors(m)))


def generate(folder):
    folder = pathlib.Path(folder)
    for name, m in MODELS.items():
        write_gguf(folder / f"{name}.gguf", gguf_meta(name, m), [(gguf, shape) for gguf, _, *shape in m["rows"]])
        if "hf" in m:
            write_folder(folder / name, m)


if __name__ == "__main__":
    generate(sys.argv[1])
