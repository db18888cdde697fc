#!/bin/sh
# packages.sh ROOT SCRATCH - what ./run and ./test say and do about missing
# packages and folders, with stand-ins for the programs that they ask.
set -eu
root=$1 scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch/bin" "$scratch/plain"
failures=0

# stand_in NAME BODY : a program of that name, before all others.
stand_in() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}

# An installed package is one whose name is in the file "installed".
stand_in dpkg-query 'for package; do :; done
grep -qx -e "$package" '"$scratch"'/installed && echo "install ok installed"'
stand_in apt-get 'echo "apt-get $*" >>'"$scratch"'/asked'
for tool in grep mkdir cat env sh dirname; do
    ln -s "$(command -v $tool)" "$scratch/plain/$tool"
done

# check WHAT UID INSTALLED EXIT PATTERN : `need gcc cmake` as that user.
check() {
    what=$1 uid=$2 code=0
    printf '%s\n' $3 >"$scratch/installed"
    : >"$scratch/asked"
    stand_in id "echo $uid"
    PATH=$scratch/bin:$scratch/plain sh -c '. "$1/tools/packages.sh"; need gcc cmake' sh "$root" \
        >"$scratch/out" 2>&1 || code=$?
    cat "$scratch/asked" >>"$scratch/out"
    echo "exit $code" >>"$scratch/out"
    if [ "$code" -eq "$4" ] && grep -q -e "$5" "$scratch/out"; then
        echo "ok     $what"
    else
        echo "FAILED $what:"
        cat "$scratch/out"
        failures=$((failures + 1))
    fi
}

check "root installs what is missing" 0 cmake 0 'apt-get install .* gcc$'
check "nothing missing needs no root" 1000 'gcc cmake' 0 '^exit 0$'
[ "$(cat "$scratch/out")" = "exit 0" ] || { echo "FAILED it says something all the same"; failures=1; }
check "a user without sudo gets the line" 1000 gcc 1 \
    '^  apt-get update && apt-get install -y --no-install-recommends cmake$'
stand_in sudo 'exec "$@"'
check "a user with sudo installs" 1000 gcc 0 'apt-get install .* cmake$'
stand_in sudo 'echo "sudo: you may not" >&2; exit 1'
check "a user whom sudo refuses gets the line" 1000 gcc 1 '^  apt-get update && apt-get install'
stand_in apt-get 'exit 100'
check "root without a network gets the line" 0 gcc 1 '^  apt-get update && apt-get install'
rm "$scratch/bin/dpkg-query"
check "elsewhere than on Debian it goes on" 0 gcc 0 'not Debian.* gcc cmake$'

# A build folder that cannot be made is named, with what to do.
: >"$scratch/file"
if (cd "$root" && MLXCEL_BUILD=$scratch/file ./run --version) >"$scratch/out" 2>&1 ||
    ! grep -q "$scratch/file/release cannot be written to.*MLXCEL_BUILD=" "$scratch/out"; then
    echo "FAILED a build folder that cannot be made:"
    cat "$scratch/out"
    failures=$((failures + 1))
fi
[ $failures -eq 0 ]
