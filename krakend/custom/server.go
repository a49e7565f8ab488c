package main

import (
	"context"
	"net/http"

	krakend "github.com/krakend/krakend-ce/v2"
	"github.com/luraproject/lura/v2/config"
	"github.com/luraproject/lura/v2/logging"
	router "github.com/luraproject/lura/v2/router/gin"

	"edge-idempotency/krakend/executor"
)

// servers puts the bridge's guard before KrakenD's own server: raw keys and forged identities get to no endpoint that is not bound,
// whatever its input_headers list.
type servers struct{ edge *executor.Executor }

func (s servers) NewRunServer(l logging.Logger, next router.RunServerFunc) krakend.RunServer {
	own := new(krakend.DefaultRunServerFactory)
	return own.NewRunServer(l, func(ctx context.Context, cfg config.ServiceConfig, handler http.Handler) error {
		return next(ctx, cfg, s.edge.Guard(handler))
	})
}
