#!/bin/sh
# run.sh SERVER FOLDER - real clients against a running server: npm's openai and
# @anthropic-ai/sdk, and curl over a Unix socket and over TLS. The packages are
# installed into FOLDER at the first run and kept there.
set -e
here=$(cd "$(dirname "$0")" && pwd)
server=$1 folder=$2
if ! command -v npm >/dev/null || ! command -v curl >/dev/null; then
    echo "SKIPPED: npm and curl are needed"
    [ -z "$CI" ] || exit 1
    exit 77
fi
if [ ! -d "$MLXCEL_SHARED/models" ]; then
    echo "SKIPPED: the reference data ($MLXCEL_SHARED) is absent"
    [ -z "$CI" ] || exit 1
    exit 77
fi
mkdir -p "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/package-lock.json" || [ ! -d "$folder/node_modules" ]; then
    cp "$here/package.json" "$here/package-lock.json" "$folder/"
    (cd "$folder" && npm ci --silent --no-audit --no-fund --ignore-scripts)
fi
cp "$here/check.mjs" "$folder/check.mjs"
cd "$folder"
exec node check.mjs "$server" "$MLXCEL_SHARED/models/stories260k/stories260K.gguf"
