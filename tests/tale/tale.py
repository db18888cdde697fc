"""tale.py - a server with a model of models/, and requests to it; what the
checks in this folder share."""
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent / "cli"))
import server


class Server(server.Server):
    """A server on a model, with its whole context where none is named."""

    def __init__(self, program, model, *options):
        server.use(program, "tale")
        context = () if "-c" in options else ("-c", "0")
        super().__init__(*context, *options, path=model)

    def __exit__(self, *_):
        super().__exit__()
        if self.code != 0:
            raise RuntimeError(f"the server ended with {self.code}")

    def chat(self, messages, **fields):
        """The message and the reason the answer ended; greedy unless told otherwise."""
        body = {"messages": messages, "temperature": 0, **fields}
        choice = self.post("/v1/chat/completions", body)["choices"][0]
        return choice["message"], choice["finish_reason"]

    def chat_stream(self, messages, **fields):
        """The same from a stream, its pieces put together."""
        message, reason = {"content": "", "reasoning_content": "", "tool_calls": []}, None
        body = {"messages": messages, "temperature": 0, "stream": True, **fields}
        with self.open("/v1/chat/completions", body) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    delta, reason = choice["delta"], choice["finish_reason"] or reason
                    for key in ("content", "reasoning_content"):
                        message[key] += delta.get(key) or ""
                    for call in delta.get("tool_calls", []):
                        if call["index"] == len(message["tool_calls"]):
                            message["tool_calls"].append(
                                {"id": "", "type": "function",
                                 "function": {"name": "", "arguments": ""}})
                        kept = message["tool_calls"][call["index"]]
                        kept["id"] += call.get("id", "")
                        for key, text in call["function"].items():
                            kept["function"][key] += text
        return message, reason


def city_tool(name, description):
    return {"type": "function", "function": {
        "name": name, "description": description,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                       "required": ["city"]}}}


TOOLS = [city_tool("get_weather", "Get the weather in a city"),
         city_tool("get_time", "Get the time in a city")]
