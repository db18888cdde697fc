#!/bin/sh
# run.sh MLXCEL FOLDER VECTORS - compare our tokenizers with npm's. The packages
# (700 MB) are installed into FOLDER at the first run and kept there.
set -e
here=$(cd "$(dirname "$0")" && pwd)
program=$1 folder=$2 vectors=$3
. "$here/../npm.sh"
npm_packages "$here" "$folder"
exec node "$here/compare.mjs" "$program" "$folder" "$vectors"
