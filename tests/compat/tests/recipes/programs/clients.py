"""Sends requests with a library for Python, all at the same time. tests/compat/tests/recipes/programs.rs has the form of the lines.

usage: python3 clients.py LIBRARY plain|configured
"""

import concurrent.futures
import sys
import urllib.parse

LIBRARY, MODE = sys.argv[1:3]
BASE = 0.01  # seconds


def headers(token, key):
    lines = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return {**lines, "Idempotency-Key": key} if key else lines


def by_requests(url, token, key, timeout, body):
    import requests
    import requests_session

    with requests_session.session(url, base=BASE) if MODE == "configured" else requests.Session() as session:
        return session.post(url, data=body, headers=headers(token, key), timeout=timeout).status_code


def by_httpx(url, token, key, timeout, body):
    import httpx

    with httpx.Client(timeout=timeout, transport=httpx.HTTPTransport(retries=3)) as client:
        return client.post(url, content=body, headers=headers(token, key)).status_code


def by_stripe(url, token, key, timeout, body):
    """The configuration is the API's: its answers have `stripe-should-retry`, or have not."""
    import stripe
    import stripe_client

    parts = urllib.parse.urlsplit(url)
    client = stripe_client.client(token, f"http://{parts.netloc}", timeout)
    options = {"idempotency_key": key} if key else {}
    try:
        return client.raw_request("post", parts.path, amount=4200, **options).code
    except stripe.StripeError as error:
        return error.http_status or type(error).__name__


SENDERS = {"requests": by_requests, "httpx": by_httpx, "stripe": by_stripe}


def run(line):
    name, url, token, key, timeout, body = line.split("\t")
    try:
        result = SENDERS[LIBRARY](url, token, key, int(timeout) / 1000, body)
    except Exception as error:
        result = type(error).__name__
    return f"{name}\t{result}"


calls = sys.stdin.read().splitlines()
with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
    print("\n".join(pool.map(run, calls)))
