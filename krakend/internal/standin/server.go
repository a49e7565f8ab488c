// Package standin is a stand-in for the KrakenD gateway, for tests: KrakenD's own libraries lura and gin, which the Go module
// proxy has, in place of krakend-ce, which it has not. So routes, headers, encodings, timeouts and plugins are KrakenD's. What
// krakend-ce puts around them is missing but for the validator (jwt.go), which follows krakend-jose. lura is that of KrakenD
// 2.12, and gin that of 2.13.8.
//
// It is a module of its own, so that nobody who uses the bridge gets these libraries.
package standin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/luraproject/lura/v2/config"
	"github.com/luraproject/lura/v2/core"
	"github.com/luraproject/lura/v2/logging"
	"github.com/luraproject/lura/v2/proxy"
	luragin "github.com/luraproject/lura/v2/router/gin"
	"github.com/luraproject/lura/v2/transport/http/client"
	"github.com/luraproject/lura/v2/transport/http/server"
)

// ExecutorFactory makes the executor of a backend: what a plugin or a custom build changes.
type ExecutorFactory func(*config.Backend) client.HTTPRequestExecutor

// NewEngine is krakend-ce's: lura's gin with two headers on what no endpoint takes.
func NewEngine(c config.ServiceConfig, logger logging.Logger) *gin.Engine {
	engine := luragin.NewEngine(c, luragin.EngineOptions{Logger: logger, Writer: io.Discard})
	unknown := func(c *gin.Context) {
		c.Header(core.KrakendHeaderName, core.KrakendHeaderValue)
		c.Header(server.CompleteResponseHeaderName, server.HeaderIncompleteResponseValue)
	}
	engine.NoRoute(unknown)
	engine.NoMethod(unknown)
	return engine
}

// NewHandler builds the gateway's router. factory makes the executor of each backend.
func NewHandler(c config.ServiceConfig, factory ExecutorFactory, logger logging.Logger) (http.Handler, error) {
	validators := map[*config.EndpointConfig]*validator{}
	var problems []error
	for _, e := range c.Endpoints {
		v, err := newValidator(e.ExtraConfig)
		if err != nil {
			problems = append(problems, fmt.Errorf("endpoint %s %s: %w", e.Method, e.Endpoint, err))
		}
		validators[e] = v
	}
	if problems != nil {
		return nil, errors.Join(problems...)
	}
	endpoints := luragin.CustomErrorEndpointHandler(logger, server.DefaultToHTTPError)
	backends := func(remote *config.Backend) proxy.Proxy {
		return proxy.NewHTTPProxyWithHTTPExecutor(remote, factory(remote), remote.Decoder)
	}
	var made http.Handler
	luragin.NewFactory(luragin.Config{
		Engine:       NewEngine(c, logger),
		ProxyFactory: proxy.NewDefaultFactory(backends, logger),
		HandlerFactory: func(e *config.EndpointConfig, p proxy.Proxy) gin.HandlerFunc {
			handle, v := endpoints(e, p), validators[e]
			return func(c *gin.Context) {
				if v != nil {
					claims, err := v.claims(c.Request)
					if err != nil {
						logger.Debug("[ENDPOINT: "+e.Endpoint+"]", "Unable to validate the token:", err.Error())
						c.AbortWithStatus(http.StatusUnauthorized)
						return
					}
					v.propagate(claims, c.Request.Header)
				}
				handle(c)
			}
		},
		Logger: logger,
		RunServer: func(_ context.Context, _ config.ServiceConfig, handler http.Handler) error {
			made = handler
			return nil
		},
	}).New().Run(c)
	return made, nil
}

// Direct is lura's default executor: it sends the request to the backend's host. It says by itself that a host below
// .invalid does not resolve: what a machine's resolver makes of such a name, and how long that takes, is not what the tests
// are about.
func Direct(*config.Backend) client.HTTPRequestExecutor {
	send := client.DefaultHTTPRequestExecutor(client.NewHTTPClient)
	return func(ctx context.Context, r *http.Request) (*http.Response, error) {
		if host := r.URL.Hostname(); strings.HasSuffix(host, ".invalid") {
			return nil, fmt.Errorf("lookup %s: no such host (the stand-in asks no resolver)", host)
		}
		return send(ctx, r)
	}
}

// Run serves until the listener fails. wrap puts something before the router. It writes "listening on host:port" to the log
// when it is ready. Below /__standin/ it answers what tests ask: see debug.go.
func Run(ctx context.Context, a *Arguments, c config.ServiceConfig, factory ExecutorFactory, wrap func(luragin.RunServerFunc) luragin.RunServerFunc, logger logging.Logger) error {
	logger.Info("This is a stand-in for KrakenD, for tests. It is not KrakenD.")
	router, err := NewHandler(c, factory, logger)
	if err != nil {
		return err
	}
	return wrap(func(_ context.Context, c config.ServiceConfig, handler http.Handler) error {
		listen := a.Listen
		if listen == "" {
			listen = fmt.Sprintf(":%d", c.Port)
		}
		listener, err := net.Listen("tcp", listen)
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		logger.Info("listening on", listener.Addr())
		return server.NewServerWithLogger(c, debugged(handler), logger).Serve(listener)
	})(ctx, c, router)
}
