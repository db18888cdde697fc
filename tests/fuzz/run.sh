#!/bin/sh
# run.sh PROGRAM NAME SECONDS - gather the seeds of a fuzzer and run it. What it
# finds lies in corpus-NAME beside the program. A fuzzer with a file fuzz_NAME.runs
# makes as many runs beyond its seeds as that says, however long they take.
set -e
program=$1 name=$2 seconds=$3
here=$(cd "$(dirname "$0")" && pwd)
corpus=$(dirname "$program")/corpus-$name
mkdir -p "$corpus"
# Long files are cut: what a mutation changes is mostly near the beginning.
max_len=65536
add_seed() {
    head -c $max_len "$1" > "$corpus/seed-$(basename "$(dirname "$1")")-$(basename "$1")"
}
for seed in "$here/seeds/$name"/*; do
    [ -f "$seed" ] && add_seed "$seed"
done
if [ -f "$here/fuzz_$name.seeds" ] && [ -d "$MLXCEL_SHARED" ]; then
    while read -r glob; do
        for seed in "$MLXCEL_SHARED"/$glob; do
            [ -f "$seed" ] && add_seed "$seed"
        done
    done < "$here/fuzz_$name.seeds"
elif [ -n "$CI" ] && [ -f "$here/fuzz_$name.seeds" ]; then
    echo "in CI the reference data must be there ($MLXCEL_SHARED)"
    exit 1
fi
[ -f "$here/seeds_$name.py" ] && python3 "$here/seeds_$name.py" "$corpus"
limit="-max_total_time=$seconds"
if [ -f "$here/fuzz_$name.runs" ]; then
    limit="-runs=$(($(cat "$here/fuzz_$name.runs") + $(ls "$corpus" | wc -l)))"
fi
exec "$program" "$limit" -max_len=$max_len -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$corpus/" "$corpus"
