"""What the package is: its version, its types, and what it imports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import edge_idempotency_client

FOLDER = Path(__file__).parents[1]


def imported(code: str) -> set[str]:
    run = f"import sys; {code}; print(*(name for name in ('httpx', 'anyio', 'requests', 'urllib3') if name in sys.modules))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return set(subprocess.check_output([sys.executable, "-c", run], env=environment, text=True).split())


@pytest.mark.parametrize(
    ("code", "libraries"),
    [
        ("import edge_idempotency_client", set()),
        ("import edge_idempotency_client.httpx", {"httpx", "anyio"}),
        ("import edge_idempotency_client.requests", {"requests", "urllib3"}),
    ],
)
def test_a_library_is_imported_only_with_its_adapter(code: str, libraries: set[str]) -> None:
    assert imported(code) == libraries


def test_the_version_is_that_of_the_workspace() -> None:
    cargo = FOLDER.parents[1] / "Cargo.toml"
    if not cargo.is_file():
        pytest.skip("this is not the repository")
    workspace = re.search(r'\[workspace\.package\]\nversion = "(.*)"', cargo.read_text())
    package = re.search(r'^version = "(.*)"', (FOLDER / "pyproject.toml").read_text(), re.MULTILINE)
    assert workspace and package
    assert package[1] == workspace[1]


def test_every_public_name_has_a_docstring() -> None:
    names = edge_idempotency_client.__all__
    assert names == sorted(names)
    assert [name for name in names if not getattr(edge_idempotency_client, name).__doc__] == []


def test_the_license_is_that_of_the_repository() -> None:
    if not (FOLDER.parents[1] / "Cargo.toml").is_file():
        pytest.skip("this is not the repository")
    assert (FOLDER / "LICENSE").read_bytes() == (FOLDER.parents[1] / "LICENSE").read_bytes()
