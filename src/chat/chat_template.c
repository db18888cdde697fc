/* chat_template.c - loading a model's templates, and rendering with them. */
#include "chat/chat_family.h"
#include "chat/chat_internal.h"
#include "chat/jinja_value.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <time.h>

/* Used where a model brings no template. */
static const char chatml_source[] =
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "  {{- '<|im_start|>assistant\n' -}}\n"
    "{%- endif -%}";

/* Checks in published templates that refuse conversations a server must take:
 * where marker stands in the template, from is replaced. */
static const struct {
    const char *marker, *from, *to;
} patches[] = {
    {"<|channel|>",
     "{%- if \"<|channel|>analysis<|message|>\" in message.content or "
     "\"<|channel|>final<|message|>\" in message.content %}",
     "{%- if false %}"},
    {"[TOOL_CALLS]",
     "{%- if (message['content'] is none or message['content'] == '' or "
     "message['content']|length == 0) and (message['tool_calls'] is not defined or "
     "message['tool_calls'] is none or message['tool_calls']|length == 0) %}",
     "{%- if false %}"},
};

static bool replace_all(struct str *text, const char *from, const char *to)
{
    struct str out = {0};
    const char *at = str_text(text), *found;
    while ((found = strstr(at, from))) {
        str_append(&out, at, (size_t)(found - at));
        str_append_text(&out, to);
        at = found + strlen(from);
    }
    str_append_text(&out, at);
    if (out.failed) {
        str_free(&out);
        return false;
    }
    str_free(text);
    *text = out;
    return true;
}

bool chat_template_has(const struct chat_template *t, const char *text)
{
    return strstr(jinja_source(t->jinja).data, text) != NULL;
}

struct slice chat_trim(struct slice text)
{
    static const char blanks[] = " \t\n\r\v\f";
    while (text.len && memchr(blanks, text.data[0], sizeof blanks - 1)) {
        text.data++;
        text.len--;
    }
    while (text.len && memchr(blanks, text.data[text.len - 1], sizeof blanks - 1))
        text.len--;
    return text;
}

bool chat_has_role(const json_t *message, const char *role)
{
    const char *text = json_string_value(json_object_get(message, "role"));
    return text && strcmp(text, role) == 0;
}

static void template_free(struct chat_template *t)
{
    if (!t)
        return;
    chat_analysis_free(t->analysis);
    jinja_template_free(t->jinja);
    str_free(&t->bos);
    str_free(&t->eos);
    free(t);
}

/* What finding out about a template may cost: more than fifty times what the
 * costliest of the 68 templates in the tests takes (36 thousand steps, 160 KiB). */
#define PROBING_STEPS UINT64_C(2000000)
#define PROBING_BYTES ((uint64_t)8 << 20)

static void warn_of_limit(const struct chat_probing *probing)
{
    if (!chat_probing_goes_on(probing))
        log_warn("the chat template does too much work for a few short messages (more than %u "
                 "million steps or %u MiB): what it can do is taken for unknown, and requests "
                 "that it renders may fail; choose another with --chat-template",
                 (unsigned)(PROBING_STEPS / 1000000), (unsigned)(PROBING_BYTES >> 20));
}

static struct chat_template *
template_load(struct slice source, const struct chat_template_settings *settings, struct error *err)
{
    struct chat_template *t = calloc(1, sizeof *t);
    if (!t || !str_append_slice(&t->bos, settings->bos) ||
        !str_append_slice(&t->eos, settings->eos)) {
        template_free(t);
        error_memory(err);
        return NULL;
    }
    t->add_bos = settings->add_bos;
    t->add_eos = settings->add_eos;
    struct chat_probing probing = {{.steps = PROBING_STEPS, .bytes = PROBING_BYTES}, {0}};
    if (!jinja_parse(source, &t->jinja, err) || !chat_probe(t->jinja, &probing, &t->caps, err)) {
        error_prefix(err, "the chat template cannot be used");
        template_free(t);
        return NULL;
    }
    if (!chat_family_of(t))
        t->analysis = chat_analyze(t, &probing, &t->analysis_error);
    warn_of_limit(&probing);
    return t;
}

