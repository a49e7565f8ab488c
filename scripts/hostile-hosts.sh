#!/usr/bin/env bash
# Sends the same random requests to the WebAssembly module and to the native one, and compares case by case what the client saw and
# what the upstream got. Both have to be built.
#
# usage: scripts/hostile-hosts.sh [CASES] [SEED]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

cases=${1:-100000} seed=${2:-1}
folder=$ROOT/target/hostile
mkdir -p "$folder"
for host in wasm native; do
    say "hostile-hosts: $cases cases of seed $seed, $host"
    rm -f "$folder/$host.txt"
    EDGE_HOST=$host HOSTILE_CASES=$cases HOSTILE_SEED=$seed HOSTILE_OUTCOMES=$folder/$host.txt \
        cargo test --quiet --workspace --test e2e -- --quiet 'adversary: random requests' </dev/null
done
different=$(diff --unchanged-line-format= --old-line-format='%L' --new-line-format= "$folder/wasm.txt" "$folder/native.txt" || true)
count=$(printf '%s' "$different" | grep -c '' || true)
if [ "$count" != 0 ]; then
    say "hostile-hosts: $count of $cases cases differ. The first of them, and what became of them in both hosts:"
    printf '%s\n' "$different" | head -n 5 | cut -d: -f1 | while read -r number; do
        for host in wasm native; do say "  $host $(grep "^$number: " "$folder/$host.txt" | cut -c 1-1500)"; done
    done
    die "the hosts differ" "All lines are in target/hostile/. One case: make hostile HOST=native SEED=$seed ONLY=NUMBER"
fi
say "hostile-hosts: no difference in $(wc -l <"$folder/native.txt") cases of seed $seed"
