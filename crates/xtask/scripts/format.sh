#!/usr/bin/env bash
# Checks the format of the Rust code, and the lock file.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --all --check
else
    echo "SKIPPED: rustfmt is missing, so no format is checked (rustup component add rustfmt)"
fi
cargo metadata --locked --format-version 1 >/dev/null || die "Cargo.lock does not match the manifests" "cargo check, and commit it"
