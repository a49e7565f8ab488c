# shellcheck shell=bash
# Functions that the scripts in this folder share. This file is sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
TOOLS=$ROOT/.tools

say() { printf '%s\n' "$*" >&2; }

# Ends the script. The first argument is the error, each further one is a line of advice.
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    [ $# -eq 0 ] || printf '  %s\n' "$@" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# Prints the major.minor.patch version of a rustc, or nothing.
rustc_version() { "$1" --version 2>/dev/null | awk '{ sub(/-.*/, "", $2); print $2 }'; }

# True if dotted version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The oldest rustc that the workspace accepts.
minimum_rust() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml" | head -n 1; }

# Installs Debian packages without a prompt; fails if that is not possible. It never removes a package.
apt_install() {
    local log=$TOOLS/apt.log root=()
    has apt-get || return 1
    if [ "$(id -u)" -ne 0 ]; then
        has sudo && sudo -n true 2>/dev/null || return 1
        root=(sudo -n)
    fi
    root+=(env DEBIAN_FRONTEND=noninteractive apt-get)
    mkdir -p "$TOOLS"
    say "apt: installing $* (log: $log)"
    if "${root[@]}" install -y --no-install-recommends --no-remove "$@" >"$log" 2>&1 </dev/null; then
        return 0
    fi
    # The package lists may be missing or old.
    "${root[@]}" update >>"$log" 2>&1 </dev/null || true
    "${root[@]}" install -y --no-install-recommends --no-remove "$@" >>"$log" 2>&1 </dev/null
}
