#!/usr/bin/env bash
# Builds the site of docs/ with mdBook: dist/site/. Links to files of the code lead to EDGE_SOURCES, such as
# https://github.com/OWNER/NAME/blob/TAG; without it they lead nowhere in the site.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

MDBOOK=0.5.4
MERMAID=12.3.0
MERMAID_SUM=sha512-4113TdXeLAsMruJ79OpFL5O8+LTFXhQqZ260rF3tgUmiNAtRm4Uume04I+65PRN6yZ69J4f8rVYWW8zRk65UYw==

has mdbook || die "mdBook is missing" "cargo install mdbook --version $MDBOOK --locked"
script=$TOOLS/mermaid-$MERMAID.min.js
if [ ! -f "$script" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    (cd "$work" && npm pack --silent --ignore-scripts --no-audit --no-fund "mermaid@$MERMAID" >/dev/null) || die "npm cannot fetch mermaid@$MERMAID"
    [ "sha512-$(openssl dgst -sha512 -binary "$work"/mermaid-*.tgz | base64 -w0)" = "$MERMAID_SUM" ] || die "the checksum of Mermaid is not the pinned one"
    tar -xzf "$work"/mermaid-*.tgz -C "$work" package/dist/mermaid.min.js
    mkdir -p "$TOOLS"
    mv "$work/package/dist/mermaid.min.js" "$script"
fi
rm -rf target/docs dist/site
mkdir -p target
cp -R docs target/docs
cp "$script" target/docs/mermaid.min.js
cat >target/docs/mermaid.js <<'END'
mermaid.initialize({startOnLoad: false, theme: /navy|coal|ayu/.test(document.documentElement.className) ? 'dark' : 'default'});
mermaid.run({querySelector: 'code.language-mermaid'});
END
if [ -n "${EDGE_SOURCES:-}" ]; then
    sed -i "s#](\.\./#]($EDGE_SOURCES/#g" target/docs/*.md
    sed -i "s#](\.\./\.\./#]($EDGE_SOURCES/#g" target/docs/decisions/*.md
fi
mdbook build target/docs
