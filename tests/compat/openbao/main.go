// The server of OpenBao, as far as the demo and the end-to-end tests use it: its core with the KV engine, its HTTP API, its file
// storage, and its reader of configurations. Audit devices, other engines, other ways to log in, other storages, clusters, and the
// client commands of `bao` are left out, because compiling them takes several minutes: docs/decisions/0009-openbao-is-built-here.md.
//
// usage: bao server -config FILE | bao --version
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hashicorp/cli"
	"github.com/hashicorp/go-hclog"
	"github.com/openbao/openbao/builtin/logical/kv"
	"github.com/openbao/openbao/command/server"
	vaulthttp "github.com/openbao/openbao/http"
	"github.com/openbao/openbao/sdk/v2/helper/consts"
	"github.com/openbao/openbao/sdk/v2/logical"
	"github.com/openbao/openbao/sdk/v2/physical/file"
	"github.com/openbao/openbao/vault"
	"github.com/openbao/openbao/version"
)

// builtins is the registry of plugins: the KV engine is the only one.
type builtins struct{}

func (builtins) Contains(name string, kind consts.PluginType) bool {
	return name == "kv" && kind == consts.PluginTypeSecrets
}

func (b builtins) Get(name string, kind consts.PluginType) (func() (interface{}, error), bool) {
	return func() (interface{}, error) { return logical.Factory(kv.Factory), nil }, b.Contains(name, kind)
}

func (builtins) Keys(kind consts.PluginType) []string {
	if kind == consts.PluginTypeSecrets {
		return []string{"kv"}
	}
	return nil
}

func (b builtins) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, b.Contains(name, kind)
}

func run(arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "--version" {
		fmt.Println(version.GetVersion().FullVersionNumber(true))
		return nil
	}
	if len(arguments) == 0 || arguments[0] != "server" {
		return errors.New("usage: bao server -config FILE | bao --version")
	}
	flags := flag.NewFlagSet("bao server", flag.ContinueOnError)
	path := flags.String("config", "", "the configuration")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	config, err := server.LoadConfig(*path, []string{*path})
	if err != nil {
		return err
	}
	if config.Storage == nil || config.Storage.Type != "file" || len(config.Seals) > 0 {
		return errors.New("this server has the storage `file`, and no seal but Shamir's")
	}
	logger := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Info, Output: os.Stderr})
	backend, err := file.NewFileBackend(config.Storage.Config, logger.Named("storage.file"))
	if err != nil {
		return err
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		RawConfig:        config,
		Physical:         backend,
		StorageType:      config.Storage.Type,
		RedirectAddr:     config.Storage.RedirectAddr,
		LogicalBackends:  map[string]logical.Factory{"kv": kv.Factory},
		BuiltinRegistry:  builtins{},
		Logger:           logger,
		MaxLeaseTTL:      config.MaxLeaseTTL,
		DefaultLeaseTTL:  config.DefaultLeaseTTL,
		DisableSSCTokens: true,
	})
	if err != nil {
		return err
	}
	stopped := make(chan error)
	for _, listener := range config.Listeners {
		// Those of the `server` command.
		listener.MaxRequestSize, listener.MaxRequestDuration = vaulthttp.DefaultMaxRequestSize, vault.DefaultMaxRequestDuration
		socket, _, _, err := server.NewListener(listener, logger, os.Stderr, &cli.BasicUi{Writer: os.Stderr})
		if err != nil {
			return err
		}
		answering := &http.Server{
			Handler:           vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core, ListenerConfig: listener}),
			ReadHeaderTimeout: 10 * time.Second,
			ReadTimeout:       30 * time.Second,
			IdleTimeout:       5 * time.Minute,
			ErrorLog:          logger.StandardLogger(nil),
		}
		go func() { stopped <- answering.Serve(socket) }()
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	select {
	case err := <-stopped:
		return err
	case <-ended:
		return core.Shutdown()
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
