// A custom build of KrakenD with the bridge, to be copied and changed. It is a module of its own, which the tests of this repository
// do not build: KrakenD's modules cannot be had everywhere. build.sh fills in the rest of this file, and go.sum.
module gateway

go 1.25.3

require (
	edge-idempotency/krakend v0.0.0
	github.com/krakend/krakend-ce/v2 v2.13.8
)

// In a copy of this folder: the path of krakend/ in a checkout of edge-idempotency.
replace edge-idempotency/krakend => ../
