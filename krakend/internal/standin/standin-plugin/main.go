// A stand-in for KrakenD that loads plugins (.so), for tests: see the package standin.
package main

import (
	"context"
	"fmt"
	"os"

	router "github.com/luraproject/lura/v2/router/gin"
	client "github.com/luraproject/lura/v2/transport/http/client/plugin"
	server "github.com/luraproject/lura/v2/transport/http/server/plugin"

	"edge-idempotency/krakend/internal/standin"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "standin-plugin:", err)
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
	if c.Plugin != nil {
		// As krakend-ce: it goes on without a plugin that cannot be loaded.
		if _, err := client.LoadWithLogger(c.Plugin.Folder, c.Plugin.Pattern, client.RegisterClient, logger); err != nil {
			logger.Debug("[SERVICE: Executor Plugin]", err.Error())
		}
		if _, err := server.LoadWithLogger(c.Plugin.Folder, c.Plugin.Pattern, server.RegisterHandler, logger); err != nil {
			logger.Debug("[SERVICE: Handler Plugin]", err.Error())
		}
	}
	before := func(next router.RunServerFunc) router.RunServerFunc {
		return router.RunServerFunc(server.New(logger, server.RunServer(next)))
	}
	return standin.Run(ctx, arguments, c, client.HTTPRequestExecutorWithContext(ctx, logger, standin.Direct), before, logger)
}
