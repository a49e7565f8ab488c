"""Takes orders and refunds, each of which calls a payment provider, and does each of them once for each `Idempotency-Key`.

    pip install fastapi uvicorn
    PAYMENTS_URL=https://payments.example.com uvicorn --app-dir examples/fastapi --host 127.0.0.1 --port 9000 app:app

`IDEMPOTENCY_DB`, `IDEMPOTENCY_LEASE_SECONDS` and `IDEMPOTENCY_RETENTION_SECONDS` say where answers are kept, and how long.
"""

import json
import os
import urllib.error
import urllib.request

from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel

from idempotency import Idempotency, Store

PAYMENTS = os.environ["PAYMENTS_URL"]

app = FastAPI()
app.add_middleware(
    Idempotency,
    store=Store(
        os.environ.get("IDEMPOTENCY_DB", "results.db"),
        # Longer than the gateway waits for an answer (60 s in a rendered configuration) and than any handler runs.
        lease=float(os.environ.get("IDEMPOTENCY_LEASE_SECONDS", "90")),
        retention=float(os.environ.get("IDEMPOTENCY_RETENTION_SECONDS", "86400")),
    ),
)


class Order(BaseModel):
    item: str
    amount: int


def pay(what: str, order: Order, request: Request) -> str:
    """Asks the payment provider, which deduplicates by our key: after a crash here, the second attempt moves no money."""
    headers = {"content-type": "application/json"}
    if key := getattr(request.state, "operation_key", None):
        headers["idempotency-key"] = key
    call = urllib.request.Request(f"{PAYMENTS}/{what}", order.model_dump_json().encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(call, timeout=25) as reply:
            return json.load(reply)["id"]
    except urllib.error.HTTPError as error:
        if error.code == 402:
            raise HTTPException(402, "The card was declined") from error
        if error.code == 403:
            raise HTTPException(403, "The card needs a right that the caller does not have") from error
        raise HTTPException(503, "The payment provider does not answer") from error


@app.post("/orders", status_code=201)
def create_order(order: Order, request: Request, response: Response):
    payment = pay("charges", order, request)
    response.headers["location"] = f"/orders/{payment}"
    response.delete_cookie("basket")
    return {"id": payment, "item": order.item}


@app.post("/refunds", status_code=201)
def create_refund(order: Order, request: Request):
    return {"id": pay("refunds", order, request), "item": order.item}


@app.delete("/orders/{item}", status_code=204)
def cancel_order(item: str, request: Request):
    pay("cancellations", Order(item=item, amount=0), request)
