/* arch.c - the table of architectures. A new family is a row here. */
#include "model/arch.h"

#include <string.h>

static const struct slot_name usual_names[SLOT_COUNT] = {
    {SLOT_TOKEN_EMBD, "token_embd", "embed_tokens|tok_embeddings|wte"},
    {SLOT_TOKEN_TYPES, "token_types", "embeddings.token_type_embeddings"},
    {SLOT_POSITION_EMBD, "position_embd", "embeddings.position_embeddings"},
    {SLOT_EMBD_NORM, "token_embd_norm", "embeddings.LayerNorm"},
    {SLOT_OUTPUT_NORM, "output_norm", "norm"},
    {SLOT_OUTPUT, "output", "lm_head"},
    {SLOT_ROPE_FREQS, "rope_freqs", NULL},
    {SLOT_ROPE_LONG, "rope_factors_long", NULL},
    {SLOT_ROPE_SHORT, "rope_factors_short", NULL},
    {SLOT_CLS, "cls", NULL},
    {SLOT_CLS_NORM, "cls.norm", NULL},
    {SLOT_CLS_OUT, "cls.output", "score"},
    {SLOT_DENSE_1, "dense_2", NULL},
    {SLOT_DENSE_2, "dense_3", NULL},
    {SLOT_ATTN_NORM, "attn_norm", "input_layernorm"},
    {SLOT_ATTN_Q, "attn_q", "self_attn.q_proj"},
    {SLOT_ATTN_K, "attn_k", "self_attn.k_proj"},
    {SLOT_ATTN_V, "attn_v", "self_attn.v_proj"},
    {SLOT_ATTN_QKV, "attn_qkv", "self_attn.qkv_proj"},
    {SLOT_ATTN_OUT, "attn_output", "self_attn.o_proj|self_attn.dense"},
    {SLOT_ATTN_Q_NORM, "attn_q_norm", "self_attn.q_norm"},
    {SLOT_ATTN_K_NORM, "attn_k_norm", "self_attn.k_norm"},
    {SLOT_ATTN_SINKS, "attn_sinks", "self_attn.sinks"},
    {SLOT_ATTN_POST_NORM, "post_attention_norm", "post_attention_layernorm"},
    {SLOT_ATTN_POST_NORM_2, "attn_norm_2", NULL},
    {SLOT_FFN_NORM, "ffn_norm", "post_attention_layernorm"},
    {SLOT_FFN_GATE, "ffn_gate", "mlp.gate_proj"},
    {SLOT_FFN_UP, "ffn_up", "mlp.up_proj"},
    {SLOT_FFN_GATE_UP, "ffn_up", "mlp.gate_up_proj"},
    {SLOT_FFN_DOWN, "ffn_down", "mlp.down_proj"},
    {SLOT_FFN_POST_NORM, "post_ffw_norm", "post_feedforward_layernorm"},
    {SLOT_ROUTER, "ffn_gate_inp", "mlp.gate|mlp.router"},
    {SLOT_ROUTER_BIAS, "exp_probs_b", "mlp.gate.e_score_correction_bias"},
    {SLOT_GATE_EXPS, "ffn_gate_exps",
     "mlp.experts.{e}.gate_proj|mlp.switch_mlp.gate_proj|mlp.experts.gate_proj"},
    {SLOT_UP_EXPS, "ffn_up_exps",
     "mlp.experts.{e}.up_proj|mlp.switch_mlp.up_proj|mlp.experts.up_proj"},
    {SLOT_GATE_UP_EXPS, "ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
    {SLOT_DOWN_EXPS, "ffn_down_exps",
     "mlp.experts.{e}.down_proj|mlp.switch_mlp.down_proj|mlp.experts.down_proj"},
    {SLOT_SHARED_ROUTER, "ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {SLOT_GATE_SHARED, "ffn_gate_shexp",
     "mlp.shared_expert.gate_proj|mlp.shared_experts.gate_proj"},
    {SLOT_UP_SHARED, "ffn_up_shexp", "mlp.shared_expert.up_proj|mlp.shared_experts.up_proj"},
    {SLOT_DOWN_SHARED, "ffn_down_shexp",
     "mlp.shared_expert.down_proj|mlp.shared_experts.down_proj"},
};

/* ---- sets of slots that go together -------------------------------------- */

#define QKV_SPLIT (SLOT_BIT(SLOT_ATTN_Q) | SLOT_BIT(SLOT_ATTN_K) | SLOT_BIT(SLOT_ATTN_V))
#define QKV       (QKV_SPLIT | SLOT_BIT(SLOT_ATTN_QKV))
#define ENDS      (SLOT_BIT(SLOT_TOKEN_EMBD) | SLOT_BIT(SLOT_OUTPUT_NORM))
#define TIES      SLOT_BIT(SLOT_OUTPUT)
#define ATTENTION (SLOT_BIT(SLOT_ATTN_NORM) | SLOT_BIT(SLOT_ATTN_OUT))
#define GATED                                                                                      \
    (SLOT_BIT(SLOT_FFN_GATE) | SLOT_BIT(SLOT_FFN_UP) | SLOT_BIT(SLOT_FFN_GATE_UP) |                \
     SLOT_BIT(SLOT_FFN_DOWN))
#define PLAIN_FFN (SLOT_BIT(SLOT_FFN_UP) | SLOT_BIT(SLOT_FFN_DOWN))
#define EXPERTS                                                                                    \
    (SLOT_BIT(SLOT_ROUTER) | SLOT_BIT(SLOT_GATE_EXPS) | SLOT_BIT(SLOT_UP_EXPS) |                   \
     SLOT_BIT(SLOT_GATE_UP_EXPS) | SLOT_BIT(SLOT_DOWN_EXPS))
#define SHARED     (SLOT_BIT(SLOT_GATE_SHARED) | SLOT_BIT(SLOT_UP_SHARED) | SLOT_BIT(SLOT_DOWN_SHARED))
#define QK_NORMS   (SLOT_BIT(SLOT_ATTN_Q_NORM) | SLOT_BIT(SLOT_ATTN_K_NORM))
#define POST_NORMS (SLOT_BIT(SLOT_ATTN_POST_NORM) | SLOT_BIT(SLOT_FFN_POST_NORM))
#define FFN_NORM   SLOT_BIT(SLOT_FFN_NORM)
#define FREQS      SLOT_BIT(SLOT_ROPE_FREQS)
#define LONGROPE   (SLOT_BIT(SLOT_ROPE_LONG) | SLOT_BIT(SLOT_ROPE_SHORT))
#define DENSE      (SLOT_BIT(SLOT_DENSE_1) | SLOT_BIT(SLOT_DENSE_2))
#define CLASSIFIER (SLOT_BIT(SLOT_CLS) | SLOT_BIT(SLOT_CLS_OUT))
#define ENCODER_NEEDS                                                                              \
    (SLOT_BIT(SLOT_TOKEN_EMBD) | SLOT_BIT(SLOT_EMBD_NORM) | SLOT_BIT(SLOT_ATTN_OUT) | POST_NORMS)
#define LLAMA_NEEDS (ENDS | ATTENTION | FFN_NORM)
#define LLAMA_MAY   (TIES | QKV | GATED)

/* ---- names that differ ----------------------------------------------------- */

static const struct slot_name llama_names[] = {
    {SLOT_ROUTER, "ffn_gate_inp", "block_sparse_moe.gate|mlp.gate"},
    {SLOT_GATE_EXPS, "ffn_gate_exps",
     "block_sparse_moe.experts.{e}.w1|block_sparse_moe.switch_mlp.gate_proj|"
     "mlp.experts.{e}.gate_proj"},
    {SLOT_UP_EXPS, "ffn_up_exps",
     "block_sparse_moe.experts.{e}.w3|block_sparse_moe.switch_mlp.up_proj|mlp.experts.{e}.up_proj"},
    {SLOT_DOWN_EXPS, "ffn_down_exps",
     "block_sparse_moe.experts.{e}.w2|block_sparse_moe.switch_mlp.down_proj|"
     "mlp.experts.{e}.down_proj"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name gemma_embedding_names[] = {
    {SLOT_FFN_NORM, "ffn_norm", "pre_feedforward_layernorm"},
    {SLOT_DENSE_1, "dense_2", "2_Dense/linear"},
    {SLOT_DENSE_2, "dense_3", "3_Dense/linear"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name gemma_names[] = {
    {SLOT_FFN_NORM, "ffn_norm", "pre_feedforward_layernorm"}, {SLOT_COUNT, NULL, NULL}};

/* One norm between attention and experts, under the name of a post norm. */
static const struct slot_name gpt_oss_names[] = {
    {SLOT_FFN_NORM, "post_attention_norm|ffn_norm", "post_attention_layernorm"},
    {SLOT_ROUTER, "ffn_gate_inp", "mlp.router"},
    {SLOT_GATE_EXPS, "ffn_gate_exps", "mlp.experts.gate_proj"},
    {SLOT_UP_EXPS, "ffn_up_exps", "mlp.experts.up_proj"},
    {SLOT_DOWN_EXPS, "ffn_down_exps", "mlp.experts.down_proj"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name granite_moe_names[] = {
    {SLOT_ROUTER, "ffn_gate_inp", "block_sparse_moe.router.layer"},
    {SLOT_GATE_EXPS, "ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj"},
    {SLOT_UP_EXPS, "ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj"},
    {SLOT_GATE_UP_EXPS, "ffn_gate_up_exps", "block_sparse_moe.input_linear"},
    {SLOT_DOWN_EXPS, "ffn_down_exps",
     "block_sparse_moe.output_linear|block_sparse_moe.switch_mlp.down_proj"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name stablelm_names[] = {
    {SLOT_ATTN_Q_NORM, "attn_q_norm", "self_attn.q_layernorm"},
    {SLOT_ATTN_K_NORM, "attn_k_norm", "self_attn.k_layernorm"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name starcoder2_names[] = {{SLOT_FFN_UP, "ffn_up", "mlp.c_fc"},
                                                    {SLOT_FFN_DOWN, "ffn_down", "mlp.c_proj"},
                                                    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name phi2_names[] = {{SLOT_OUTPUT_NORM, "output_norm", "final_layernorm"},
                                              {SLOT_FFN_UP, "ffn_up", "mlp.fc1"},
                                              {SLOT_FFN_DOWN, "ffn_down", "mlp.fc2"},
                                              {SLOT_COUNT, NULL, NULL}};

static const struct slot_name hunyuan_names[] = {
    {SLOT_ATTN_Q_NORM, "attn_q_norm", "self_attn.query_layernorm"},
    {SLOT_ATTN_K_NORM, "attn_k_norm", "self_attn.key_layernorm"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name glm4_names[] = {
    {SLOT_ATTN_POST_NORM, "post_attention_norm", "post_self_attn_layernorm"},
    {SLOT_FFN_POST_NORM, "post_ffw_norm", "post_mlp_layernorm"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name bert_names[] = {
    {SLOT_TOKEN_EMBD, "token_embd", "embeddings.word_embeddings"},
    {SLOT_CLS, "cls", "pooler.dense|classifier.dense"},
    {SLOT_CLS_OUT, "cls.output", "classifier.out_proj|classifier"},
    {SLOT_ATTN_Q, "attn_q", "attention.self.query"},
    {SLOT_ATTN_K, "attn_k", "attention.self.key"},
    {SLOT_ATTN_V, "attn_v", "attention.self.value"},
    {SLOT_ATTN_OUT, "attn_output", "attention.output.dense"},
    {SLOT_ATTN_POST_NORM, "attn_output_norm", "attention.output.LayerNorm"},
    {SLOT_FFN_UP, "ffn_up", "intermediate.dense"},
    {SLOT_FFN_DOWN, "ffn_down", "output.dense"},
    {SLOT_FFN_POST_NORM, "layer_output_norm", "output.LayerNorm"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name jina_bert_names[] = {
    {SLOT_TOKEN_EMBD, "token_embd", "embeddings.word_embeddings"},
    {SLOT_CLS, "cls", NULL},
    {SLOT_CLS_OUT, "cls.output", NULL},
    {SLOT_ATTN_Q, "attn_q", "attention.self.query"},
    {SLOT_ATTN_K, "attn_k", "attention.self.key"},
    {SLOT_ATTN_V, "attn_v", "attention.self.value"},
    {SLOT_ATTN_Q_NORM, "attn_q_norm", "attention.self.layer_norm_q"},
    {SLOT_ATTN_K_NORM, "attn_k_norm", "attention.self.layer_norm_k"},
    {SLOT_ATTN_OUT, "attn_output", "attention.output.dense"},
    {SLOT_ATTN_POST_NORM, "attn_output_norm", "attention.output.LayerNorm"},
    {SLOT_FFN_GATE, "ffn_gate", NULL},
    {SLOT_FFN_GATE_UP, "ffn_up", "mlp.gated_layers"},
    {SLOT_FFN_UP, "ffn_up", NULL},
    {SLOT_FFN_DOWN, "ffn_down", "mlp.wo"},
    {SLOT_FFN_POST_NORM, "layer_output_norm", "mlp.layernorm"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name nomic_bert_names[] = {
    {SLOT_TOKEN_EMBD, "token_embd", "embeddings.word_embeddings"},
    {SLOT_EMBD_NORM, "token_embd_norm", "emb_ln"},
    {SLOT_ATTN_QKV, "attn_qkv", "attn.Wqkv"},
    {SLOT_ATTN_OUT, "attn_output", "attn.out_proj"},
    {SLOT_ATTN_POST_NORM, "attn_output_norm", "norm1"},
    {SLOT_FFN_GATE, "ffn_gate", "mlp.fc12"},
    {SLOT_FFN_UP, "ffn_up", "mlp.fc11|mlp.fc1"},
    {SLOT_FFN_DOWN, "ffn_down", "mlp.fc2"},
    {SLOT_FFN_POST_NORM, "layer_output_norm", "norm2"},
    {SLOT_ROUTER, "ffn_gate_inp", "mlp.router.layer"},
    {SLOT_UP_EXPS, "ffn_up_exps", "mlp.experts.mlp.w1"},
    {SLOT_DOWN_EXPS, "ffn_down_exps", "mlp.experts.mlp.w2"},
    {SLOT_COUNT, NULL, NULL}};

static const struct slot_name modern_bert_names[] = {
    {SLOT_TOKEN_EMBD, "token_embd", "embeddings.tok_embeddings"},
    {SLOT_EMBD_NORM, "token_embd_norm", "embeddings.norm"},
    {SLOT_OUTPUT_NORM, "output_norm", "final_norm"},
    {SLOT_CLS, "cls", "head.dense"},
    {SLOT_CLS_NORM, "cls.norm", "head.norm"},
    {SLOT_CLS_OUT, "cls.output", "classifier"},
    {SLOT_ATTN_NORM, "attn_norm", "attn_norm"},
    {SLOT_ATTN_QKV, "attn_qkv", "attn.Wqkv"},
    {SLOT_ATTN_OUT, "attn_output", "attn.Wo"},
    {SLOT_FFN_NORM, "ffn_norm", "mlp_norm"},
    {SLOT_FFN_GATE_UP, "ffn_up", "mlp.Wi"},
    {SLOT_FFN_DOWN, "ffn_down", "mlp.Wo"},
    {SLOT_COUNT, NULL, NULL}};

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
     .needs = LLAMA_NEEDS | SHARED | SLOT_BIT(SLOT_SHARED_ROUTER),
     .may = LLAMA_MAY | EXPERTS},
    {.name = "qwen3",
     .hf = {"Qwen3ForCausalLM", "Qwen3Model"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .needs = LLAMA_NEEDS | QK_NORMS,
     .may = LLAMA_MAY | SLOT_BIT(SLOT_CLS_OUT)},
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
     .needs = LLAMA_NEEDS | SLOT_BIT(SLOT_ATTN_QKV) | SLOT_BIT(SLOT_FFN_GATE_UP),
     .may = LLAMA_MAY | LONGROPE},
    {.name = "olmo",
     .hf = {"OlmoForCausalLM"},
     .norm = NORM_LAYER,
     .rope = ROPE_NORMAL,
     .rope_hf = ROPE_NEOX,
     .traits = ARCH_BARE_NORM,
     .needs = SLOT_BIT(SLOT_TOKEN_EMBD) | SLOT_BIT(SLOT_ATTN_OUT),
     .may = LLAMA_MAY},
    {.name = "olmo2",
     .hf = {"Olmo2ForCausalLM", "Olmo3ForCausalLM"},
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .swa_period = 4,
     .traits = ARCH_SWA_OWN_ROPE,
     .needs = ENDS | TIES | SLOT_BIT(SLOT_ATTN_OUT) | QK_NORMS | POST_NORMS,
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
     .needs = LLAMA_NEEDS | TIES | SLOT_BIT(SLOT_ATTN_SINKS),
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
     .needs = ENDS | SLOT_BIT(SLOT_ATTN_OUT) | QK_NORMS | POST_NORMS,
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
     .needs = ENCODER_NEEDS | SLOT_BIT(SLOT_POSITION_EMBD) | PLAIN_FFN,
     .may = QKV | SLOT_BIT(SLOT_TOKEN_TYPES) | CLASSIFIER,
     .names = bert_names},
    {.name = "jina-bert-v2",
     .hf = {"JinaBertModel", "JinaBertForMaskedLM"},
     .hf_layers = "encoder.layer.",
     .norm = NORM_LAYER,
     .act = ACT_GELU,
     .traits = ARCH_ENCODER | ARCH_NORM_AFTER | ARCH_NO_ROPE | ARCH_ALIBI,
     .needs = ENCODER_NEEDS | SLOT_BIT(SLOT_TOKEN_TYPES),
     .may = QKV | GATED | QK_NORMS | SLOT_BIT(SLOT_ATTN_POST_NORM_2) | SLOT_BIT(SLOT_CLS),
     .names = jina_bert_names},
    {.name = "nomic-bert",
     .hf = {"NomicBertModel"},
     .hf_layers = "encoder.layers.",
     .norm = NORM_LAYER,
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .traits = ARCH_ENCODER | ARCH_NORM_AFTER,
     .needs = ENCODER_NEEDS,
     .may = QKV | GATED | SLOT_BIT(SLOT_TOKEN_TYPES),
     .names = nomic_bert_names},
    {.name = "nomic-bert-moe",
     .norm = NORM_LAYER,
     .rope = ROPE_NEOX,
     .rope_hf = ROPE_NEOX,
     .act = ACT_GELU,
     .gating = GATING_SOFTMAX,
     .traits = ARCH_ENCODER | ARCH_NORM_AFTER | ARCH_NO_GATE,
     .needs = ENCODER_NEEDS,
     .may = QKV | PLAIN_FFN | EXPERTS | SLOT_BIT(SLOT_TOKEN_TYPES),
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
     .needs = ENDS | FFN_NORM | SLOT_BIT(SLOT_EMBD_NORM) | SLOT_BIT(SLOT_ATTN_OUT) |
              SLOT_BIT(SLOT_ATTN_QKV) | SLOT_BIT(SLOT_FFN_GATE_UP) | SLOT_BIT(SLOT_FFN_DOWN),
     .may = QKV | GATED | SLOT_BIT(SLOT_ATTN_NORM) | CLASSIFIER | SLOT_BIT(SLOT_CLS_NORM),
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

const struct slot_name *arch_slot_name(const struct arch *arch, enum slot slot)
{
    for (const struct slot_name *n = arch->names; n && n->slot != SLOT_COUNT; n++)
        if (n->slot == slot)
            return n;
    return &usual_names[slot];
}
