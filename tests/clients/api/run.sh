#!/bin/sh
# run.sh SERVER FOLDER - real clients against a running server: npm's openai and
# @anthropic-ai/sdk, and curl over a Unix socket and over TLS. The packages are
# installed into FOLDER at the first run and kept there.
set -e
here=$(cd "$(dirname "$0")" && pwd)
server=$1 folder=$2
. "$here/../npm.sh"
need_program curl
need_models
npm_packages "$here" "$folder"
cp "$here/check.mjs" "$here/../../../bench/server.mjs" "$folder/"
cd "$folder"
exec node check.mjs "$server" "$MLXCEL_SHARED/models/stories260k/stories260K.gguf"
