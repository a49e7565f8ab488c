#!/usr/bin/env python3
"""Reads what `go test -json` writes, and shows what failed, what was skipped and why, and one line for each package.

The last line has the form that crates/xtask/scripts/test.sh sums: `test result: ok. 3 passed; 0 failed; 1 ignored`. The cases of a test
that have names of their own (t.Run) are counted, too. A package that fails without a failed test (it does not build, or its TestMain fails) counts as one
failure.
"""

import collections
import json
import sys

counts = collections.Counter()
output = collections.defaultdict(list)
# The packages that failed, and those in which a test failed.
failed, with_failed_test = set(), set()

for line in sys.stdin:
    try:
        event = json.loads(line)
    except ValueError:
        sys.stdout.write(line)
        continue
    action, test = event.get("Action"), event.get("Test")
    where = (event.get("Package"), test)
    if action == "build-output" or (action == "output" and not test):
        text = event.get("Output", "")
        if text != "PASS\n" and "[no test files]" not in text:
            sys.stdout.write(text)
    elif action == "output":
        output[where].append(event.get("Output", ""))
    elif action in ("pass", "fail", "skip") and test:
        counts[action] += 1
        if action == "fail":
            with_failed_test.add(where[0])
        if action != "pass":
            for line in output[where]:
                if not line.startswith("=== "):
                    # crates/xtask/scripts/test.sh looks for lines that begin so.
                    at = line.find("SKIPPED: ")
                    sys.stdout.write(line[max(at, 0):] if action == "skip" else line)
        output.pop(where, None)
    elif action == "fail":
        failed.add(where[0])
    sys.stdout.flush()

for (package, _), lines in output.items():
    # Tests that did not end, as after a panic.
    with_failed_test.add(package)
    sys.stdout.write("".join(lines))
failures = counts["fail"] + len(output) + len(failed - with_failed_test)
verdict = "FAILED" if failures else "ok"
print(f"test result: {verdict}. {counts['pass']} passed; {failures} failed; {counts['skip']} ignored; 0 measured")
