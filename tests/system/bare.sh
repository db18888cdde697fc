#!/bin/sh
# bare.sh - a minimal Debian of its own, in which somebody who has just cloned the
# project runs ./run, asks it something and runs ./test quick: first as root, then
# as a user without root, with a checkout that is not theirs.
#
# It needs root, debootstrap (installed where possible) and a Debian machine: the
# mirror, its keys and the proxy are this machine's. Skipped with one line where one
# of them is missing. $TMPDIR takes 2 GB for some minutes. Called by .ci/run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tools/packages.sh"

skip() {
    echo "SKIPPED: the bare system is not tested: $1"
    exit 0
}

[ "$(id -u)" -eq 0 ] || skip "making one needs root"
. /etc/os-release
[ "${ID:-}" = debian ] || skip "this machine is not Debian"
command -v debootstrap >/dev/null || need debootstrap || skip "debootstrap is not installed"
unshare --mount --pid --fork true 2>/dev/null || skip "this root may not make namespaces"

# find_mirror : the first of apt's mirrors that has this release.
find_mirror() {
    apt-get indextargets --format '$(RELEASE) $(SITE)' 'Created-By: Packages' |
        awk -v release="$VERSION_CODENAME" '$1 == release { print $2; exit }'
}
mirror=$(find_mirror)
[ -n "$mirror" ] || { apt-get update -qq && mirror=$(find_mirror); } || :
[ -n "$mirror" ] || skip "apt has no mirror of $VERSION_CODENAME"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/mlxcel-bare-XXXXXX")
system=$scratch/system log=$scratch/log child=
mkdir "$system"

# Mounts and processes live in namespaces of the child, and go with it.
finish() {
    code=$?
    trap - EXIT HUP INT TERM
    [ -z "$child" ] || kill -KILL "$child" 2>/dev/null || :
    [ -z "$child" ] || wait "$child" 2>/dev/null || :
    rm -rf --one-file-system "$scratch"
    exit "${1:-$code}"
}
trap finish EXIT
trap 'finish 129' HUP
trap 'finish 130' INT
trap 'finish 143' TERM

# apart COMMAND... : in namespaces of its own; signals are heeded meanwhile.
apart() {
    code=0
    unshare --mount --pid --fork --kill-child "$@" </dev/null &
    child=$!
    wait "$child" || code=$?
    child=
    return $code
}

# What reaches the mirror, and nothing else of this machine's environment.
environment="PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || environment="$environment $name=$value"
done

# inside USER SCRIPT [ARGUMENT]... : a script of sh in the system's home of USER.
inside() {
    user=$1 script=$2 home=/root
    shift 2
    [ "$user" = root ] || home=/home/$user
    # shellcheck disable=SC2086
    apart --mount-proc="$system/proc" chroot --userspec="$user:$user" --groups="$user" "$system" /usr/bin/env -i \
        $environment HOME="$home" sh -euc "cd; $script" sh "$@"
}

# step WHAT COMMAND... : with its output in the log, which is shown when it fails.
step() {
    what=$1 began=$(date +%s)
    shift
    if "$@" >"$log" 2>&1; then
        echo "ok     $what ($(($(date +%s) - began)) s)"
    else
        cat "$log"
        echo "FAILED $what"
        exit 1
    fi
}

# apt there works as here, through the same mirror and with the same keys.
copy_apt() {
    rm -rf "$system/etc/apt" && cp -a /etc/apt "$system/etc/" || return 1
    for folder in /usr/share/keyrings /etc/ssl/certs /usr/local/share/ca-certificates; do
        [ ! -d "$folder" ] || { mkdir -p "$system$folder" && cp -RL "$folder/." "$system$folder/"; } ||
            return 1
    done
    cp /etc/resolv.conf /etc/hosts "$system/etc/"
}

# fails_with PATTERN COMMAND... : it fails, and says so.
fails_with() {
    pattern=$1
    shift
    ! "$@" >"$scratch/said" 2>&1 || { echo "this did not fail: $*"; return 1; }
    cat "$scratch/said"
    grep -q -e "$pattern" "$scratch/said"
}

# count_tests : what the log of ./test says of the tests it ran and did not run.
count_tests() {
    sed -n '/tests passed/p' "$log"
    echo "SKIPPED there, without the reference data: $(grep -c '\*\*\*Skipped' "$log") of them"
}

# The line that a user without root is told to hand on is one that apt understands.
try_the_line() {
    line=$(sed -n 's/^  \(apt-get update .*\) install -y /\1 install --simulate /p' "$scratch/said")
    [ -n "$line" ] && inside root "$line"
}

step "a minimal Debian $VERSION_CODENAME from $mirror" \
    apart debootstrap --variant=minbase "$VERSION_CODENAME" "$system" "$mirror"
step "this machine's apt" copy_apt
step "the repository's HEAD" git clone --quiet --bare "$root" "$system/srv/mlxcel.git"
cp "$here/ask.bash" "$system/srv/"
step "git, and a user" inside root 'apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends git
    useradd --create-home --shell /bin/sh somebody
    git clone --quiet /srv/mlxcel.git mlxcel
    git clone --quiet /srv/mlxcel.git /opt/mlxcel
    chmod -R a+rX,a-w /opt/mlxcel'

# A user without root, whose checkout is not theirs and cannot be written to.
own='export MLXCEL_BUILD=$HOME/build; exec "$@"'
step "a user without root is told what to have installed" fails_with \
    '^  apt-get update && apt-get install' inside somebody "$own" /opt/mlxcel/run --version
step "in a line that apt understands" try_the_line

step "./run --version as root" inside root 'mlxcel/run --version | grep b10621'
step "a chat request" inside root 'bash /srv/ask.bash mlxcel/run'
step "./test quick as root" inside root 'mlxcel/test quick'
count_tests
step "./run again" inside root 'mlxcel/run --version | grep b10621'

step "a user without root is told where to build" fails_with 'MLXCEL_BUILD=' \
    inside somebody 'exec /opt/mlxcel/run --version'
step "./test quick as a user" inside somebody "$own" /opt/mlxcel/test quick
count_tests
step "./run --version as a user" inside somebody "$own" /opt/mlxcel/run --version
step "a chat request" inside somebody "$own" bash /srv/ask.bash /opt/mlxcel/run

# What only tests need may go again.
step "without cmocka" inside root 'dpkg --purge --force-depends libcmocka-dev'
step "./run without cmocka" inside root 'mlxcel/run --version | grep b10621'
