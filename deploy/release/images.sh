#!/usr/bin/env bash
# Writes the module as OCI layouts, folders that `crane push` takes as they are, in both forms that Istio and Envoy Gateway read:
#   FOLDER/module            an image FROM scratch with one layer that holds plugin.wasm
#   FOLDER/module-artifact   an artefact with the bare module and a configuration as its two layers
# It prints each folder and the digest of its manifest, which is what a gateway's `sha256` has to name for an `oci://` module. The same
# module gives the same digests.
#
# usage: deploy/release/images.sh [MODULE [FOLDER]]     default: dist/edge_idempotency.wasm dist/images
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"

module=${1:-$ROOT/dist/edge_idempotency.wasm}
folder=${2:-$ROOT/dist/images}
[ -f "$module" ] || die "there is no module $module" "make wasm"
cargo run --quiet --manifest-path "$ROOT/Cargo.toml" --bin xtask -- module-images "$module" "$folder" \
    --annotation org.opencontainers.image.title=edge-idempotency \
    --annotation "org.opencontainers.image.version=$(version)" \
    --annotation org.opencontainers.image.licenses=Apache-2.0
