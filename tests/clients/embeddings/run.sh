#!/bin/sh
# run.sh SERVER FOLDER - embedding clients that people use against a running server:
# npm's openai and @langchain/openai, and the search of examples/search. The packages are
# installed into FOLDER at the first run and kept there.
set -e
here=$(cd "$(dirname "$0")" && pwd)
server=$1 folder=$2
. "$here/../npm.sh"
need_models
npm_packages "$here" "$folder"
cp "$here/check.mjs" "$here/../../../bench/server.mjs" "$folder/"
cd "$folder"
exec node check.mjs "$server" "$MLXCEL_SHARED/models/tiny" "$here/../../../examples/search/search.mjs"
