#!/usr/bin/env bash
# The Kotlin and Java client. `build` leaves the jar, the sources jar and the program of clients/DRIVER.md in target/clients/jvm/.
# `test` runs ktlint, the compiler, the check for Android API 21, the unit tests with both versions of OkHttp, and the package.
# Maven fetches what pom.xml names into .tools/clients/jvm/, once. `format` lets ktlint change the sources.
#
# usage: clients/jvm/client.sh build|test|format
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../crates/xtask/scripts/lib.sh"
OUT=$ROOT/target/clients/jvm
CACHE=$TOOLS/clients/jvm
POM=$ROOT/clients/jvm/pom.xml

# The oldest JDK that the build was tried with. The jar itself is for Java 8 and newer.
JDK_MINIMUM=17

why=
if ! has javac || ! has mvn; then
    why="a JDK ($JDK_MINIMUM or newer) and Maven are needed"
elif ! at_least "$(javac -version 2>&1 | awk '{ print $2 }')" "$JDK_MINIMUM"; then
    why="$(javac -version 2>&1) is too old, $JDK_MINIMUM is needed"
fi
if [ -n "$why" ]; then
    printf 'SKIPPED: the Kotlin and Java client is neither built nor tested: %s (Debian: apt-get install openjdk-17-jdk-headless maven)\n' "$why"
    exit 0
fi

# maven ARGUMENT ...: runs Maven on pom.xml. All versions are pinned, so it needs no network for what is in its repository already.
# Kotlin's compiler runs in Maven's process: its daemon would stay for half an hour, with more than 1 GB.
maven() {
    mkdir -p "$OUT"
    [ -d "$CACHE/repository" ] || say "jvm: fetching Kotlin, OkHttp and Maven's plugins from Maven Central (about 250 MB)"
    if ! mvn --batch-mode --strict-checksums -Dstyle.color=never -Dmaven.repo.local="$CACHE/repository" \
        -Dkotlin.compiler.daemon=false -f "$POM" "$@" \
        >"$OUT/maven.log" 2>&1 </dev/null; then
        grep -E '^\[(ERROR|WARNING)\]|\[ktlint\]' "$OUT/maven.log" | head -n 60 >&2
        return 1
    fi
}

# The version of the package has to be the workspace's, and the license has to be in it.
check_version() {
    local ours theirs
    ours=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml" | head -n 1)
    theirs=$(sed -n 's|^  <version>\(.*\)</version>$|\1|p' "$POM" | head -n 1)
    [ "$ours" = "$theirs" ] || die "clients/jvm/pom.xml has version $theirs, and Cargo.toml has $ours" "Write $ours into pom.xml."
    [ -f "$OUT/edge-idempotency-okhttp-$ours.jar" ] && [ -f "$OUT/edge-idempotency-okhttp-$ours-sources.jar" ] ||
        die "the jars of version $ours are not in $OUT"
    jar tf "$OUT/edge-idempotency-okhttp-$ours.jar" META-INF/LICENSE | grep -q . || die "the jar has no META-INF/LICENSE" "pom.xml adds it."
}

# The libraries in lib/ are those that were there when this file was made. Maven has no lock file of its own.
check_libraries() {
    (cd "$OUT/lib" && sha256sum --quiet --check --strict "$ROOT/clients/jvm/lib.sha256") >&2 ||
        die "the fetched libraries are not those of clients/jvm/lib.sha256" "(cd $OUT/lib && sha256sum *.jar) shows what was fetched."
}

# The state of all that is compiled.
sources() {
    (cd "$ROOT/clients/jvm" && find pom.xml src -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
}

build() {
    rm -rf "$OUT/lib" "$OUT/okhttp5" "$OUT/classes" "$OUT/test-classes" "$OUT/built"
    maven package -DskipTests || die "the Kotlin and Java client cannot be built" "The log is $OUT/maven.log."
    check_libraries
    cat >"$OUT/driver" <<'END'
#!/usr/bin/env bash
# The program of clients/DRIVER.md with the Kotlin and Java client. These flags make it start fast.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
exec java -Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss512k \
    -cp "$(echo "$here"/edge-idempotency-okhttp-*[0-9].jar):$here/test-classes:$here/lib/*" dev.edgeidempotency.driver.DriverKt "$@"
END
    chmod +x "$OUT/driver"
    sources >"$OUT/built"
}

# Prints each failed test, and the summary line of all tests.
report() {
    find "$OUT/surefire-reports" -name 'TEST-*.xml' -print0 2>/dev/null | sort -z | xargs -0 -r cat | awk '
        function member(name) { return match($0, " " name "=\"[^\"]*\"") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4) : "" }
        /<testsuite / { passed += member("tests") - member("errors") - member("failures") - member("skipped")
                        failed += member("errors") + member("failures"); ignored += member("skipped") }
        /<testcase / { test = member("classname") "." member("name") }
        /<(failure|error)[ >]/ { print "---- " test " ----"; print member("message") }
        END { if (broken || !passed) failed++
              printf "test result: %s. %d passed; %d failed; %d ignored;\n", failed ? "FAILED" : "ok", passed, failed, ignored
              exit failed > 0 }' broken="$1"
}

case ${1:-} in
    build) build ;;
    format) maven validate -Dktlint.skip=false -Dktlint.argument=--format ;;
    test)
        say "jvm: ktlint, compiler, Android API 21, unit tests with OkHttp 4 and 5, package"
        broken=0
        rm -rf "$OUT/surefire-reports"
        # What `build` has compiled of the same sources is not compiled again.
        if [ "$(cat "$OUT/built" 2>/dev/null)" = "$(sources)" ]; then
            steps=(antrun:run@ktlint animal-sniffer:check@android-api-21 surefire:test@default-test surefire:test@okhttp5)
        else
            rm -rf "$OUT/lib" "$OUT/okhttp5" "$OUT/classes" "$OUT/test-classes" "$OUT/built"
            steps=(verify)
        fi
        maven "${steps[@]}" -Dktlint.skip=false -Dmaven.test.failure.ignore=true && (check_version && check_libraries) || broken=1
        report "$broken"
        ;;
    *) die "unknown command: ${1:-}" "usage: clients/jvm/client.sh build|test|format" ;;
esac
