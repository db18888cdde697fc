/* chat_legacy.c - the built-in templates, for servers without Jinja.
 *
 * A row gives a name its format: how each role's message is written, with the
 * role and content put in, or where that is not enough a Jinja text. Detection
 * finds the row for a template's source by what stands in it. */
#include "chat/chat_internal.h"

#include "base/vec.h"

#include <stdlib.h>

#define CONTENT "\x01"
#define TRIMMED "\x02"
#define ROLE    "\x03"

struct legacy_row {
    const char *name;                              /* NULL: only found by its text */
    const char *begin;                             /* once, first */
    const char *system, *user, *assistant, *other; /* NULL: such messages are left out */
    const char *generation;                        /* last, when the assistant is to go on */
    const char *jinja;                             /* instead of all these */
};

/* By name, in alphabetical order. */
static const struct legacy_row rows[] = {
    {.name = "bailing",
     .jinja = "{%- for m in messages -%}{{- '<role>' ~ ('HUMAN' if m.role == 'user' else "
              "m.role|upper) ~ '</role>' ~ m.content -}}{%- endfor -%}{{- '<role>ASSISTANT</role>' "
              "if add_generation_prompt else '' -}}"},
    {.name = "bailing-think",
     .jinja = "{%- for m in messages -%}{{- '<role>' ~ ('HUMAN' if m.role == 'user' else "
              "m.role|upper) ~ '</role>' ~ m.content -}}{%- endfor -%}{{- "
              "'<role>ASSISTANT</role><think>' if add_generation_prompt else '' -}}"},
    {.name = "bailing2",
     .jinja =
         "{{- '' if messages and messages[0].role == 'system' else '<role>SYSTEM</role>detailed "
         "thinking off<|role_end|>' -}}{%- for m in messages -%}{{- '<role>' ~ ('HUMAN' if m.role "
         "== 'user' else m.role|upper) ~ '</role>' ~ m.content ~ '<|role_end|>' -}}{%- endfor "
         "-%}{{- '<role>ASSISTANT</role>' if add_generation_prompt else '' -}}"},
    {.name = "chatglm3",
     .begin = "[gMASK]sop",
     .system = "<|" ROLE "|>\n " CONTENT,
     .user = "<|" ROLE "|>\n " CONTENT,
     .assistant = "<|" ROLE "|>\n " CONTENT,
     .other = "<|" ROLE "|>\n " CONTENT,
     .generation = "<|assistant|>"},
    {.name = "chatglm4",
     .begin = "[gMASK]<sop>",
     .system = "<|" ROLE "|>\n" CONTENT,
     .user = "<|" ROLE "|>\n" CONTENT,
     .assistant = "<|" ROLE "|>\n" CONTENT,
     .other = "<|" ROLE "|>\n" CONTENT,
     .generation = "<|assistant|>\n"},
    {.name = "chatml",
     .system = "<|im_start|>" ROLE "\n" CONTENT "<|im_end|>\n",
     .user = "<|im_start|>" ROLE "\n" CONTENT "<|im_end|>\n",
     .assistant = "<|im_start|>" ROLE "\n" CONTENT "<|im_end|>\n",
     .other = "<|im_start|>" ROLE "\n" CONTENT "<|im_end|>\n",
     .generation = "<|im_start|>assistant\n"},
    {.name = "command-r",
     .system = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>" TRIMMED "<|END_OF_TURN_TOKEN|>",
     .user = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>" TRIMMED "<|END_OF_TURN_TOKEN|>",
     .assistant = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>" TRIMMED "<|END_OF_TURN_TOKEN|>",
     .generation = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
    {.name = "deepseek",
     .system = CONTENT,
     .user = "### Instruction:\n" CONTENT "\n",
     .assistant = "### Response:\n" CONTENT "\n<|EOT|>\n",
     .generation = "### Response:\n"},
    {.name = "deepseek-ocr",
     .system = CONTENT,
     .user = CONTENT,
     .assistant = CONTENT,
     .other = CONTENT},
    {.name = "deepseek2",
     .system = CONTENT "\n\n",
     .user = "User: " CONTENT "\n\n",
     .assistant = "Assistant: " CONTENT "<｜end▁of▁sentence｜>",
     .generation = "Assistant:"},
    {.name = "deepseek3",
     .system = CONTENT "\n\n",
     .user = "<｜User｜>" CONTENT,
     .assistant = "<｜Assistant｜>" CONTENT "<｜end▁of▁sentence｜>",
     .generation = "<｜Assistant｜>"},
    {.name = "exaone-moe",
     .system = "<|" ROLE "|>\n" TRIMMED "<|endofturn|>\n",
     .user = "<|" ROLE "|>\n" TRIMMED "<|endofturn|>\n",
     .assistant = "<|" ROLE "|>\n" TRIMMED "<|endofturn|>\n",
     .other = "<|" ROLE "|>\n" TRIMMED "<|endofturn|>\n",
     .generation = "<|assistant|>\n"},
    {.name = "exaone3",
     .system = "[|system|]" TRIMMED "[|endofturn|]\n",
     .user = "[|user|]" TRIMMED "\n",
     .assistant = "[|assistant|]" TRIMMED "[|endofturn|]\n",
     .generation = "[|assistant|]"},
    {.name = "exaone4",
     .system = "[|system|]" TRIMMED "[|endofturn|]\n",
     .user = "[|user|]" TRIMMED "\n",
     .assistant = "[|assistant|]" TRIMMED "[|endofturn|]\n",
     .other = "[|tool|]" TRIMMED "[|endofturn|]\n",
     .generation = "[|assistant|]"},
    {.name = "falcon3",
     .system = "<|" ROLE "|>\n" CONTENT "\n",
     .user = "<|" ROLE "|>\n" CONTENT "\n",
     .assistant = "<|" ROLE "|>\n" CONTENT "\n",
     .other = "<|" ROLE "|>\n" CONTENT "\n",
     .generation = "<|assistant|>\n"},
    {.name = "gemma",
     .jinja =
         "{%- set ns = namespace(system='') -%}{%- for m in messages -%}{%- if m.role == 'system' "
         "-%}{%- set ns.system = ns.system ~ m.content|trim -%}{%- else -%}{{- '<start_of_turn>' ~ "
         "('model' if m.role == 'assistant' else m.role) ~ '\\n' -}}{%- if ns.system and m.role "
         "not in ['assistant', 'model'] -%}{{- ns.system ~ '\\n\\n' -}}{%- set ns.system = '' "
         "-%}{%- endif -%}{{- m.content|trim ~ '<end_of_turn>\\n' -}}{%- endif -%}{%- endfor "
         "-%}{{- '<start_of_turn>model\\n' if add_generation_prompt else '' -}}"},
    {.name = "gigachat",
     .jinja = "{{- '<s>' -}}{%- for m in messages -%}{%- if m.role == 'system' and loop.first "
              "-%}{{- m.content ~ '<|message_sep|>' -}}{%- elif m.role == 'user' -%}{{- "
              "'user<|role_sep|>' ~ m.content ~ '<|message_sep|>available "
              "functions<|role_sep|>[]<|message_sep|>' -}}{%- elif m.role == 'assistant' -%}{{- "
              "'assistant<|role_sep|>' ~ m.content ~ '<|message_sep|>' -}}{%- endif -%}{%- endfor "
              "-%}{{- 'assistant<|role_sep|>' if add_generation_prompt else '' -}}"},
    {.name = "glmedge",
     .system = "<|" ROLE "|>\n" CONTENT,
     .user = "<|" ROLE "|>\n" CONTENT,
     .assistant = "<|" ROLE "|>\n" CONTENT,
     .other = "<|" ROLE "|>\n" CONTENT,
     .generation = "<|assistant|>"},
    {.name = "gpt-oss",
     .system = "<|start|>" ROLE "<|message|>" CONTENT "<|end|>",
     .user = "<|start|>" ROLE "<|message|>" CONTENT "<|end|>",
     .assistant = "<|start|>" ROLE "<|message|>" CONTENT "<|return|>",
     .other = "<|start|>" ROLE "<|message|>" CONTENT "<|end|>",
     .generation = "<|start|>assistant"},
    {.name = "granite",
     .jinja = "{%- for m in messages -%}{{- '<|start_of_role|>' ~ m.role ~ '<|end_of_role|>' ~ "
              "('<|tool_call|>' if m.role == 'assistant_tool_call' else '') ~ m.content ~ "
              "'<|end_of_text|>\\n' -}}{%- endfor -%}{{- "
              "'<|start_of_role|>assistant<|end_of_role|>' if add_generation_prompt else '' -}}"},
    {.name = "granite-4.0",
     .jinja =
         "{%- for m in messages -%}{{- ('<|start_of_role|>assistant<|end_of_role|><|tool_call|>' "
         "if m.role == 'assistant_tool_call' else '<|start_of_role|>' ~ m.role ~ "
         "'<|end_of_role|>') ~ m.content ~ '<|end_of_text|>\\n' -}}{%- endfor -%}{{- "
         "'<|start_of_role|>assistant<|end_of_role|>' if add_generation_prompt else '' -}}"},
    {.name = "granite-4.1",
     .jinja =
         "{%- for m in messages -%}{{- ('<|start_of_role|>assistant<|end_of_role|><|tool_call|>' "
         "if m.role == 'assistant_tool_call' else '<|start_of_role|>' ~ m.role ~ "
         "'<|end_of_role|>') ~ m.content ~ '<|end_of_text|>\\n' -}}{%- endfor -%}{{- "
         "'<|start_of_role|>assistant<|end_of_role|>' if add_generation_prompt else '' -}}"},
    {.name = "grok-2",
     .system = "System: " TRIMMED "<|separator|>\n\n",
     .user = "Human: " TRIMMED "<|separator|>\n\n",
     .assistant = "Assistant: " CONTENT "<|separator|>\n\n",
     .generation = "Assistant:"},
    {.name = "hunyuan-dense",
     .jinja = "{%- for m in messages -%}{%- if m.role == 'system' and loop.first -%}{{- m.content "
              "~ '<｜hy_place▁holder▁no▁3｜>' -}}{%- elif m.role == 'assistant' -%}{{- "
              "'<｜hy_Assistant｜>' ~ m.content ~ '<｜hy_place▁holder▁no▁2｜>' -}}{%- elif m.role "
              "== 'user' -%}{{- '<｜hy_User｜>' ~ m.content ~ '<｜hy_Assistant｜>' -}}{%- endif "
              "-%}{%- endfor -%}"},
    {.name = "hunyuan-moe",
     .system = "<|startoftext|>" CONTENT "<|extra_4|>",
     .user = "<|startoftext|>" CONTENT "<|extra_0|>",
     .assistant = CONTENT "<|eos|>",
     .other = "<|startoftext|>" CONTENT "<|extra_0|>"},
    {.name = "hunyuan-vl",
     .jinja = "{{- '<｜hy_begin▁of▁sentence｜>' -}}{%- for m in messages -%}{%- if m.role == "
              "'system' and loop.first -%}{{- m.content ~ '<｜hy_place▁holder▁no▁3｜>' -}}{%- elif "
              "m.role == 'user' -%}{{- m.content ~ '<｜hy_User｜>' -}}{%- elif m.role == "
              "'assistant' -%}{{- m.content ~ '<｜hy_Assistant｜>' -}}{%- endif -%}{%- endfor -%}"},
    {.name = "kimi-k2",
     .system = "<|im_system|>system<|im_middle|>" CONTENT "<|im_end|>",
     .user = "<|im_user|>user<|im_middle|>" CONTENT "<|im_end|>",
     .assistant = "<|im_assistant|>assistant<|im_middle|>" CONTENT "<|im_end|>",
     .other = "<|im_system|>tool<|im_middle|>" CONTENT "<|im_end|>",
     .generation = "<|im_assistant|>assistant<|im_middle|>"},
    {.name = "llama2",
     .jinja = "{%- set ns = namespace(inside=true) -%}{{- '[INST] ' -}}{%- for m in messages "
              "-%}{%- set c = m.content -%}{%- if not ns.inside -%}{%- set ns.inside = true -%}{{- "
              "'[INST] ' -}}{%- endif -%}{%- if m.role == 'system' -%}{{- c ~ '\\n' -}}{%- elif "
              "m.role == 'user' -%}{{- c ~ ' [/INST]' -}}{%- else -%}{{- c ~ '</s>' -}}{%- set "
              "ns.inside = false -%}{%- endif -%}{%- endfor -%}"},
    {.name = "llama2-sys",
     .jinja = "{%- set ns = namespace(inside=true) -%}{{- '[INST] ' -}}{%- for m in messages "
              "-%}{%- set c = m.content -%}{%- if not ns.inside -%}{%- set ns.inside = true -%}{{- "
              "'[INST] ' -}}{%- endif -%}{%- if m.role == 'system' -%}{{- '<<SYS>>\\n' ~ c ~ "
              "'\\n<</SYS>>\\n\\n' -}}{%- elif m.role == 'user' -%}{{- c ~ ' [/INST]' -}}{%- else "
              "-%}{{- c ~ '</s>' -}}{%- set ns.inside = false -%}{%- endif -%}{%- endfor -%}"},
    {.name = "llama2-sys-bos",
     .jinja = "{%- set ns = namespace(inside=true) -%}{{- '[INST] ' -}}{%- for m in messages "
              "-%}{%- set c = m.content -%}{%- if not ns.inside -%}{%- set ns.inside = true -%}{{- "
              "'<s>[INST] ' -}}{%- endif -%}{%- if m.role == 'system' -%}{{- '<<SYS>>\\n' ~ c ~ "
              "'\\n<</SYS>>\\n\\n' -}}{%- elif m.role == 'user' -%}{{- c ~ ' [/INST]' -}}{%- else "
              "-%}{{- c ~ '</s>' -}}{%- set ns.inside = false -%}{%- endif -%}{%- endfor -%}"},
    {.name = "llama2-sys-strip",
     .jinja = "{%- set ns = namespace(inside=true) -%}{{- '[INST] ' -}}{%- for m in messages "
              "-%}{%- set c = m.content|trim -%}{%- if not ns.inside -%}{%- set ns.inside = true "
              "-%}{{- '[INST] ' -}}{%- endif -%}{%- if m.role == 'system' -%}{{- '<<SYS>>\\n' ~ c "
              "~ '\\n<</SYS>>\\n\\n' -}}{%- elif m.role == 'user' -%}{{- c ~ ' [/INST]' -}}{%- "
              "else -%}{{- c ~ '</s>' -}}{%- set ns.inside = false -%}{%- endif -%}{%- endfor -%}"},
    {.name = "llama3",
     .system = "<|start_header_id|>" ROLE "<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
     .user = "<|start_header_id|>" ROLE "<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
     .assistant = "<|start_header_id|>" ROLE "<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
     .other = "<|start_header_id|>" ROLE "<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
     .generation = "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {.name = "llama4",
     .system = "<|header_start|>" ROLE "<|header_end|>\n\n" TRIMMED "<|eot|>",
     .user = "<|header_start|>" ROLE "<|header_end|>\n\n" TRIMMED "<|eot|>",
     .assistant = "<|header_start|>" ROLE "<|header_end|>\n\n" TRIMMED "<|eot|>",
     .other = "<|header_start|>" ROLE "<|header_end|>\n\n" TRIMMED "<|eot|>",
     .generation = "<|header_start|>assistant<|header_end|>\n\n"},
    {.name = "megrez",
     .system = "<|role_start|>" ROLE "<|role_end|>" CONTENT "<|turn_end|>",
     .user = "<|role_start|>" ROLE "<|role_end|>" CONTENT "<|turn_end|>",
     .assistant = "<|role_start|>" ROLE "<|role_end|>" CONTENT "<|turn_end|>",
     .other = "<|role_start|>" ROLE "<|role_end|>" CONTENT "<|turn_end|>",
     .generation = "<|role_start|>assistant<|role_end|>"},
    {.name = "minicpm",
     .system = TRIMMED,
     .user = "<用户>" TRIMMED "<AI>",
     .assistant = TRIMMED,
     .other = TRIMMED},
    {.name = "mistral-v1",
     .jinja = "{%- set ns = namespace(inside=false) -%}{%- for m in messages -%}{%- if not "
              "ns.inside -%}{{- ' [INST] ' -}}{%- set ns.inside = true -%}{%- endif -%}{%- if "
              "m.role == 'system' -%}{{- m.content ~ '\\n\\n' -}}{%- elif m.role == 'user' -%}{{- "
              "m.content ~ ' [/INST]' -}}{%- else -%}{{- ' ' ~ m.content ~ '</s>' -}}{%- set "
              "ns.inside = false -%}{%- endif -%}{%- endfor -%}"},
    {.name = "mistral-v3",
     .jinja = "{%- set ns = namespace(inside=false) -%}{%- for m in messages -%}{%- if not "
              "ns.inside -%}{{- '[INST] ' -}}{%- set ns.inside = true -%}{%- endif -%}{%- if "
              "m.role == 'system' -%}{{- m.content ~ '\\n\\n' -}}{%- elif m.role == 'user' -%}{{- "
              "m.content ~ '[/INST]' -}}{%- else -%}{{- ' ' ~ m.content|trim ~ '</s>' -}}{%- set "
              "ns.inside = false -%}{%- endif -%}{%- endfor -%}"},
    {.name = "mistral-v3-tekken",
     .jinja = "{%- set ns = namespace(inside=false) -%}{%- for m in messages -%}{%- if not "
              "ns.inside -%}{{- '[INST]' -}}{%- set ns.inside = true -%}{%- endif -%}{%- if m.role "
              "== 'system' -%}{{- m.content ~ '\\n\\n' -}}{%- elif m.role == 'user' -%}{{- "
              "m.content ~ '[/INST]' -}}{%- else -%}{{- '' ~ m.content ~ '</s>' -}}{%- set "
              "ns.inside = false -%}{%- endif -%}{%- endfor -%}"},
    {.name = "mistral-v7",
     .system = "[SYSTEM_PROMPT] " CONTENT "[/SYSTEM_PROMPT]",
     .user = "[INST] " CONTENT "[/INST]",
     .assistant = " " CONTENT "</s>",
     .other = " " CONTENT "</s>"},
    {.name = "mistral-v7-tekken",
     .system = "[SYSTEM_PROMPT]" CONTENT "[/SYSTEM_PROMPT]",
     .user = "[INST]" CONTENT "[/INST]",
     .assistant = CONTENT "</s>",
     .other = CONTENT "</s>"},
    {.name = "monarch",
     .jinja =
         "{%- for m in messages -%}{{- ('' if loop.first else '<s>') ~ m.role ~ '\\n' ~ m.content "
         "~ '</s>\\n' -}}{%- endfor -%}{{- '<s>assistant\\n' if add_generation_prompt else '' -}}"},
    {.name = "openchat",
     .jinja = "{%- for m in messages -%}{%- if m.role == 'system' -%}{{- m.content ~ "
              "'<|end_of_turn|>' -}}{%- else -%}{{- 'GPT4 Correct ' ~ m.role[:1]|upper ~ "
              "m.role[1:] ~ ': ' ~ m.content ~ '<|end_of_turn|>' -}}{%- endif -%}{%- endfor -%}{{- "
              "'GPT4 Correct Assistant:' if add_generation_prompt else '' -}}"},
    {.name = "orion",
     .jinja = "{%- set ns = namespace(system='') -%}{%- for m in messages -%}{%- if m.role == "
              "'system' -%}{%- set ns.system = ns.system ~ m.content -%}{%- elif m.role == 'user' "
              "-%}{{- 'Human: ' ~ (ns.system ~ '\\n\\n' if ns.system else '') ~ m.content ~ "
              "'\\n\\nAssistant: </s>' -}}{%- set ns.system = '' -%}{%- else -%}{{- m.content ~ "
              "'</s>' -}}{%- endif -%}{%- endfor -%}"},
    {.name = "pangu-embedded",
     .jinja =
         "{%- set names = {'system': '系统', 'user': '用户', 'assistant': '助手', 'tool': '工具', "
         "'function': '方法'} -%}{%- for m in messages -%}{%- if loop.first and m.role != 'system' "
         "-%}{{- '[unused9]系统：[unused10]' -}}{%- endif -%}{%- if m.role in names -%}{{- "
         "'[unused9]' ~ names[m.role] ~ '：' ~ m.content ~ '[unused10]' -}}{%- endif -%}{%- endfor "
         "-%}{{- '[unused9]助手：' if add_generation_prompt else '' -}}"},
    {.name = "phi3",
     .system = "<|" ROLE "|>\n" CONTENT "<|end|>\n",
     .user = "<|" ROLE "|>\n" CONTENT "<|end|>\n",
     .assistant = "<|" ROLE "|>\n" CONTENT "<|end|>\n",
     .other = "<|" ROLE "|>\n" CONTENT "<|end|>\n",
     .generation = "<|assistant|>\n"},
    {.name = "phi4",
     .system = "<|im_start|>" ROLE "<|im_sep|>" CONTENT "<|im_end|>",
     .user = "<|im_start|>" ROLE "<|im_sep|>" CONTENT "<|im_end|>",
     .assistant = "<|im_start|>" ROLE "<|im_sep|>" CONTENT "<|im_end|>",
     .other = "<|im_start|>" ROLE "<|im_sep|>" CONTENT "<|im_end|>",
     .generation = "<|im_start|>assistant<|im_sep|>"},
    {.name = "rwkv-world",
     .jinja =
         "{%- for m in messages -%}{%- if m.role == 'system' -%}{{- 'System: ' ~ m.content|trim ~ "
         "'\\n\\n' -}}{%- elif m.role == 'user' -%}{{- 'User: ' ~ m.content|trim ~ '\\n\\n' ~ "
         "('Assistant:' if loop.last else '') -}}{%- elif m.role == 'assistant' -%}{{- 'Assistant: "
         "' ~ m.content|trim ~ '\\n\\n' -}}{%- endif -%}{%- endfor -%}"},
    {.name = "seed_oss",
     .system = "<seed:bos>" ROLE "\n" CONTENT "<seed:eos>",
     .user = "<seed:bos>" ROLE "\n" CONTENT "<seed:eos>",
     .assistant = "<seed:bos>assistant\n" TRIMMED "<seed:eos>",
     .other = "<seed:bos>" ROLE "\n" CONTENT "<seed:eos>",
     .generation = "<seed:bos>assistant\n"},
    {.name = "smolvlm",
     .begin = "<|im_start|>",
     .system = CONTENT "\n\n",
     .user = "User: " CONTENT "<end_of_utterance>\n",
     .assistant = "Assistant: " CONTENT "<end_of_utterance>\n",
     .other = "Assistant: " CONTENT "<end_of_utterance>\n",
     .generation = "Assistant:"},
    {.name = "solar-open",
     .system = "<|begin|>" ROLE "<|content|>" CONTENT "<|end|>",
     .user = "<|begin|>" ROLE "<|content|>" CONTENT "<|end|>",
     .assistant = "<|begin|>" ROLE "<|content|>" CONTENT "<|end|>",
     .other = "<|begin|>" ROLE "<|content|>" CONTENT "<|end|>",
     .generation = "<|begin|>assistant"},
    {.name = "vicuna",
     .system = CONTENT "\n\n",
     .user = "USER: " CONTENT "\n",
     .assistant = "ASSISTANT: " CONTENT "</s>\n",
     .generation = "ASSISTANT:"},
    {.name = "vicuna-orca",
     .system = "SYSTEM: " CONTENT "\n",
     .user = "USER: " CONTENT "\n",
     .assistant = "ASSISTANT: " CONTENT "</s>\n",
     .generation = "ASSISTANT:"},
    {.name = "yandex",
     .user = " Пользователь: " CONTENT "\n\n",
     .assistant = " Ассистент: " CONTENT "\n\n",
     .generation = " Ассистент:[SEP]"},
    {.name = "zephyr",
     .system = "<|" ROLE "|>\n" CONTENT "<|endoftext|>\n",
     .user = "<|" ROLE "|>\n" CONTENT "<|endoftext|>\n",
     .assistant = "<|" ROLE "|>\n" CONTENT "<|endoftext|>\n",
     .other = "<|" ROLE "|>\n" CONTENT "<|endoftext|>\n",
     .generation = "<|assistant|>\n"},
    {.name = NULL,
     .system = "<|system|>" CONTENT "<|endofsystem|>",
     .user = "<|userprompt|>" CONTENT "<|endofuserprompt|>",
     .assistant = "<|response|>" CONTENT "<|endofresponse|>",
     .other = "<|response|>" CONTENT "<|endofresponse|>",
     .generation = "<|response|>"},
};

/* The first row whose texts all stand in the source; "^" means at its start. */
static const struct {
    int row;
    const char *texts[4];
} detection[] = {
    {45, {"<|im_start|>", "<|im_sep|>"}},
    {48, {"<|im_start|>", "<end_of_utterance>"}},
    {5, {"<|im_start|>"}},
    {38, {"^mistral", "[SYSTEM_PROMPT]"}},
    {35, {"^mistral", "' [INST] ' + system_message", " [INST]"}},
    {37, {"^mistral", "' [INST] ' + system_message", "\"[INST]\""}},
    {36, {"^mistral", "' [INST] ' + system_message"}},
    {35, {"^mistral", "[AVAILABLE_TOOLS]", " [INST]"}},
    {37, {"^mistral", "[AVAILABLE_TOOLS]", "\"[INST]\""}},
    {36, {"^mistral", "[AVAILABLE_TOOLS]"}},
    {30, {"^mistral", "content.strip()"}},
    {29, {"^mistral", "bos_token + '[INST]"}},
    {28, {"^mistral", "<<SYS>>"}},
    {27, {"^mistral"}},
    {38, {"[INST]", "[SYSTEM_PROMPT]"}},
    {35, {"[INST]", "' [INST] ' + system_message", " [INST]"}},
    {37, {"[INST]", "' [INST] ' + system_message", "\"[INST]\""}},
    {36, {"[INST]", "' [INST] ' + system_message"}},
    {35, {"[INST]", "[AVAILABLE_TOOLS]", " [INST]"}},
    {37, {"[INST]", "[AVAILABLE_TOOLS]", "\"[INST]\""}},
    {36, {"[INST]", "[AVAILABLE_TOOLS]"}},
    {30, {"[INST]", "content.strip()"}},
    {29, {"[INST]", "bos_token + '[INST]"}},
    {28, {"[INST]", "<<SYS>>"}},
    {27, {"[INST]"}},
    {44, {"<|assistant|>", "<|end|>"}},
    {4, {"[gMASK]<sop>"}},
    {11, {"<|assistant|>", "<|user|>", "<|tool_declare|>"}},
    {14, {"<|assistant|>", "<|user|>", "</s>"}},
    {17, {"<|assistant|>", "<|user|>"}},
    {17, {"<|{{ item['role'] }}|>", "<|begin_of_image|>"}},
    {53, {"<|user|>", "<|endoftext|>"}},
    {40, {"bos_token + message['role']"}},
    {15, {"<start_of_turn>"}},
    {42, {"'\\n\\nAssistant: ' + eos_token"}},
    {41, {"GPT4 Correct "}},
    {51, {"USER: ", "ASSISTANT: ", "SYSTEM: "}},
    {50, {"USER: ", "ASSISTANT: "}},
    {7, {"### Instruction:", "<|EOT|>"}},
    {6, {"<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"}},
    {31, {"<|start_header_id|>", "<|end_header_id|>"}},
    {3, {"[gMASK]sop"}},
    {34, {"<用户>"}},
    {9, {"'Assistant: ' + message['content'] + eos_token"}},
    {10, {"<｜Assistant｜>", "<｜User｜>", "<｜end▁of▁sentence｜>"}},
    {13, {"[|system|]", "[|assistant|]", "[|endofturn|]", "[|tool|]"}},
    {12, {"[|system|]", "[|assistant|]", "[|endofturn|]"}},
    {46, {"rwkv-world"}},
    {46, {"{{- 'User: ' + message['content']|trim + '\\n\\n' -}}"}},
    {20, {"<|start_of_role|>", "<tool_call>", "g4_default_system_message"}},
    {21, {"<|start_of_role|>", "<tool_call>"}},
    {20, {"<|start_of_role|>", "<tools>", "g4_default_system_message"}},
    {21, {"<|start_of_role|>", "<tools>"}},
    {19, {"<|start_of_role|>"}},
    {16,
     {"message['role'] + additional_special_tokens[0] + message['content'] + "
      "additional_special_tokens[1]"}},
    {33, {"<|role_start|>"}},
    {52, {" Ассистент:"}},
    {0, {"<role>ASSISTANT</role>", "'HUMAN'"}},
    {1, {"<role>ASSISTANT</role>", "\"HUMAN\"", "<think>"}},
    {2, {"<role>ASSISTANT</role>", "<role>HUMAN</role>", "<|role_end|>"}},
    {32, {"<|header_start|>", "<|header_end|>"}},
    {54, {"<|endofuserprompt|>"}},
    {24, {"<|extra_0|>", "<|extra_4|>"}},
    {18, {"<|start|>", "<|channel|>"}},
    {25, {"<｜hy_Assistant｜>", "<｜hy_begin▁of▁sentence｜>"}},
    {23, {"<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁3｜>"}},
    {26, {"<|im_assistant|>assistant<|im_middle|>"}},
    {47, {"<seed:bos>"}},
    {22, {"'Assistant: '  + message['content'] + '<|separator|>"}},
    {43, {"[unused9]系统：[unused10]"}},
    {49, {"<|begin|>", "<|end|>", "<|content|>"}},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

const char *const *chat_template_names(void)
{
    static const char *const names[] = {
        "bailing",
        "bailing-think",
        "bailing2",
        "chatglm3",
        "chatglm4",
        "chatml",
        "command-r",
        "deepseek",
        "deepseek-ocr",
        "deepseek2",
        "deepseek3",
        "exaone-moe",
        "exaone3",
        "exaone4",
        "falcon3",
        "gemma",
        "gigachat",
        "glmedge",
        "gpt-oss",
        "granite",
        "granite-4.0",
        "granite-4.1",
        "grok-2",
        "hunyuan-dense",
        "hunyuan-moe",
        "hunyuan-vl",
        "kimi-k2",
        "llama2",
        "llama2-sys",
        "llama2-sys-bos",
        "llama2-sys-strip",
        "llama3",
        "llama4",
        "megrez",
        "minicpm",
        "mistral-v1",
        "mistral-v3",
        "mistral-v3-tekken",
        "mistral-v7",
        "mistral-v7-tekken",
        "monarch",
        "openchat",
        "orion",
        "pangu-embedded",
        "phi3",
        "phi4",
        "rwkv-world",
        "seed_oss",
        "smolvlm",
        "solar-open",
        "vicuna",
        "vicuna-orca",
        "yandex",
        "zephyr",
        NULL,
    };
    return names;
}

static bool holds(const char *source, const char *text)
{
    if (text[0] == '^')
        return strncmp(source, text + 1, strlen(text + 1)) == 0;
    return strstr(source, text) != NULL;
}

int chat_legacy_find(struct slice source)
{
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].name && slice_equal_text(source, rows[i].name))
            return i;
    char *text = slice_duplicate(source);
    int found = -1;
    for (size_t i = 0; text && found < 0 && i < sizeof detection / sizeof *detection; i++) {
        bool all = true;
        for (size_t k = 0; k < 4 && detection[i].texts[k]; k++)
            all = all && holds(text, detection[i].texts[k]);
        if (all)
            found = detection[i].row;
    }
    free(text);
    return found;
}

