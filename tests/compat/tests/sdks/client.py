"""Calls the API once with Stripe's SDK for Python, and prints what the application sees, as JSON.

usage: python3 client.py '{"port": 1, "token": "…", "path": "/v1/refunds", "key": "…"}'
"""
import json, sys, time
import stripe

call = json.loads(sys.argv[1])
client = stripe.StripeClient(call["token"], base_addresses={"api": f"http://127.0.0.1:{call['port']}"}, max_network_retries=2)
options = {"idempotency_key": call["key"]} if call.get("key") else {}

# What the SDK would wait, in seconds. It does not wait here.
waits = []
time.sleep = waits.append

try:
    answer = client.raw_request("post", call["path"], amount=4200, **options)
    seen = {"ok": True, "body": json.loads(answer.body if hasattr(answer, "body") else answer.data)}
except stripe.StripeError as error:
    seen = {"ok": False, "error": type(error).__name__, "status": error.http_status, "code": error.error and error.error.code, "message": error.user_message}
print(json.dumps({**seen, "waits": waits}))
