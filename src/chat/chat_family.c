/* chat_family.c - the families with a parser of their own, in the order in which
 * a template is held against them. */
#include "chat/chat_family.h"
#include "chat/families.h"

static const struct chat_family families[] = {
    {"Ministral 3", {"[SYSTEM_PROMPT]", "[TOOL_CALLS]", "[ARGS]", "![CALL_ID]"}, family_ministral},
    {"gpt-oss", {"<|channel|>"}, family_gpt_oss},
    {"Muse Glimmer", {"<atem:function_calls>", "<|eom|>"}, family_muse},
    {"Functionary v3.2", {">>>all", ">>>${recipient}"}, family_functionary},
    {"Kimi K2", {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"}, family_kimi_k2},
    {"Kimi K3", {"<|open|>", "<|close|>", "<|end_of_msg|>"}, family_kimi_k3},
    {"Cohere2 MoE", {"<|START_TEXT|>", "<|START_ACTION|>"}, family_cohere2},
    {"LFM2", {"<|tool_list_start|>", "<|tool_list_end|>"}, family_lfm2},
    {"LFM2.5", {"List of tools: [", "!<|tool_list_start|>"}, family_lfm25},
    {"GigaChat 3", {"<|role_sep|>", "<|message_sep|>", "!<|function_call|>"}, family_gigachat},
    {"MiniMax-M3", {"]<]minimax[>[", "<tool_call>", "<invoke name="}, family_minimax_m3},
    {"DeepSeek V3.2", {"dsml_token", "DSML", "function_calls"}, family_deepseek},
    {"DeepSeek V4", {"dsml_token", "DSML", "tool_calls"}, family_deepseek},
    {"Gemma 4", {"'<|tool_call>call:'"}, family_gemma},
    {"MiniCPM5", {"Tool usage guidelines:", "<function name=\"", "<param name=\""}, family_minicpm},
    {"Qwen3-Coder", {"<tool_call>", "<function=", "<parameter="}, family_qwen_coder},
};

const struct chat_family *chat_family_of(const struct chat_template *t)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        bool all = true;
        for (const char *const *marker = families[i].markers; *marker && all; marker++)
            all = **marker == '!' ? !chat_template_has(t, *marker + 1)
                                  : chat_template_has(t, *marker);
        if (all)
            return &families[i];
    }
    return NULL;
}
