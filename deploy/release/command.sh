#!/usr/bin/env bash
# Builds the command, guard, promises and recorder as programs that need no library of the machine (musl, linked statically), and prints their
# folder. cargo-zigbuild compiles for both processors.
#
# usage: deploy/release/command.sh x86_64|aarch64
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"

case ${1:-} in
    x86_64 | aarch64) target=$1-unknown-linux-musl ;;
    *) die "which processor?" "usage: deploy/release/command.sh x86_64|aarch64" ;;
esac
use_zigbuild
if has rustup; then rustup target add "$target" >/dev/null 2>&1 || true; fi
compgen -G "$(rustc --print sysroot)/lib/rustlib/$target/lib/libstd-*.rlib" >/dev/null ||
    die "rustc has no standard library for $target" "rustup target add $target"
CARGO_ENCODED_RUSTFLAGS=$(remapped_paths)
export CARGO_ENCODED_RUSTFLAGS
# ring is partly C: its file names stand in messages, too.
# Quoted, since folders may have spaces in their names.
printf -v CFLAGS '%q ' "-ffile-prefix-map=$ROOT=/edge-idempotency" "-ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export CFLAGS CC_SHELL_ESCAPED_FLAGS=1
cd "$ROOT"
cargo zigbuild --locked --package edge-idempotency-command --package edge-idempotency-services --bins --profile fast --target "$target" >&2
printf '%s\n' "${CARGO_TARGET_DIR:-target}/$target/fast"
