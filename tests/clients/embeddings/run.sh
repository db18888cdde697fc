#!/bin/sh
# run.sh SERVER FOLDER - embedding clients that people use against a running server:
# npm's openai and @langchain/openai, and the search of examples/search. The packages are
# installed into FOLDER at the first run and kept there.
set -e
here=$(cd "$(dirname "$0")" && pwd)
server=$1 folder=$2
skip() {
    echo "SKIPPED: $1"
    [ -z "$CI" ] || exit 1
    exit 77
}
command -v npm >/dev/null || skip "npm is needed"
[ -d "$MLXCEL_SHARED/models" ] || skip "the reference data ($MLXCEL_SHARED) is absent"
mkdir -p "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/package-lock.json" || [ ! -d "$folder/node_modules" ]; then
    cp "$here/package.json" "$here/package-lock.json" "$folder/"
    (cd "$folder" && npm ci --silent --no-audit --no-fund --ignore-scripts)
fi
cp "$here/check.mjs" "$folder/check.mjs"
cd "$folder"
exec node check.mjs "$server" "$MLXCEL_SHARED/models/tiny" "$here/../../../examples/search/search.mjs"
