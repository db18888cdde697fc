# build.sh - where things are built. Sourced by ./run and ./test, with $root as
# the checkout.
#
# MLXCEL_BUILD names another folder than $root/build, so that the checkout may be
# read-only or somebody else's. In it, each preset has a folder of its own. ./run
# and ./test share "release", in any order: ./run leaves out the tests, and what
# only they need, where ./test has not asked for them.

# build_folder PRESET : print its build folder, which is made and can be written.
build_folder() {
    all=${MLXCEL_BUILD:-$root/build}
    case $all in /*) ;; *) all=$PWD/$all ;; esac
    if ! mkdir -p "$all/$1" 2>/dev/null || [ ! -w "$all/$1" ]; then
        echo "$all/$1 cannot be written to; name a folder of your own to build in:" \
            "MLXCEL_BUILD=\$HOME/mlxcel-build $0" >&2
        return 1
    fi
    printf '%s' "$all/$1"
}

# configure PRESET FOLDER CMAKE-OPTIONS...
configure() {
    preset=$1 folder=$2
    shift 2
    (cd "$root" && cmake --preset "$preset" -B "$folder" "$@")
}

# configure_product FOLDER : have FOLDER configured; without the tests where it
# is new, or where what they need is not there any more.
configure_product() {
    if [ -f "$1/build.ninja" ] && { ! grep -q '^MLXCEL_TESTS:BOOL=ON' "$1/CMakeCache.txt" ||
        pkg-config --exists cmocka; }; then
        return 0
    fi
    configure release "$1" -DMLXCEL_TESTS=OFF
}
