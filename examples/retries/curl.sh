#!/bin/sh
# curl sends a request with a key again if it gets no answer, or 429, 500, 502, 503 or 504.
# Arguments: the URL, the token, the key, the body, and the file for the answer. Further arguments are options of curl.
url=$1 token=$2 key=$3 body=$4 answer=$5
shift 5
curl --retry 9 --retry-all-errors --max-time 30 --output "$answer" "$url" -H "Authorization: Bearer $token" -H "Idempotency-Key: $key" \
  -H 'Content-Type: application/json' -d "$body" "$@"
