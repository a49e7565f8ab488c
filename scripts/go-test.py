#!/usr/bin/env python3
"""Reads what `go test -json` writes, and shows what failed, what was skipped and why, and one line for each package.

The last line has the form that scripts/test.sh sums: `test result: ok. 3 passed; 0 failed; 1 ignored`. The cases of a test
that have names of their own (t.Run) are counted, too. A package that does not build is shown; it is no failed test.
"""

import collections
import json
import sys

counts = collections.Counter()
output = collections.defaultdict(list)

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
        if action != "pass":
            sys.stdout.write("".join(line for line in output[where] if not line.startswith("=== ")))
        output.pop(where, None)
    sys.stdout.flush()

for lines in output.values():
    # Tests that did not end, as after a panic.
    sys.stdout.write("".join(lines))
verdict = "FAILED" if counts["fail"] or output else "ok"
print(f"test result: {verdict}. {counts['pass']} passed; {counts['fail'] + len(output)} failed; {counts['skip']} ignored; 0 measured")
