package gateway

import (
	"context"
	"net"
	"net/http"
	"time"

	"edge-idempotency/krakend/bridge"
)

// metricsListener serves /metrics in Prometheus's text format.
type metricsListener struct {
	address  string
	listener net.Listener
	server   *http.Server
}

// listen opens the listener at an address, `host:port`.
func listen(address string) (*metricsListener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return &metricsListener{address: listener.Addr().String(), listener: listener}, nil
}

// serve answers requests with the metrics of a bridge.
func (m *metricsListener) serve(host *bridge.Bridge) {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		host.Tick(r.Context()) // The module writes what it has counted on a tick.
		_ = host.Metrics().WriteText(w)
	})
	m.server = &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = m.server.Serve(m.listener) }()
}

func (m *metricsListener) close(ctx context.Context) {
	if m.server == nil {
		_ = m.listener.Close()
		return
	}
	_ = m.server.Shutdown(ctx)
}
