#!/usr/bin/env bash
# Builds the commit once more, from a clone in another folder, and compares every file with dist/release.
#
# usage: deploy/release/reproducible.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"

[ -f "$ROOT/dist/release/SHA256SUMS" ] || die "there is no release to compare with" "make release"
git -C "$ROOT" diff --quiet HEAD || die "files differ from the commit, so a clone of it has others" "Commit, and make release."
other=$(mktemp -d "${TMPDIR:-/tmp}/edge-release-XXXXXX")
trap 'rm -rf "$other"' EXIT
say "reproducible: building $(git -C "$ROOT" rev-parse --short HEAD) in $other"
git clone --quiet "$ROOT" "$other/clone with another name"
cd "$other/clone with another name"
ln -s "$TOOLS" .tools
"${MAKE:-make}" --no-print-directory release
if ! difference=$(diff "$ROOT/dist/release/SHA256SUMS" dist/release/SHA256SUMS); then
    die "these files are not the same" "$difference"
fi
say "reproducible: all $(wc -l <dist/release/SHA256SUMS) files are the same"
echo "test result: ok. 1 passed; 0 failed; 0 ignored; release::reproducible"
