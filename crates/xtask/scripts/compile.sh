#!/usr/bin/env bash
# Compiles the programs of the tests, lints them by the same compilation (rustc-or-clippy), and fails at a warning. Cargo repeats the
# warnings of what it has compiled before, and says of each crate how many there are. Warnings of cargo itself are about the machine.
#
# usage: crates/xtask/scripts/compile.sh [OPTION OF CARGO ...]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

# Cargo never removes what it built for another state of the sources. What is removed and still of use is built again.
for old in target/debug/deps target/debug/incremental; do
    [ ! -d "$old" ] || find "$old" -mindepth 1 -maxdepth 1 -mtime +14 -exec rm -rf {} +
done
clippy-driver --version >/dev/null 2>&1 || echo "SKIPPED: clippy is missing, so nothing is linted (rustup component add clippy)"
log=$ROOT/target/compile.log
mkdir -p target
cargo build --locked "$@" 2> >(tee "$log" >&2)
wait
! grep -qE '^warning: `.*` .* generated [0-9]+ warning' "$log" || die "the compiler has warnings"
