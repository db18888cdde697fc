"""A second opinion on the renderings: Debian's python3-jinja2, set up as Hugging
Face's transformers set it up, on the shared templates. Conversations that the
server changes before rendering (other roles, parts, prefill, JSON arguments for
templates that want objects are parsed here too) are left out.

    jinja2_check.py SHARED-FOLDER
"""
import datetime
import json
import os
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("SKIPPED: python3-jinja2 is not installed")
    sys.exit(77)

NOW = datetime.datetime(2026, 1, 15, 12, 0, 0)
CASES = ("user", "system-user", "multi-turn", "no-generation-prompt", "tools", "tools-system",
         "thinking-on", "thinking-off", "unicode", "special-tokens-in-text")


# The server finds that this template cannot think and says so to it.
NOT_THINKING = {"Apertus-8B-Instruct.jinja"}
# Where the two differ and why: this engine escapes what format() joins; it is
# stricter with names and attributes that are not there; a generator is not a list.
KNOWN = {
    "meetkai-functionary-medium-v3.1.jinja": ("tools", "tools-system"),
    "CohereForAI-c4ai-command-r-plus-tool_use.jinja": ("tools", "tools-system"),
    "fireworks-ai-llama-3-firefunction-v2.jinja": CASES,
    "llama-cpp-deepseek-r1.jinja": ("tools", "tools-system"),
}


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def variables(body, caps, thinking):
    messages = json.loads(json.dumps(body["messages"]))
    if not caps["supports_string_content"]:
        for message in messages:
            message["content"] = [{"type": "text", "text": message["content"]}]
    context = {"messages": messages, "bos_token": "<s>", "eos_token": "</s>",
               "datetime": NOW.strftime("%b %d %Y"), "date_string": NOW.strftime("%d %b %Y"),
               "enable_thinking": thinking}
    if body.get("add_generation_prompt", True):
        context["add_generation_prompt"] = True
    if "tools" in body:
        context["tools"] = body["tools"]
    context.update(body.get("chat_template_kwargs", {}))
    return context


def main(folder):
    with open(os.path.join(folder, "renderings.json"), encoding="utf-8") as file:
        recorded = json.load(file)
    same, other, refused = 0, [], []
    for name, template in recorded["rendered"].items():
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            source = file.read()
        for case in CASES:
            expected = template["prompts"].get(case)
            if not isinstance(expected, str) or case in KNOWN.get(name, ()):
                continue
            if case.endswith("system") or "system" in case or case in ("multi-turn", "unicode"):
                if not template["caps"]["supports_system_role"]:
                    continue
            try:
                context = variables(recorded["cases"][case], template["caps"],
                                    name not in NOT_THINKING)
                text = environment().from_string(source).render(context)
            except Exception as error:  # what this engine cannot do it cannot judge
                refused.append((name, case, repr(error)[:100]))
                continue
            if text.startswith("<s>"):
                text = text[3:]
            if text == expected:
                same += 1
            else:
                other.append((name, case, text, expected))
    print(f"{same} the same, {len(other)} different, {len(refused)} refused")
    for name, case, text, expected in other:
        at = next((i for i, (a, b) in enumerate(zip(text, expected)) if a != b),
                  min(len(text), len(expected)))
        print(f"{name}, {case}: at {at}\n  python   {text[max(0, at - 30):at + 60]!r}"
              f"\n  recorded {expected[max(0, at - 30):at + 60]!r}")
    for entry in refused:
        print("refused:", *entry)
    return 1 if other or refused or same < 600 else 0


if __name__ == "__main__":
    if not os.path.isdir(os.path.join(sys.argv[1], "templates")):
        print("SKIPPED: the reference data is absent")
        sys.exit(1 if os.environ.get("CI") else 77)
    sys.exit(main(os.path.join(sys.argv[1], "templates")))
