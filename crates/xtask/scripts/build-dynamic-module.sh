#!/usr/bin/env bash
# Builds the dynamic module for Envoy: dist/libedge_idempotency.so, the same under a name with the beginning of its checksum, and
# SHA-256 files. Envoy loads another module only under another name. Of the names with a checksum dist/ has the present one only.
#
# The compiler gets crates/dynamic-module/profile.profdata, which says which code a request runs (docs/decisions/0032-profile-of-the-dynamic-module.md);
# crates/xtask/scripts/dynamic-module-profile.sh records it anew.
#
# usage: crates/xtask/scripts/build-dynamic-module.sh [--arch x86_64|aarch64] [--glibc VERSION]
#   --arch    for another processor than this machine's: dist/libedge_idempotency-ARCH.so. It needs cargo-zigbuild, which is
#             fetched from PyPI into .tools/
#   --glibc   for this version of glibc or newer, such as 2.17, with the same tool. Without it the module needs a glibc as new
#             as this machine's asks for; the script prints which
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

host=$(rustc -vV | sed -n 's/^host: //p')
arch=${host%%-*} glibc='' name=libedge_idempotency
while [ $# -gt 0 ]; do
    case $1 in
        --arch | --glibc) [ $# -gt 1 ] || die "$1 needs a value" ;;
        *) die "unknown argument: $1" "usage: crates/xtask/scripts/build-dynamic-module.sh [--arch x86_64|aarch64] [--glibc VERSION]" ;;
    esac
    case $1 in
        --arch) arch=$2 ;;
        --glibc) glibc=$2 ;;
    esac
    shift 2
done
case $arch in
    x86_64 | aarch64) target=$arch-unknown-linux-gnu ;;
    *) die "--arch $arch is neither x86_64 nor aarch64: for these Envoy exists" ;;
esac
[[ $host == *-linux-gnu ]] || die "the dynamic module is for Linux with glibc, as Envoy's own programs are; this is $host"

# The target is always named: then the flags are not those of build scripts, and the profile's names of functions fit.
CARGO_ENCODED_RUSTFLAGS=$(remapped_paths)$'\x1f'-Cprofile-use=$ROOT/crates/dynamic-module/profile.profdata$'\x1f'-Cllvm-args=-no-pgo-warn-mismatch
# With the wrapper of .cargo/config.toml the names of functions depend on where the checkout lies, and no list or profile would fit.
export CARGO_ENCODED_RUSTFLAGS RUSTC_WORKSPACE_WRAPPER=''
cd "$ROOT"
if [ "$target" != "$host" ] || [ -n "$glibc" ]; then
    use_zigbuild
    rustup target add "$target" >/dev/null 2>&1 || true
    # `cargo zigbuild` itself gives functions other names than those in the profile.
    linker=${CARGO_TARGET_DIR:-target}/zig-linker-$target-$glibc.sh
    mkdir -p "$(dirname "$linker")"
    printf '#!/bin/sh\nexec cargo-zigbuild zig cc -- -target %s-linux-gnu%s "$@"\n' "$arch" "${glibc:+.$glibc}" >"$linker"
    chmod +x "$linker"
    variable=${target^^}
    export "CARGO_TARGET_${variable//-/_}_LINKER=$(realpath "$linker")"
fi
# One type of library: with two of them Cargo would not optimise across crates.
cargo rustc --package edge-idempotency-dynamic-module --lib --profile module --crate-type cdylib --target "$target" >&2
built=${CARGO_TARGET_DIR:-target}/$target/module/$name.so
[ "$target" = "$host" ] || name=$name-$arch

mkdir -p dist
hash=$(sha256sum "$built" | cut -c 1-64)
named=$name-${hash:0:12}.so
if ! cmp -s "$built" "dist/$name.so"; then
    cp "$built" "dist/$name.so.tmp" && mv "dist/$name.so.tmp" "dist/$name.so"
fi
cp "$built" "dist/$named.tmp" && mv "dist/$named.tmp" "dist/$named"
printf '%s  %s\n' "$hash" "$name.so" >"dist/$name.so.sha256"
printf '%s  %s\n' "$hash" "$named" >"dist/$named.sha256"
find dist -regextype posix-extended -regex "dist/$name-[0-9a-f]{12}\.so(\.sha256)?" ! -name "$named*" -delete
if has objdump; then
    needs=$(objdump -T "$built" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
    say "dynamic-module: dist/$named ($(stat -c %s "$built") bytes, $arch, needs ${needs/_/ } or newer)"
else
    say "dynamic-module: dist/$named ($(stat -c %s "$built") bytes, $arch)"
fi
