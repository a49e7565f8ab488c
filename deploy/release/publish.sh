#!/usr/bin/env bash
# Pushes the images and the chart of dist/release to a registry, and compares their digests with dist/release/IMAGES. It prints what was
# pushed, NAME@DIGEST, one a line. Log in before: crane auth login, helm registry login.
#
# usage: deploy/release/publish.sh REGISTRY [RELEASE]     such as ghcr.io/OWNER; RELEASE is dist/release
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"

registry=${1:?usage: deploy/release/publish.sh REGISTRY [RELEASE]}
release=${2:-$ROOT/dist/release}
crane=$TOOLS/bin/crane helm=$TOOLS/release-tools/helm/helm
[ -x "$crane" ] && [ -x "$helm" ] || die "crane or helm is missing" "crates/xtask/scripts/tools.sh crane release-tools"
version=$(version)

while read -r layout digest; do
    name=$(image_name "$layout"):$version
    case $layout in module-artifact) name+=-artifact ;; esac
    say "publish: $registry/$name"
    "$crane" push "$release/images/$layout" "$registry/$name" >&2
    there=$("$crane" digest "$registry/$name")
    [ "$there" = "$digest" ] || die "$registry/$name has the digest $there, and IMAGES says $digest"
    printf '%s@%s\n' "$registry/${name%%:*}" "$digest"
done <"$release/IMAGES"

say "publish: $registry/charts/edge-idempotency:$version"
plain=()
case $registry in 127.0.0.1:* | localhost:*) plain=(--plain-http) ;; esac
"$helm" push "$release/edge-idempotency-chart-$version.tgz" "oci://$registry/charts" "${plain[@]}" >&2
printf '%s@%s\n' "$registry/charts/edge-idempotency" "$("$crane" digest "$registry/charts/edge-idempotency:$version")"
