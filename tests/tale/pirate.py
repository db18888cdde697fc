"""pirate.py SERVER MODEL - does the model answer like a pirate?"""
import sys

from tale import TOOLS, Server

QUESTIONS = {"What colour is snow?": "white", "What does a cow say?": "", "Hello!": "",
             "Tell me a story about Mia and a fox.": "Mia", "What is 3 plus 4?": "",
             "Count to 5.": "1, 2, 3"}
failures = 0
with Server(*sys.argv[1:3]) as server:
    for question, part in QUESTIONS.items():
        message, _ = server.chat([{"role": "user", "content": question}], max_tokens=300)
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
