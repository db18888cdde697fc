/* Model text to messages, family by family: whole, and one byte at a time. */
#include "unit/chat/family_templates.h"
#include "unit/chat/helpers.h"

#include <string.h>

enum { CALLS_MAX = 3 };

struct parse_case {
    const char *family, *text;
    bool inline_reasoning; /* reasoning_format none */
    const char *content, *reasoning;
    struct {
        const char *name, *arguments, *id; /* streams make an id up when it
                                              comes late or never */
    } calls[CALLS_MAX];
};

/* Cut and broken texts among them: what was meant shows as far as it got. */
static const struct parse_case cases[] = {
    {.family = "hermes", .text = "Just text.", .content = "Just text."},
    {.family = "hermes",
     .text = "<think>\nhm\n</think>\n\nSaid.",
     .content = "Said.",
     .reasoning = "hm\n"},
    {.family = "hermes",
     .text = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
             "\"Paris\"}}\n</tool_call>",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "hermes",
     .text = "First. <tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"São "
             "\\\"P\\\"\\n\", \"days\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", "
             "\"arguments\": {}}\n</tool_call>",
     .content = "First. ",
     .calls = {{"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", ""},
               {"now", "{}", ""}}},
    {.family = "hermes",
     .text = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Par",
     .calls = {{"get_weather", "{\"city\": \"Par", ""}}},
    {.family = "hermes", .text = "1 < 2 and <b>", .content = "1 < 2 and <b>"},
    {.family = "hermes", .text = "Just text.", .inline_reasoning = true, .content = "Just text."},
    {.family = "hermes",
     .text = "<think>\nhm\n</think>\n\nSaid.",
     .inline_reasoning = true,
     .content = "<think>\nhm\n</think>\n\nSaid."},
    {.family = "hermes",
     .text = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
             "\"Paris\"}}\n</tool_call>",
     .inline_reasoning = true,
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "tagged json", .text = "Text", .content = "Text"},
    {.family = "tagged json",
     .text = "<think>\nhm\n</think>\n\nx",
     .content = "x",
     .reasoning = "hm\n"},
    {.family = "tagged json",
     .text = "ok <call><function=get_weather>{\"city\": \"Paris\"}</function></call>",
     .content = "ok ",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "tagged json",
     .text = "<call><function=get_weather>{\"city\": \"São \\\"P\\\"\\n\", \"days\": "
             "2}</function></call><call><function=now>{}</function></call>",
     .calls = {{"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", ""},
               {"now", "{}", ""}}},
    {.family = "tagged json",
     .text = "<call><function=get_weather>{\"ci",
     .calls = {{"get_weather", "{\"ci", ""}}},
    {.family = "tagged json", .text = "Text", .inline_reasoning = true, .content = "Text"},
    {.family = "tagged json",
     .text = "<think>\nhm\n</think>\n\nx",
     .inline_reasoning = true,
     .content = "<think>\nhm\n</think>\n\nx"},
    {.family = "tagged json",
     .text = "ok <call><function=get_weather>{\"city\": \"Paris\"}</function></call>",
     .inline_reasoning = true,
     .content = "ok ",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "tagged", .text = "Text", .content = "Text"},
    {.family = "tagged",
     .text = "<think>\nhm\n</think>\n\nSaid",
     .content = "Said",
     .reasoning = "hm\n"},
    {.family = "tagged",
     .text = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</"
             "arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
     .calls = {{"get_weather", "{\"city\":\"Paris\",\"days\":3}", ""}}},
    {.family = "tagged",
     .text = "So: <tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>a \"b\" "
             "<c>\n</arg_value>\n</tool_call>",
     .content = "So: ",
     .calls = {{"get_weather", "{\"city\":\"a \\\"b\\\" <c>\\n\"}", ""}}},
    {.family = "tagged",
     .text = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Par",
     .calls = {{"get_weather", "{\"city\":\"Par", ""}}},
    {.family = "tagged", .text = "Text", .inline_reasoning = true, .content = "Text"},
    {.family = "tagged",
     .text = "<think>\nhm\n</think>\n\nSaid",
     .inline_reasoning = true,
     .content = "<think>\nhm\n</think>\n\nSaid"},
    {.family = "tagged",
     .text = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</"
             "arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
     .inline_reasoning = true,
     .calls = {{"get_weather", "{\"city\":\"Paris\",\"days\":3}", ""}}},
    {.family = "list", .text = "Text", .content = "Text"},
    {.family = "list",
     .text = "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}, "
             "\"id\": \"abcdefghi\"}]",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", "abcdefghi"}}},
    {.family = "list",
     .text = "Hm.[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}, \"id\": \"1\"}, {\"name\": "
             "\"get_weather\", \"arguments\": {\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}, "
             "\"id\": \"2\"}]",
     .content = "Hm.",
     .calls = {{"now", "{}", "1"},
               {"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", "2"}}},
    {.family = "list", .text = "Text", .inline_reasoning = true, .content = "Text"},
    {.family = "list",
     .text = "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}, "
             "\"id\": \"abcdefghi\"}]",
     .inline_reasoning = true,
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", "abcdefghi"}}},
    {.family = "list",
     .text = "Hm.[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}, \"id\": \"1\"}, {\"name\": "
             "\"get_weather\", \"arguments\": {\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}, "
             "\"id\": \"2\"}]",
     .inline_reasoning = true,
     .content = "Hm.",
     .calls = {{"now", "{}", "1"},
               {"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", "2"}}},
    {.family = "plain", .text = "Text <tool_call>", .content = "Text <tool_call>"},
    {.family = "plain", .text = "<think>x</think>y", .content = "<think>x</think>y"},
    {.family = "plain",
     .text = "Text <tool_call>",
     .inline_reasoning = true,
     .content = "Text <tool_call>"},
    {.family = "plain",
     .text = "<think>x</think>y",
     .inline_reasoning = true,
     .content = "<think>x</think>y"},
    {.family = "Ministral 3", .text = "Hi", .content = "Hi"},
    {.family = "Ministral 3",
     .text = "[THINK]a\nb[/THINK]Hi",
     .content = "Hi",
     .reasoning = "a\nb"},
    {.family = "Ministral 3",
     .text = "Ok[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}",
     .content = "Ok",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "Ministral 3",
     .text = "[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]get_weather[ARGS]{\"city\": \"São \\\"P\\\"\\n\", "
             "\"days\": 2}",
     .calls = {{"now", "{}", ""},
               {"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", ""}}},
    {.family = "Ministral 3",
     .text = "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"P",
     .calls = {{"get_weather", "{\"city\": \"P", ""}}},
    {.family = "Ministral 3", .text = "Hi", .inline_reasoning = true, .content = "Hi"},
    {.family = "Ministral 3",
     .text = "[THINK]a\nb[/THINK]Hi",
     .inline_reasoning = true,
     .content = "[THINK]a\nb[/THINK]Hi"},
    {.family = "Ministral 3",
     .text = "Ok[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}",
     .inline_reasoning = true,
     .content = "Ok",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "gpt-oss",
     .text = "<|channel|>analysis<|message|>Think<|end|><|start|>assistant<|channel|>final<|"
             "message|>Said",
     .content = "Said",
     .reasoning = "Think"},
    {.family = "gpt-oss", .text = "<|channel|>final<|message|>Said", .content = "Said"},
    {.family = "gpt-oss",
     .text = "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary "
             "to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Paris\"}",
     .reasoning = "a",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "gpt-oss",
     .text = " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"São "
             "\\\"P\\\"\\n\", \"days\": 2}",
     .calls = {{"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", ""}}},
    {.family = "gpt-oss",
     .text = "<|channel|>commentary<|message|>Let "
             "me.<|end|><|start|>assistant<|channel|>commentary to=functions.now<|message|>{}",
     .content = "Let me.",
     .calls = {{"now", "{}", ""}}},
    {.family = "gpt-oss",
     .text = "<|channel|>analysis<|message|>Think<|end|><|start|>assistant<|channel|>final<|"
             "message|>Said",
     .inline_reasoning = true,
     .content = "<|channel|>analysis<|message|>Think<|end|>Said"},
    {.family = "gpt-oss",
     .text = "<|channel|>final<|message|>Said",
     .inline_reasoning = true,
     .content = "Said"},
    {.family = "gpt-oss",
     .text = "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary "
             "to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Paris\"}",
     .inline_reasoning = true,
     .content = "<|channel|>analysis<|message|>a<|end|>",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "Muse Glimmer",
     .text = " to=self<|message|>a<|eom|><|start|>assistant to=user<|message|>b",
     .content = "b",
     .reasoning = "a"},
    {.family = "Muse Glimmer", .text = "<|message|>b", .content = "b"},
    {.family = "Muse Glimmer",
     .text = " to=get_weather<|message|><atem:function_calls>\n<atem:invoke "
             "name=\"get_weather\">\n<atem:parameter "
             "name=\"city\">Paris</atem:parameter>\n<atem:parameter "
             "name=\"days\">2</atem:parameter>\n</atem:invoke>\n</atem:function_calls>",
     .calls = {{"get_weather", "{\"city\":\"Paris\",\"days\":2}", ""}}},
    {.family = "Muse Glimmer",
     .text = " to=self<|message|>a<|eom|><|start|>assistant to=user<|message|>b",
     .inline_reasoning = true,
     .content = "ab"},
    {.family = "Muse Glimmer", .text = "<|message|>b", .inline_reasoning = true, .content = "b"},
    {.family = "Muse Glimmer",
     .text = " to=get_weather<|message|><atem:function_calls>\n<atem:invoke "
             "name=\"get_weather\">\n<atem:parameter "
             "name=\"city\">Paris</atem:parameter>\n<atem:parameter "
             "name=\"days\">2</atem:parameter>\n</atem:invoke>\n</atem:function_calls>",
     .inline_reasoning = true,
     .calls = {{"get_weather", "{\"city\":\"Paris\",\"days\":2}", ""}}},
    {.family = "Functionary v3.2", .text = "all\nHi there", .content = "Hi there"},
    {.family = "Functionary v3.2",
     .text = "get_weather\n{\"city\": \"Paris\"}",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "Functionary v3.2",
     .text = "get_weather\n{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}",
     .calls = {{"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", ""}}},
    {.family = "Functionary v3.2",
     .text = "all\nHi there",
     .inline_reasoning = true,
     .content = "Hi there"},
    {.family = "Functionary v3.2",
     .text = "get_weather\n{\"city\": \"Paris\"}",
     .inline_reasoning = true,
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", ""}}},
    {.family = "Functionary v3.2",
     .text = "get_weather\n{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}",
     .inline_reasoning = true,
     .calls = {{"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", ""}}},
    {.family = "Kimi K2", .text = "Hi", .content = "Hi"},
    {.family = "Kimi K2", .text = "<think>a</think>Hi", .content = "Hi", .reasoning = "a"},
    {.family = "Kimi K2",
     .text = "<think>a</"
             "think>b<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_"
             "call_argument_begin|>{\"city\": "
             "\"Paris\"}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_"
             "begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     .content = "b",
     .reasoning = "a",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", "functions.get_weather:0"},
               {"now", "{}", "functions.now:1"}}},
    {.family = "Kimi K2",
     .text = "<think>a<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_"
             "end|>",
     .reasoning = "a",
     .calls = {{"now", "{}", "functions.now:0"}}},
    {.family = "Kimi K2", .text = "Hi", .inline_reasoning = true, .content = "Hi"},
    {.family = "Kimi K2",
     .text = "<think>a</think>Hi",
     .inline_reasoning = true,
     .content = "<think>a</think>Hi"},
    {.family = "Kimi K2",
     .text = "<think>a</"
             "think>b<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_"
             "call_argument_begin|>{\"city\": "
             "\"Paris\"}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_"
             "begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     .inline_reasoning = true,
     .content = "<think>a</think>b",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", "functions.get_weather:0"},
               {"now", "{}", "functions.now:1"}}},
    {.family = "Kimi K3",
     .text = "a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|><|close|>"
             "message<|sep|><|end_of_msg|>",
     .content = "b",
     .reasoning = "a"},
    {.family = "Kimi K3",
     .text =
         "a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|><|open|>tools<|sep|"
         "><|open|>call tool=\"get_weather\" index=\"1\"<|sep|><|open|>argument key=\"city\" "
         "type=\"string\"<|sep|>Paris \"x\"<|close|>argument<|sep|><|open|>argument key=\"days\" "
         "type=\"number\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><"
         "|close|>message<|sep|>",
     .content = "b",
     .reasoning = "a",
     .calls = {{"get_weather", "{\"city\":\"Paris \\\"x\\\"\",\"days\":2}", ""}}},
    {.family = "Kimi K3",
     .text = "a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|><|close|>"
             "message<|sep|><|end_of_msg|>",
     .inline_reasoning = true,
     .content = "ab"},
    {.family = "Kimi K3",
     .text =
         "a<|close|>think<|sep|><|open|>response<|sep|>b<|close|>response<|sep|><|open|>tools<|sep|"
         "><|open|>call tool=\"get_weather\" index=\"1\"<|sep|><|open|>argument key=\"city\" "
         "type=\"string\"<|sep|>Paris \"x\"<|close|>argument<|sep|><|open|>argument key=\"days\" "
         "type=\"number\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><"
         "|close|>message<|sep|>",
     .inline_reasoning = true,
     .content = "ab",
     .calls = {{"get_weather", "{\"city\":\"Paris \\\"x\\\"\",\"days\":2}", ""}}},
    {.family = "Cohere2 MoE",
     .text = "a<|END_THINKING|><|START_TEXT|>b<|END_TEXT|>",
     .content = "b",
     .reasoning = "a"},
    {.family = "Cohere2 MoE",
     .text = "a<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
             "\"get_weather\", \"parameters\": {\"city\": \"Paris\"}},\n    {\"tool_call_id\": "
             "\"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>",
     .reasoning = "a",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", "0"}, {"now", "{}", "1"}}},
    {.family = "Cohere2 MoE",
     .text = "a<|END_THINKING|><|START_TEXT|>b<|END_TEXT|>",
     .inline_reasoning = true,
     .content = "<|START_THINKING|>a<|END_THINKING|>b"},
    {.family = "Cohere2 MoE",
     .text = "a<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
             "\"get_weather\", \"parameters\": {\"city\": \"Paris\"}},\n    {\"tool_call_id\": "
             "\"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>",
     .inline_reasoning = true,
     .content = "<|START_THINKING|>a<|END_THINKING|>",
     .calls = {{"get_weather", "{\"city\": \"Paris\"}", "0"}, {"now", "{}", "1"}}},
    {.family = "LFM2", .text = "Hi", .content = "Hi"},
    {.family = "LFM2", .text = "<think>a</think>b", .content = "b", .reasoning = "a"},
    {.family = "LFM2",
     .text = "<|tool_call_start|>[get_weather(city=\"Paris\", days=2), now()]<|tool_call_end|>",
     .calls = {{"get_weather", "{\"city\":\"Paris\",\"days\":2}", ""}, {"now", "{}", ""}}},
    {.family = "LFM2",
     .text = "ok <|tool_call_start|>[get_weather(city='it\\'s \"x\"', deep={'list': [1, 2.5], 'b': "
             "True, 'c': None})]<|tool_call_end|>",
     .content = "ok ",
     .calls =
         {{"get_weather",
           "{\"city\":\"it's \\\"x\\\"\",\"deep\":{\"list\": [1, 2.5], \"b\": true, \"c\": null}}",
           ""}}},
    {.family = "LFM2", .text = "Hi", .inline_reasoning = true, .content = "Hi"},
    {.family = "LFM2",
     .text = "<think>a</think>b",
     .inline_reasoning = true,
     .content = "<think>a</think>b"},
    {.family = "LFM2",
     .text = "<|tool_call_start|>[get_weather(city=\"Paris\", days=2), now()]<|tool_call_end|>",
     .inline_reasoning = true,
     .calls = {{"get_weather", "{\"city\":\"Paris\",\"days\":2}", ""}, {"now", "{}", ""}}},
    {.family = "GigaChat 3", .text = "Hi", .content = "Hi"},
    {.family = "GigaChat 3",
     .text = "ok<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", "
             "\"arguments\": {\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}}",
     .content = "ok",
     .calls = {{"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", ""}}},
    {.family = "GigaChat 3", .text = "Hi", .inline_reasoning = true, .content = "Hi"},
    {.family = "GigaChat 3",
     .text = "ok<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", "
             "\"arguments\": {\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}}",
     .inline_reasoning = true,
     .content = "ok",
     .calls = {{"get_weather", "{\"city\": \"São \\\"P\\\"\\n\", \"days\": 2}", ""}}},
    {.family = "MiniMax-M3", .text = "a</mm:think>b", .content = "b", .reasoning = "a"},
    {.family = "MiniMax-M3",
     .text = "a</mm:think>b]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
             "name=\"get_weather\">]<]minimax[>[<city>Paris "
             "<x>]<]minimax[>[</city>]<]minimax[>[<days>2]<]minimax[>[</"
             "days>]<]minimax[>[<deep>]<]minimax[>[<list>]<]minimax[>[<item>1]<]minimax[>[</"
             "item>]<]minimax[>[<item>2.5]<]minimax[>[</item>]<]minimax[>[</list>]<]minimax[>[</"
             "deep>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
     .content = "b",
     .reasoning = "a",
     .calls = {{"get_weather", "{\"city\":\"Paris <x>\",\"days\":2,\"deep\":{\"list\":[1,2.5]}}",
                ""}}},
    {.family = "MiniMax-M3",
     .text = "a</mm:think>b",
     .inline_reasoning = true,
     .content = "<mm:think>a</mm:think>b"},
    {.family = "MiniMax-M3",
     .text = "a</mm:think>b]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke "
             "name=\"get_weather\">]<]minimax[>[<city>Paris "
             "<x>]<]minimax[>[</city>]<]minimax[>[<days>2]<]minimax[>[</"
             "days>]<]minimax[>[<deep>]<]minimax[>[<list>]<]minimax[>[<item>1]<]minimax[>[</"
             "item>]<]minimax[>[<item>2.5]<]minimax[>[</item>]<]minimax[>[</list>]<]minimax[>[</"
             "deep>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
     .inline_reasoning = true,
     .content = "<mm:think>a</mm:think>b",
     .calls = {{"get_weather", "{\"city\":\"Paris <x>\",\"days\":2,\"deep\":{\"list\":[1,2.5]}}",
                ""}}},
    {.family = "DeepSeek V3.2", .text = "a</think>b", .content = "b", .reasoning = "a"},
    {.family = "DeepSeek V3.2",
     .text = "a</think>b\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke "
             "name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
             "string=\"true\">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
             "string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     .content = "b",
     .reasoning = "a",
     .calls = {{"get_weather", "{\"city\":\"Paris\",\"days\":2}", ""}}},
    {.family = "DeepSeek V3.2",
     .text = "a\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke "
             "name=\"now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     .reasoning = "a",
     .calls = {{"now", "{}", ""}}},
    {.family = "DeepSeek V4", .text = "a</think>b", .content = "b", .reasoning = "a"},
    {.family = "DeepSeek V4",
     .text = "a</think><｜DSML｜tool_calls>\n<｜DSML｜invoke "
             "name=\"now\">\n</｜DSML｜invoke>\n<｜DSML｜invoke "
             "name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
             "string=\"true\">é</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     .reasoning = "a",
     .calls = {{"now", "{}", ""}, {"get_weather", "{\"city\":\"é\"}", ""}}},
    {.family = "Gemma 4", .text = "Hi", .content = "Hi"},
    {.family = "Gemma 4",
     .text = "<|channel>thought\na<channel|>b",
     .content = "b",
     .reasoning = "a"},
    {.family = "Gemma 4",
     .text =
         "<|channel>thought\na<channel|>b<|tool_call>call:get_weather{city:<|\"|>Paris "
         "\"x\"<|\"|>,days:2,deep:{list:[1,2.5]}}<tool_call|><|tool_call>call:now{}<tool_call|>",
     .content = "b",
     .reasoning = "a",
     .calls = {{"get_weather",
                "{\"city\":\"Paris \\\"x\\\"\",\"days\":2,\"deep\":{\"list\":[1,2.5]}}", ""},
               {"now", "{}", ""}}},
    {.family = "Gemma 4", .text = "Hi", .inline_reasoning = true, .content = "Hi"},
    {.family = "Gemma 4",
     .text = "<|channel>thought\na<channel|>b",
     .inline_reasoning = true,
     .content = "<|channel>thought\na<channel|>b"},
    {.family = "Gemma 4",
     .text =
         "<|channel>thought\na<channel|>b<|tool_call>call:get_weather{city:<|\"|>Paris "
         "\"x\"<|\"|>,days:2,deep:{list:[1,2.5]}}<tool_call|><|tool_call>call:now{}<tool_call|>",
     .inline_reasoning = true,
     .content = "<|channel>thought\na<channel|>b",
     .calls = {{"get_weather",
                "{\"city\":\"Paris \\\"x\\\"\",\"days\":2,\"deep\":{\"list\":[1,2.5]}}", ""},
               {"now", "{}", ""}}},
    {.family = "MiniCPM5", .text = "<think>\na\n</think>\n\nb", .content = "b", .reasoning = "a\n"},
    {.family = "MiniCPM5",
     .text = "<think>\na\n</think>\n\nok <function name=\"get_weather\"><param "
             "name=\"city\">Paris</param><param name=\"days\">2</param></function>\n<function "
             "name=\"now\"></function>",
     .content = "ok ",
     .reasoning = "a\n",
     .calls = {{"get_weather", "{\"city\":\"Paris\",\"days\":2}", ""}, {"now", "{}", ""}}},
    {.family = "MiniCPM5",
     .text = "<think>\na\n</think>\n\n<function name=\"get_weather\"><param "
             "name=\"city\"><![CDATA[a</param>b]]></param></function>",
     .reasoning = "a\n",
     .calls = {{"get_weather", "{\"city\":\"a</param>b\"}", ""}}},
    {.family = "MiniCPM5",
     .text = "<think>\na\n</think>\n\nb",
     .inline_reasoning = true,
     .content = "<think>\na\n</think>\n\nb"},
    {.family = "MiniCPM5",
     .text = "<think>\na\n</think>\n\nok <function name=\"get_weather\"><param "
             "name=\"city\">Paris</param><param name=\"days\">2</param></function>\n<function "
             "name=\"now\"></function>",
     .inline_reasoning = true,
     .content = "<think>\na\n</think>\n\nok ",
     .calls = {{"get_weather", "{\"city\":\"Paris\",\"days\":2}", ""}, {"now", "{}", ""}}},
    {.family = "MiniCPM5",
     .text = "<think>\na\n</think>\n\n<function name=\"get_weather\"><param "
             "name=\"city\"><![CDATA[a</param>b]]></param></function>",
     .inline_reasoning = true,
     .content = "<think>\na\n</think>\n\n",
     .calls = {{"get_weather", "{\"city\":\"a</param>b\"}", ""}}},
    {.family = "Qwen3-Coder", .text = "Hi", .content = "Hi"},
    {.family = "Qwen3-Coder",
     .text = "<think>\na\n</think>\n\nb",
     .content = "b",
     .reasoning = "a\n"},
    {.family = "Qwen3-Coder",
     .text =
         "ok "
         "<tool_call>\n<function=get_weather>\n<parameter=days>\n2\n</"
         "parameter>\n<parameter=city>\nParis \"x\"\nRome\n</parameter>\n</function>\n</tool_call>",
     .content = "ok ",
     .calls = {{"get_weather", "{\"days\":2,\"city\":\"Paris \\\"x\\\"\\nRome\"}", ""}}},
    {.family = "Qwen3-Coder",
     .text = "<tool_call>\n<function=get_weather>\n<parameter=city>\nA\n</"
             "parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</"
             "tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
     .calls = {{"get_weather", "{\"city\":\"A\",\"days\":2}", ""}, {"now", "{}", ""}}},
    {.family = "Qwen3-Coder",
     .text = "<function=now>\n</function>\n</tool_call>",
     .calls = {{"now", "{}", ""}}},
    {.family = "Qwen3-Coder", .text = "Hi", .inline_reasoning = true, .content = "Hi"},
    {.family = "Qwen3-Coder",
     .text = "<think>\na\n</think>\n\nb",
     .inline_reasoning = true,
     .content = "<think>\na\n</think>\n\nb"},
    {.family = "Qwen3-Coder",
     .text =
         "ok "
         "<tool_call>\n<function=get_weather>\n<parameter=days>\n2\n</"
         "parameter>\n<parameter=city>\nParis \"x\"\nRome\n</parameter>\n</function>\n</tool_call>",
     .inline_reasoning = true,
     .content = "ok ",
     .calls = {{"get_weather", "{\"days\":2,\"city\":\"Paris \\\"x\\\"\\nRome\"}", ""}}},
    {.family = "DeepSeek V3.2",
     .text = "fits </think> nothing",
     .inline_reasoning = true,
     .content = "fits </think> nothing"},
};

enum { N_CASES = sizeof cases / sizeof *cases };

static const char *source_of(const char *family)
{
    for (int i = 0; i < N_FAMILY_TEMPLATES; i++)
        if (strcmp(family_templates[i].name, family) == 0)
            return family_templates[i].source;
    fail_msg("no template for %s", family);
    return NULL;
}

/* The parser for a request with tools; kept for the next of the same kind. */
static struct chat_parser *parser_of(const struct parse_case *c)
{
    static struct chat_parser *parser;
    static const char *family;
    static bool inline_reasoning;
    if (parser && strcmp(family, c->family) == 0 && inline_reasoning == c->inline_reasoning)
        return parser;
    chat_parser_release(parser);
    struct chat_templates *templates = load_source(source_of(c->family));
    assert_non_null(templates);
    struct chat_request request = {
        .messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "Hi"),
        .tools = json_parse(slice_of(family_tools), NULL),
        .kwargs = json_object(),
        .reasoning_format = c->inline_reasoning ? CHAT_REASONING_NONE : CHAT_REASONING_AUTO,
        .add_generation_prompt = true,
        .parallel_tool_calls = true,
        .enable_thinking = true,
    };
    for (size_t i = 0; i < json_array_size(request.tools); i++) {
        json_t *function = json_object_get(json_array_get(request.tools, i), "function");
        assert_non_null(json_object_get(function, "parameters"));
    }
    struct chat_prompt prompt = {0};
    struct error err = {0};
    if (!chat_apply(templates, &request, &prompt, &err))
        fail_msg("%s: %s", c->family, err.message);
    assert_true(prompt.grammar.len > 0 || strcmp(c->family, "plain") == 0);
    parser = chat_parser_keep(prompt.parser);
    family = c->family;
    inline_reasoning = c->inline_reasoning;
    chat_prompt_free(&prompt);
    chat_request_free(&request);
    chat_templates_free(templates);
    return parser;
}

static bool is(const struct str *text, const char *expected)
{
    return strcmp(str_text(text), expected ? expected : "") == 0;
}

static bool matches(const struct parse_case *c, const struct chat_message *m, bool ids)
{
    size_t n = 0;
    while (n < CALLS_MAX && c->calls[n].name)
        n++;
    bool same = is(&m->content, c->content) && is(&m->reasoning_content, c->reasoning) &&
                m->n_tool_calls == n;
    for (size_t i = 0; same && i < n; i++) {
        const struct chat_tool_call *call = &m->tool_calls[i];
        same = is(&call->name, c->calls[i].name) && is(&call->arguments, c->calls[i].arguments) &&
               (is(&call->id, c->calls[i].id) || (ids && call->id.len == 32));
    }
    if (same)
        return true;
    print_error("%s: %s\n  content   %s\n  reasoning %s\n", c->family, c->text,
                str_text(&m->content), str_text(&m->reasoning_content));
    for (size_t i = 0; i < m->n_tool_calls; i++)
        print_error("  call      %s %s %s\n", str_text(&m->tool_calls[i].name),
                    str_text(&m->tool_calls[i].arguments), str_text(&m->tool_calls[i].id));
    return false;
}

static void a_whole_text_gives_its_message(void **state)
{
    (void)state;
    int failed = 0;
    for (int i = 0; i < N_CASES; i++) {
        struct chat_message message = {0};
        struct error err = {0};
        assert_true(
            chat_parse(parser_of(&cases[i]), slice_of(cases[i].text), false, &message, &err));
        failed += !matches(&cases[i], &message, false);
        chat_message_free(&message);
    }
    assert_int_equal(failed, 0);
}

/* What a client puts together from the deltas. */
struct client {
    struct str content, reasoning, names[CALLS_MAX], arguments[CALLS_MAX], ids[CALLS_MAX];
};

static void receive(struct client *client, const struct chat_deltas *deltas)
{
    for (size_t i = 0; i < deltas->n; i++) {
        const struct chat_delta *delta = &deltas->data[i];
        size_t k = delta->tool_index;
        assert_true(delta->kind != CHAT_DELTA_TOOL_CALL || k < CALLS_MAX);
        struct str *text = delta->kind == CHAT_DELTA_CONTENT     ? &client->content
                           : delta->kind == CHAT_DELTA_REASONING ? &client->reasoning
                                                                 : &client->arguments[k];
        str_append_slice(text, str_slice(&delta->text));
        if (delta->kind == CHAT_DELTA_TOOL_CALL) {
            str_append_slice(&client->names[k], str_slice(&delta->name));
            str_append_slice(&client->ids[k], str_slice(&delta->id));
        }
    }
}

static bool adds_up(const struct client *client, const struct chat_message *m)
{
    bool same = slice_equal(str_slice(&client->content), str_slice(&m->content)) &&
                slice_equal(str_slice(&client->reasoning), str_slice(&m->reasoning_content));
    for (size_t i = 0; i < m->n_tool_calls; i++)
        same =
            same && slice_equal(str_slice(&client->names[i]), str_slice(&m->tool_calls[i].name)) &&
            slice_equal(str_slice(&client->ids[i]), str_slice(&m->tool_calls[i].id)) &&
            slice_equal(str_slice(&client->arguments[i]), str_slice(&m->tool_calls[i].arguments));
    return same;
}

static void stream(const struct parse_case *c, size_t piece, int *failed)
{
    struct chat_stream_settings settings = {.merge_tool_headers = true};
    struct chat_stream *s = chat_stream_create(parser_of(c), &settings);
    struct client client = {0};
    struct error err = {0};
    size_t len = strlen(c->text);
    for (size_t at = 0; at <= len; at += piece) {
        struct chat_deltas deltas = {0};
        size_t n = len - at < piece ? len - at : piece;
        assert_true(
            chat_stream_add(s, (struct slice){c->text + at, n}, at + piece > len, &deltas, &err));
        receive(&client, &deltas);
        chat_deltas_free(&deltas);
    }
    *failed += !matches(c, chat_stream_message(s), true);
    if (!adds_up(&client, chat_stream_message(s))) {
        print_error("%s: %s: the deltas do not add up\n", c->family, c->text);
        ++*failed;
    }
    str_free(&client.content);
    str_free(&client.reasoning);
    for (int i = 0; i < CALLS_MAX; i++) {
        str_free(&client.names[i]);
        str_free(&client.arguments[i]);
        str_free(&client.ids[i]);
    }
    chat_stream_free(s);
}

static void a_stream_in_any_pieces_adds_up_to_the_same_message(void **state)
{
    (void)state;
    int failed = 0;
    for (int i = 0; i < N_CASES; i++)
        for (size_t piece = 1; piece <= 7; piece += 2)
            stream(&cases[i], piece, &failed);
    assert_int_equal(failed, 0);
}

static void bytes_that_are_no_text_become_replacement_characters(void **state)
{
    (void)state;
    struct chat_parser *parser = chat_parser_plain();
    struct chat_message message = {0};
    struct error err = {0};
    assert_true(chat_parse(parser,
                           SLICE("a\xff"
                                 "b\xe2\x82"),
                           false, &message, &err));
    assert_string_equal(str_text(&message.content), "a\xef\xbf\xbd"
                                                    "b\xef\xbf\xbd");
    chat_message_free(&message);
    assert_true(chat_parse(parser, SLICE("ab\xe2\x82"), true, &message, &err));
    assert_string_equal(str_text(&message.content), "ab");
    chat_message_free(&message);
    chat_parser_release(parser);
}

static void a_deeply_nested_argument_does_no_harm(void **state)
{
    (void)state;
    const struct parse_case hermes = {.family = "hermes"};
    struct str text = {0};
    str_append_text(&text, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": ");
    for (int i = 0; i < 100000; i++)
        str_append_char(&text, '[');
    struct chat_message message = {0};
    struct error err = {0};
    assert_true(chat_parse(parser_of(&hermes), str_slice(&text), false, &message, &err));
    chat_message_free(&message);
    str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_text_gives_its_message),
        cmocka_unit_test(a_stream_in_any_pieces_adds_up_to_the_same_message),
        cmocka_unit_test(bytes_that_are_no_text_become_replacement_characters),
        cmocka_unit_test(a_deeply_nested_argument_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
