/* families.h - the parsers of the families, one builder each. */
#ifndef MLXCEL_CHAT_FAMILIES_H
#define MLXCEL_CHAT_FAMILIES_H

#include "chat/chat_internal.h"

typedef bool chat_family_build(const struct chat_inputs *in, struct chat_prompt *out,
                               struct error *err);

chat_family_build family_ministral, family_gpt_oss, family_muse, family_functionary, family_kimi_k2,
    family_kimi_k3, family_cohere2, family_lfm2, family_lfm25, family_gigachat, family_minimax_m3,
    family_deepseek, family_gemma, family_minicpm, family_qwen_coder;

#endif
