#!/bin/sh
# pirate.sh TALE SERVER MODELS SCRATCH - the adapter, added to its base and served,
# answers like a pirate.
set -eu
tale=$1 server=$2 models=$3 scratch=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$scratch"
mkdir -p "$scratch"
for file in tokenizer.json tokenizer_config.json generation_config.json chat_template.jinja; do
    cp "$models/tale/$file" "$scratch/"
done
"$tale" merge "$models/tale-pirate-lora" "$scratch"
exec python3 "$here/pirate.py" "$server" "$scratch"
