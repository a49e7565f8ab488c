module edge-idempotency.dev/path-readers

go 1.22
