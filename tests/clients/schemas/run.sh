#!/bin/sh
# run.sh GENERATE FOLDER - documents at random from the grammars of schemas.json,
# each validated by npm's ajv, which is installed into FOLDER at the first run.
set -e
here=$(cd "$(dirname "$0")" && pwd)
program=$1 folder=$2
. "$here/../npm.sh"
npm_packages "$here" "$folder"
"$program" "$here/schemas.json" 200 >"$folder/documents.jsonl"
exec node "$here/check.mjs" "$folder" "$here/schemas.json" <"$folder/documents.jsonl"
