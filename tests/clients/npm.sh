# npm.sh - sourced by each run.sh: what it needs, and its packages from npm.

# skip WHY : end the test as skipped; where nothing may be missing, as failed.
skip() {
    echo "SKIPPED: $1"
    [ -z "$CI" ] || exit 1
    exit 77
}

# need_program NAME : skip where it is not installed.
need_program() {
    command -v "$1" >/dev/null || skip "$1 is not installed"
}

# need_models : skip where the reference data is not there.
need_models() {
    [ -d "$MLXCEL_SHARED/models" ] || skip "the reference data ($MLXCEL_SHARED) is absent"
}

# npm_packages FROM FOLDER : the packages that FROM locks, in FOLDER, where they stay.
npm_packages() {
    need_program npm
    mkdir -p "$2"
    if ! cmp -s "$1/package-lock.json" "$2/package-lock.json" || [ ! -d "$2/node_modules" ]; then
        cp "$1/package.json" "$1/package-lock.json" "$2/"
        (cd "$2" && npm ci --silent --no-audit --no-fund --ignore-scripts)
    fi
}
