#!/bin/sh
# run.sh SERVER MODEL FOLDER - npm's openai against the shipped model. The packages
# are those of ../api, installed into FOLDER at the first run and kept there.
set -e
here=$(cd "$(dirname "$0")" && pwd)
server=$1 model=$2 folder=$3
if ! command -v npm >/dev/null; then
    echo "SKIPPED: npm is needed"
    [ -z "$CI" ] || exit 1
    exit 77
fi
mkdir -p "$folder"
if ! cmp -s "$here/../api/package-lock.json" "$folder/package-lock.json" || [ ! -d "$folder/node_modules" ]; then
    cp "$here/../api/package.json" "$here/../api/package-lock.json" "$folder/"
    (cd "$folder" && npm ci --silent --no-audit --no-fund --ignore-scripts)
fi
cp "$here/loop.mjs" "$folder/loop.mjs"
cd "$folder"
exec node loop.mjs "$server" "$model"
