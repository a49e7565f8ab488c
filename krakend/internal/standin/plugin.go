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

// registerer is the interface of the symbol ClientRegisterer.
type registerer interface {
	RegisterClients(func(name string, handler func(context.Context, map[string]interface{}) (http.Handler, error)))
}

// LoadPlugins opens each plugin as lura's loader does: scan, Lookup("ClientRegisterer"), RegisterLogger, RegisterClients. A
// plugin that cannot be loaded is an error in the log, and the gateway starts without it, as KrakenD does.
func LoadPlugins(folder *PluginFolder, open func(file string) (Opened, error), logger *Logger) map[string]HandlerFactory {
	registered := make(map[string]HandlerFactory)
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

func load(file string, open func(string) (Opened, error), registered map[string]HandlerFactory, logger *Logger) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%v", problem)
		}
	}()
	opened, err := open(file)
	if err != nil {
		return err
	}
	symbol, err := opened.Lookup("ClientRegisterer")
	if err != nil {
		return err
	}
	r, ok := symbol.(registerer)
	if !ok {
		return fmt.Errorf("http-request-executor plugin loader: unknown type")
	}
	if l, ok := symbol.(interface{ RegisterLogger(interface{}) }); ok {
		l.RegisterLogger(logger)
	}
	r.RegisterClients(func(name string, factory func(context.Context, map[string]interface{}) (http.Handler, error)) {
		registered[name] = factory
	})
	return nil
}

// PluginExecutors is lura's HTTPRequestExecutorWithContext: a backend whose plugin is not there, or fails, goes to its host.
func PluginExecutors(ctx context.Context, registered map[string]HandlerFactory, logger *Logger) ExecutorFactory {
	return func(b *Backend, next Executor) Executor {
		extra, ok := b.ExtraConfig[pluginNamespace].(map[string]any)
		if !ok {
			return next
		}
		name, _ := extra["name"].(string)
		factory, ok := registered[name]
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
