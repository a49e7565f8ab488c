#!/usr/bin/env bash
# Looks at a release as its users do: checksums, a registry that the images go to and come back from, programs that start from their images,
# and the trial of docs/production.md. Each part prints a line "test result: …", which crates/xtask/scripts/test-long.sh counts.
#
# usage: deploy/release/check.sh [PART ...]     default: sums registry images try
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"

RELEASE=$ROOT/dist/release
[ -f "$RELEASE/SHA256SUMS" ] || die "there is no release" "make release"
WORK=$(mktemp -d)
SERVERS=()
end() {
    local server
    for server in ${SERVERS[@]+"${SERVERS[@]}"}; do kill "$server" 2>/dev/null || true; done
    wait
    rm -rf "$WORK"
}
trap end EXIT

passed=0
# same WHAT EXPECTED SEEN
same() {
    [ "$2" = "$3" ] || die "$1: expected \"$2\", and it is \"$3\""
    passed=$((passed + 1))
    say "check: $1: as expected"
}

sums() {
    (cd "$RELEASE" && sha256sum --quiet --check SHA256SUMS)
    same "every file is in SHA256SUMS" "$(cd "$RELEASE" && find . -type f ! -name SHA256SUMS | wc -l)" "$(wc -l <"$RELEASE/SHA256SUMS")"
    local file
    for file in "$RELEASE"/{edge-idempotency,idempotency-guard,promises,recorder}-{x86_64,aarch64} "$RELEASE"/*.so "$RELEASE"/*.wasm; do
        same "no path of this machine is in ${file##*/}" "" "$(grep -a -o -m 1 -e "$ROOT" -e "$HOME/.cargo" "$file" | head -n 1)"
        [ -s "$file.cdx.json" ] || die "$file has no list of its parts"
    done
}

registry() {
    local crane=$TOOLS/bin/crane address=
    [ -x "$crane" ] || die "crane is missing" "crates/xtask/scripts/tools.sh crane"
    mkdir "$WORK/disk"
    # crane chooses a free port and says which.
    "$crane" registry serve --address 127.0.0.1:0 --disk "$WORK/disk" >"$WORK/registry.log" 2>&1 &
    SERVERS+=($!)
    for _ in $(seq 100); do
        address=$(sed -n 's/.*serving on port \([0-9]*\)$/127.0.0.1:\1/p' "$WORK/registry.log")
        [ -z "$address" ] || break
        sleep 0.1
    done
    [ -n "$address" ] || die "crane's registry does not start" "$(cat "$WORK/registry.log")"
    "$ROOT/deploy/release/publish.sh" "$address" >"$WORK/pushed"
    same "images and chart are pushed" 6 "$(wc -l <"$WORK/pushed")"
    local module name digest layout
    module=$address/edge-idempotency-module:$(version)
    "$crane" export "$module" - | tar -x -O plugin.wasm >"$WORK/plugin.wasm"
    same "plugin.wasm of the image" "$(sha256 "$RELEASE/edge_idempotency.wasm")" "$(sha256 "$WORK/plugin.wasm")"
    digest=$("$crane" manifest "$module-artifact" | python3 -c 'import json, sys; print(next(one["digest"] for one in
        json.load(sys.stdin)["layers"] if one["mediaType"] == "application/vnd.module.wasm.content.layer.v1+wasm"))')
    "$crane" blob "$address/edge-idempotency-module@$digest" >"$WORK/artifact.wasm"
    same "the module of the artefact" "$(sha256 "$RELEASE/edge_idempotency.wasm")" "$(sha256 "$WORK/artifact.wasm")"
    while read -r layout digest; do
        name=$(image_name "$layout")
        "$crane" pull --format oci "$address/$name@$digest" "$WORK/pulled-$layout"
        # What comes back, blob for blob.
        for blob in "$RELEASE/images/$layout"/blobs/sha256/*; do
            cmp -s "$blob" "$WORK/pulled-$layout/blobs/sha256/${blob##*/}" || die "$layout: ${blob##*/} came back otherwise"
        done
        same "every blob of $layout comes back" "$digest" "$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["manifests"][0]["digest"])' "$WORK/pulled-$layout/index.json")"
    done <"$RELEASE/IMAGES"
}

sha256() { sha256sum "$1" | cut -d ' ' -f 1; }

# unpack LAYOUT ARCHITECTURE FOLDER: the layers of an image, one over the other.
unpack() {
    python3 - "$@" <<'END'
import json, pathlib, subprocess, sys
layout, architecture, folder = sys.argv[1:]
blobs = pathlib.Path(layout, "blobs/sha256")
read = lambda descriptor: json.loads((blobs / descriptor["digest"].removeprefix("sha256:")).read_text())
index = read(json.loads(pathlib.Path(layout, "index.json").read_text())["manifests"][0])
image = next(one for one in index["manifests"] if one["platform"]["architecture"] == architecture)
pathlib.Path(folder).mkdir()
for layer in read(image)["layers"]:
    subprocess.run(["tar", "-xzf", blobs / layer["digest"].removeprefix("sha256:"), "-C", folder], check=True)
END
}

# Without a container's runtime: chroot is what an image's programs see of the file system.
images() {
    [ "$(id -u)" = 0 ] || { say "SKIPPED: programs of the images are not started: chroot needs root"; return; }
    local architecture=amd64 started layout program
    [ "$(uname -m)" != aarch64 ] || architecture=arm64
    while read -r layout _ program; do
        unpack "$RELEASE/images/$layout" "$architecture" "$WORK/$layout"
        same "the $layout starts from its image" "$program $(version)" \
            "$(chroot --userspec=65532:65532 "$WORK/$layout" "/usr/bin/$program" --version | sed 's/ (.*//')"
    done < <(images_of_programs)
    unpack "$RELEASE/images/gateway" "$architecture" "$WORK/gateway"
    "$RELEASE/edge-idempotency-$(uname -m)" init --yes --route 'POST /orders REQUIRED_A' - >"$WORK/policy.json"
    "$RELEASE/edge-idempotency-$(uname -m)" render envoy --policy "$WORK/policy.json" --module "$RELEASE/edge_idempotency.wasm" --module-dir /etc/envoy \
        --upstream api=http://127.0.0.1:1 --jwt-issuer https://trial.example.com --jwt-keys /etc/envoy/jwks.json \
        >"$WORK/gateway/etc/envoy/envoy.yaml" 2>/dev/null
    tar -xzf "$RELEASE/own-api.tar.gz" -C "$WORK"
    node "$WORK/own-api/token.mjs" acme shop alice >/dev/null
    cp "$WORK/own-api/jwks.json" "$WORK/gateway/etc/envoy/"
    started=$(chroot --userspec=65532:65532 "$WORK/gateway" /usr/local/bin/envoy --mode validate -c /etc/envoy/envoy.yaml 2>&1) ||
        die "Envoy of the image does not take the configuration" "$(tail -n 5 <<<"$started")"
    same "Envoy of the image starts the module with a policy" "OK" "$(grep -o "OK$" <<<"$started")"
}

try() { "$ROOT/deploy/release/try.sh"; passed=$((passed + 1)); }

[ $# -gt 0 ] || set -- sums registry images try
for part in "$@"; do
    case $part in
        sums | registry | images | try) ;;
        *) die "unknown part: $part" "usage: deploy/release/check.sh [sums|registry|images|try ...]" ;;
    esac
    passed=0
    "$part"
    echo "test result: ok. $passed passed; 0 failed; 0 ignored; release::$part"
done
