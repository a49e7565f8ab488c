package main

import (
	"context"

	krakend "github.com/krakend/krakend-ce/v2"
	metrics "github.com/krakend/krakend-metrics/v2/gin"
	"github.com/luraproject/lura/v2/config"
	"github.com/luraproject/lura/v2/logging"
	"github.com/luraproject/lura/v2/proxy"

	"edge-idempotency/krakend/executor"
)

// backends takes the backends that are bound to the policy.
type backends struct{ edge *executor.Executor }

func (b backends) NewBackendFactory(ctx context.Context, l logging.Logger, m *metrics.Metrics) proxy.BackendFactory {
	b.edge.Start(l)
	others := krakend.NewBackendFactoryWithContext(ctx, l, m)
	return func(remote *config.Backend) proxy.Proxy {
		if run, bound := b.edge.For(remote.ExtraConfig); bound {
			return proxy.NewHTTPProxyWithHTTPExecutor(remote, run, remote.Decoder)
		}
		return others(remote)
	}
}
