#!/usr/bin/env bash
# The reference clients (clients/). `build` leaves their packages, and the drivers that the end-to-end tests start, in target/clients/;
# `test` runs their unit tests. Each language has a script of its own, clients/LANG/client.sh, and all of them run side by side.
#
# What a script printed is shown when it has ended: all of it after `test` and after a failure, and after a build what it left out. The
# exit status is 1 if one of them fails.
#
# usage: crates/xtask/scripts/clients.sh build|test [LANG ...]     default: all languages
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
LOGS=$ROOT/target/test-logs

known=()
for script in "$ROOT"/clients/*/client.sh; do known+=("$(basename "$(dirname "$script")")"); done
action=${1:-}
case $action in build | test) shift ;; *) die "the first argument is build or test" "usage: crates/xtask/scripts/clients.sh build|test [LANG ...]" ;; esac
languages=("$@")
[ $# -gt 0 ] || languages=("${known[@]}")
for language in "${languages[@]}"; do
    case " ${known[*]} " in *" $language "*) ;; *) die "no client is named $language" "clients: ${known[*]}" ;; esac
done

mkdir -p "$LOGS"
running=() failed=0
for language in "${languages[@]}"; do
    "$ROOT/clients/$language/client.sh" "$action" >"$LOGS/clients-$language-$action.log" 2>&1 </dev/null &
    running+=($!)
done
for number in "${!languages[@]}"; do
    language=${languages[number]} status=0
    log=target/test-logs/clients-$language-$action.log
    wait "${running[number]}" || status=$?
    if [ "$status" -ne 0 ]; then
        failed=1
        cat "$ROOT/$log"
        say "error: clients/$language/client.sh $action ended with $status (log: $log)"
    elif [ "$action" = test ]; then
        cat "$ROOT/$log"
    else
        grep '^SKIPPED: ' "$ROOT/$log"
    fi
done
exit "$failed"
