#!/usr/bin/env bash
# Fetches the Debian packages of deploy/release/debian.txt, without root, and compares their checksums.
#
# usage: deploy/release/debian.sh fetch FOLDER     the packages, as files
#        deploy/release/debian.sh pin              writes the present versions into debian.txt
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"

LIST=$ROOT/deploy/release/debian.txt
KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
has apt-get && has dpkg-deb || die "the images take packages of Debian, and this machine has no apt"
[ -f "$KEYS" ] || die "there is no $KEYS, by which apt knows Debian's packages" "apt-get install debian-archive-keyring"

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
: >"$state/status"
# Whatever this machine gets its own packages from.
for place in "debian bookworm" "debian bookworm-updates" "debian-security bookworm-security"; do
    echo "deb [signed-by=$KEYS] http://deb.debian.org/$place main"
done >"$state/sources.list"

# apt ARCHITECTURE ARGUMENT ...: apt-get with lists and a state of its own.
apt() {
    local options=(-o "Dir::State::Lists=$state/lists" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache"
        -o "APT::Architecture=$1" -o "APT::Architectures=$1" -o "APT::Sandbox::User="
        -o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null)
    shift
    apt-get "${options[@]}" "$@" >>"$state/log" 2>&1 </dev/null
}

# download FOLDER WORD ...: the packages of each architecture, whose words are given as PACKAGE=VERSION:ARCHITECTURE.
download() {
    local folder=$1 architecture names word
    shift
    mkdir -p "$folder"
    for architecture in amd64 arm64; do
        names=()
        for word in "$@"; do case $word in *":$architecture" | *:all) names+=("${word%:*}") ;; esac; done
        say "debian: fetching ${names[*]} for $architecture"
        apt "$architecture" update && (cd "$folder" && apt "$architecture" download "${names[@]}") ||
            die "apt cannot fetch these packages" "$(tail -n 3 "$state/log")" \
                "If Debian has newer ones: deploy/release/debian.sh pin"
    done
}

case ${1:-} in
    fetch)
        folder=${2:?usage: debian.sh fetch FOLDER}
        words=()
        while read -r package version architecture _; do words+=("$package=$version:$architecture"); done < <(grep -v '^#' "$LIST")
        download "$folder" "${words[@]}"
        while read -r package version architecture sum; do
            file=$(echo "$folder/${package}_"*"_$architecture.deb")
            echo "$sum  $file" | sha256sum --quiet --check >&2 || die "$package $version is not the file of debian.txt"
        done < <(grep -v '^#' "$LIST")
        ;;
    pin)
        words=()
        while read -r package _ architecture _; do words+=("$package:$architecture"); done < <(grep -v '^#' "$LIST")
        download "$state/new" "${words[@]}"
        head=$(grep '^#' "$LIST")
        {
            printf '%s\n' "$head"
            for file in "$state"/new/*.deb; do
                printf '%s %s\n' "$(dpkg-deb --show --showformat '${Package} ${Version} ${Architecture}' "$file")" \
                    "$(sha256sum "$file" | cut -d ' ' -f 1)"
            done
        } >"$LIST.tmp"
        mv "$LIST.tmp" "$LIST"
        cat "$LIST" >&2
        ;;
    *) die "what?" "usage: deploy/release/debian.sh fetch FOLDER | pin" ;;
esac
