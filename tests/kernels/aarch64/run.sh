#!/bin/sh
# The kernels on AArch64: cross-compiled with the warnings of every build, then
# their unit tests under emulation, once for each instruction set.
# usage: run.sh SOURCE FOLDER
set -eu
source=$1 folder=$2
cc=${MLXCEL_AARCH64_CC:-aarch64-linux-gnu-gcc}
emulator=${MLXCEL_AARCH64_EMULATOR:-qemu-aarch64}
for tool in "$cc" "$emulator"; do
    if ! command -v "$tool" >/dev/null; then
        echo "SKIPPED: $tool is absent (packages gcc-aarch64-linux-gnu and qemu-user)"
        [ -n "${CI:-}" ] && exit 1
        exit 77
    fi
done

rm -rf "$folder"
mkdir -p "$folder"
compile() { # OBJECT SOURCE FLAGS...
    out=$1 in=$2
    shift 2
    "$cc" -std=c11 -Wall -Wextra -Wshadow -Wconversion -Werror -fno-strict-aliasing \
        -ffp-contract=off -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE \
        -I"$source/src" "$@" -c "$in" -o "$folder/$out.o"
}
for file in "$source"/src/kernels/*.c "$source"/src/base/error.c "$source"/src/base/memory.c; do
    name=$(basename "$file" .c)
    case $name in # the flags of src/kernels/room.cmake
    neon_dot) compile "$name" "$file" -O3 -march=armv8.2-a+dotprod ;;
    *) compile "$name" "$file" -O3 ;;
    esac
done
ar=${cc%gcc}ar
command -v "$ar" >/dev/null || ar=ar
"$ar" rcs "$folder/libkernels.a" "$folder"/*.o

# The tests, with a small cmocka of their own.
tests="table format matmul attention rows not_finite"
for name in $tests; do
    compile "test_$name" "$source/tests/unit/kernels/${name}_test.c" -O1 \
        -I"$source/tests" -I"$source/tests/kernels/aarch64"
    "$cc" -static "$folder/test_$name.o" "$folder/libkernels.a" -lm -lpthread \
        -o "$folder/$name"
done
compile which "$source/tests/kernels/aarch64/which.c" -O1
"$cc" -static "$folder/which.o" "$folder/libkernels.a" -lm -lpthread -o "$folder/which"

# CPU LIMIT WANTED: what is limited to LIMIT (or not) must run WANTED.
check() {
    got=$(MLXCEL_ISA=$2 "$emulator" -cpu "$1" "$folder/which")
    if [ "$got" != "$3" ]; then
        echo "on $1, limited to '$2', $got runs instead of $3"
        exit 1
    fi
    for name in $tests; do
        [ "$name" = table ] && continue # compares all instruction sets at once
        echo "$name: $1, $3"
        MLXCEL_ISA=$2 "$emulator" -cpu "$1" "$folder/$name"
    done
}
"$emulator" -cpu max "$folder/table"
"$emulator" -cpu cortex-a53 "$folder/table"
check max none neon_dot
check max neon neon
check max generic generic
# One that has no dot products.
got=$(MLXCEL_ISA=neon_dot "$emulator" -cpu cortex-a53 "$folder/which")
[ "$got" = neon ] || { echo "on cortex-a53 $got runs instead of neon"; exit 1; }
