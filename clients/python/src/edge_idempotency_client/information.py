"""What the caller is told beside the response."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .answers import Answer


@dataclass(frozen=True)
class IdempotencyInfo:
    """What is known about a request that got its final answer.

    Attributes:
        key: The idempotency key that all attempts had.
        attempts: How many requests were sent, with those to `Location`.
        replayed: True if the answer is the kept result of an earlier request.
        operation_id: The id of the operation (`X-Operation-Id`), or None.
        code: The `code` of the problem document of a refusal, or None.
        retry: What the API advises after an error (`Idempotency-Retry`, or `retry` of the problem document), or None.
        detail: The `detail` of the problem document, or None.
    """

    key: str
    attempts: int
    replayed: bool
    operation_id: str | None
    code: str | None
    retry: str | None
    detail: str | None


def information(key: str, attempts: int, answer: Answer, decoded: Callable[[], bytes], operation_id: str | None) -> IdempotencyInfo:
    """Reads the information out of an answer. `decoded` gives the decoded body; `operation_id` is what an earlier answer said."""
    code = retry = detail = None
    if answer.status >= 400:
        problem = _problem(answer, decoded)
        code, retry, detail = (value if isinstance(value := problem.get(name), str) else None for name in ("code", "retry", "detail"))
        retry = answer.headers.get("idempotency-retry", "").strip() or retry
    return IdempotencyInfo(key, attempts, answer.replayed, answer.headers.get("x-operation-id") or operation_id, code, retry, detail)


def _problem(answer: Answer, decoded: Callable[[], bytes]) -> dict[str, Any]:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        return {}
    try:
        document = json.loads(decoded())
    # What the HTTP library raises for a body that it cannot decode is for the caller who reads the body.
    except Exception:
        return {}
    return document if isinstance(document, dict) else {}


def idempotency_of(response: object) -> IdempotencyInfo | None:
    """What is known about a response of httpx or requests; None if the request had a method that this package does not retry."""
    extensions = getattr(response, "extensions", None)
    found = extensions.get("idempotency") if isinstance(extensions, dict) else getattr(response, "idempotency", None)
    return found if isinstance(found, IdempotencyInfo) else None