/* Grows to a prompt's user ranges. */
struct users {
    struct text_range *data;
    size_t n, capacity;
};

/* Append what a message says; where marked, as a user's. */
static void append_said(struct chat_prompt *out, struct users *users, struct slice text,
                        bool marked)
{
    struct text_range range = {out->text.len, out->text.len + text.len};
    str_append_slice(&out->text, text);
    if (marked && text.len && !VEC_PUSH(users, range))
        out->text.failed = true;
}

static void append_message(struct chat_prompt *out, struct users *users, const char *format,
                           struct slice role, struct slice content)
{
    bool marked = !slice_equal_text(role, "assistant");
    for (; format && *format; format++) {
        if (*format == *CONTENT)
            append_said(out, users, content, marked);
        else if (*format == *TRIMMED)
            append_said(out, users, chat_trim(content), marked);
        else if (*format == *ROLE)
            append_said(out, users, role, !chat_role_is_word(role));
        else
            str_append_char(&out->text, *format);
    }
}

static bool render_jinja(const char *source, const json_t *messages, bool add_generation_prompt,
                         struct budget *budget, struct chat_prompt *out, struct error *err)
{
    struct jinja_template *t;
    struct jinja_output text = {0};
    if (!jinja_parse(slice_of(source), &t, err))
        return false;
    struct jinja_run *run = jinja_run_create(t, 0, false, NULL, budget);
    bool ok = run != NULL || error_memory(err);
    if (ok) {
        jinja_set(run, "messages", chat_messages_value(run, messages));
        jinja_set(run, "add_generation_prompt", jinja_bool(run, add_generation_prompt));
        ok = jinja_render(run, &text, err) &&
             ((str_append_slice(&out->text, str_slice(&text.text)) &&
               chat_prompt_add_user(out, &text)) ||
              error_memory(err));
    }
    jinja_output_free(&text);
    jinja_run_free(run);
    jinja_template_free(t);
    return ok;
}

bool chat_legacy_render(int which, const json_t *messages, bool add_generation_prompt,
                        struct budget *budget, struct chat_prompt *out, struct error *err)
{
    struct users users = {0};
    const struct legacy_row *row = &rows[which];
    if (row->jinja)
        return render_jinja(row->jinja, messages, add_generation_prompt, budget, out, err);
    if (row->begin)
        str_append_text(&out->text, row->begin);
    size_t i;
    json_t *message;
    json_array_foreach((json_t *)messages, i, message)
    {
        struct slice role = json_slice(json_object_get(message, "role"));
        const char *format = slice_equal_text(role, "system")      ? row->system
                             : slice_equal_text(role, "user")      ? row->user
                             : slice_equal_text(role, "assistant") ? row->assistant
                                                                   : row->other;
        append_message(out, &users, format, role, json_slice(json_object_get(message, "content")));
    }
    if (add_generation_prompt && row->generation)
        str_append_text(&out->text, row->generation);
    out->user = users.data;
    out->n_user = users.n;
    return !out->text.failed || error_memory(err);
}
