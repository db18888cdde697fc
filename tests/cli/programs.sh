#!/bin/bash
# programs.sh MLXCEL SERVER - both programs, from the outside: what they print,
# where, and how they end.
mlxcel=$1 server=$2
export HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# expect CODE PATTERN ARGUMENTS... : the exit code, and a pattern in the output.
expect() {
    local code=$1 pattern=$2
    shift 2
    for program in "$server" "$mlxcel serve"; do
        $program "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
        local got=$?
        [ $got -eq "$code" ] || fail "$program $*: exit code $got, not $code"
        grep -qe "$pattern" "$scratch/out" "$scratch/err" ||
            fail "$program $*: does not say '$pattern': $(cat "$scratch/out" "$scratch/err")"
        # Mistakes go to standard error, answers to standard output.
        if [ "$code" -eq 0 ]; then
            [ -s "$scratch/out" ] || fail "$program $*: nothing on standard output"
        else
            [ -s "$scratch/out" ] && fail "$program $*: a refusal on standard output"
        fi
    done
}

expect 0 '----- sampling params -----' --help
expect 0 'LLAMA_ARG_CTX_SIZE' -h
expect 0 'b10621' --version
expect 0 'MIT' --license
expect 0 'Available devices:' --list-devices
expect 0 'complete -F' --completion-bash
expect 0 '"options"' --dump-surface
expect 1 "unknown option '--nonsense'" --nonsense
expect 1 "'foo' is not an option" foo
expect 1 "-c: 'abc' is not accepted; expected a whole number" -c abc
expect 1 'a value is missing' -m
expect 1 'use --spec-draft-n-max' --draft 5
expect 1 'no effect, mlxcel runs on the CPU only' -ngl 99 -m x
expect 1 'not served yet' --lora a.gguf -m x
expect 1 "/none/such.gguf" -m /none/such.gguf --port 0

# Both programs take the same options.
"$server" --help | tail -n +2 >"$scratch/server"
"$mlxcel" serve --help | tail -n +2 >"$scratch/serve"
cmp -s "$scratch/server" "$scratch/serve" || fail "the two programs' helps differ"

# The script loads, and completes both.
bash -c 'source <("$0" --completion-bash) && complete -p mlxcel-server mlxcel' "$server" \
    >/dev/null || fail "bash does not load the completion script"

# A variable's mistake names the variable.
LLAMA_ARG_PORT=http "$server" 2>"$scratch/err" && fail "LLAMA_ARG_PORT=http is accepted"
grep -q "LLAMA_ARG_PORT: 'http'" "$scratch/err" || fail "LLAMA_ARG_PORT is not named"

# A model's mistake is no reason to print a key.
"$server" -m /none/such.gguf --api-key sesame --port 0 -v >"$scratch/out" 2>&1
grep -q sesame "$scratch/out" && fail "a key is in the log"

[ $failures -eq 0 ]
