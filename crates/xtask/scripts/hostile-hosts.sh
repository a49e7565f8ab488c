#!/usr/bin/env bash
# Sends the same random requests to the WebAssembly module and to the dynamic one, and compares case by case what the client saw and
# what the upstream got. Both have to be built. Where a client breaks off, it depends on the moment how far a request gets, in each host:
# a case that differs is sent again, and counts only if the two hosts have no outcome in common.
#
# usage: crates/xtask/scripts/hostile-hosts.sh [CASES] [SEED]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
export LC_ALL=C

cases=${1:-100000} seed=${2:-1}
# How often a case that differs is sent again
AGAIN=10
folder=$ROOT/target/hostile
rm -rf "$folder"
mkdir -p "$folder"

# Sends cases to both hosts: all of them, or those of a list. Adds the outcomes to those that were seen before.
send() {
    local host
    for host in wasm dynamic-module; do
        say "hostile-hosts: $2, $host"
        EDGE_HOST=$host HOSTILE_CASES=$cases HOSTILE_SEED=$seed HOSTILE_ONLY=$1 HOSTILE_OUTCOMES=$folder/run.txt \
            cargo test --quiet --workspace --test e2e -- --quiet 'adversary: random requests' </dev/null
        cat "$folder/run.txt" >>"$folder/$host.txt"
    done
}

# The numbers of the cases of which the hosts have no outcome in common.
different() {
    comm -12 <(sort -u "$folder/wasm.txt") <(sort -u "$folder/dynamic-module.txt") | cut -d: -f1 | sort -u >"$folder/same.txt"
    cut -d: -f1 "$folder/wasm.txt" | sort -u | comm -23 - "$folder/same.txt" | sort -n
}

send '' "$cases cases of seed $seed"
numbers=$(different)
first=$(grep -c . <<<"$numbers" || true)
for ((again = 1; again <= AGAIN; again++)); do
    [ -n "$numbers" ] || break
    send "$(paste -sd, <<<"$numbers")" "$(wc -l <<<"$numbers") that differ, once more"
    numbers=$(different)
done
if [ -n "$numbers" ]; then
    say "hostile-hosts: $(wc -l <<<"$numbers") of $cases cases differ. The first of them, and what became of them:"
    awk 'NR <= 5' <<<"$numbers" | while read -r number; do
        for host in wasm dynamic-module; do grep "^$number: " "$folder/$host.txt" | sort -u | sed "s/^/  $host /" | cut -c 1-1500 >&2; done
    done
    die "the hosts differ" "All outcomes are in target/hostile/. One case: make hostile HOST=dynamic-module SEED=$seed ONLY=NUMBER"
fi
say "hostile-hosts: no difference in $cases cases of seed $seed ($first differed at first, and had an outcome in common later)"
