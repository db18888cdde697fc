/* chat_patches.c - published templates of which rendering shows too little or
 * too much, with what is known of their models. */
#include "chat/chat_analysis.h"

#include <string.h>

static void thinks_in_tags(struct chat_analysis *a)
{
    a->reasoning = REASONING_TAGGED;
    a->reasoning_start = SLICE("<think>");
    a->reasoning_end = SLICE("</think>");
    chat_analysis_preserve(a, a->reasoning_start);
    chat_analysis_preserve(a, a->reasoning_end);
}

/* Cuts thoughts out of the history, so none are ever shown. */
static void cuts_thoughts(struct chat_analysis *a)
{
    if (a->reasoning == REASONING_NONE)
        thinks_in_tags(a);
}

static void granite_3_3(struct chat_analysis *a)
{
    thinks_in_tags(a);
    a->content_wrapped = false; /* only where there is reasoning: optional */
    a->content_start = SLICE("<response>");
    a->content_end = SLICE("</response>");
    chat_analysis_preserve(a, a->content_start);
    chat_analysis_preserve(a, a->content_end);
}

static void command_r_plus(struct chat_analysis *a)
{
    if (a->content_start.len)
        return;
    a->content_wrapped = true;
    a->content_start = SLICE("<|CHATBOT_TOKEN|>");
    a->content_end = SLICE("<|END_OF_TURN_TOKEN|>");
    chat_analysis_preserve(a, a->content_start);
    chat_analysis_preserve(a, a->content_end);
    a->user_start = SLICE("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>");
}

/* Calls follow each other with nothing around them. */
static void functionary_3_1(struct chat_analysis *a)
{
    static const char *const tokens[] = {"<|eot_id|>", "<|eom_id|>", "<function=", ">",
                                         "</function>"};
    a->content_wrapped = false;
    a->content_end = a->name_prefix = a->section_start = a->section_end = a->close = SLICE("");
    a->call_start = SLICE("<function=");
    a->call_end = SLICE("</function>");
    a->n_preserved = 0;
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        chat_analysis_preserve(a, slice_of(tokens[i]));
}

static void deepseek_r1_distill(struct chat_analysis *a)
{
    a->section_start = SLICE("<｜tool▁calls▁begin｜>");
    a->section_end = SLICE("<｜tool▁calls▁end｜>");
    a->call_start = SLICE("<｜tool▁call▁begin｜>function");
    a->name_prefix = SLICE("<｜tool▁sep｜>");
    a->call_end = SLICE("<｜tool▁call▁end｜>");
    a->close = SLICE("```");
}

static void nemotron_nano_2(struct chat_analysis *a)
{
    a->calls = CALLS_JSON;
    a->section_start = a->section_end = SLICE("");
    a->call_start = SLICE("<TOOLCALL>");
    a->call_end = SLICE("</TOOLCALL>");
    a->in_array = true;
    a->content_wrapped = false;
    a->content_start = a->content_end = SLICE("");
    a->reasoning = REASONING_TAGGED;
    a->reasoning_start = SLICE("<think>\n");
    a->reasoning_end = SLICE("</think>");
    a->assistant_start = SLICE("<SPECIAL_11>Assistant");
    a->user_start = SLICE("<SPECIAL_11>User");
    a->n_preserved = 0;
    chat_analysis_preserve(a, SLICE("<SPECIAL_11>"));
    chat_analysis_preserve(a, a->reasoning_end);
    chat_analysis_preserve(a, a->call_start);
    chat_analysis_preserve(a, a->call_end);
}

static void firefunction_2(struct chat_analysis *a)
{
    a->assistant_start = SLICE("<|start_header_id|>assistant<|end_header_id|>");
    a->user_start = SLICE("<|start_header_id|>user<|end_header_id|>");
}

static void solar_open(struct chat_analysis *a)
{
    a->assistant_start = SLICE("<|begin|>assistant");
}

static void apriel_1_6(struct chat_analysis *a)
{
    a->user_start = SLICE("<|begin_user|>");
    a->assistant_start = SLICE("<|begin_assistant|>");
}

static void openai_wrapper(struct chat_analysis *a)
{
    a->wrapper_may_lead = true;
}

/* The template lays tags out with line breaks that the model does not write. */
static void laguna(struct chat_analysis *a)
{
    struct slice *tags[] = {&a->reasoning_start, &a->reasoning_end, &a->arg_value_prefix,
                            &a->arg_value_suffix, &a->arg_separator};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        *tags[i] = chat_trim(*tags[i]);
    a->blanks_between_tags = true;
    a->stop = SLICE("</assistant>");
}

static void bailing_3(struct chat_analysis *a)
{
    a->arg_value_suffix = chat_trim(a->arg_value_suffix);
    a->blanks_between_tags = true;
}

/* In this order; "!" before a text: it must not stand there. */
static const struct {
    const char *texts[4];
    void (*apply)(struct chat_analysis *a);
} patches[] = {
    {{"content.split('</think>')", "!reasoning_content", "!<SPECIAL_12>"}, cuts_thoughts},
    {{"Write your thoughts between <think></think> and write your response between "
      "<response></response>"},
     granite_3_3},
    {{"<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"}, command_r_plus},
    {{"set has_code_interpreter = tools | selectattr(\"type\", \"equalto\", "
      "\"code_interpreter\") | list | length > 0"},
     functionary_3_1},
    {{"{{'<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + "
      "'<｜tool▁sep｜>'"},
     deepseek_r1_distill},
    {{"<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<TOOL_RESPONSE>"}, nemotron_nano_2},
    {{"{%- set system_prompt = '<|start_header_id|>' + 'system' + '<|end_header_id|>\\n\\n' + "
      "message['content'] | trim + '\\n' + system_prompt_suffix + '<|eot_id|>' -%}"},
     firefunction_2},
    {{"<|begin|>assistant<|think|><|end|>"}, solar_open},
    {{"if not loop.last and '[BEGIN FINAL RESPONSE]' in asst_text"}, apriel_1_6},
    {{"Respond in the format {\"name\": function name", "Do not use variables."}, openai_wrapper},
    {{"laguna_glm_thinking"}, laguna},
    {{"Bailing V3 chat template"}, bailing_3},
};

void chat_analysis_patch(const struct chat_template *t, struct chat_analysis *a)
{
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        bool all = true;
        for (size_t k = 0; k < 4 && patches[i].texts[k]; k++) {
            const char *text = patches[i].texts[k];
            all = all &&
                  (*text == '!' ? !chat_template_has(t, text + 1) : chat_template_has(t, text));
        }
        if (all)
            patches[i].apply(a);
    }
}
