#!/usr/bin/env bash
# Compiles packages for wasm32-unknown-unknown and prints the path of each module: target/wasm/NAME.wasm, untouched if
# nothing changed. It finds a compiler by itself, in this order:
#   rustc    the rustc on PATH has the target
#   rustup   rustup can add the target to it
#   debian   Debian's rustc, which builds the target's standard library from the rust-web-src package
# EDGE_WASM_TOOLCHAIN=rustc|rustup|debian tries one of them only.
#
# usage: crates/xtask/scripts/build-wasm.sh [--prepare] [--package NAME ...]
#   --prepare   only makes a compiler available
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

TARGET=wasm32-unknown-unknown
# What a request runs, as `make wasm-profile` writes it.
FUNCTIONS=${EDGE_WASM_FUNCTIONS:-$ROOT/crates/envoy/request_functions.txt}
# How long a failed `rustup target add` is remembered, in minutes.
RETRY_AFTER=1440

RUSTC_PATH='' CARGO_PATH='' DESCRIPTION='' TARGET_DIR='' LINKER=''
BUILD_STD=()
WHY_NOT=()

# Records the reason why a compiler cannot be used.
no() {
    WHY_NOT+=("$1")
    return 1
}

has_target() {
    compgen -G "$("$1" --print sysroot)/lib/rustlib/$TARGET/lib/libstd-*.rlib" >/dev/null
}

