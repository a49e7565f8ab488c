#!/usr/bin/env bash
# Runs the stages of the test suite as make targets, shows their output and ends with one line:
#   N passed, N failed, N skipped
# The line sums the results of all stages. A stage that fails without a failing test (a build) counts as one
# failure, and so does a stage in which no test ran or was skipped. A stage runs even if an earlier one failed. What failed is
# shown again at the end, and so are lines that begin with "SKIPPED: ". The line before the last one says how long each stage took.
#
# The tools that the stage rust runs are installed beside the stage build (log: target/test-logs/tools.log), and the stage krakend runs
# beside rust: downloads, linkers and tests that wait leave processors idle.
#
# usage: crates/xtask/scripts/test.sh [--after] [STAGE ...]     default: all; --after adds the results to those of the run before
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT" || exit 1

ALL=(build rust krakend properties clients compat playground-test)
LOGS=$ROOT/target/test-logs
MAKE=${MAKE:-make}
PASSED=0 FAILED=0 SKIPPED=0
BROKEN=() LEFT_OUT=() TIMES=()
INSTALLING='' BESIDE=''

if [ "${1:-}" = --after ]; then
    shift
    read -r PASSED FAILED SKIPPED <"$LOGS/totals"
fi
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=("${ALL[@]}")
for stage in "${stages[@]}"; do
    case " ${ALL[*]} " in *" $stage "*) ;; *) die "unknown stage: $stage" "stages: ${ALL[*]}" ;; esac
done

summary() {
    local stage
    echo
    cat "$LOGS/failures"
    [ ${#LEFT_OUT[@]} -eq 0 ] || printf '%s\n' "${LEFT_OUT[@]}"
    [ ${#BROKEN[@]} -eq 0 ] || printf 'FAILED: %s\n' "${BROKEN[@]}"
    [ ${#TIMES[@]} -eq 0 ] || (IFS=,; echo "time:${TIMES[*]}")
    echo "$PASSED $FAILED $SKIPPED" >"$LOGS/totals"
    echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
}

# Sums the lines "test result: ok. 3 passed; 0 failed; 1 ignored; ..." of a log, colours or not.
count() {
    sed $'s/\033\\[[0-9;]*m//g' "$1" |
        awk '/^test result: [A-Za-z]+\. [0-9]+ passed; [0-9]+ failed; [0-9]+ ignored;/ { passed += $4; failed += $6; ignored += $8 }
             END { print passed + 0, failed + 0, ignored + 0 }'
}

# What the failed tests of a log said: up to 15 lines for each, 150 in all.
failures() {
    sed $'s/\033\\[[0-9;]*m//g' "$1" | awk '
        /^---- .* ----$/ { shown = 16 }
        /^(failures:|test result: )/ { shown = 0 }
        shown > 0 && lines < 150 { print; shown--; lines++ }'
}

interrupted() {
    trap - INT TERM
    [ -z "$INSTALLING$BESIDE" ] || kill $INSTALLING $BESIDE 2>/dev/null
    BROKEN+=("interrupted")
    FAILED=$((FAILED + 1))
    summary
    exit 130
}
trap interrupted INT TERM

mkdir -p "$LOGS"
: >"$LOGS/failures"
# Where this fails, the stage installs what is missing, and shows why it cannot.
case " ${stages[*]} " in *" rust "*)
    "$MAKE" --no-print-directory tools >"$LOGS/tools.log" 2>&1 </dev/null &
    INSTALLING=$!
    ;;
esac
for stage in "${stages[@]}"; do
    log=$LOGS/$stage.log begun=$SECONDS beside=
    case "$stage ${stages[*]} " in "rust "*" krakend "*)
        nice "$MAKE" --no-print-directory krakend >"$LOGS/krakend.log" 2>&1 </dev/null &
        BESIDE=$!
        ;;
    esac
    if [ "$stage" = krakend ] && [ -n "$BESIDE" ]; then
        wait "$BESIDE"
        status=$? beside=" after rust"
        cat "$log"
    else
        "$MAKE" --no-print-directory "$stage" </dev/null 2>&1 | tee "$log"
        status=${PIPESTATUS[0]}
    fi
    took=$((SECONDS - begun))
    TIMES+=(" $stage $((took / 60)) min $((took % 60)) s$beside")
    read -r passed failed ignored < <(count "$log")
    while IFS= read -r line; do LEFT_OUT+=("$line"); done < <(grep -a '^SKIPPED: ' "$log")
    PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed)) SKIPPED=$((SKIPPED + ignored))
    if [ "$status" -ne 0 ]; then
        [ "$failed" -gt 0 ] || FAILED=$((FAILED + 1))
        BROKEN+=("$stage (log: target/test-logs/$stage.log)")
        failures "$log" >>"$LOGS/failures"
    elif [ "$stage" != build ] && [ $((passed + failed + ignored)) -eq 0 ]; then
        FAILED=$((FAILED + 1))
        BROKEN+=("$stage: no test ran")
    fi
done
summary
[ ${#BROKEN[@]} -eq 0 ]
