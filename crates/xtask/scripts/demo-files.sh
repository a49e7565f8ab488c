#!/usr/bin/env bash
# Makes everything that the demo runs: its own programs and xtask, and beside them, at the same time, what the arguments name. Every
# few seconds it says what is still at work.
#
# usage: crates/xtask/scripts/demo-files.sh [wasm|dynamic-module] [envoy] [restate]
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT" || exit 1

# How often the script says what it waits for, in seconds.
TOLD_EVERY=15
LOGS=$ROOT/target/demo-logs
MAKE=${MAKE:-make}
NAMES=() JOBS=()

# Jobs run in process groups of their own, so that an interrupted run leaves none behind.
set -m
stop() {
    local job
    for job in "${JOBS[@]}"; do kill -- "-$job" 2>/dev/null; done
    exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM

# begin NAME COMMAND...: starts a job. Its output goes to the terminal, that of cargo into a log.
begin() {
    local name=$1
    shift
    "$@" </dev/null &
    NAMES+=("$name") JOBS+=($!)
}

logged() {
    local log=$LOGS/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        return 1
    }
}

mkdir -p "$LOGS"
start=$SECONDS
for part in "$@"; do
    case $part in
        wasm | dynamic-module) begin "the filter" logged filter "$MAKE" --no-print-directory "$part" ;;
        envoy) begin Envoy "$ROOT/crates/xtask/scripts/tools.sh" envoy ;;
        restate) begin Restate "$ROOT/crates/xtask/scripts/tools.sh" restate ;;
        *) die "unknown part: $part" "usage: crates/xtask/scripts/demo-files.sh [wasm|dynamic-module] [envoy] [restate]" ;;
    esac
done
# The filter ends with a part that one processor works at, so it begins that as soon as it can.
begin "the demo" logged demo nice cargo build --bin demo --bin demo-service --bin xtask

# What a job did last: the crate that cargo compiles.
last() {
    local log=$LOGS/$1.log
    [ ! -f "$log" ] || sed -n 's/^ *\(Compiling\|Downloading\|Downloaded\) \([^ ]*\).*/\1 \2/p' "$log" | tail -n 1
}

# Nothing is said about a run in which nothing has to be done.
told=$((SECONDS + 4)) first=yes failed=()
while [ ${#JOBS[@]} -gt 0 ]; do
    still_names=() still_jobs=()
    for index in "${!JOBS[@]}"; do
        if kill -0 "${JOBS[$index]}" 2>/dev/null; then
            still_names+=("${NAMES[$index]}") still_jobs+=("${JOBS[$index]}")
        elif wait "${JOBS[$index]}"; then
            [ $first = yes ] || say "demo: ${NAMES[$index]} is ready ($((SECONDS - start)) s)"
        else
            failed+=("${NAMES[$index]}")
        fi
    done
    NAMES=(${still_names[@]+"${still_names[@]}"}) JOBS=(${still_jobs[@]+"${still_jobs[@]}"})
    if [ ${#failed[@]} -gt 0 ]; then
        for job in ${JOBS[@]+"${JOBS[@]}"}; do kill -- "-$job" 2>/dev/null; done
        die "this could not be made: ${failed[*]}" "What it said is above; logs of builds are in target/demo-logs/."
    fi
    [ ${#JOBS[@]} -gt 0 ] || break
    if [ $SECONDS -ge $told ]; then
        if [ $first = yes ]; then
            say "demo: making what it runs; the first time this takes two to four minutes on two cores"
            first=no
        fi
        line="demo: $((SECONDS - start)) s, at work on: $(printf '%s, ' "${NAMES[@]}" | sed 's/, $//')"
        case $line in *"the demo"*) step=$(last demo) ;; *) step=$(last filter) ;; esac
        say "$line${step:+ ($step)}"
        told=$((SECONDS + TOLD_EVERY))
    fi
    sleep 0.3
done
[ $first = yes ] || say "demo: everything is ready after $((SECONDS - start)) s"
