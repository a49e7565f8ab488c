module edge-idempotency/clients/go

go 1.25.0
