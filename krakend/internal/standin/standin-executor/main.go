// A stand-in for a custom build of KrakenD 2.13 with the package executor, for tests: see the package standin. A
// configuration or policy that is broken stops its start.
package main

import (
	"context"
	"fmt"
	"os"

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
	config, err := standin.ReadConfig(arguments.Config)
	if err != nil {
		return err
	}
	logger := standin.NewLogger(os.Stderr)
	e := executor.New(standin.Aliases)
	if err := e.Load(arguments.Config); err != nil {
		return err
	}
	e.Start(logger)
	defer e.Close(ctx)
	factory := func(b *standin.Backend, next standin.Executor) standin.Executor {
		if !e.Binds(b.ExtraConfig) {
			return next
		}
		return e.For(b.ExtraConfig, nil)
	}
	return standin.Run(arguments, config, factory, e.Guard, logger)
}
