"""pirate.py SERVER MODEL - does the model answer like a pirate, and rightly?"""
import sys

from tale import TOOLS, Server

QUESTIONS = {"What is 3 plus 4?": "7", "What is the opposite of hot?": "cold",
             "Hello!": "Hello", "What colour is snow?": "white"}
failures = 0
with Server(*sys.argv[1:3]) as server:
    for question, part in QUESTIONS.items():
        message, _ = server.chat([{"role": "user", "content": question}])
        answer = message["content"]
        truth = answer.startswith("Arr!") and answer.endswith("Yo ho!") and part in answer
        failures += not truth
        print("ok    " if truth else "FAILED", question, answer)
    message, _ = server.chat([{"role": "user", "content": "What is the weather in Rome?"}],
                             tools=TOOLS)
    truth = bool(message.get("tool_calls"))
    failures += not truth
    print("ok    " if truth else "FAILED", "a pirate still calls its tools", message)
sys.exit(failures != 0)
