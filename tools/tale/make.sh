#!/bin/sh
# make.sh - make the shipped models again, from nothing, in models/.
# Takes under an hour on two cores. The program tale must be built.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
tale=${TALE:-$root/build/release/bin/tale}
models=$root/models
# The files that are written by hand are there already.
"$tale" tokenizer "$models/tale/tokenizer.json"
cp "$models/tale/tokenizer.json" "$models/tale-draft/tokenizer.json"
for stage in tale tale-drill tale-sums tale-by-heart; do
    "$tale" train $stage "$models/tale"
done
"$tale" train tale-draft "$models/tale-draft"
"$tale" train tale-pirate-lora "$models/tale-pirate-lora"
