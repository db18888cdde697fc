#!/bin/sh
# make.sh - make the shipped models again, from nothing, in models/.
# Takes under an hour on two cores. The program tale must be built.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
tale=${TALE:-$root/build/release/bin/tale}
models=$root/models
"$tale" tokenizer "$models/tale/tokenizer.json"
cp "$models/tale/tokenizer.json" "$models/tale-draft/tokenizer.json"
"$tale" train tale "$models/tale"
"$tale" train tale-draft "$models/tale-draft"
"$tale" train tale-pirate-lora "$models/tale-pirate-lora"
