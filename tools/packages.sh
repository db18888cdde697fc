# packages.sh - what Debian packages the project needs, and how to get them.
# Sourced by ./run and ./test.

# What the server is built from; ./run needs no more.
BUILD_PACKAGES="gcc cmake ninja-build pkg-config libc6-dev
libcurl4-gnutls-dev libgnutls28-dev nettle-dev libjansson-dev libpcre2-dev libutf8proc-dev
zlib1g-dev"

# What ./test quick needs, and what all tests do.
QUICK_PACKAGES="$BUILD_PACKAGES libcmocka-dev python3 python3-jsonschema bash"
TEST_PACKAGES="$QUICK_PACKAGES clang libclang-rt-14-dev curl python3-jinja2 gnutls-bin
openssl valgrind gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

# missing_packages PACKAGE... : print those that are not installed.
missing_packages() {
    for package in "$@"; do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
        *"install ok installed"*) ;;
        *) printf ' %s' "$package" ;;
        esac
    done
}

# need PACKAGE... : install those that are missing, saying which. Without the
# right to, fail with the line that installs them.
need() {
    if ! command -v dpkg-query >/dev/null; then
        echo "This is not Debian: make sure that what these packages hold is there:" "$@" >&2
        return 0
    fi
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    echo "installing missing Debian packages:$missing" >&2
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        as_root=sudo
        command -v sudo >/dev/null || {
            name_line "You are not root, and sudo is not installed."
            return 1
        }
    fi
    # shellcheck disable=SC2086
    { $as_root apt-get update -qq && $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing; } >&2 || {
        name_line "They could not be installed."
        return 1
    }
}

# name_line WHY : the line that installs $missing.
name_line() {
    cat >&2 <<EOF
$1 Have this line run as root, then try again:

  apt-get update && apt-get install -y --no-install-recommends$missing

EOF
}
