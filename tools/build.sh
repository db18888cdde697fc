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

# build_shown FOLDER TARGET... : build, showing how far it is: on a terminal in one line,
# elsewhere in a line now and then. What the compiler says is shown where it fails.
build_shown() {
    folder=$1
    shift
    targets=
    for target in "$@"; do targets="$targets --target $target"; done
    log=$folder/build.log
    cmake --build "$folder" $targets >"$log" 2>&1 &
    builder=$!
    every=15 end='\n' shown=no waited=0
    [ ! -t 2 ] || every=1 end='\r'
    while kill -0 $builder 2>/dev/null; do
        sleep 0.2
        waited=$((waited + 1))
        [ $((waited % (every * 5))) -eq 0 ] || continue
        step=$(sed -n 's|^\[\([0-9]*/[0-9]*\)\].*|\1|p' "$log" | tail -n 1)
        [ -z "$step" ] || printf "building: %s files$end" "$step" >&2
        shown=yes
    done
    [ $shown = no ] || [ ! -t 2 ] || printf '\033[K' >&2
    wait $builder || {
        cat "$log" >&2
        return 1
    }
}
