#!/usr/bin/env bash
# The site. `build` makes dist/site/ of docs/, and checks its links. `test` also checks the builder, and looks at the site in a browser.
# `pictures` makes pictures of some pages in target/site-pictures/.
#
# The builder is compiled once into target/site-build/, from crates that site/Cargo.lock names with their checksums. The browser is the one of
# the TypeScript client (crates/xtask/scripts/clients.sh build); without it the pages are not looked at.
#
# usage: crates/xtask/scripts/site.sh build|test|pictures
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

SITE=dist/site
CLIENT=.tools/clients/typescript
builder() { cargo "$1" --quiet --locked --manifest-path site/Cargo.toml --target-dir target/site-build "${@:2}"; }

build() { builder run -- . "$SITE"; }

look() {
    if [ ! -x "$CLIENT/chromium/chromium" ]; then
        echo "SKIPPED: the site is not looked at in a browser: $CLIENT has no Chromium (crates/xtask/scripts/clients.sh build)"
        return
    fi
    node site/browser.mjs "$SITE" "$CLIENT" "$@"
}

case ${1:-} in
    build) build ;;
    test)
        cargo fmt --manifest-path site/Cargo.toml --check
        # Clippy reads the builder and its tests while they are compiled.
        export RUSTC_WORKSPACE_WRAPPER=$ROOT/crates/xtask/scripts/compile-and-lint.sh
        builder test
        build
        look
        ;;
    pictures)
        build
        look target/site-pictures
        ;;
    *) die "usage: crates/xtask/scripts/site.sh build|test|pictures" ;;
esac
