#!/usr/bin/env bash
# Fetches the custom resource definitions that crates/command/tests/render_kubernetes checks rendered resources against, unchanged, from the Go
# modules in which Istio and Envoy Gateway publish them, into .tools/kubernetes-crds/. To take a newer release, change the versions and
# checksums here, and say the versions in docs/gateways.md. `crates/xtask/scripts/tools.sh kubernetes-crds` runs this.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ISTIO=v1.31.1
ISTIO_SUM=161774477eaf22cf661d19213b61e6d420d87a459472b0cbbd4601800f8371db
ENVOY_GATEWAY=v1.9.1
ENVOY_GATEWAY_SUM=bf9a96d6a5ff39739ae23add1f199ae34e7af21a82ce80d89fb515705ea65a1e
# The one that this Envoy Gateway is built with.
GATEWAY_API=v1.6.1
GATEWAY_API_SUM=cbedb5752da4817b0aa55ddf03b19903b3016083f4583b926b4d26e537d82591

folder=$TOOLS/kubernetes-crds
sum=$(python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "${BASH_SOURCE[0]}")
[ "$(cat "$folder/.installed" 2>/dev/null)" != "$sum" ] || exit 0
mkdir -p "$TOOLS"
work=$(mktemp -d "$TOOLS/.installing.XXXXXX")
trap 'rm -rf "$work"' EXIT
say "tools: fetching definitions of Istio $ISTIO and Envoy Gateway $ENVOY_GATEWAY from Go's proxy (12 MB)"
mkdir "$work/crds"
python3 - "$work/crds" "istio.io/api@$ISTIO" "$ISTIO_SUM" "github.com/envoyproxy/gateway@$ENVOY_GATEWAY" "$ENVOY_GATEWAY_SUM" \
    "sigs.k8s.io/gateway-api@$GATEWAY_API" "$GATEWAY_API_SUM" <<'END'
import hashlib, io, pathlib, re, sys, urllib.request, zipfile
folder, (istio, gateway, api) = pathlib.Path(sys.argv[1]), zip(sys.argv[2::2], sys.argv[3::2])
KINDS = ("EnvoyFilter|TrafficExtension|AuthorizationPolicy|HTTPRoute|Backend|BackendTrafficPolicy|ClientTrafficPolicy|EnvoyExtensionPolicy|"
         "EnvoyPatchPolicy|HTTPRouteFilter|SecurityPolicy")

for (module, expected), path in ((istio, "kubernetes/customresourcedefinitions.gen.yaml"),
                                 (gateway, "charts/gateway-helm/charts/crds/crds/generated/"),
                                 (api, "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml")):
    data = urllib.request.urlopen("https://proxy.golang.org/%s/@v/%s.zip" % tuple(module.split("@")), timeout=120).read()
    if hashlib.sha256(data).hexdigest() != expected:
        sys.exit(f"error: the checksum of {module} is not the pinned one")
    archive = zipfile.ZipFile(io.BytesIO(data))
    for name in archive.namelist():
        if name.startswith(f"{module}/{path}"):
            # Istio has all definitions in one file of several documents.
            for document in re.split(r"(?m)^---\n", archive.read(name).decode()):
                if kind := re.search(rf"(?m)^    kind: ({KINDS})$", document):
                    (folder / f"{kind[1]}.yaml").write_text(document)
END
[ "$(ls "$work/crds" | wc -l)" = 11 ] || die "a definition is missing in what was fetched"
printf '%s\n' "$sum" >"$work/crds/.installed"
rm -rf "$folder"
mv "$work/crds" "$folder"
