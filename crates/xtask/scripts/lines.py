#!/usr/bin/env python3
"""Counts the lines of the tree: the product, and its tests with their fixtures and tools. Unit tests inside of a file count as tests."""
import re
import subprocess

GENERATED = re.compile(r"\.(png|ico|woff2?|wasm|svg|profdata)$|package-lock\.json$|Cargo\.lock$|go\.sum$|requirements\.txt$|LICENSE$")
TESTS = re.compile(
    r"^(tests|wasm-tests|docs/playground/tests)/|^crates/[^/]+/tests/|^crates/.*/src/.*tests\.rs$"
    r"|^krakend/.*(_test\.go$|testdata/|internal/(caserunner|standin)/)|^clients/.*(_test\.go$|/tests?/|/driver/)"
    r"|^deploy/.*(\.test\.yaml|release/(check|try)\.sh)$"
)
PRODUCT = re.compile(r"^(crates/[^/]+/src|src|krakend|clients|policies|deploy|docs/playground)/(?!.*\.md$)")
UNIT = re.compile(r"^( *)#\[cfg\(test\)\]\n(?: *#\[.*\n)*\1(?:pub(?:\(\w+\))? )?mod \w+ \{\n(?:.*\n)*?\1\}\n", re.MULTILINE)

product = tests = 0
for name in subprocess.check_output(["git", "ls-files", "-z"], text=True).split("\0"):
    if not name or GENERATED.search(name):
        continue
    with open(name, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if TESTS.search(name):
        tests += text.count("\n")
    elif PRODUCT.search(name):
        unit = sum(found.group(0).count("\n") for found in UNIT.finditer(text)) if name.endswith(".rs") else 0
        tests, product = tests + unit, product + text.count("\n") - unit
print(f"{product} lines of product, {tests} of tests: {tests / product:.2f} for each")
