#!/bin/bash
# ask.bash RUN - start ./run with the model that comes with the project and a free
# port, ask it for a story, and end it. Bash alone speaks to it: a bare system has
# neither curl nor Python.
set -eu
scratch=$(mktemp -d)
: >"$scratch/log"
"$1" --port 0 >"$scratch/log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || :; cat "$scratch/log"; rm -rf "$scratch"' EXIT

port=
while [ -z "$port" ]; do
    kill -0 "$server" || exit 1
    port=$(sed -n 's|.*server is ready on http://127.0.0.1:\([0-9]*\).*|\1|p' "$scratch/log")
    sleep 0.2
done
body='{"temperature": 0, "messages": [{"role": "user", "content": "Tell me a story about Mia and a fox."}]}'
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf '%s\r\n' 'POST /v1/chat/completions HTTP/1.1' 'Host: localhost' 'Connection: close' \
    'Content-Type: application/json' "Content-Length: ${#body}" '' >&3
printf '%s' "$body" >&3
answer=$(cat <&3)
echo "$answer"
grep -q '^HTTP/1.1 200' <<<"$answer"
grep -q 'Mia' <<<"$answer"
grep -q 'fox' <<<"$answer"
kill "$server"
wait "$server" # it ends as one that was asked to: with 0
