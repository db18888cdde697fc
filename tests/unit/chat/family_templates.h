/* family_templates.h - a small template in the manner of each family: enough to
 * be recognized and to open the answer as that family does. */
#ifndef MLXCEL_TESTS_CHAT_FAMILY_TEMPLATES_H
#define MLXCEL_TESTS_CHAT_FAMILY_TEMPLATES_H

struct family_template {
    const char *name, *source;
};

/* Markers that a family is known by, in a comment; the messages; the opening. */
#define PLAIN_TURNS                                                                                \
    "{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ (m.content or '') ~ '\n' }}{% endfor %}"
#define OPENING(text) "{% if add_generation_prompt %}{{ '" text "' }}{% endif %}"

#define CHATML_TURNS                                                                               \
    "{% for m in messages %}{% if m.role != 'assistant' %}"                                        \
    "{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}"                            \
    "{% else %}{{ '<|im_start|>assistant\n' }}"                                                    \
    "{% if m.reasoning_content %}{{ '<think>\n' ~ m.reasoning_content ~ '\n</think>\n\n' }}"       \
    "{% endif %}{{ m.content or '' }}"

static const struct family_template family_templates[] = {
    /* found by analysis */
    {"hermes", CHATML_TURNS
     "{% for c in m.tool_calls or [] %}"
     "{{ '\n<tool_call>\n' ~ {'name': c.function.name, 'arguments': c.function.arguments}|tojson "
     "~ '\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
     "{% if tools %}{{ tools|tojson }}{% endif %}" OPENING("<|im_start|>assistant\n")},
    {"tagged json",
     CHATML_TURNS "{% for c in m.tool_calls or [] %}"
                  "{{ '<call><function=' ~ c.function.name ~ '>' ~ c.function.arguments|tojson ~ "
                  "'</function></call>' }}"
                  "{% endfor %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
                  "{% if tools %}{{ tools|tojson }}{% endif %}" OPENING("<|im_start|>assistant\n")},
    {"tagged", CHATML_TURNS
     "{% for c in m.tool_calls or [] %}{{ '<tool_call>' ~ c.function.name ~ '\n' }}"
     "{% for k, v in c.function.arguments.items() %}"
     "{{ '<arg_key>' ~ k ~ '</arg_key>\n<arg_value>' ~ (v if v is string else v|tojson) ~ "
     "'</arg_value>\n' }}{% endfor %}{{ '</tool_call>' }}{% endfor %}"
     "{{ '<|im_end|>\n' }}{% endif %}{% endfor %}{% if tools %}{{ tools|tojson }}{% endif "
     "%}" OPENING("<|im_start|>assistant\n")},
    {"list", PLAIN_TURNS
     "{% for m in messages %}{% if m.tool_calls %}{{ '[TOOL_CALLS][' }}"
     "{% for c in m.tool_calls %}"
     "{{ {'name': c.function.name, 'arguments': c.function.arguments, 'id': c.id}|tojson }}"
     "{{ ', ' if not loop.last else '' }}{% endfor %}{{ ']</s>' }}{% endif %}{% endfor %}"
     "{% if tools %}{{ tools|tojson }}{% endif %}"},
    {"plain", PLAIN_TURNS OPENING("<assistant>")},
    /* with a parser of their own */
    {"Ministral 3", "{# [SYSTEM_PROMPT] [TOOL_CALLS] [ARGS] #}"
                    "{% for m in messages %}{{ m.role }}{% endfor %}"},
    {"gpt-oss", "{# <|channel|> #}" PLAIN_TURNS OPENING("<|start|>assistant")},
    {"Muse Glimmer",
     "{# <atem:function_calls> <|eom|> #}" PLAIN_TURNS OPENING("<|start|>assistant")},
    {"Functionary v3.2", "{# >>>all >>>${recipient} #}" PLAIN_TURNS OPENING(
                             "<|start_header_id|>assistant<|end_header_id|>\n\n>>>")},
    {"Kimi K2", "{# <|tool_calls_section_begin|> <|tool_call_begin|> #}" PLAIN_TURNS OPENING(
                    "<|im_assistant|>assistant<|im_middle|>")},
    {"Kimi K3", "{# <|open|> <|close|> <|end_of_msg|> #}" PLAIN_TURNS OPENING(
                    "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>")},
    {"Cohere2 MoE", "{# <|START_TEXT|> <|START_ACTION|> #}" PLAIN_TURNS OPENING(
                        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>")},
    {"LFM2", "{# <|tool_list_start|> <|tool_list_end|> <think> #}" PLAIN_TURNS OPENING(
                 "<|im_start|>assistant\n")},
    {"GigaChat 3",
     "{# <|role_sep|> <|message_sep|> #}" PLAIN_TURNS OPENING("assistant<|role_sep|>\n")},
    {"MiniMax-M3",
     "{# ]<]minimax[>[ <tool_call> <invoke name= #}" PLAIN_TURNS OPENING("]~b]ai\n<mm:think>")},
    {"DeepSeek V3.2",
     "{# dsml_token DSML function_calls #}" PLAIN_TURNS OPENING("<｜Assistant｜><think>")},
    {"DeepSeek V4",
     "{# dsml_token DSML tool_calls #}" PLAIN_TURNS OPENING("<｜Assistant｜><think>")},
    {"Gemma 4", "{# '<|tool_call>call:' #}" PLAIN_TURNS OPENING("<|turn>model\n")},
    {"MiniCPM5",
     "{# Tool usage guidelines: <function name=\" <param name=\" #}" PLAIN_TURNS OPENING(
         "<|im_start|>assistant\n")},
    {"Qwen3-Coder", "{# <tool_call> <function= <parameter= <think> #}" PLAIN_TURNS OPENING(
                        "<|im_start|>assistant\n")},
};

enum { N_FAMILY_TEMPLATES = sizeof family_templates / sizeof *family_templates };

/* Tools of all kinds of parameters. */
static const char family_tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"Weather\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"
    "\"days\":{\"type\":\"integer\"},\"deep\":{\"type\":\"object\",\"properties\":{\"list\":"
    "{\"type\":\"array\",\"items\":{\"type\":\"number\"}}}}},\"required\":[\"city\"]}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"now\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{}}}}]";

#endif
