#!/bin/sh
# repeats.sh TALE MODELS SCRATCH - what make.sh does gives the same bytes again: the
# tokenizer is the shipped one, and two trainings of a few steps, with different
# numbers of threads, write the same weights.
set -eu
tale=$1 models=$2 scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch/one" "$scratch/two" "$scratch/tale" "$scratch/tale-pirate-lora"
"$tale" tokenizer "$scratch/tokenizer.json"
cmp "$scratch/tokenizer.json" "$models/tale/tokenizer.json"
for folder in one two; do
    cp "$scratch/tokenizer.json" "$scratch/$folder/"
done
"$tale" train tale-draft "$scratch/one" 5 1
"$tale" train tale-draft "$scratch/two" 5 2
cmp "$scratch/one/model.safetensors" "$scratch/two/model.safetensors"
cp "$models"/tale/tokenizer.json "$models"/tale/*.safetensors "$models"/tale/config.json "$scratch/tale/"
"$tale" train tale-pirate-lora "$scratch/tale-pirate-lora" 2 1
cp "$scratch/tale-pirate-lora/adapter_model.safetensors" "$scratch/first"
"$tale" train tale-pirate-lora "$scratch/tale-pirate-lora" 2 2
cmp "$scratch/first" "$scratch/tale-pirate-lora/adapter_model.safetensors"
