#!/usr/bin/env bash
# Runs tests/dynamic-module/ with AddressSanitizer and, in part, under Miri and ThreadSanitizer, which need a nightly toolchain. A part that
# cannot run says so.
#
# usage: crates/xtask/scripts/dynamic-module-sanitizers.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

host=$(rustc -vV | sed -n 's/^host: //p')
status=0
if cargo +nightly miri --version >/dev/null 2>&1; then
    say "dynamic-module-sanitizers: Miri"
    # Some ten seconds for each configuration that a test makes, so not all tests.
    MIRIFLAGS="-Zmiri-disable-isolation" cargo +nightly miri test --quiet --package dynamic-module-tests --test dynamic_module --test dynamic_module_panics -- \
        --skip bodies:: --skip many_streams --skip a_request_in_which || status=1
else
    say "NOT RUN under Miri: rustup toolchain install nightly --component miri,rust-src"
fi
if cargo +nightly --version >/dev/null 2>&1; then
    say "dynamic-module-sanitizers: AddressSanitizer"
    RUSTFLAGS="-Zsanitizer=address" cargo +nightly test --quiet --package dynamic-module-tests --tests --target "$host" --target-dir target/asan || status=1
else
    say "NOT RUN with AddressSanitizer: rustup toolchain install nightly"
fi
if [ -d "$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust" ]; then
    say "dynamic-module-sanitizers: ThreadSanitizer"
    RUSTFLAGS="-Zsanitizer=thread" cargo +nightly test --quiet -Zbuild-std --package dynamic-module-tests --test dynamic_module --target "$host" \
        --target-dir target/tsan -- threads:: || status=1
else
    say "NOT RUN with ThreadSanitizer: rustup toolchain install nightly --component rust-src"
fi
exit $status
