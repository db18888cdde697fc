# packages.sh - what Debian packages the project needs, and how to get them.
# Sourced by ./run and ./test.

BUILD_PACKAGES="gcc cmake ninja-build pkg-config libc6-dev
libcurl4-gnutls-dev libgnutls28-dev nettle-dev libjansson-dev libpcre2-dev libutf8proc-dev
zlib1g-dev"

TEST_PACKAGES="$BUILD_PACKAGES libcmocka-dev clang libclang-rt-14-dev curl python3
python3-jsonschema
python3-jinja2 gnutls-bin openssl valgrind bash gcc-aarch64-linux-gnu
libc6-dev-arm64-cross qemu-user"

# need PACKAGE... : install those that are missing, saying which.
need() {
    missing=""
    for package in "$@"; do
        case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
        *"install ok installed"*) ;;
        *) missing="$missing $package" ;;
        esac
    done
    [ -z "$missing" ] && return 0
    echo "installing missing Debian packages:$missing" >&2
    as_root=""
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || {
            echo "not root, and sudo is not there; as root run: apt-get install$missing" >&2
            return 1
        }
        as_root=sudo
    fi
    $as_root apt-get update -qq >&2
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        $missing >&2
}
