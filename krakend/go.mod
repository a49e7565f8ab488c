module edge-idempotency/krakend

// KrakenD 2.13.8 is built with Go 1.25.12. A plugin needs the same Go as the gateway, so a newer one must not be required here.
go 1.25.0

require github.com/tetratelabs/wazero v1.12.0

// A plugin needs the same version as the gateway of each module that both use. This is KrakenD 2.13.8's; wazero asks for less.
require golang.org/x/sys v0.45.0 // indirect
