package standin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
)

// HandlerFactory is what a plugin registers under its name (lura's transport/http/client/plugin).
type HandlerFactory = func(context.Context, map[string]interface{}) (http.Handler, error)

// Opened is what a plugin's file gives by the name of a symbol. plugin.Plugin has it.
type Opened interface {
	Lookup(symbol string) (any, error)
}

// ServerFactory is what a plugin registers that stands before the router (lura's transport/http/server/plugin).
type ServerFactory = func(context.Context, map[string]interface{}, http.Handler) (http.Handler, error)

// Plugins are the factories of the loaded plugins by their names.
type Plugins struct {
	clients map[string]HandlerFactory
	servers map[string]ServerFactory
}

// clientRegisterer and serverRegisterer are the interfaces of the symbols ClientRegisterer and HandlerRegisterer.
type (
	clientRegisterer interface {
		RegisterClients(func(name string, handler func(context.Context, map[string]interface{}) (http.Handler, error)))
	}
	serverRegisterer interface {
		RegisterHandlers(func(name string, handler func(context.Context, map[string]interface{}, http.Handler) (http.Handler, error)))
	}
)

// LoadPlugins opens each plugin as lura's loaders do: scan, Lookup, RegisterLogger, RegisterClients or RegisterHandlers. A
// plugin that cannot be loaded is an error in the log, and the gateway starts without it, as KrakenD does.
func LoadPlugins(folder *PluginFolder, open func(file string) (Opened, error), logger *Logger) Plugins {
	registered := Plugins{make(map[string]HandlerFactory), make(map[string]ServerFactory)}
	if folder == nil {
		return registered
	}
	entries, err := os.ReadDir(folder.Folder)
	if err != nil {
		logger.Warning("[SERVICE: Executor Plugin]", err.Error())
		return registered
	}
	for _, entry := range entries {
		if entry.IsDir() || !strings.Contains(entry.Name(), folder.Pattern) {
			continue
		}
		if err := load(filepath.Join(folder.Folder, entry.Name()), open, registered, logger); err != nil {
			logger.Error("[SERVICE: Executor Plugin]", entry.Name(), err.Error())
		}
	}
	return registered
}

func load(file string, open func(string) (Opened, error), registered Plugins, logger *Logger) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	opened, err := open(file)
	if err != nil {
		return err
	}
	client, err := lookup[clientRegisterer](opened, "ClientRegisterer", logger)
	if err != nil {
		return err
	}
	client.RegisterClients(func(name string, factory func(context.Context, map[string]interface{}) (http.Handler, error)) {
		registered.clients[name] = factory
	})
	server, err := lookup[serverRegisterer](opened, "HandlerRegisterer", logger)
	if err != nil {
		return err
	}
	server.RegisterHandlers(func(name string, factory func(context.Context, map[string]interface{}, http.Handler) (http.Handler, error)) {
		registered.servers[name] = factory
	})
	return nil
}

// lookup finds a symbol, and gives it the logger.
func lookup[R any](opened Opened, name string, logger *Logger) (registerer R, err error) {
	symbol, err := opened.Lookup(name)
	if err != nil {
		return registerer, err
	}
	registerer, ok := symbol.(R)
	if !ok {
		return registerer, fmt.Errorf("plugin loader: %s has an unknown type", name)
	}
	if l, ok := symbol.(interface{ RegisterLogger(interface{}) }); ok {
		l.RegisterLogger(logger)
	}
	return registerer, nil
}

// Server is lura's transport/http/server/plugin.New: each plugin that the configuration names stands before the router.
func (p Plugins) Server(ctx context.Context, c *Config, logger *Logger) ServerWrapper {
	return func(router http.Handler) http.Handler {
		extra, _ := c.ExtraConfig[serverNamespace].(map[string]any)
		names, isList := extra["name"].([]any)
		if !isList {
			names = []any{extra["name"]}
		}
		for _, name := range names {
			name, ok := name.(string)
			if !ok {
				continue
			}
			factory, ok := p.servers[name]
			if !ok {
				logger.Error("[PLUGIN: Server] No plugin registered as", name)
				continue
			}
			wrapped, err := factory(ctx, extra, router)
			if err != nil {
				logger.Error("[PLUGIN: Server] Error getting the plugin handler:", err.Error())
				continue
			}
			router = wrapped
		}
		return router
	}
}

// Executors is lura's HTTPRequestExecutorWithContext: a backend whose plugin is not there, or fails, goes to its host.
func (p Plugins) Executors(ctx context.Context, logger *Logger) ExecutorFactory {
	return func(b *Backend, next Executor) Executor {
		extra, ok := b.ExtraConfig[pluginNamespace].(map[string]any)
		if !ok {
			return next
		}
		name, _ := extra["name"].(string)
		factory, ok := p.clients[name]
		if !ok {
			logger.Debug("No plugin registered as", name)
			return next
		}
		handler, err := factory(ctx, extra)
		if err != nil {
			logger.Warning("Error getting the plugin handler:", err.Error())
			return next
		}
		return func(ctx context.Context, r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r.WithContext(ctx))
			return w.Result(), nil
		}
	}
}
