// Command gateway is KrakenD with the bridge: KrakenD's own main.go (cmd/krakend-ce), whose parser and backends know the bridge.
package main

import (
	"context"
	"embed"
	"os"
	"os/signal"
	"syscall"

	krakend "github.com/krakend/krakend-ce/v2"
	cmd "github.com/krakend/krakend-cobra/v2"
	flexibleconfig "github.com/krakend/krakend-flexibleconfig/v2"
	koanf "github.com/krakend/krakend-koanf"
	"github.com/luraproject/lura/v2/config"

	"edge-idempotency/krakend/executor"
)

// schema has schema.json, with which `check --lint-no-network` compares a configuration, if build.sh has fetched it.
//
//go:embed schema
var schema embed.FS

// parser gives the bridge the file that KrakenD reads.
type parser struct {
	config.Parser
	edge *executor.Executor
}

func (p parser) Parse(file string) (config.ServiceConfig, error) {
	cfg, err := p.Parser.Parse(file)
	if err != nil {
		return cfg, err
	}
	return cfg, p.edge.Load(file)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	krakend.RegisterEncoders()
	for name, alias := range aliases {
		config.ExtraConfigAlias[alias] = name
	}

	edge := executor.New(config.ExtraConfigAlias)
	var files config.Parser = parser{koanf.New(), edge}
	if os.Getenv("FC_ENABLE") != "" { // Flexible configuration hands the file that it has made to the parser.
		files = flexibleconfig.NewTemplateParser(flexibleconfig.Config{
			Parser:    files,
			Partials:  os.Getenv("FC_PARTIALS"),
			Settings:  os.Getenv("FC_SETTINGS"),
			Path:      os.Getenv("FC_OUT"),
			Templates: os.Getenv("FC_TEMPLATES"),
		})
	}

	rawSchema, _ := schema.ReadFile("schema/schema.json") // Without it `check` has no schema of its own.
	cmd.DefaultRoot = cmd.NewRoot(cmd.RootCommand,
		cmd.RunCommand,
		cmd.NewCheckCmd(string(rawSchema)),
		cmd.PluginCommand, // check-plugin
		cmd.VersionCommand,
		cmd.AuditCommand,
		krakend.NewTestPluginCmd(),
	)
	cmd.DefaultRoot.Cmd.CompletionOptions.DisableDefaultCmd = true

	builder := krakend.ExecutorBuilder{BackendFactory: backends{edge}}
	cmd.Execute(files, builder.NewCmdExecutor(ctx))
}