/* Can it think? Ask as a request would. */
static bool probe_thinking(const struct chat_templates *templates)
{
    struct budget budget = {.steps = PROBING_STEPS, .bytes = PROBING_BYTES};
    struct chat_request request = {.budget = &budget,
                                   .add_generation_prompt = true,
                                   .enable_thinking = true,
                                   .reasoning_format = CHAT_REASONING_DEEPSEEK,
                                   .messages =
                                       json_pack("[{s:s,s:s}]", "role", "user", "content", "test"),
                                   .kwargs = json_object()};
    struct chat_prompt prompt = {0};
    bool thinks = request.messages && request.kwargs &&
                  chat_apply(templates, &request, &prompt, NULL) && prompt.supports_thinking;
    chat_prompt_free(&prompt);
    json_decref(request.messages);
    json_decref(request.kwargs);
    return thinks;
}

bool chat_templates_load(const struct chat_template_settings *settings, struct chat_templates **out,
                         struct error *err)
{
    *out = NULL;
    struct chat_templates *all = calloc(1, sizeof *all);
    if (!all)
        return error_memory(err);
    all->use_jinja = settings->use_jinja;
    struct slice source = settings->source;
    if (source.len == 0 || slice_equal_text(source, "chatml"))
        source = settings->tool_use_source.len ? settings->tool_use_source : SLICE(chatml_source);
    bool ok = str_append_slice(&all->source, source) &&
              str_append_slice(&all->tool_use_source, settings->tool_use_source);
    for (size_t i = 0; ok && i < sizeof patches / sizeof *patches; i++)
        if (strstr(str_text(&all->source), patches[i].marker))
            ok = replace_all(&all->source, patches[i].from, patches[i].to);
    if (!ok) {
        chat_templates_free(all);
        return error_memory(err);
    }
    if (!settings->use_jinja && chat_legacy_find(str_slice(&all->source)) < 0) {
        chat_templates_free(all);
        return error_set(err, ERR_INVALID,
                         "this custom template is not supported, try using --jinja");
    }
    all->main = template_load(str_slice(&all->source), settings, err);
    if (!all->main) {
        chat_templates_free(all);
        return false;
    }
    if (settings->tool_use_source.len) /* a broken variant is as good as none */
        all->tool_use = template_load(settings->tool_use_source, settings, NULL);
    all->supports_thinking = all->use_jinja && probe_thinking(all);
    *out = all;
    return true;
}

void chat_templates_free(struct chat_templates *templates)
{
    if (!templates)
        return;
    template_free(templates->main);
    template_free(templates->tool_use);
    str_free(&templates->source);
    str_free(&templates->tool_use_source);
    free(templates);
}

struct slice chat_templates_source(const struct chat_templates *templates, bool tool_use)
{
    if (!tool_use)
        return str_slice(&templates->source);
    return templates->tool_use ? str_slice(&templates->tool_use_source) : SLICE("");
}

struct chat_caps chat_templates_caps(const struct chat_templates *templates)
{
    return templates->tool_use ? templates->tool_use->caps : templates->main->caps;
}

bool chat_templates_support_thinking(const struct chat_templates *templates)
{
    return templates->supports_thinking;
}

/* ---- Rendering ----------------------------------------------------------- */

static bool set_json(struct jinja_run *run, const char *name, const json_t *value, bool marked)
{
    return jinja_set(run, name, jinja_from_json(run, value, marked));
}

bool chat_role_is_word(struct slice role)
{
    for (size_t i = 0; i < role.len; i++) {
        char c = role.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_' && c != '-')
            return false;
    }
    return true;
}

