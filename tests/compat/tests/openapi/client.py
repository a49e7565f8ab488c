"""Calls the demo's API with the client that was generated, and prints what the application sees, as JSON.

usage: python3 client.py '{"port": 1, "token": "…", "operation": "refund" | "checkout", "key": "…" or null}'
"""
import json, sys
from demo_api_client import AuthenticatedClient
from demo_api_client.api.default import check_out, create_refund
from demo_api_client.models import Checkout, RefundRequest

call = json.loads(sys.argv[1])
client = AuthenticatedClient(base_url=f"http://127.0.0.1:{call['port']}/api/v1", token=call["token"])
key = {"idempotency_key": call["key"]} if call["key"] else {}
try:
    if call["operation"] == "refund":
        answer = create_refund.sync_detailed(client=client, body=RefundRequest(order_id="order-1001", amount=4200), **key)
    else:
        answer = check_out.sync_detailed("cart-7", client=client, body=Checkout(total=900), **key)
    seen = {"status": answer.status_code, "type": type(answer.parsed).__name__, "body": answer.parsed.to_dict()}
    seen["operation_id"] = answer.headers.get("x-operation-id")
except TypeError as error:
    seen = {"error": str(error)}
print(json.dumps(seen))
