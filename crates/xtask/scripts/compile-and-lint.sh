#!/usr/bin/env bash
# A compiler for Cargo's RUSTC_WORKSPACE_WRAPPER: it compiles a crate of the workspace, and then lets clippy read the crate with the same
# arguments, and fails at the first lint. Cargo calls it for the workspace's own crates only. So dependencies are compiled once, while
# `cargo clippy` beside a build checks each of them once more.
set -euo pipefail

"$@"
scratch='' arguments=()
for argument in "$@"; do
    case $argument in
        # Questions about the compiler have none of these.
        --emit=*)
            argument=--emit=metadata
            scratch=$(mktemp -d)
            trap 'rm -rf "$scratch"' EXIT
            ;;
        # Cargo has to hear of what the compiler wrote, and of nothing else.
        --json=*) argument=${argument/,artifacts/} ;;
        incremental=*) argument=incremental=$scratch/incremental ;;
    esac
    [ "${arguments[*]: -1}" != --out-dir ] || argument=$scratch
    arguments+=("$argument")
done
[ -z "$scratch" ] || clippy-driver "${arguments[@]}" -Dwarnings
