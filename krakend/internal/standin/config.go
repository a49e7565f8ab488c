package standin

import (
	"github.com/luraproject/lura/v2/config"
	luragin "github.com/luraproject/lura/v2/router/gin"
	client "github.com/luraproject/lura/v2/transport/http/client/plugin"
	server "github.com/luraproject/lura/v2/transport/http/server/plugin"
)

// validatorNamespace is krakend-jose's.
const validatorNamespace = "github.com/devopsfaith/krakend-jose/validator"

// ReadConfig reads krakend.json as KrakenD does: with the short names of what the stand-in has.
func ReadConfig(file string) (config.ServiceConfig, error) {
	config.ExtraConfigAlias = map[string]string{
		"auth/validator":     validatorNamespace,
		"plugin/http-client": client.Namespace,
		"plugin/http-server": server.Namespace,
		"router":             luragin.Namespace,
	}
	c, err := config.NewParser().Parse(file)
	c.Normalize()
	return c, err
}
