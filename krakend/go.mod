module edge-idempotency/krakend

// KrakenD 2.13.8 is built with Go 1.25, and its builder image builds the plugin.
go 1.25.0

require (
	github.com/sony/gobreaker/v2 v2.4.0
	github.com/tetratelabs/wazero v1.12.0
	golang.org/x/oauth2 v0.36.0
)

require golang.org/x/sys v0.45.0 // indirect; the version of KrakenD 2.13.8: a plugin and the gateway need the same one