static bool unmark_role(struct jinja_run *run, struct jinja_value *message, struct slice role)
{
    struct jinja_value *key = jinja_text(run, SLICE("role"), false);
    struct jinja_value *value = jinja_text(run, role, false);
    return key && value && jinja_dict_set(run, message, key, value);
}

struct jinja_value *chat_messages_value(struct jinja_run *run, const json_t *messages)
{
    struct jinja_value *list = jinja_list(run);
    size_t i;
    json_t *message;
    json_array_foreach((json_t *)messages, i, message)
    {
        const json_t *role = json_object_get(message, "role");
        bool marked = !role || !slice_equal_text(json_slice(role), "assistant");
        struct jinja_value *value = jinja_from_json(run, message, marked);
        if (!list || !value || !jinja_list_add(run, list, value))
            return NULL;
        if (marked && json_is_string(role) && chat_role_is_word(json_slice(role)) &&
            !unmark_role(run, value, json_slice(role)))
            return NULL;
    }
    return list;
}

static bool set_reasoning(struct jinja_run *run, const json_t *context)
{
    /* Templates name the same wishes differently. */
    const json_t *preserve = json_object_get(context, "preserve_reasoning");
    if (json_is_boolean(preserve)) {
        bool on = json_is_true(preserve);
        if (!jinja_set(run, "preserve_thinking", jinja_bool(run, on)) ||
            !jinja_set(run, "clear_thinking", jinja_bool(run, !on)) ||
            !jinja_set(run, "truncate_history_thinking", jinja_bool(run, !on)) ||
            !jinja_set(run, "drop_thinking", jinja_bool(run, !on)))
            return false;
    }
    const json_t *effort = json_object_get(context, "reasoning_effort");
    return !json_is_string(effort) || (set_json(run, "reasoning_effort", effort, false) &&
                                       set_json(run, "reasoning_strength", effort, false));
}

static bool set_variables(struct jinja_run *run, const struct chat_inputs *in,
                          const json_t *messages, const json_t *tools, const json_t *more,
                          bool add_generation_prompt)
{
    bool ok = set_reasoning(run, in->context) &&
              jinja_set(run, "messages", chat_messages_value(run, messages)) &&
              jinja_set(run, "bos_token", jinja_text(run, str_slice(&in->t->bos), false)) &&
              jinja_set(run, "eos_token", jinja_text(run, str_slice(&in->t->eos), false)) &&
              jinja_set(run, "enable_thinking", jinja_bool(run, in->enable_thinking)) &&
              (!tools || set_json(run, "tools", tools, true));
    const json_t *maps[] = {in->context, more};
    for (int i = 0; ok && i < 2; i++) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)maps[i], key, value)
        {
            ok = ok && set_json(run, key, value, false);
        }
    }
    return ok && (!add_generation_prompt ||
                  jinja_set(run, "add_generation_prompt", jinja_bool(run, true)));
}

/* Drop n bytes from the front of a rendering. */
static void drop_front(struct jinja_output *out, size_t n)
{
    str_drop_front(&out->text, n);
    size_t kept = 0;
    for (size_t i = 0; i < out->n_spans; i++) {
        struct jinja_span span = out->spans[i];
        span.begin = span.begin > n ? span.begin - n : 0;
        span.end = span.end > n ? span.end - n : 0;
        if (span.end > span.begin)
            out->spans[kept++] = span;
    }
    out->n_spans = kept;
}

static void cut_spans(struct jinja_output *out)
{
    while (out->n_spans && out->spans[out->n_spans - 1].end > out->text.len) {
        out->spans[out->n_spans - 1].end = out->text.len;
        if (out->spans[out->n_spans - 1].begin >= out->text.len)
            out->n_spans--;
    }
}

