#!/usr/bin/env bash
# Runs native-tests/ under Miri and with AddressSanitizer, which need a nightly toolchain. A part that cannot run says so.
#
# usage: scripts/native-sanitizers.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

host=$(rustc -vV | sed -n 's/^host: //p')
status=0
if cargo +nightly miri --version >/dev/null 2>&1; then
    say "native-sanitizers: Miri"
    MIRIFLAGS="-Zmiri-disable-isolation" cargo +nightly miri test --quiet --package native-tests --test native --test native_panics || status=1
else
    say "NOT RUN under Miri: rustup toolchain install nightly --component miri,rust-src"
fi
if cargo +nightly --version >/dev/null 2>&1; then
    say "native-sanitizers: AddressSanitizer"
    RUSTFLAGS="-Zsanitizer=address" cargo +nightly test --quiet --package native-tests --tests --target "$host" --target-dir target/asan || status=1
else
    say "NOT RUN with AddressSanitizer: rustup toolchain install nightly"
fi
exit $status
