#!/usr/bin/env bash
# Checks the format, clippy and the lock file. It uses the clippy and rustfmt of the cargo on PATH, or else installs
# rustup's components or Debian's packages.
#
# usage: crates/xtask/scripts/lint.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

usable() { cargo clippy --version >/dev/null 2>&1 && cargo fmt --version >/dev/null 2>&1; }

# Debian's clippy works with Debian's rustc only, so it needs its own target directory. Cargo's bin directory has to be
# on PATH after /usr/bin: if PATH did not name it, Cargo would search it first and find rustup's cargo-clippy.
use_debian() {
    [ -x /usr/bin/cargo-clippy ] && [ -x /usr/bin/cargo-fmt ] || return 1
    export PATH=/usr/bin:$PATH:${CARGO_HOME:-$HOME/.cargo}/bin RUSTC=/usr/bin/rustc CARGO_TARGET_DIR=$ROOT/target/lint-debian
    at_least "$(rustc_version /usr/bin/rustc)" "$(minimum_rust)" && usable
}

if ! usable; then
    if has rustup && timeout 180 rustup component add clippy rustfmt >/dev/null 2>&1 </dev/null && usable; then
        say "lint: rustup added clippy and rustfmt"
    elif (use_debian) || { apt_install rust-web-clippy rustfmt-web && (use_debian); }; then
        use_debian
        say "lint: Debian's clippy and rustfmt ($(rustc_version /usr/bin/rustc))"
    else
        die "cargo clippy or cargo fmt is missing" "rustup component add clippy rustfmt" \
            "or on Debian: apt-get install rust-web-clippy rustfmt-web"
    fi
fi

say "lint: cargo fmt"
cargo fmt --all --check
say "lint: layout of test data"
cargo run --quiet --package xtask -- format-cases --check
say "lint: Cargo.lock"
cargo metadata --locked --format-version 1 >/dev/null || die "Cargo.lock does not match the manifests" "cargo check, and commit it"
say "lint: clippy"
cargo clippy --quiet --workspace --all-targets -- -D warnings
# Targets that `cargo test` leaves out unless they are named.
cargo clippy --quiet --workspace --test short -- -D warnings
