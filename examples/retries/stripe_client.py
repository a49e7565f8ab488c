"""Stripe's SDK for Python. The API's policy has `retry_headers` and `error_member`."""

import stripe


def client(token, api, timeout=30.0):
    """A client for the API at the URL `api`. `timeout` of an attempt is in seconds."""
    http_client = stripe.RequestsClient(timeout=timeout)
    return stripe.StripeClient(token, base_addresses={"api": api}, http_client=http_client, max_network_retries=9)
