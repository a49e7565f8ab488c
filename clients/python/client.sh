#!/usr/bin/env bash
# The Python client: `build` leaves the wheel and the source archive in target/clients/python/dist/, and the program that the end-to-end
# tests start at target/clients/python/driver. `test` checks format, lint, types, the package and its version, runs the unit tests, and ends
# with one line that counts. What both need is installed into .tools/clients/python/, once, from the versions and checksums of requirements.txt.
#
# usage: clients/python/client.sh build|test
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"
HERE=$ROOT/clients/python
OUT=$ROOT/target/clients/python
VENV=$TOOLS/clients/python
PYTHON=$VENV/bin/python
# Nothing is written into the source folders.
export PYTHONDONTWRITEBYTECODE=1 RUFF_CACHE_DIR=$OUT/cache/ruff MYPY_CACHE_DIR=$OUT/cache/mypy PIP_DISABLE_PIP_VERSION_CHECK=1
unset PYTHONPATH PYTHONHOME

case ${1:-} in build | test) ;; *) die "nothing to do" "usage: clients/python/client.sh build|test" ;; esac

why=
if ! has python3; then
    why="Python is missing"
elif ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    why="$(python3 --version) is too old"
elif ! python3 -c 'import venv, ensurepip, sqlite3' 2>/dev/null; then
    why="Python lacks one of the modules venv, ensurepip and sqlite3 (Debian: apt-get install python3-venv)"
fi
if [ -n "$why" ]; then
    rm -f "$OUT/driver"
    printf 'SKIPPED: clients/python: %s: the Python client is neither built nor tested (install Python 3.10 or newer)\n' "$why"
    [ "$1" = build ] || printf 'test result: ok. 0 passed; 0 failed; 1 ignored;\n'
    exit 0
fi

install() {
    local stamp
    stamp="$(python3 --version) $(sha256sum <"$HERE/requirements.txt")"
    [ "$(cat "$VENV/.installed" 2>/dev/null)" != "$stamp" ] || return 0
    say "clients/python: fetching httpx, requests and the tools of the tests from PyPI (about 30 MB)"
    rm -rf "$VENV"
    mkdir -p "$(dirname "$VENV")"
    python3 -m venv "$VENV" && PIP_ROOT_USER_ACTION=ignore "$PYTHON" -m pip install --quiet --no-input --only-binary=:all: \
        --require-hashes -r "$HERE/requirements.txt" >&2 ||
        die "pip could not install what clients/python/requirements.txt lists" "Is PyPI reachable? Delete $VENV and try again."
    printf '%s\n' "$stamp" >"$VENV/.installed"
}

# The package, and the driver that runs with what the wheel has.
package() {
    local version wheel=$OUT/dist/edge_idempotency_client
    version=$(sed -n '/^\[workspace.package\]/,/^$/ s/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
    rm -rf "$OUT/dist" "$OUT/site" "$OUT/driver"
    mkdir -p "$OUT"
    "$PYTHON" -m build --no-isolation --outdir "$OUT/dist" "$HERE" >"$OUT/build.log" 2>&1 ||
        { cat "$OUT/build.log" >&2; say "error: the package does not build"; return 1; }
    for file in "$wheel-$version-py3-none-any.whl" "$wheel-$version.tar.gz"; do
        [ -f "$file" ] || { say "error: there is no $file: the version in clients/python/pyproject.toml has to be $version"; return 1; }
    done
    "$PYTHON" -m pip install --quiet --no-input --no-deps --no-index --no-compile --target "$OUT/site" "$wheel-$version-py3-none-any.whl" >&2 ||
        return 1
    [ -f "$OUT/site/edge_idempotency_client-$version.dist-info/licenses/LICENSE" ] || { say "error: the wheel has no LICENSE"; return 1; }
    tar -tzf "$wheel-$version.tar.gz" "edge_idempotency_client-$version/LICENSE" >/dev/null ||
        { say "error: the source archive has no LICENSE"; return 1; }
    [ -f "$OUT/site/edge_idempotency_client/py.typed" ] || { say "error: the wheel has no py.typed"; return 1; }
    cat >"$OUT/driver" <<'DRIVER'
#!/bin/sh
# Runs the driver with the built package.
root=$(cd "$(dirname "$0")/../../.." && pwd -P)
PYTHONPATH=$root/target/clients/python/site PYTHONDONTWRITEBYTECODE=1 \
    exec "$root/.tools/clients/python/bin/python" "$root/clients/python/driver/driver.py" "$@"
DRIVER
    chmod +x "$OUT/driver"
}

install
if [ "$1" = build ]; then
    package
    say "clients/python: the package is in target/clients/python/dist, the driver at target/clients/python/driver"
    exit
fi

passed=0 failed=0 skipped=0
# check NAME COMMAND ...: one check that counts as one test.
check() {
    local name=$1 log=$OUT/check.log
    shift
    say "clients/python: $name"
    if "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf -- '---- clients/python: %s ----\n' "$name"
        cat "$log"
    fi
}

mkdir -p "$OUT"
cd "$HERE"
check "ruff format" "$PYTHON" -m ruff format --check --diff .
check "ruff check" "$PYTHON" -m ruff check .
check "mypy" "$PYTHON" -m mypy
check "package and version" package

say "clients/python: unit tests"
rm -f "$OUT/pytest.xml"
# The tests have no time limits of their own.
timeout 600 "$PYTHON" -m pytest -p no:cacheprovider --junitxml="$OUT/pytest.xml" --tb=short | tee "$OUT/pytest.log" || true
if ! read -r ran bad left_out < <("$PYTHON" - "$OUT/pytest.xml" <<'COUNT'
import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
counts = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
print(counts["tests"], counts["failures"] + counts["errors"], counts["skipped"])
COUNT
); then
    ran=1 bad=1 left_out=0
    say "error: the unit tests did not end"
fi
if [ "$bad" -gt 0 ]; then
    # crates/xtask/scripts/test.sh shows what comes after such a line.
    printf -- '---- clients/python: unit tests ----\n'
    grep -aE '^(FAILED|ERROR) ' "$OUT/pytest.log" || true
fi
passed=$((passed + ran - bad - left_out)) failed=$((failed + bad)) skipped=$((skipped + left_out))

[ "$failed" -eq 0 ] && result=ok || result=FAILED
printf 'test result: %s. %d passed; %d failed; %d ignored;\n' "$result" "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
