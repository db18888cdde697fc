"""tale.py - a server with a model of models/, and requests to it; what the
checks in this folder share."""
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


class Server:
    """A server on a model, stopped at the end of its with-block."""

    def __init__(self, program, model, *options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = tempfile.TemporaryFile("w+")
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        self.process = subprocess.Popen(
            [program, "-m", str(model), "--port", str(self.port), *options],
            stdout=subprocess.DEVNULL, stderr=self.log, env=environment)

    def __enter__(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with self.open("/health"):
                    return self
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.02)
        self.process.kill()
        self.log.seek(0)
        raise RuntimeError(f"the server does not answer: {self.log.read()}")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def open(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data,
                                         {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=120)

    def post(self, path, body):
        with self.open(path, body) as answer:
            return json.load(answer)

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
