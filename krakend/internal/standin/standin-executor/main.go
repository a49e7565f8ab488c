// A stand-in for a custom build of KrakenD with the package executor, for tests: see the package standin. A
// configuration or policy that is broken stops its start.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/luraproject/lura/v2/config"
	router "github.com/luraproject/lura/v2/router/gin"
	"github.com/luraproject/lura/v2/transport/http/client"

	"edge-idempotency/krakend/executor"
	"edge-idempotency/krakend/internal/standin"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "standin-executor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	arguments, err := standin.ParseArguments(os.Args)
	if err != nil {
		return err
	}
	c, err := standin.ReadConfig(arguments.Config)
	if err != nil {
		return err
	}
	logger := standin.NewLogger(os.Stderr)
	e := executor.New(config.ExtraConfigAlias)
	if err := e.Load(arguments.Config); err != nil {
		return err
	}
	e.Start(logger)
	defer e.Close(ctx)
	backends := func(remote *config.Backend) client.HTTPRequestExecutor {
		if !e.Binds(remote.ExtraConfig) {
			return standin.Direct(remote)
		}
		return e.For(remote.ExtraConfig, nil)
	}
	guarded := func(next router.RunServerFunc) router.RunServerFunc {
		return func(ctx context.Context, c config.ServiceConfig, handler http.Handler) error {
			return next(ctx, c, e.Guard(handler))
		}
	}
	return standin.Run(ctx, arguments, c, backends, guarded, logger)
}
