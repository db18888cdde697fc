/* arch.c - the table of architectures. A new family is a row here. */
#include "model/arch/arch.h"

#include <string.h>

static const struct weight_name usual_names[WEIGHT_COUNT] = {
    {WEIGHT_TOKEN_EMBD, "token_embd", "embed_tokens|tok_embeddings|wte"},
    {WEIGHT_TOKEN_TYPES, "token_types", "embeddings.token_type_embeddings"},
    {WEIGHT_POSITION_EMBD, "position_embd", "embeddings.position_embeddings"},
    {WEIGHT_EMBD_NORM, "token_embd_norm", "embeddings.LayerNorm"},
    {WEIGHT_OUTPUT_NORM, "output_norm", "norm"},
    {WEIGHT_OUTPUT, "output", "lm_head"},
    {WEIGHT_ROPE_FREQS, "rope_freqs", NULL},
    {WEIGHT_ROPE_LONG, "rope_factors_long", NULL},
    {WEIGHT_ROPE_SHORT, "rope_factors_short", NULL},
    {WEIGHT_CLS, "cls", NULL},
    {WEIGHT_CLS_NORM, "cls.norm", NULL},
    {WEIGHT_CLS_OUT, "cls.output", "score"},
    {WEIGHT_DENSE_1, "dense_2", NULL},
    {WEIGHT_DENSE_2, "dense_3", NULL},
    {WEIGHT_ATTN_NORM, "attn_norm", "input_layernorm"},
    {WEIGHT_ATTN_Q, "attn_q", "self_attn.q_proj"},
    {WEIGHT_ATTN_K, "attn_k", "self_attn.k_proj"},
    {WEIGHT_ATTN_V, "attn_v", "self_attn.v_proj"},
    {WEIGHT_ATTN_QKV, "attn_qkv", "self_attn.qkv_proj"},
    {WEIGHT_ATTN_OUT, "attn_output", "self_attn.o_proj|self_attn.dense"},
    {WEIGHT_ATTN_Q_NORM, "attn_q_norm", "self_attn.q_norm"},
    {WEIGHT_ATTN_K_NORM, "attn_k_norm", "self_attn.k_norm"},
    {WEIGHT_ATTN_SINKS, "attn_sinks", "self_attn.sinks"},
    {WEIGHT_ATTN_POST_NORM, "post_attention_norm", "post_attention_layernorm"},
    {WEIGHT_ATTN_POST_NORM_2, "attn_norm_2", NULL},
    {WEIGHT_FFN_NORM, "ffn_norm", "post_attention_layernorm"},
    {WEIGHT_FFN_GATE, "ffn_gate", "mlp.gate_proj"},
    {WEIGHT_FFN_UP, "ffn_up", "mlp.up_proj"},
    {WEIGHT_FFN_GATE_UP, "ffn_up", "mlp.gate_up_proj"},
    {WEIGHT_FFN_DOWN, "ffn_down", "mlp.down_proj"},
    {WEIGHT_FFN_POST_NORM, "post_ffw_norm", "post_feedforward_layernorm"},
    {WEIGHT_ROUTER, "ffn_gate_inp", "mlp.gate|mlp.router"},
    {WEIGHT_ROUTER_BIAS, "exp_probs_b", "mlp.gate.e_score_correction_bias"},
    {WEIGHT_GATE_EXPS, "ffn_gate_exps",
     "mlp.experts.{e}.gate_proj|mlp.switch_mlp.gate_proj|mlp.experts.gate_proj"},
    {WEIGHT_UP_EXPS, "ffn_up_exps",
     "mlp.experts.{e}.up_proj|mlp.switch_mlp.up_proj|mlp.experts.up_proj"},
    {WEIGHT_GATE_UP_EXPS, "ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
    {WEIGHT_DOWN_EXPS, "ffn_down_exps",
     "mlp.experts.{e}.down_proj|mlp.switch_mlp.down_proj|mlp.experts.down_proj"},
    {WEIGHT_SHARED_ROUTER, "ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {WEIGHT_GATE_SHARED, "ffn_gate_shexp",
     "mlp.shared_expert.gate_proj|mlp.shared_experts.gate_proj"},
    {WEIGHT_UP_SHARED, "ffn_up_shexp", "mlp.shared_expert.up_proj|mlp.shared_experts.up_proj"},
    {WEIGHT_DOWN_SHARED, "ffn_down_shexp",
     "mlp.shared_expert.down_proj|mlp.shared_experts.down_proj"},
};

/* ---- sets of weights that go together ------------------------------------ */

#define QKV_SPLIT                                                                                  \
    (WEIGHT_BIT(WEIGHT_ATTN_Q) | WEIGHT_BIT(WEIGHT_ATTN_K) | WEIGHT_BIT(WEIGHT_ATTN_V))
#define QKV       (QKV_SPLIT | WEIGHT_BIT(WEIGHT_ATTN_QKV))
#define ENDS      (WEIGHT_BIT(WEIGHT_TOKEN_EMBD) | WEIGHT_BIT(WEIGHT_OUTPUT_NORM))
#define TIES      WEIGHT_BIT(WEIGHT_OUTPUT)
#define ATTENTION (WEIGHT_BIT(WEIGHT_ATTN_NORM) | WEIGHT_BIT(WEIGHT_ATTN_OUT))
#define GATED                                                                                      \
    (WEIGHT_BIT(WEIGHT_FFN_GATE) | WEIGHT_BIT(WEIGHT_FFN_UP) | WEIGHT_BIT(WEIGHT_FFN_GATE_UP) |    \
     WEIGHT_BIT(WEIGHT_FFN_DOWN))
#define PLAIN_FFN (WEIGHT_BIT(WEIGHT_FFN_UP) | WEIGHT_BIT(WEIGHT_FFN_DOWN))
#define EXPERTS                                                                                    \
    (WEIGHT_BIT(WEIGHT_ROUTER) | WEIGHT_BIT(WEIGHT_GATE_EXPS) | WEIGHT_BIT(WEIGHT_UP_EXPS) |       \
     WEIGHT_BIT(WEIGHT_GATE_UP_EXPS) | WEIGHT_BIT(WEIGHT_DOWN_EXPS))
#define SHARED                                                                                     \
    (WEIGHT_BIT(WEIGHT_GATE_SHARED) | WEIGHT_BIT(WEIGHT_UP_SHARED) | WEIGHT_BIT(WEIGHT_DOWN_SHARED))
#define QK_NORMS   (WEIGHT_BIT(WEIGHT_ATTN_Q_NORM) | WEIGHT_BIT(WEIGHT_ATTN_K_NORM))
#define POST_NORMS (WEIGHT_BIT(WEIGHT_ATTN_POST_NORM) | WEIGHT_BIT(WEIGHT_FFN_POST_NORM))
#define FFN_NORM   WEIGHT_BIT(WEIGHT_FFN_NORM)
#define FREQS      WEIGHT_BIT(WEIGHT_ROPE_FREQS)
#define LONGROPE   (WEIGHT_BIT(WEIGHT_ROPE_LONG) | WEIGHT_BIT(WEIGHT_ROPE_SHORT))
#define DENSE      (WEIGHT_BIT(WEIGHT_DENSE_1) | WEIGHT_BIT(WEIGHT_DENSE_2))
#define CLASSIFIER (WEIGHT_BIT(WEIGHT_CLS) | WEIGHT_BIT(WEIGHT_CLS_OUT))
#define ENCODER_NEEDS                                                                              \
    (WEIGHT_BIT(WEIGHT_TOKEN_EMBD) | WEIGHT_BIT(WEIGHT_EMBD_NORM) | WEIGHT_BIT(WEIGHT_ATTN_OUT) |  \
     POST_NORMS)
#define LLAMA_NEEDS (ENDS | ATTENTION | FFN_NORM)
#define LLAMA_MAY   (TIES | QKV | GATED)

/* ---- names that differ ----------------------------------------------------- */

static const struct weight_name llama_names[] = {
    {WEIGHT_ROUTER, "ffn_gate_inp", "block_sparse_moe.gate|mlp.gate"},
    {WEIGHT_GATE_EXPS, "ffn_gate_exps",
     "block_sparse_moe.experts.{e}.w1|block_sparse_moe.switch_mlp.gate_proj|"
     "mlp.experts.{e}.gate_proj"},
    {WEIGHT_UP_EXPS, "ffn_up_exps",
     "block_sparse_moe.experts.{e}.w3|block_sparse_moe.switch_mlp.up_proj|mlp.experts.{e}.up_proj"},
    {WEIGHT_DOWN_EXPS, "ffn_down_exps",
     "block_sparse_moe.experts.{e}.w2|block_sparse_moe.switch_mlp.down_proj|"
     "mlp.experts.{e}.down_proj"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name gemma_embedding_names[] = {
    {WEIGHT_FFN_NORM, "ffn_norm", "pre_feedforward_layernorm"},
    {WEIGHT_DENSE_1, "dense_2", "2_Dense/linear"},
    {WEIGHT_DENSE_2, "dense_3", "3_Dense/linear"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name gemma_names[] = {
    {WEIGHT_FFN_NORM, "ffn_norm", "pre_feedforward_layernorm"}, {WEIGHT_COUNT, NULL, NULL}};

/* One norm between attention and experts, under the name of a post norm. */
static const struct weight_name gpt_oss_names[] = {
    {WEIGHT_FFN_NORM, "post_attention_norm|ffn_norm", "post_attention_layernorm"},
    {WEIGHT_ROUTER, "ffn_gate_inp", "mlp.router"},
    {WEIGHT_GATE_EXPS, "ffn_gate_exps", "mlp.experts.gate_proj"},
    {WEIGHT_UP_EXPS, "ffn_up_exps", "mlp.experts.up_proj"},
    {WEIGHT_DOWN_EXPS, "ffn_down_exps", "mlp.experts.down_proj"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name granite_moe_names[] = {
    {WEIGHT_ROUTER, "ffn_gate_inp", "block_sparse_moe.router.layer"},
    {WEIGHT_GATE_EXPS, "ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj"},
    {WEIGHT_UP_EXPS, "ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj"},
    {WEIGHT_GATE_UP_EXPS, "ffn_gate_up_exps", "block_sparse_moe.input_linear"},
    {WEIGHT_DOWN_EXPS, "ffn_down_exps",
     "block_sparse_moe.output_linear|block_sparse_moe.switch_mlp.down_proj"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name stablelm_names[] = {
    {WEIGHT_ATTN_Q_NORM, "attn_q_norm", "self_attn.q_layernorm"},
    {WEIGHT_ATTN_K_NORM, "attn_k_norm", "self_attn.k_layernorm"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name starcoder2_names[] = {{WEIGHT_FFN_UP, "ffn_up", "mlp.c_fc"},
                                                      {WEIGHT_FFN_DOWN, "ffn_down", "mlp.c_proj"},
                                                      {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name phi2_names[] = {
    {WEIGHT_OUTPUT_NORM, "output_norm", "final_layernorm"},
    {WEIGHT_FFN_UP, "ffn_up", "mlp.fc1"},
    {WEIGHT_FFN_DOWN, "ffn_down", "mlp.fc2"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name hunyuan_names[] = {
    {WEIGHT_ATTN_Q_NORM, "attn_q_norm", "self_attn.query_layernorm"},
    {WEIGHT_ATTN_K_NORM, "attn_k_norm", "self_attn.key_layernorm"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name glm4_names[] = {
    {WEIGHT_ATTN_POST_NORM, "post_attention_norm", "post_self_attn_layernorm"},
    {WEIGHT_FFN_POST_NORM, "post_ffw_norm", "post_mlp_layernorm"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name bert_names[] = {
    {WEIGHT_TOKEN_EMBD, "token_embd", "embeddings.word_embeddings"},
    {WEIGHT_CLS, "cls", "pooler.dense|classifier.dense"},
    {WEIGHT_CLS_OUT, "cls.output", "classifier.out_proj|classifier"},
    {WEIGHT_ATTN_Q, "attn_q", "attention.self.query"},
    {WEIGHT_ATTN_K, "attn_k", "attention.self.key"},
    {WEIGHT_ATTN_V, "attn_v", "attention.self.value"},
    {WEIGHT_ATTN_OUT, "attn_output", "attention.output.dense"},
    {WEIGHT_ATTN_POST_NORM, "attn_output_norm", "attention.output.LayerNorm"},
    {WEIGHT_FFN_UP, "ffn_up", "intermediate.dense"},
    {WEIGHT_FFN_DOWN, "ffn_down", "output.dense"},
    {WEIGHT_FFN_POST_NORM, "layer_output_norm", "output.LayerNorm"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name jina_bert_names[] = {
    {WEIGHT_TOKEN_EMBD, "token_embd", "embeddings.word_embeddings"},
    {WEIGHT_CLS, "cls", NULL},
    {WEIGHT_CLS_OUT, "cls.output", NULL},
    {WEIGHT_ATTN_Q, "attn_q", "attention.self.query"},
    {WEIGHT_ATTN_K, "attn_k", "attention.self.key"},
    {WEIGHT_ATTN_V, "attn_v", "attention.self.value"},
    {WEIGHT_ATTN_Q_NORM, "attn_q_norm", "attention.self.layer_norm_q"},
    {WEIGHT_ATTN_K_NORM, "attn_k_norm", "attention.self.layer_norm_k"},
    {WEIGHT_ATTN_OUT, "attn_output", "attention.output.dense"},
    {WEIGHT_ATTN_POST_NORM, "attn_output_norm", "attention.output.LayerNorm"},
    {WEIGHT_FFN_GATE, "ffn_gate", NULL},
    {WEIGHT_FFN_GATE_UP, "ffn_up", "mlp.gated_layers"},
    {WEIGHT_FFN_UP, "ffn_up", NULL},
    {WEIGHT_FFN_DOWN, "ffn_down", "mlp.wo"},
    {WEIGHT_FFN_POST_NORM, "layer_output_norm", "mlp.layernorm"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name nomic_bert_names[] = {
    {WEIGHT_TOKEN_EMBD, "token_embd", "embeddings.word_embeddings"},
    {WEIGHT_EMBD_NORM, "token_embd_norm", "emb_ln"},
    {WEIGHT_ATTN_QKV, "attn_qkv", "attn.Wqkv"},
    {WEIGHT_ATTN_OUT, "attn_output", "attn.out_proj"},
    {WEIGHT_ATTN_POST_NORM, "attn_output_norm", "norm1"},
    {WEIGHT_FFN_GATE, "ffn_gate", "mlp.fc12"},
    {WEIGHT_FFN_UP, "ffn_up", "mlp.fc11|mlp.fc1"},
    {WEIGHT_FFN_DOWN, "ffn_down", "mlp.fc2"},
    {WEIGHT_FFN_POST_NORM, "layer_output_norm", "norm2"},
    {WEIGHT_ROUTER, "ffn_gate_inp", "mlp.router.layer"},
    {WEIGHT_UP_EXPS, "ffn_up_exps", "mlp.experts.mlp.w1"},
    {WEIGHT_DOWN_EXPS, "ffn_down_exps", "mlp.experts.mlp.w2"},
    {WEIGHT_COUNT, NULL, NULL}};

static const struct weight_name modern_bert_names[] = {
    {WEIGHT_TOKEN_EMBD, "token_embd", "embeddings.tok_embeddings"},
    {WEIGHT_EMBD_NORM, "token_embd_norm", "embeddings.norm"},
    {WEIGHT_OUTPUT_NORM, "output_norm", "final_norm"},
    {WEIGHT_CLS, "cls", "head.dense"},
    {WEIGHT_CLS_NORM, "cls.norm", "head.norm"},
    {WEIGHT_CLS_OUT, "cls.output", "classifier"},
    {WEIGHT_ATTN_NORM, "attn_norm", "attn_norm"},
    {WEIGHT_ATTN_QKV, "attn_qkv", "attn.Wqkv"},
    {WEIGHT_ATTN_OUT, "attn_output", "attn.Wo"},
    {WEIGHT_FFN_NORM, "ffn_norm", "mlp_norm"},
    {WEIGHT_FFN_GATE_UP, "ffn_up", "mlp.Wi"},
    {WEIGHT_FFN_DOWN, "ffn_down", "mlp.Wo"},
    {WEIGHT_COUNT, NULL, NULL}};

/* ---- the table --------------------------------------------------------------- */

static const struct arch architectures[] = {
    {.name = "llama",
     .hf = {"LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "LlamaModel"},
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NEOX,
     .gating = GATING_SOFTMAX,
     .traits = ARCH_NORM_TOPK,
     .needs = LLAMA_NEEDS,
     .may = LLAMA_MAY | EXPERTS | FREQS | LONGROPE,
     .names = llama_names},
    {.name = "qwen2",
     .hf = {"Qwen2ForCausalLM", "Qwen2Model"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .needs = LLAMA_NEEDS,
     .may = LLAMA_MAY},
    {.name = "qwen2moe",
     .hf = {"Qwen2MoeForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .gating = GATING_SOFTMAX,
     .traits = ARCH_NORM_TOPK_HF,
     .needs = LLAMA_NEEDS | SHARED | WEIGHT_BIT(WEIGHT_SHARED_ROUTER),
     .may = LLAMA_MAY | EXPERTS},
    {.name = "qwen3",
     .hf = {"Qwen3ForCausalLM", "Qwen3Model"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .needs = LLAMA_NEEDS | QK_NORMS,
     .may = LLAMA_MAY | WEIGHT_BIT(WEIGHT_CLS_OUT)},
    {.name = "qwen3moe",
     .hf = {"Qwen3MoeForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .gating = GATING_SOFTMAX,
     .traits = ARCH_NORM_TOPK | ARCH_NORM_TOPK_HF,
     .needs = LLAMA_NEEDS | QK_NORMS,
     .may = LLAMA_MAY | EXPERTS},
    {.name = "gemma",
     .hf = {"GemmaForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_GELU,
     .traits = ARCH_NORM_PLUS_ONE | ARCH_EMBD_SCALE_SQRT | ARCH_MUST_TIE,
     .needs = LLAMA_NEEDS,
     .may = LLAMA_MAY},
    {.name = "gemma2",
     .hf = {"Gemma2ForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_GELU,
     .swa_period = 2,
     .swa_window = 4096,
     .wide_query_layers = 46,
     .traits = ARCH_NORM_PLUS_ONE | ARCH_EMBD_SCALE_SQRT | ARCH_MUST_TIE,
     .needs = LLAMA_NEEDS | POST_NORMS,
     .may = LLAMA_MAY,
     .names = gemma_names},
    {.name = "gemma3",
     .hf = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_GELU,
     .swa_period = 6,
     .swa_freq_base = 10000.0f,
     .wide_query_layers = 62,
     .traits = ARCH_NORM_PLUS_ONE | ARCH_EMBD_SCALE_SQRT | ARCH_SWA_OWN_ROPE,
     .needs = LLAMA_NEEDS | POST_NORMS | QK_NORMS,
     .may = LLAMA_MAY,
     .names = gemma_names},
    {.name = "phi2",
     .hf = {"PhiForCausalLM"},
     .norm = NORM_LAYER,
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_GELU,
     .traits = ARCH_PARALLEL | ARCH_NO_GATE,
     .needs = ENDS | TIES | ATTENTION | PLAIN_FFN,
     .may = QKV,
     .names = phi2_names},
    {.name = "phi3",
     .hf = {"Phi3ForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .traits = ARCH_SWA_IGNORED,
     .needs = LLAMA_NEEDS | WEIGHT_BIT(WEIGHT_ATTN_QKV) | WEIGHT_BIT(WEIGHT_FFN_GATE_UP),
     .may = LLAMA_MAY | LONGROPE},
    {.name = "olmo",
     .hf = {"OlmoForCausalLM"},
     .norm = NORM_LAYER,
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NEOX,
     .traits = ARCH_BARE_NORM,
     .needs = WEIGHT_BIT(WEIGHT_TOKEN_EMBD) | WEIGHT_BIT(WEIGHT_ATTN_OUT),
     .may = LLAMA_MAY},
    {.name = "olmo2",
     .hf = {"Olmo2ForCausalLM", "Olmo3ForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .swa_period = 4,
     .traits = ARCH_SWA_OWN_ROPE,
     .needs = ENDS | TIES | WEIGHT_BIT(WEIGHT_ATTN_OUT) | QK_NORMS | POST_NORMS,
     .may = QKV | GATED},
    {.name = "olmoe",
     .hf = {"OlmoeForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .gating = GATING_SOFTMAX,
     .traits = ARCH_NORM_TOPK_HF,
     .needs = LLAMA_NEEDS | QK_NORMS,
     .may = TIES | QKV | EXPERTS},
    {.name = "granite",
     .hf = {"GraniteForCausalLM"},
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NEOX,
     .traits = ARCH_LOGIT_SCALE_DIV | ARCH_ROPE_SWITCH,
     .needs = LLAMA_NEEDS,
     .may = LLAMA_MAY | FREQS},
    {.name = "granitemoe",
     .hf = {"GraniteMoeForCausalLM"},
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NEOX,
     .gating = GATING_SOFTMAX,
     .traits = ARCH_LOGIT_SCALE_DIV | ARCH_ROPE_SWITCH | ARCH_NORM_TOPK,
     .needs = LLAMA_NEEDS,
     .may = TIES | QKV | EXPERTS | SHARED,
     .names = granite_moe_names},
    {.name = "smollm3",
     .hf = {"SmolLM3ForCausalLM"},
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NEOX,
     .no_rope_step = 4,
     .needs = LLAMA_NEEDS,
     .may = LLAMA_MAY},
    {.name = "gpt-oss",
     .hf = {"GptOssForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .swa_period = 2,
     .traits = ARCH_SWIGLU_OAI | ARCH_TURNED_EXPERTS,
     .gating = GATING_SOFTMAX_TOPK,
     .needs = LLAMA_NEEDS | TIES | WEIGHT_BIT(WEIGHT_ATTN_SINKS),
     .may = QKV | EXPERTS,
     .names = gpt_oss_names},
    {.name = "stablelm",
     .hf = {"StableLmForCausalLM", "StableLMEpochForCausalLM"},
     .norm = NORM_LAYER,
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .traits = ARCH_PARALLEL,
     .needs = ENDS | ATTENTION,
     .may = LLAMA_MAY | FFN_NORM | QK_NORMS,
     .names = stablelm_names},
    {.name = "starcoder2",
     .hf = {"Starcoder2ForCausalLM"},
     .norm = NORM_LAYER,
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_GELU,
     .traits = ARCH_NO_GATE,
     .needs = LLAMA_NEEDS | PLAIN_FFN,
     .may = TIES | QKV,
     .names = starcoder2_names},
    {.name = "command-r",
     .hf = {"CohereForCausalLM"},
     .norm = NORM_LAYER,
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NORMAL,
     .traits = ARCH_PARALLEL | ARCH_MUST_TIE,
     .needs = ENDS | ATTENTION,
     .may = LLAMA_MAY | QK_NORMS},
    {.name = "cohere2",
     .hf = {"Cohere2ForCausalLM"},
     .norm = NORM_LAYER,
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NORMAL,
     .swa_period = 4,
     .traits = ARCH_PARALLEL | ARCH_MUST_TIE | ARCH_ROPE_ON_SWA_ONLY,
     .needs = ENDS | ATTENTION,
     .may = LLAMA_MAY},
    {.name = "exaone4",
     .hf = {"Exaone4ForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .swa_period = 4,
     .swa_window = 4096,
     .swa_layers = 64,
     .traits = ARCH_ROPE_ON_SWA_ONLY,
     .needs = ENDS | WEIGHT_BIT(WEIGHT_ATTN_OUT) | QK_NORMS | POST_NORMS,
     .may = TIES | QKV | GATED | FREQS},
    {.name = "nemotron",
     .hf = {"NemotronForCausalLM"},
     .norm = NORM_LAYER,
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_RELU_SQR,
     .traits = ARCH_NO_GATE | ARCH_NORM_PLUS_ONE,
     .needs = LLAMA_NEEDS | TIES | PLAIN_FFN,
     .may = QKV},
    {.name = "arcee",
     .hf = {"ArceeForCausalLM"},
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NEOX,
     .act = ACT_RELU_SQR,
     .traits = ARCH_NO_GATE,
     .needs = LLAMA_NEEDS | PLAIN_FFN,
     .may = TIES | QKV | FREQS},
    {.name = "ernie4_5",
     .hf = {"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"},
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NORMAL,
     .needs = LLAMA_NEEDS,
     .may = LLAMA_MAY},
    {.name = "seed_oss",
     .hf = {"SeedOssForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .needs = LLAMA_NEEDS,
     .may = LLAMA_MAY,
     .names = gpt_oss_names},
    {.name = "hunyuan-dense",
     .hf = {"HunYuanDenseV1ForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .traits = ARCH_QK_NORM_LATE,
     .needs = LLAMA_NEEDS | QK_NORMS,
     .may = LLAMA_MAY,
     .names = hunyuan_names},
    {.name = "glm4",
     .hf = {"Glm4ForCausalLM"},
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NORMAL,
     .needs = LLAMA_NEEDS | POST_NORMS,
     .may = LLAMA_MAY,
     .names = glm4_names},
    {.name = "bert",
     .hf = {"BertModel", "BertForMaskedLM", "BertForSequenceClassification", "XLMRobertaModel",
            "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification", "RobertaModel",
            "RobertaForMaskedLM", "RobertaForSequenceClassification", "CamembertModel"},
     .hf_layers = "encoder.layer.",
     .norm = NORM_LAYER,
     .act = ACT_GELU,
     .traits = ARCH_ENCODER | ARCH_NORM_AFTER | ARCH_NO_GATE | ARCH_NO_ROPE,
     .needs = ENCODER_NEEDS | WEIGHT_BIT(WEIGHT_POSITION_EMBD) | PLAIN_FFN,
     .may = QKV | WEIGHT_BIT(WEIGHT_TOKEN_TYPES) | CLASSIFIER,
     .names = bert_names},
    {.name = "jina-bert-v2",
     .hf = {"JinaBertModel", "JinaBertForMaskedLM"},
     .hf_layers = "encoder.layer.",
     .norm = NORM_LAYER,
     .act = ACT_GELU,
     .traits = ARCH_ENCODER | ARCH_NORM_AFTER | ARCH_NO_ROPE | ARCH_ALIBI,
     .needs = ENCODER_NEEDS | WEIGHT_BIT(WEIGHT_TOKEN_TYPES),
     .may = QKV | GATED | QK_NORMS | WEIGHT_BIT(WEIGHT_ATTN_POST_NORM_2) | WEIGHT_BIT(WEIGHT_CLS),
     .names = jina_bert_names},
    {.name = "nomic-bert",
     .hf = {"NomicBertModel"},
     .hf_layers = "encoder.layers.",
     .norm = NORM_LAYER,
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .traits = ARCH_ENCODER | ARCH_NORM_AFTER,
     .needs = ENCODER_NEEDS,
     .may = QKV | GATED | WEIGHT_BIT(WEIGHT_TOKEN_TYPES),
     .names = nomic_bert_names},
    {.name = "nomic-bert-moe",
     .norm = NORM_LAYER,
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_GELU,
     .gating = GATING_SOFTMAX,
     .traits = ARCH_ENCODER | ARCH_NORM_AFTER | ARCH_NO_GATE,
     .needs = ENCODER_NEEDS,
     .may = QKV | PLAIN_FFN | EXPERTS | WEIGHT_BIT(WEIGHT_TOKEN_TYPES),
     .names = nomic_bert_names},
    {.name = "modern-bert",
     .hf = {"ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification"},
     .norm = NORM_LAYER,
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_GELU,
     .swa_period = 3,
     .swa_freq_base = 10000.0f,
     .traits = ARCH_ENCODER | ARCH_SWA_OWN_ROPE | ARCH_SWA_SYMMETRIC | ARCH_SWA_DENSE_FIRST |
               ARCH_CLS_MEAN_GELU,
     .needs = ENDS | FFN_NORM | WEIGHT_BIT(WEIGHT_EMBD_NORM) | WEIGHT_BIT(WEIGHT_ATTN_OUT) |
              WEIGHT_BIT(WEIGHT_ATTN_QKV) | WEIGHT_BIT(WEIGHT_FFN_GATE_UP) |
              WEIGHT_BIT(WEIGHT_FFN_DOWN),
     .may = QKV | GATED | WEIGHT_BIT(WEIGHT_ATTN_NORM) | CLASSIFIER | WEIGHT_BIT(WEIGHT_CLS_NORM),
     .names = modern_bert_names},
    {.name = "gemma-embedding",
     .hf = {"Gemma3TextModel"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_GELU,
     .swa_period = 6,
     .swa_freq_base = 10000.0f,
     .traits = ARCH_ENCODER | ARCH_NORM_PLUS_ONE | ARCH_EMBD_SCALE_SQRT | ARCH_SWA_OWN_ROPE |
               ARCH_SWA_SYMMETRIC | ARCH_MATRYOSHKA,
     .needs = LLAMA_NEEDS | POST_NORMS | QK_NORMS,
     .may = LLAMA_MAY | DENSE,
     .names = gemma_embedding_names},
};

size_t arch_count(void)
{
    return sizeof architectures / sizeof *architectures;
}

const struct arch *arch_at(size_t i)
{
    return &architectures[i];
}

static bool same(const char *known, const char *name, size_t len)
{
    return strlen(known) == len && memcmp(known, name, len) == 0;
}

const struct arch *arch_by_name(const char *name, size_t len)
{
    for (size_t i = 0; i < arch_count(); i++)
        if (same(architectures[i].name, name, len))
            return &architectures[i];
    return NULL;
}

const struct arch *arch_by_hf(const char *name, size_t len)
{
    for (size_t i = 0; i < arch_count(); i++)
        for (size_t k = 0; k < ARCH_HF_MAX && architectures[i].hf[k]; k++)
            if (same(architectures[i].hf[k], name, len))
                return &architectures[i];
    return NULL;
}

/* The letters and digits of a name, small; the rest and what is beyond n is left out. */
static size_t fold(struct slice name, char *out, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < name.len && len < n; i++) {
        char c = name.data[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            out[len++] = c;
    }
    return len;
}

/* "Qwen2Moe" of "Qwen2MoeForCausalLM". */
static struct slice stem_of(const char *class_name)
{
    const char *end = strstr(class_name, "For");
    if (!end)
        end = strstr(class_name, "Model");
    return end ? (struct slice){class_name, (size_t)(end - class_name)} : slice_of(class_name);
}

const struct arch *arch_by_model_type(struct slice type)
{
    enum { NAME_MAX_LEN = 64 };
    char wanted[NAME_MAX_LEN], stem[NAME_MAX_LEN];
    if (slice_equal_text(type, "hunyuan_v1_dense")) /* the one that turns its words round */
        return arch_by_hf("HunYuanDenseV1ForCausalLM", strlen("HunYuanDenseV1ForCausalLM"));
    if (slice_ends_with(type, SLICE("_text")))
        type.len -= strlen("_text");
    size_t n = fold(type, wanted, sizeof wanted);
    for (size_t i = 0; i < arch_count(); i++)
        for (size_t k = 0; k < ARCH_HF_MAX && architectures[i].hf[k]; k++)
            if (n > 0 && fold(stem_of(architectures[i].hf[k]), stem, sizeof stem) == n &&
                memcmp(stem, wanted, n) == 0)
                return &architectures[i];
    return NULL;
}

const struct weight_name *arch_weight_name(const struct arch *arch, enum weight_id id)
{
    for (const struct weight_name *n = arch->names; n && n->id != WEIGHT_COUNT; n++)
        if (n->id == id)
            return n;
    return &usual_names[id];
}
