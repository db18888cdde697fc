"""remake_transformers.py OUT [NAME...] - what transformers computes from small models of every
text family that both know, written to OUT (transformers.json): for each case the config.json
as transformers writes it, the names and shapes of the tensors as it saves them, and the
log-probabilities behind each prompt. Needs torch and transformers; see README.md."""
import copy
import json
import pathlib
import sys
import tempfile

import safetensors.torch
import torch
import transformers

import folders

SIZES = {"vocab_size": folders.VOCABULARY, "hidden_size": 64, "intermediate_size": 96,
         "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 256, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
DROPPED = ("transformers_version", "_name_or_path", "dtype")
PROMPTS = [[5], [2, 9, 33, 60, 12, 7, 41, 18, 25], [(7 * i * i + 3 * i + 11) % 62 + 2 for i in range(45)]]


def rope(kind="default", theta=10000.0, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
LOCAL = {"num_local_experts": 6, "num_experts_per_tok": 2}
LONG = {"factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LONGROPE = rope("longrope", original_max_position_embeddings=256, factor=4.0,
                short_factor=[1.0 + 0.05 * i for i in range(8)],
                long_factor=[1.0 + 0.5 * i for i in range(8)])
TIED, UNTIED = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}

# name: (model_type, what differs from SIZES, what is done to the config.json once computed)
CASES = {
    "llama": ("llama", {}),
    "llama-mqa-tied": ("llama", {"num_key_value_heads": 1, **TIED}),
    "llama-mha-biases": ("llama", {"num_key_value_heads": 4, "attention_bias": True, "mlp_bias": True}),
    "llama-head-dim": ("llama", {"head_dim": 24}),
    "llama-eps": ("llama", {"rms_norm_eps": 1e-2}),
    "llama-linear": ("llama", {"rope_parameters": rope("linear", factor=4.0)}),
    "llama-dynamic": ("llama", {"rope_parameters": rope("dynamic", factor=4.0)}),
    "llama-yarn": ("llama", {"rope_parameters": rope("yarn", **LONG)}),
    "llama-yarn-betas": ("llama", {"rope_parameters": rope("yarn", beta_fast=16.0, beta_slow=2.0, **LONG)}),
    "llama-yarn-attention": ("llama", {"rope_parameters": rope("yarn", attention_factor=1.5, **LONG)}),
    "llama-yarn-mscale": ("llama", {"rope_parameters": rope("yarn", mscale=1.0, mscale_all_dim=0.8, **LONG)}),
    "llama-yarn-whole": ("llama", {"rope_parameters": rope("yarn", truncate=False, **LONG)}),
    "llama3": ("llama", {"rope_parameters": LLAMA3}),
    "llama-longrope": ("llama", {"rope_parameters": LONGROPE, "max_position_embeddings": 1024}),
    "llama-longrope-far": ("llama", {"rope_parameters": LONGROPE, "max_position_embeddings": 1024}),
    "llama-longrope-attention": ("llama", {"rope_parameters": {**LONGROPE, "attention_factor": 1.25}}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral-window": ("mistral", {"sliding_window": 16}),
    "mixtral": ("mixtral", LOCAL),
    "qwen2": ("qwen2", {}),
    "qwen2-tied": ("qwen2", TIED),
    "qwen2-window": ("qwen2", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2}),
    "qwen2-moe": ("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 80}),
    "qwen2-moe-sparse": ("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 80,
                                       "norm_topk_prob": True, "mlp_only_layers": [1]}),
    "qwen3": ("qwen3", {"head_dim": 32}),
    "qwen3-yarn": ("qwen3", {"head_dim": 16, "rope_parameters": rope("yarn", 1e6, **LONG)}),
    "qwen3-biases": ("qwen3", {"head_dim": 16, "attention_bias": True}),
    "qwen3-moe": ("qwen3_moe", {**EXPERTS, "head_dim": 16, "norm_topk_prob": True}),
    "qwen3-moe-plain": ("qwen3_moe", {**EXPERTS, "head_dim": 16, "norm_topk_prob": False}),
    "gemma": ("gemma", {"head_dim": 32}),
    "gemma2": ("gemma2", {"head_dim": 32, "sliding_window": 16, "query_pre_attn_scalar": 24}),
    "gemma2-caps": ("gemma2", {"head_dim": 16, "sliding_window": 16, "query_pre_attn_scalar": 16,
                               "final_logit_softcapping": 5.0, "attn_logit_softcapping": 2.0}),
    "gemma3": ("gemma3_text", {"head_dim": 32, "sliding_window": 16, "query_pre_attn_scalar": 24,
                               "num_hidden_layers": 7}),
    "gemma3-linear": ("gemma3_text", {
        "head_dim": 32, "sliding_window": 16, "num_hidden_layers": 7, "rope_parameters": {
            "sliding_attention": rope(), "full_attention": rope("linear", 1e6, factor=8.0)}}),
    "phi": ("phi", {"num_key_value_heads": 4, "rope_parameters": rope(partial_rotary_factor=0.5)}),
    "phi3": ("phi3", {}),
    "phi3-window": ("phi3", {"sliding_window": 16}),
    "phi3-longrope": ("phi3", {"original_max_position_embeddings": 256, "rope_parameters": {
        **LONGROPE, "partial_rotary_factor": 1.0}, "max_position_embeddings": 1024}),
    "phi3-longrope-far": ("phi3", {"original_max_position_embeddings": 256, "rope_parameters": {
        **LONGROPE, "partial_rotary_factor": 1.0}, "max_position_embeddings": 1024}),
    "mixtral-window": ("mixtral", {**LOCAL, "sliding_window": 16}),
    "phi3-partial": ("phi3", {"rope_parameters": rope(partial_rotary_factor=0.75), "head_dim": 16}),
    "olmo": ("olmo", {}),
    "olmo-clip": ("olmo", {"clip_qkv": 1.0}),
    "olmo2": ("olmo2", {}),
    "olmo3": ("olmo3", {"sliding_window": 16}),
    "olmoe": ("olmoe", {"num_experts": 6, "num_experts_per_tok": 2, "norm_topk_prob": False}),
    "olmoe-topk": ("olmoe", {"num_experts": 6, "num_experts_per_tok": 2, "norm_topk_prob": True}),
    "granite": ("granite", {"embedding_multiplier": 3.0, "logits_scaling": 2.0,
                            "residual_multiplier": 0.5, "attention_multiplier": 0.2}),
    "granite-plain": ("granite", {}),
    "granitemoe": ("granitemoe", {**LOCAL, "embedding_multiplier": 3.0, "logits_scaling": 2.0,
                                  "residual_multiplier": 0.5, "attention_multiplier": 0.2}),
    "smollm3": ("smollm3", {"no_rope_layer_interval": 2}),
    "smollm3-list": ("smollm3", {"no_rope_layers": [1, 0, 0, 1]}),
    "gpt-oss": ("gpt_oss", {**LOCAL, "head_dim": 16, "sliding_window": 16, "intermediate_size": 64,
                            "rope_parameters": rope("yarn", 150000.0, truncate=False, beta_fast=32.0,
                                                    beta_slow=1.0, **LONG)}),
    "stablelm": ("stablelm", {"rope_parameters": rope(partial_rotary_factor=0.25)}),
    "stablelm-biases": ("stablelm", {"use_qkv_bias": True}),
    "stablelm-parallel": ("stablelm", {"use_parallel_residual": True, "qk_layernorm": True}),
    "starcoder2": ("starcoder2", {"sliding_window": None}),
    "starcoder2-window": ("starcoder2", {"sliding_window": 16, "use_bias": False}),
    "cohere": ("cohere", {"logit_scale": 0.25}),
    "cohere-qk": ("cohere", {"use_qk_norm": True}),
    "cohere2": ("cohere2", {"sliding_window": 16, "head_dim": 16}),
    "exaone4": ("exaone4", {"sliding_window": 16, "sliding_window_pattern": 2}),
    "exaone4-dense": ("exaone4", {"sliding_window": None, "layer_types": ["full_attention"] * 4}),
    "nemotron": ("nemotron", {"head_dim": 16}),
    "arcee": ("arcee", {"head_dim": 16}),
    "arcee-yarn": ("arcee", {"head_dim": 16, "rope_parameters": rope("yarn", **LONG)}),
    "ernie4_5": ("ernie4_5", {"head_dim": 16}),
    "ernie4_5-biases": ("ernie4_5", {"head_dim": 16, "use_bias": True, **UNTIED}),
    "seed_oss": ("seed_oss", {"head_dim": 16}),
    "hunyuan": ("hunyuan_v1_dense", {"head_dim": 16}),
    "hunyuan-alpha": ("hunyuan_v1_dense", {"head_dim": 16, "rope_parameters": rope("dynamic", alpha=1000.0,
                                                                                factor=1.0)}),
    "glm4": ("glm4", {"head_dim": 16}),
}
# Longer than the original context: computed by a server with room for it.
FAR = [(5 * i * i + 9 * i + 4) % 62 + 2 for i in range(300)]
OLD = ["llama", "llama-linear", "llama-dynamic", "llama-yarn", "llama3", "llama-longrope", "gemma3",
       "gemma3-linear", "phi", "phi3-longrope", "phi3-partial", "gpt-oss", "qwen3-yarn", "olmo3", "nemotron",
       "stablelm", "hunyuan-alpha", "glm4"]


def old_spelling(config):
    """As transformers before version 5 wrote rope: rope_theta and rope_scaling. The class is
    left out, too: model_type says enough."""
    config = copy.deepcopy(config)
    del config["architectures"]
    parameters = config.pop("rope_parameters")
    if "full_attention" in parameters:
        local, parameters = parameters["sliding_attention"], parameters["full_attention"]
        if local["rope_theta"] != parameters["rope_theta"]:
            config["rope_local_base_freq"] = local["rope_theta"]
    config["rope_theta"] = parameters.pop("rope_theta")
    if "partial_rotary_factor" in parameters:
        config["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
    config["rope_scaling"] = parameters if parameters["rope_type"] != "default" else None
    return config


def compute(kind, more, prompts):
    settings = transformers.AutoConfig.for_model(kind, **{**SIZES, **more})
    settings._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(settings).eval().to(torch.float32)
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        config = json.loads(pathlib.Path(scratch, "config.json").read_text())
        file = pathlib.Path(scratch, "model.safetensors")
        shapes = {name: list(t.shape) for name, t in safetensors.torch.load_file(file).items()}
        safetensors.torch.save_file(
            {name: torch.tensor(folders.values(name, shape)).reshape(shape)
             for name, shape in shapes.items()}, file, metadata={"format": "pt"})
        model = transformers.AutoModelForCausalLM.from_pretrained(
            scratch, attn_implementation="eager", dtype=torch.float32).eval()
        with torch.no_grad():
            numbers = [model(torch.tensor([ids])).logits[0, -1].log_softmax(-1).tolist()
                       for ids in prompts]
    config = {k: v for k, v in config.items() if k not in DROPPED}
    return config, dict(sorted(shapes.items())), [[float(f"{x:.6g}") for x in row] for row in numbers]


def main():
    path = pathlib.Path(sys.argv[1])
    names = sys.argv[2:] or list(CASES)
    results = json.loads(path.read_text())["cases"] if sys.argv[2:] and path.exists() else {}
    for name in names:
        try:
            prompts = [FAR] if name.endswith("-far") else PROMPTS
            config, shapes, numbers = compute(*CASES[name], prompts)
        except Exception as error:  # a case that transformers cannot compute is no case
            print(f"{name}: {type(error).__name__}: {error}")
            continue
        results[name] = {"config": config, "tensors": shapes, "expected": numbers}
        if prompts is not PROMPTS:
            results[name].update(prompts=prompts, n_ctx=1024)
        if name in OLD:
            results[name + "-old"] = {"config": old_spelling(config), "as": name}
        print(name, len(shapes), numbers[-1][:3], flush=True)
    body = ",\n".join(f'{json.dumps(k)}: {json.dumps(v)}' for k, v in results.items())
    head = {"transformers": transformers.__version__, "torch": torch.__version__, "prompts": PROMPTS}
    path.write_text(json.dumps(head)[:-1] + ',\n"cases": {\n' + body + "\n}}\n")


main()
