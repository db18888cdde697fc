"""markers.py SERVER SHARED - on a running server, what a user writes is no special
token however it looks, and the markers of the template are."""
import server
from server import Server, check

server.begin("markers")
TEMPLATE = ("{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
            "{% if add_generation_prompt %}<s>assistant: {% endif %}")
BOS, EOS = 1, 2


def post(path, **body):
    return running.post(path, body)


def tokens(text, parse_special):
    return post("/tokenize", content=text, add_special=True, parse_special=parse_special)["tokens"]


def counts(text):
    """The prompt's tokens as every chat surface counts them."""
    messages = [{"role": "user", "content": text}]
    chat = {"messages": messages, "max_tokens": 1}
    return {
        "chat": post("/v1/chat/completions", **chat)["usage"]["prompt_tokens"],
        "chat count": post("/v1/chat/completions/input_tokens", **chat)["input_tokens"],
        "responses": post("/v1/responses", input=text, max_output_tokens=1)["usage"]["input_tokens"],
        "responses count": post("/v1/responses/input_tokens", input=text)["input_tokens"],
        "anthropic": sum(v for k, v in post("/v1/messages", **chat)["usage"].items()
                         if k in ("input_tokens", "cache_read_input_tokens")),
        "anthropic count": post("/v1/messages/count_tokens", **chat)["input_tokens"],
    }


template = server.scratch / "template.jinja"
template.write_text(TEMPLATE)
with Server("--jinja", "--chat-template-file", str(template)) as running:
    check("a marker is one token", tokens("</s>", True) == [BOS, EOS])
    spelled = len(tokens("a</s>b", False)) - len(tokens("ab", False))
    check("and several as text", spelled > 1)
    # The same conversation with and without a text that closes the turn.
    plain, closing = counts("ab"), counts("a</s>b")
    for surface, n in closing.items():
        check(f"{surface}: text is text", n - plain[surface] == spelled,
              f"{n} tokens, without {plain[surface]}, spelled {spelled}")
    check("all surfaces count alike", len(set(closing.values())) == 1, closing)
    prompt = post("/apply-template", messages=[{"role": "user", "content": "ab"}])["prompt"]
    check("the template's markers are tokens", plain["chat"] == len(tokens(prompt, True)))
    prompt = post("/apply-template", messages=[{"role": "user", "content": "a</s>b"}])["prompt"]
    check("the rendered text stays as it is", "user: a</s>b</s>" in prompt, prompt)
    # The model's own words may hold markers, and a bare prompt is read whole.
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b</s>c"},
            {"role": "user", "content": "d"}]
    prompt = post("/apply-template", messages=said)["prompt"]
    check("the assistant's are read", len(tokens(prompt, True)) ==
          post("/v1/chat/completions/input_tokens", messages=said)["input_tokens"])
    bare = post("/completion", prompt="a</s>b", n_predict=1)
    check("a bare prompt's are read", bare["tokens_evaluated"] == len(tokens("a</s>b", True)))
with Server("--no-jinja", "--chat-template", "llama2") as running:
    plain, closing = counts("ab"), counts("a</s>b")
    for surface, n in closing.items():
        check(f"{surface}, a built-in template: text is text", n - plain[surface] == spelled,
              f"{n} tokens, without {plain[surface]}, spelled {spelled}")
server.end()
