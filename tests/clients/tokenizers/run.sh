#!/bin/sh
# run.sh MLXCEL FOLDER VECTORS - compare our tokenizers with npm's. The packages
# (700 MB) are installed into FOLDER at the first run and kept there.
set -e
here=$(cd "$(dirname "$0")" && pwd)
program=$1 folder=$2 vectors=$3
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
exec node "$here/compare.mjs" "$program" "$folder" "$vectors"
