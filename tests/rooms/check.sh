#!/bin/sh
# check.sh SRC - every #include obeys the house rules of DESIGN.md:
# a room includes only itself and rooms below it, and other rooms only through
# their door (src/ROOM/ROOM.h; every header of base is a door).
cd "$1" || exit 1
failed=0
awk -v rooms="base kernels compute files text model sample chat engine http options api cmd" '
BEGIN {
    n = split(rooms, names, " ")
    for (i = 1; i <= n; i++) height[names[i]] = i
}
/^[[:space:]]*#[[:space:]]*include[[:space:]]*"/ {
    split($0, quoted, "\""); include = quoted[2]
    split(include, target, "/"); other = target[1]
    split(FILENAME, place, "/"); room = place[1]
    if (!(other in height))
        complain("names no room")
    else if (other == room)
        next
    else if (height[other] > height[room])
        complain(room " may not include " other ", which stands above it")
    else if (other != "base" && include != other "/" other ".h")
        complain("is private to " other "; include \"" other "/" other ".h\"")
}
function complain(why) {
    printf "%s:%d: \"%s\": %s\n", FILENAME, FNR, include, why
    bad = 1
}
END {
    if (!bad) print "rooms: every include obeys the house rules"
    exit bad
}' $(find . -name '*.[ch]' | sed 's#^\./##' | sort) || failed=1

# only PATTERN WHY FILE... - no file of model but these (patterns) has lines of that kind.
only() {
    pattern=$1 why=$2
    shift 2
    for file in $(grep -lE "$pattern" model/*.[ch] model/*/*.[ch]); do
        allowed=
        for glob in "$@"; do
            case $file in $glob) allowed=1 ;; esac
        done
        if [ -z "$allowed" ]; then
            grep -nHE "$pattern" "$file" | sed "s#\$#  <- $why#"
            failed=1
        fi
    done
}
only 'arch->|ARCH_[A-Z]' 'traits are settled in struct hparams; ask those' \
    'model/arch/*' 'model/hparams*' 'model/weights*' 'model/bind*' model/model.c
only '(^|[^a-z_])matmul(_many|_gathered)?\(' 'weights are multiplied with by blocks/linear.h alone' \
    model/blocks/linear.c
exit $failed