/* A run with the inputs' variables, or those that replace them. */
static struct jinja_run *make_run(const struct chat_inputs *in, const json_t *messages,
                                  const json_t *tools, const json_t *more,
                                  bool add_generation_prompt)
{
    struct jinja_run *run = jinja_run_create(in->t->jinja, in->now, false, NULL, in->budget);
    /* a variable that cannot be set leaves its error in the run */
    if (run)
        set_variables(run, in, messages ? messages : in->messages, tools ? tools : in->tools, more,
                      add_generation_prompt);
    return run;
}

/* Why there is no run. */
static bool no_run(const struct chat_inputs *in, struct error *err)
{
    return budget_step(in->budget, 1, err) && budget_bytes(in->budget, 1, err) && error_memory(err);
}

/* Take off what the tokenizer adds itself. */
static void drop_ends(const struct chat_inputs *in, struct jinja_output *out)
{
    if (in->keep_ends)
        return;
    const struct str *bos = &in->t->bos, *eos = &in->t->eos;
    if (in->t->add_bos && bos->len && slice_starts_with(str_slice(&out->text), str_slice(bos)))
        drop_front(out, bos->len);
    if (in->t->add_eos && eos->len && slice_ends_with(str_slice(&out->text), str_slice(eos))) {
        str_truncate(&out->text, out->text.len - eos->len);
        cut_spans(out);
    }
}

bool chat_render(const struct chat_inputs *in, const json_t *messages, const json_t *tools,
                 const json_t *more, bool add_generation_prompt, struct jinja_output *out,
                 struct error *err)
{
    struct jinja_run *run = make_run(in, messages, tools, more, add_generation_prompt);
    if (!run)
        return no_run(in, err);
    bool ok = jinja_render(run, out, err);
    jinja_run_free(run);
    if (ok)
        drop_ends(in, out);
    return ok;
}

static bool render_both(const struct chat_inputs *in, const json_t *messages, const json_t *tools,
                        const json_t *more, struct jinja_output *with, struct jinja_output *without,
                        struct error *err)
{
    struct jinja_run *run = make_run(in, messages, tools, more, false);
    if (!run)
        return no_run(in, err);
    bool both = false;
    bool ok = jinja_render_both(run, "add_generation_prompt", jinja_bool(run, true), with, without,
                                &both, err);
    jinja_run_free(run);
    if (!ok)
        return false;
    drop_ends(in, with);
    if (!both)
        return chat_render(in, messages, tools, more, false, without, err);
    drop_ends(in, without);
    return true;
}

bool chat_prompt_add_user(struct chat_prompt *prompt, const struct jinja_output *rendered)
{
    prompt->user = rendered->n_spans ? malloc(rendered->n_spans * sizeof *prompt->user) : NULL;
    if (rendered->n_spans && !prompt->user)
        return false;
    for (size_t i = 0; i < rendered->n_spans; i++)
        prompt->user[prompt->n_user++] =
            (struct text_range){rendered->spans[i].begin, rendered->spans[i].end};
    return true;
}

bool chat_render_prompt(const struct chat_inputs *in, const json_t *messages, const json_t *tools,
                        const json_t *more, struct chat_prompt *out, struct error *err)
{
    struct jinja_output with = {0}, without = {0};
    bool ok = render_both(in, messages, tools, more, &with, &without, err);
    if (ok) {
        struct slice a = str_slice(&with.text), b = str_slice(&without.text);
        size_t same = 0;
        while (same + 64 <= a.len && same + 64 <= b.len &&
               memcmp(a.data + same, b.data + same, 64) == 0)
            same += 64;
        while (same < a.len && same < b.len && a.data[same] == b.data[same])
            same++;
        struct jinja_output *chosen = in->add_generation_prompt ? &with : &without;
        ok = (str_append_slice(&out->generation_prompt, slice_from(a, same)) &&
              str_append_slice(&out->text, str_slice(&chosen->text))) ||
             error_memory(err);
        ok = ok && (chat_prompt_add_user(out, chosen) || error_memory(err));
    }
    jinja_output_free(&with);
    jinja_output_free(&without);
    return ok;
}
