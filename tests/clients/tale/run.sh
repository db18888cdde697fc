#!/bin/sh
# run.sh SERVER MODEL FOLDER - npm's openai against the shipped model. The packages
# are those of ../api, installed into FOLDER at the first run and kept there.
set -e
here=$(cd "$(dirname "$0")" && pwd)
server=$1 model=$2 folder=$3
. "$here/../npm.sh"
npm_packages "$here/../api" "$folder"
cp "$here/loop.mjs" "$here/../../../bench/server.mjs" "$folder/"
cd "$folder"
exec node loop.mjs "$server" "$model"
