from datetime import timedelta

import restate

guard = restate.Service(
    "IdempotencyGuard",
    idempotency_retention=timedelta(hours=170),
    journal_retention=timedelta(0),
    invocation_retry_policy=restate.InvocationRetryPolicy(
        max_interval=timedelta(seconds=5), max_attempts=10_000_000, on_max_attempts="pause"
    ),
)


@guard.handler()
async def claim(_: restate.Context, fingerprint: str) -> str:
    return fingerprint


app = restate.app([guard])
