// A stand-in for KrakenD 2.13 that loads plugins (.so), for tests: see the package standin. It uses the standard library only:
// a package that the program itself contained would take the place of the plugin's own.
package main

import (
	"context"
	"fmt"
	"os"
	"plugin"

	"edge-idempotency/krakend/internal/standin"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "standin-plugin:", err)
		os.Exit(1)
	}
}

func run() error {
	arguments, err := standin.ParseArguments(os.Args)
	if err != nil {
		return err
	}
	config, err := standin.ReadConfig(arguments.Config)
	if err != nil {
		return err
	}
	logger := standin.NewLogger(os.Stderr)
	registered := standin.LoadPlugins(config.Plugin, open, logger)
	ctx := context.Background()
	return standin.Run(arguments, config, registered.Executors(ctx, logger), registered.Server(ctx, config, logger), logger)
}

// opened gives a plugin's symbols as values without a type.
type opened struct{ *plugin.Plugin }

func (o opened) Lookup(symbol string) (any, error) { return o.Plugin.Lookup(symbol) }

func open(file string) (standin.Opened, error) {
	p, err := plugin.Open(file)
	if err != nil {
		return nil, err
	}
	return opened{p}, nil
}
