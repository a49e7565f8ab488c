package main

import (
	"context"
	"net/http"

	krakend "github.com/krakend/krakend-ce/v2"
	cel "github.com/krakend/krakend-cel/v2"
	lua "github.com/krakend/krakend-lua/v2/proxy"
	martian "github.com/krakend/krakend-martian/v2"
	metrics "github.com/krakend/krakend-metrics/v2/gin"
	otel "github.com/krakend/krakend-otel/lura"
	ratelimit "github.com/krakend/krakend-ratelimit/v3/proxy"
	"github.com/luraproject/lura/v2/config"
	"github.com/luraproject/lura/v2/logging"
	"github.com/luraproject/lura/v2/proxy"
	"github.com/luraproject/lura/v2/transport/http/client"

	"edge-idempotency/krakend/executor"
)

// backends takes the backends that are bound to the policy, and puts around them what KrakenD puts around its own HTTP client.
type backends struct{ edge *executor.Executor }

func (b backends) NewBackendFactory(ctx context.Context, l logging.Logger, m *metrics.Metrics) proxy.BackendFactory {
	b.edge.Start(l)
	bound := martian.NewConfiguredBackendFactory(l, b.executor)
	bound = lua.BackendFactory(l, cel.BackendFactory(l, bound))
	bound = otel.BackendFactory(m.BackendFactory("backend", ratelimit.BackendFactory(l, bound)))
	others := krakend.NewBackendFactoryWithContext(ctx, l, m)
	return func(remote *config.Backend) proxy.Proxy {
		if b.edge.Binds(remote.ExtraConfig) {
			return bound(remote)
		}
		return others(remote)
	}
}

// executor is the bridge, whose requests to the upstream are spans of KrakenD's OpenTelemetry.
func (b backends) executor(remote *config.Backend) client.HTTPRequestExecutor {
	return b.edge.For(remote.ExtraConfig, func(plain http.RoundTripper) http.RoundTripper {
		own := func(context.Context) *http.Client { return &http.Client{Transport: plain} }
		return otel.InstrumentedHTTPClientFactory(own, remote)(context.Background()).Transport
	})
}
