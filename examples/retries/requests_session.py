"""requests with urllib3's Retry: a POST that has an `Idempotency-Key` is sent again until there is an answer."""

import requests
import urllib3


class KeyRetry(urllib3.Retry):
    def increment(self, method=None, url=None, response=None, error=None, _pool=None, _stacktrace=None):
        if response is not None:
            is_kept = response.headers.get("Idempotency-Retry") in ("new_key", "new_request", "never")
            is_refused = response.status in (409, 425) and "Retry-After" not in response.headers
            if is_kept or is_refused:
                raise urllib3.exceptions.MaxRetryError(_pool, url)  # the caller gets the answer
        return super().increment(method, url, response, error, _pool, _stacktrace)


class KeyAdapter(requests.adapters.HTTPAdapter):
    once = requests.adapters.HTTPAdapter()  # for requests without a key

    def send(self, request, **options):
        return super().send(request, **options) if "Idempotency-Key" in request.headers else self.once.send(request, **options)


def session(api, base=0.5):
    """A session for the API at the URL `api`. `base` of the waits is in seconds. Give each request a `timeout`: it is for each attempt."""
    retry = KeyRetry(
        total=9, allowed_methods={"POST"}, status_forcelist={409, 425, 429, 500, 502, 503, 504}, raise_on_status=False,
        respect_retry_after_header=True, backoff_factor=base, backoff_max=30, backoff_jitter=base)
    made = requests.Session()
    made.mount(api, KeyAdapter(max_retries=retry))
    return made
