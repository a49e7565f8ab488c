#!/usr/bin/env bash
# Fetches the custom resource definitions that crates/command/tests/render_kubernetes checks rendered resources against, unchanged, from the Go
# modules in which Istio and Envoy Gateway publish them. To take a newer release, change the versions here, run this, and say the
# versions in docs/render.md.
set -euo pipefail
cd "$(dirname "$0")/.."

ISTIO=v1.31.1
ENVOY_GATEWAY=v1.9.1
# The one that this Envoy Gateway is built with.
GATEWAY_API=v1.6.1
folder=crates/command/tests/render_kubernetes/crds

# The folder of a Go module, MODULE@VERSION, which is downloaded if it is not there.
module() {
  go mod download -json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])'
}

istio=$(module "istio.io/api@$ISTIO")
gateway=$(module "github.com/envoyproxy/gateway@$ENVOY_GATEWAY")
mkdir -p "$folder"
rm -f "$folder"/*.yaml

# Istio has all definitions in one file of several documents.
python3 - "$istio/kubernetes/customresourcedefinitions.gen.yaml" "$folder" <<'END'
import pathlib, re, sys
source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
for document in re.split(r"(?m)^---\n", source.read_text()):
    kind = re.search(r"(?m)^    kind: (\w+)$", document)
    if kind and kind[1] in ("EnvoyFilter", "TrafficExtension", "AuthorizationPolicy"):
        (folder / f"{kind[1]}.yaml").write_text(document)
END
generated="$gateway/charts/gateway-helm/charts/crds/crds/generated"
for kind in Backend BackendTrafficPolicy ClientTrafficPolicy EnvoyExtensionPolicy EnvoyPatchPolicy HTTPRouteFilter SecurityPolicy; do
  plural=$(sed 's/y$/ie/' <<<"${kind,,}")s
  cat "$generated/gateway.envoyproxy.io_$plural.yaml" >"$folder/$kind.yaml"
done
api=$(module "sigs.k8s.io/gateway-api@$GATEWAY_API")
cat "$api/config/crd/standard/gateway.networking.k8s.io_httproutes.yaml" >"$folder/HTTPRoute.yaml"

cat >"$folder/README.md" <<END
# Custom resource definitions

\`crates/xtask/scripts/kubernetes-crds.sh\` writes these files. They are unchanged parts of the published ones, under the Apache License 2.0.

| files | from |
|---|---|
| \`EnvoyFilter.yaml\`, \`TrafficExtension.yaml\`, \`AuthorizationPolicy.yaml\` | Go module \`istio.io/api\` $ISTIO, \`kubernetes/customresourcedefinitions.gen.yaml\` |
| \`Backend.yaml\`, \`BackendTrafficPolicy.yaml\`, \`ClientTrafficPolicy.yaml\`, \`EnvoyExtensionPolicy.yaml\`, \`EnvoyPatchPolicy.yaml\`, \`HTTPRouteFilter.yaml\`, \`SecurityPolicy.yaml\` | Go module \`github.com/envoyproxy/gateway\` $ENVOY_GATEWAY, \`charts/gateway-helm/charts/crds/crds/generated\` |
| \`HTTPRoute.yaml\` | Go module \`sigs.k8s.io/gateway-api\` $GATEWAY_API, \`config/crd/standard\` |
END
ls -l "$folder"
