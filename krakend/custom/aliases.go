package main

// aliases are KrakenD's names of parts of a configuration, and the older names behind them (copied from krakend-ce, cmd/krakend-ce/main.go,
// Apache License 2.0; the same in 2.12 and 2.13). Without them KrakenD does not know auth/validator and asks for no token, so the bridge refuses to start.
var aliases = map[string]string{
	"github_com/devopsfaith/krakend/transport/http/server/handler":  "plugin/http-server",
	"github.com/devopsfaith/krakend/transport/http/client/executor": "plugin/http-client",
	"github.com/devopsfaith/krakend/proxy/plugin":                   "plugin/req-resp-modifier",
	"github.com/devopsfaith/krakend/proxy":                          "proxy",
	"github_com/luraproject/lura/router/gin":                        "router",

	"github.com/devopsfaith/krakend-httpcache":                "qos/http-cache",
	"github.com/devopsfaith/krakend-circuitbreaker/gobreaker": "qos/circuit-breaker",

	"github.com/devopsfaith/krakend-oauth2-clientcredentials": "auth/client-credentials",
	"github.com/devopsfaith/krakend-jose/validator":           "auth/validator",
	"github.com/devopsfaith/krakend-jose/signer":              "auth/signer",
	"github_com/devopsfaith/bloomfilter":                      "auth/revoker",

	"github_com/devopsfaith/krakend-botdetector": "security/bot-detector",
	"github_com/devopsfaith/krakend-httpsecure":  "security/http",
	"github_com/devopsfaith/krakend-cors":        "security/cors",

	"github.com/devopsfaith/krakend-cel":        "validation/cel",
	"github.com/devopsfaith/krakend-jsonschema": "validation/json-schema",

	"github.com/devopsfaith/krakend-amqp/agent": "async/amqp",

	"github.com/devopsfaith/krakend-amqp/consume":                  "backend/amqp/consumer",
	"github.com/devopsfaith/krakend-amqp/produce":                  "backend/amqp/producer",
	"github.com/devopsfaith/krakend-lambda":                        "backend/lambda",
	"github.com/devopsfaith/krakend-pubsub/publisher":              "backend/pubsub/publisher",
	"github.com/devopsfaith/krakend-pubsub/subscriber":             "backend/pubsub/subscriber",
	"github.com/devopsfaith/krakend/transport/http/client/graphql": "backend/graphql",
	"github.com/devopsfaith/krakend/http":                          "backend/http",

	"github_com/devopsfaith/krakend-gelf":       "telemetry/gelf",
	"github_com/devopsfaith/krakend-gologging":  "telemetry/logging",
	"github_com/devopsfaith/krakend-logstash":   "telemetry/logstash",
	"github_com/devopsfaith/krakend-metrics":    "telemetry/metrics",
	"github_com/letgoapp/krakend-influx":        "telemetry/influx",
	"github_com/devopsfaith/krakend-opencensus": "telemetry/opencensus",

	"github.com/devopsfaith/krakend-lua/router":        "modifier/lua-endpoint",
	"github.com/devopsfaith/krakend-lua/proxy":         "modifier/lua-proxy",
	"github.com/devopsfaith/krakend-lua/proxy/backend": "modifier/lua-backend",
	"github.com/devopsfaith/krakend-martian":           "modifier/martian",
}
