#!/bin/sh
# check.sh SRC - every #include obeys the house rules of DESIGN.md:
# a room includes only itself and rooms below it, and other rooms only through
# their door (src/ROOM/ROOM.h; every header of base is a door).
src=$1
rooms="base kernels files text model sample chat engine http options api cmd"
bad=0
height_of() {
    n=0
    for r in $rooms; do
        [ "$r" = "$1" ] && { echo $n; return; }
        n=$((n + 1))
    done
    echo -1
}
for room in $rooms; do
    [ -d "$src/$room" ] || continue
    own=$(height_of "$room")
    for file in "$src/$room"/*.[ch]; do
        [ -e "$file" ] || continue
        for include in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file"); do
            other=${include%%/*}
            height=$(height_of "$other")
            if [ "$height" -lt 0 ]; then
                echo "$file: includes \"$include\", which names no room"; bad=1
            elif [ "$other" = "$room" ]; then
                :
            elif [ "$height" -gt "$own" ]; then
                echo "$file: $room may not include $other, which stands above it"; bad=1
            elif [ "$other" != base ] && [ "$include" != "$other/$other.h" ]; then
                echo "$file: \"$include\" is private to $other; include \"$other/$other.h\""; bad=1
            fi
        done
    done
done
[ $bad -eq 0 ] && echo "rooms: every include obeys the house rules"
exit $bad
