// Package standin is a stand-in for the KrakenD gateway (2.13), for tests. It is not KrakenD: the Go module proxy does not
// give KrakenD's modules to every machine that runs the tests, so the tests cannot build the real gateway.
//
// It does what KrakenD's and lura's source does on the way of a request to a backend with the encoding no-op: it reads
// krakend.json, matches the endpoint as gin does, verifies the token and propagates claims as krakend-jose does, passes the
// listed headers and query strings, gives the request to the plugin or the executor, keeps the timeout, and renders the
// response as it is. Each part names the source that it follows. What a configuration asks for and the stand-in does not
// have is an error at start.
package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"regexp"
	"strings"
	"time"
)

// Config is the part of krakend.json that the stand-in reads. Members that it does not know have no effect, as in lura.
type Config struct {
	Port        int            `json:"port"`
	Timeout     string         `json:"timeout"`
	Plugin      *PluginFolder  `json:"plugin"`
	Endpoints   []*Endpoint    `json:"endpoints"`
	ExtraConfig map[string]any `json:"extra_config"`
}

// PluginFolder says which plugins are loaded: each file of the folder whose name contains the pattern.
type PluginFolder struct {
	Pattern string `json:"pattern"`
	Folder  string `json:"folder"`
}

// Endpoint is one endpoint: a path with parameters, and a method.
type Endpoint struct {
	Path           string         `json:"endpoint"`
	Method         string         `json:"method"`
	OutputEncoding string         `json:"output_encoding"`
	Timeout        string         `json:"timeout"`
	InputHeaders   []string       `json:"input_headers"`
	InputQuery     []string       `json:"input_query_strings"`
	Backends       []*Backend     `json:"backend"`
	ExtraConfig    map[string]any `json:"extra_config"`

	timeout time.Duration
}

// Backend is what stands behind an endpoint.
type Backend struct {
	Hosts       []string       `json:"host"`
	URLPattern  string         `json:"url_pattern"`
	Method      string         `json:"method"`
	ExtraConfig map[string]any `json:"extra_config"`

	pattern string
}

// The names of extra_config's members that the stand-in acts on.
const (
	routerNamespace    = "router"
	validatorNamespace = "auth/validator"
	pluginNamespace    = "plugin/http-client"
	serverNamespace    = "plugin/http-server"
)

// parameter matches {name} in a path. lura's config/uri.go and config/config.go have such expressions.
var parameter = regexp.MustCompile(`\{([\w\-.:/]+)\}`)

// ReadConfig reads krakend.json.
func ReadConfig(file string) (*Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c := &Config{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("parse %s: %w", file, err)
	}
	service := 2 * time.Second // lura's DefaultTimeout
	if c.Timeout != "" {
		if service, err = time.ParseDuration(c.Timeout); err != nil {
			return nil, fmt.Errorf("timeout: %w", err)
		}
	}
	// gin would redirect; the bridge asks for a configuration without redirects.
	router, _ := c.ExtraConfig[routerNamespace].(map[string]any)
	for _, name := range []string{"disable_redirect_trailing_slash", "disable_redirect_fixed_path"} {
		if set, _ := router[name].(bool); !set {
			return nil, fmt.Errorf("the stand-in has no redirects: set extra_config.router.%s to true", name)
		}
	}
	var problems []error
	for _, e := range c.Endpoints {
		if err := e.finish(service); err != nil {
			problems = append(problems, fmt.Errorf("endpoint %s %s: %w", e.Method, e.Path, err))
		}
	}
	return c, errors.Join(problems...)
}

func (e *Endpoint) finish(service time.Duration) error {
	if e.Method == "" {
		e.Method = "GET"
	}
	e.Method = strings.ToTitle(e.Method)
	if e.OutputEncoding != "no-op" {
		return errors.New(`the stand-in has the output_encoding "no-op" only`)
	}
	if len(e.Backends) != 1 {
		return errors.New("an endpoint without encoding has one backend")
	}
	e.timeout = service
	if e.Timeout != "" {
		var err error
		if e.timeout, err = time.ParseDuration(e.Timeout); err != nil {
			return fmt.Errorf("timeout: %w", err)
		}
	}
	// lura's ServiceConfig.Init: the names become canonical.
	for i, name := range e.InputHeaders {
		e.InputHeaders[i] = textproto.CanonicalMIMEHeaderKey(name)
	}
	b := e.Backends[0]
	if len(b.Hosts) == 0 {
		return errors.New("the backend has no host")
	}
	if b.Method == "" {
		b.Method = e.Method
	}
	// lura's initBackendURLMappings: {name} becomes {{.Name}}.
	b.pattern = "/" + strings.TrimPrefix(b.URLPattern, "/")
	b.pattern = parameter.ReplaceAllStringFunc(b.pattern, func(found string) string {
		return "{{." + title(found[1:len(found)-1]) + "}}"
	})
	return nil
}

// title is how lura names parameters: with a capital first letter.
func title(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// Aliases is lura's config.ExtraConfigAlias as far as the stand-in reads namespaces, which it does by their short names only.
var Aliases = map[string]string{
	"auth/validator": "github.com/devopsfaith/krakend-jose/validator",
	"router":         "github_com/luraproject/lura/router/gin",
}
