#!/usr/bin/env bash
# Playwright starts this in place of Chromium. EDGE_CHROMIUM is the folder with the browser, EDGE_CHROMIUM_LOCK a file beside the profile.
#
# The lock is held as long as the browser lives: a new browser waits until the one before it has left the profile. The kernel kills the
# browser when the process that started it dies, so that kill -9 of a driver is kill -9 of its browser, too.
set -euo pipefail
exec 9>"$EDGE_CHROMIUM_LOCK"
flock --timeout 60 9
# Chromium would ask the user before the page may send requests to this machine.
set -- "${@/#--disable-features=/--disable-features=LocalNetworkAccessChecks,}"
export LD_LIBRARY_PATH=$EDGE_CHROMIUM/lib
exec setpriv --pdeathsig KILL "$EDGE_CHROMIUM/chromium" "$@"
