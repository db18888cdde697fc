#!/bin/sh
# replay.sh MLXCEL SERVER RECORDING SCENARIO - one conformance test: replay one
# scenario against our server. Skipped loudly without the reference data, whose
# models it runs on; in CI that is a failure.
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -d "$MLXCEL_SHARED/models" ]; then
    echo "SKIPPED $4: the reference data ($MLXCEL_SHARED) is absent"
    [ -n "$CI" ] && exit 1
    exit 77
fi
exec "$1" conform "$3" --server "$2" --only "^$4\$" --expect-failures "$here/pending.json" \
    --by-design "$here/by_design.json"
