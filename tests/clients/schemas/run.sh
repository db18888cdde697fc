#!/bin/sh
# run.sh GENERATE FOLDER - documents at random from the grammars of schemas.json,
# each validated by npm's ajv, which is installed into FOLDER at the first run.
set -e
here=$(cd "$(dirname "$0")" && pwd)
program=$1 folder=$2
if ! command -v npm >/dev/null; then
    echo "SKIPPED: npm is not installed"
    [ -z "$CI" ] || exit 1
    exit 77
fi
mkdir -p "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/package-lock.json" || [ ! -d "$folder/node_modules" ]; then
    cp "$here/package.json" "$here/package-lock.json" "$folder/"
    (cd "$folder" && npm ci --silent --no-audit --no-fund --ignore-scripts)
fi
"$program" "$here/schemas.json" 200 >"$folder/documents.jsonl"
exec node "$here/check.mjs" "$folder" "$here/schemas.json" <"$folder/documents.jsonl"