# rustup's toolchains bring rust-lld along; a distribution's rustc needs the system's lld of its own LLVM.
find_linker() {
    local sysroot host llvm
    sysroot=$("$1" --print sysroot)
    host=$("$1" -vV | sed -n 's/^host: //p')
    llvm=$("$1" -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
    [ ! -x "$sysroot/lib/rustlib/$host/bin/rust-lld" ] || return 0
    for LINKER in rust-lld "lld-$llvm" lld wasm-ld; do
        ! has "$LINKER" || return 0
    done
    LINKER=''
    return 1
}

way_rustc() {
    local rustc=${RUSTC:-rustc}
    has "$rustc" && has cargo || no "no rustc and cargo on PATH" || return 1
    has_target "$rustc" || no "no wasm32 target for rustc $(rustc_version "$rustc")" || return 1
    find_linker "$rustc" || no "no lld for rustc $(rustc_version "$rustc")" || return 1
    RUSTC_PATH=$rustc CARGO_PATH=cargo TARGET_DIR=$ROOT/target
    DESCRIPTION="rustc $(rustc_version "$rustc")"
}

way_rustup() {
    local remembered=$TOOLS/rustup-cannot-add-wasm32 toolchain limit=()
    has rustup || no "no rustup" || return 1
    toolchain=$(rustc --version 2>/dev/null || true)
    if [ -n "$(find "$remembered" -mmin "-$RETRY_AFTER" 2>/dev/null)" ] && [ "$(cat "$remembered")" = "$toolchain" ]; then
        no "rustup could not add it lately (delete .tools/${remembered##*/} to try again)" || return 1
    fi
    mkdir -p "$TOOLS"
    say "wasm: asking rustup for the $TARGET target"
    ! has timeout || limit=(timeout 180)
    if ! (cd "$ROOT" && RUSTUP_MAX_RETRIES=1 ${limit[@]+"${limit[@]}"} rustup target add "$TARGET") \
        >"$TOOLS/rustup.log" 2>&1 </dev/null; then
        printf '%s\n' "$toolchain" >"$remembered"
        no "rustup could not add it (log: .tools/rustup.log)" || return 1
    fi
    rm -f "$remembered"
    way_rustc || no "rustup added the target, but not to the rustc on PATH" || return 1
    DESCRIPTION="$DESCRIPTION, target added by rustup"
}

debian_missing() {
    local minimum
    minimum=$(minimum_rust)
    MISSING=()
    [ -x /usr/bin/rustc ] && at_least "$(rustc_version /usr/bin/rustc)" "$minimum" || MISSING+=(rustc-web)
    [ -x /usr/bin/cargo ] || MISSING+=(cargo-web)
    [ -f /usr/lib/rustlib/src/rust/library/Cargo.lock ] || MISSING+=(rust-web-src)
    [ ${#MISSING[@]} -gt 0 ]
}

way_debian() {
    local llvm
    if debian_missing; then
        has apt-get || no "not a Debian machine (no apt-get)" || return 1
        apt_install "${MISSING[@]}" || no "apt-get could not install ${MISSING[*]} (log: .tools/apt.log; root or sudo -n is needed)" || return 1
        ! debian_missing || no "Debian's rustc $(rustc_version /usr/bin/rustc) is older than $(minimum_rust), or its source is missing" || return 1
    fi
    if ! find_linker /usr/bin/rustc; then
        llvm=$(/usr/bin/rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
        apt_install "lld-$llvm" || no "apt-get could not install lld-$llvm (log: .tools/apt.log; root or sudo -n is needed)" || return 1
        find_linker /usr/bin/rustc || no "no lld for Debian's rustc" || return 1
    fi
    RUSTC_PATH=/usr/bin/rustc CARGO_PATH=/usr/bin/cargo TARGET_DIR=$ROOT/target/wasm-debian
    BUILD_STD=("-Zbuild-std=std,panic_abort")
    DESCRIPTION="Debian's rustc $(rustc_version /usr/bin/rustc) with build-std"
}

choose() {
    case ${EDGE_WASM_TOOLCHAIN:-auto} in
        auto) way_rustc || way_rustup || way_debian ;;
        rustc) way_rustc ;;
        rustup) way_rustup ;;
        debian) way_debian ;;
        *) die "EDGE_WASM_TOOLCHAIN=$EDGE_WASM_TOOLCHAIN is not rustc, rustup or debian" ;;
    esac || die "no compiler for $TARGET: $(printf '%s; ' "${WHY_NOT[@]}" | sed 's/; $//')" "One of these helps:" \
        "1. a rustc that has the target" "2. rustup target add $TARGET" \
        "3. on Debian: apt-get install rustc-web cargo-web rust-web-src, and lld of the same LLVM (rustc -vV tells which)"
    if [ ${#WHY_NOT[@]} -eq 0 ]; then
        say "wasm: $DESCRIPTION"
    else
        say "wasm: $DESCRIPTION ($(printf '%s; ' "${WHY_NOT[@]}" | sed 's/; $//'))"
    fi
}

# Prints a file of arguments for rustc: all is optimised for size, but what a request runs for speed, or for both. Cargo does not look into
# the file, so its name has a hash of its content.
size_and_speed() {
    local flags=$ROOT/target/wasm/flags named
    local written=$flags.$$
    mkdir -p "${flags%/*}"
    awk 'BEGIN { print "-Cllvm-args=-force-attribute=optsize"; print "-Cllvm-args=-force-attribute=minsize" } /^#/ { next }
        { print "-Cllvm-args=-force-remove-attribute=" $1 ":minsize" } $2 == "speed" { print "-Cllvm-args=-force-remove-attribute=" $1 ":optsize" }' \
        "$FUNCTIONS" >"$written"
    named=$flags-$(sha256sum "$written" | cut -c 1-12)
    mv "$written" "$named"
    printf '%s' "$named"
}

compile() {
    local name=$1 file setting
    # The caller's flags, targets and profile are for builds for this machine, so they are removed from the environment here.
    for setting in $(compgen -e | grep -E '^(CARGO_PROFILE_RELEASE_.*|CARGO_TARGET_WASM32_.*|CARGO_TARGET_DIR|CARGO_BUILD_(TARGET|TARGET_DIR|RUSTFLAGS)|(CARGO_ENCODED_)?RUSTFLAGS|(CARGO_MAKE|MAKE|M)FLAGS)$'); do
        unset "$setting"
    done
    [ -z "$LINKER" ] || export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$LINKER
    # Panic messages contain source paths. Remove the build machine's paths from them.
    CARGO_ENCODED_RUSTFLAGS=$(remapped_paths "$RUSTC_PATH")
    # The list's names of functions depend on the compiler.
    if [ "$(head -n 1 "$FUNCTIONS")" != "# $("$RUSTC_PATH" --version)" ]; then
        say "wasm: ${FUNCTIONS#"$ROOT/"} is of another compiler, so all is optimised for size"
        export CARGO_PROFILE_RELEASE_OPT_LEVEL=s
    elif [[ $name != bench-* ]]; then
        CARGO_ENCODED_RUSTFLAGS+=$'\x1f'-Csymbol-mangling-version=v0$'\x1f'@$(size_and_speed)
    fi
    # With the wrapper of .cargo/config.toml the names of functions depend on where the checkout lies, and no list or profile would fit.
    export RUSTC_WORKSPACE_WRAPPER='' CARGO_ENCODED_RUSTFLAGS RUSTC=$RUSTC_PATH
    [ ${#BUILD_STD[@]} -eq 0 ] || export RUSTC_BOOTSTRAP=1
    "$CARGO_PATH" build --manifest-path "$ROOT/Cargo.toml" --package "$name" --lib --release \
        --target "$TARGET" --target-dir "$TARGET_DIR" ${BUILD_STD[@]+"${BUILD_STD[@]}"} >&2 </dev/null
    file=${name//-/_}.wasm
    mkdir -p "$ROOT/target/wasm"
    if ! cmp -s "$TARGET_DIR/$TARGET/release/$file" "$ROOT/target/wasm/$file"; then
        cp "$TARGET_DIR/$TARGET/release/$file" "$ROOT/target/wasm/$file"
    fi
    printf '%s\n' "$ROOT/target/wasm/$file"
}

prepare=no packages=()
while [ $# -gt 0 ]; do
    case $1 in
        --prepare) prepare=yes ;;
        --package)
            [ $# -gt 1 ] || die "--package needs a name"
            packages+=("$2")
            shift
            ;;
        *) die "unknown argument: $1" "usage: crates/xtask/scripts/build-wasm.sh [--prepare] [--package NAME ...]" ;;
    esac
    shift
done
choose
[ $prepare = no ] || exit 0
[ ${#packages[@]} -gt 0 ] || packages=(edge-idempotency)
for name in "${packages[@]}"; do
    (compile "$name")
done
