#!/usr/bin/env bash
# Runs the end-to-end tests `platforms`: what `edge-idempotency render` writes for gateways with control planes of their own, in these
# gateways, without Kubernetes. They listen on fixed ports and on all addresses, so the tests run in a network namespace that has only the
# loopback interface. This needs root. What is missing is built first.
#
# usage: crates/xtask/scripts/platforms.sh [envoy-gateway|istio ...] [-- FILTER]     default: all of them
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

MAKE=${MAKE:-make}
platforms=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    platforms+=("$1")
    shift
done
[ $# -eq 0 ] || shift
[ ${#platforms[@]} -gt 0 ] || platforms=(envoy-gateway istio)
needs=(envoy restate)
for platform in "${platforms[@]}"; do
    case $platform in
        envoy-gateway) needs+=(envoy-gateway crane) ;;
        istio) needs+=(istio crane) ;;
        *) die "unknown platform: $platform" "platforms: envoy-gateway istio" ;;
    esac
done
if [ "$(id -u)" -ne 0 ] || ! unshare --net --mount true 2>/dev/null; then
    say "SKIPPED: network namespaces need root, so nothing was tested in ${platforms[*]}"
    exit 1
fi
crates/xtask/scripts/tools.sh "${needs[@]}"
[ "${EDGE_PLATFORMS_BUILT:-}" ] || "$MAKE" --no-print-directory wasm dynamic-module programs

work=$(mktemp -d)
# The image as it is published, in both layouts.
deploy/release/images.sh "${EDGE_WASM:-dist/edge_idempotency.wasm}" "$work/images"
# Envoy Gateway's Envoy reads certificates here, as in its container.
made=
[ -d /certs ] || { mkdir /certs && made=1; }
# Istio's agent keeps modules there, as in its container.
istio=
[ -d /var/lib/istio ] || { mkdir /var/lib/istio && istio=1; }
trap 'rm -rf "$work"; [ -z "$made" ] || rmdir /certs; [ -z "$istio" ] || rmdir /var/lib/istio' EXIT
mkdir "$work/certs" "$work/istio" "$work/istio/data"
{ cat /etc/hosts && echo "127.0.0.1 envoy-gateway.envoy-gateway-system.svc.cluster.local"; } >"$work/hosts"

# shellcheck disable=SC2016
EDGE_MODULES=platforms EDGE_PLATFORMS="${platforms[*]}" EDGE_MODULE_IMAGES=$work/images WORK=$work unshare --net --mount -- bash -euc '
    ip link set lo up
    mount --bind "$WORK/hosts" /etc/hosts
    mount --bind "$WORK/certs" /certs
    mount --bind "$WORK/istio" /var/lib/istio
    exec cargo test --offline --workspace --test e2e -- "$@"' platforms "$@"
