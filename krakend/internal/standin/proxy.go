package standin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Executor sends a request to a backend: lura's client.HTTPRequestExecutor.
type Executor func(ctx context.Context, r *http.Request) (*http.Response, error)

// ExecutorFactory makes the executor of a backend: what a plugin or a custom build changes. next is lura's own, which sends
// the request to the backend's host.
type ExecutorFactory func(b *Backend, next Executor) Executor

const (
	krakendHeader   = "X-Krakend"
	krakendValue    = "Version 2.13 (stand-in)"
	completedHeader = "X-Krakend-Completed"
	userAgent       = "KrakenD Version 2.13 (stand-in)"
)

func setOwnHeaders(header http.Header) {
	header.Set(krakendHeader, krakendValue)
	// It says true for a response with decoded data only, which no-op does not have.
	header.Set(completedHeader, "false")
}

// handler is lura's gin endpoint handler with the no-op render, behind krakend-jose's validator.
func handler(e *Endpoint, execute Executor, logger *Logger) (func(http.ResponseWriter, *Context), error) {
	v, err := newValidator(e)
	if err != nil {
		return nil, err
	}
	prefix := "[ENDPOINT: " + e.Path + "]"
	return func(w http.ResponseWriter, c *Context) {
		if v != nil {
			claims, err := v.claims(c.Request)
			if err != nil {
				logger.Debug(prefix, "Unable to validate the token:", err.Error())
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			v.propagate(claims, c.Request.Header)
		}
		ctx, cancel := context.WithTimeout(requestContext{c.Request.Context(), c}, e.timeout)
		defer cancel()
		setOwnHeaders(w.Header())
		response, err := call(ctx, e, c, execute)
		if err != nil {
			logger.Error(prefix, err.Error())
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		// lura's NewReadCloserWrapper: the body is closed when the context ends.
		go func() {
			<-ctx.Done()
			response.Body.Close()
		}()
		for name, values := range response.Header {
			for _, value := range values {
				w.Header().Add(name, value)
			}
		}
		w.WriteHeader(response.StatusCode)
		io.Copy(w, response.Body)
	}, nil
}

// requestContext is the request's context as gin gives it on: it answers to gin's key with gin's context.
type requestContext struct {
	context.Context
	gin *Context
}

func (c requestContext) Value(key any) any {
	if key == contextKey {
		return c.gin
	}
	return c.Context.Value(key)
}

// call is lura's NewRequest, its request builder and balancer, and its HTTP proxy with the no-op parser.
func call(ctx context.Context, e *Endpoint, c *Context, execute Executor) (*http.Response, error) {
	b := e.Backends[0]
	path := b.pattern
	for name, value := range c.params {
		path = strings.ReplaceAll(path, "{{."+title(name)+"}}", value)
	}
	target, err := url.Parse(strings.TrimSuffix(b.Hosts[0], "/") + path)
	if err != nil {
		return nil, err
	}
	if query := passedQuery(e, c.Request.URL.Query()).Encode(); query != "" {
		if target.RawQuery != "" {
			query = target.RawQuery + "&" + query
		}
		target.RawQuery = query
	}
	header := passedHeader(e, c.Request)
	r, err := http.NewRequest(strings.ToTitle(b.Method), target.String(), c.Request.Body)
	if err != nil {
		return nil, err
	}
	r.Header = header
	if length := header["Content-Length"]; len(length) == 1 {
		if size, err := strconv.Atoi(length[0]); err == nil {
			r.ContentLength = int64(size)
		}
	}
	response, err := execute(ctx, r)
	if r.Body != nil {
		r.Body.Close()
	}
	if ctx.Err() != nil {
		if response != nil {
			response.Body.Close()
		}
		return nil, ctx.Err()
	}
	return response, err
}

func passedQuery(e *Endpoint, query url.Values) url.Values {
	passed := make(url.Values)
	for _, name := range e.InputQuery {
		if name == "*" {
			return query
		}
		if values := query[name]; len(values) > 0 {
			passed[name] = values
		}
	}
	return passed
}

func passedHeader(e *Endpoint, r *http.Request) http.Header {
	names := e.InputHeaders
	if len(names) == 0 {
		names = []string{"Content-Type"}
	}
	passed := make(http.Header)
	for _, name := range names {
		if name == "*" {
			passed = r.Header.Clone()
			break
		}
		if values, found := r.Header[name]; found {
			passed[name] = append([]string(nil), values...)
		}
	}
	passed["X-Forwarded-For"] = []string{clientIP(r)}
	passed["X-Forwarded-Host"] = []string{r.Host}
	if _, found := passed["User-Agent"]; found {
		passed["X-Forwarded-Via"] = []string{userAgent}
	} else {
		passed["User-Agent"] = []string{userAgent}
	}
	return passed
}

// clientIP is gin's ClientIP with its default settings, which believe what the client says of itself.
func clientIP(r *http.Request) string {
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip"} {
		first, _, _ := strings.Cut(r.Header.Get(name), ",")
		if ip := net.ParseIP(strings.TrimSpace(first)); ip != nil {
			return ip.String()
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

// Server is the gateway.
type Server struct {
	router *router
	// handler is the router with what stands before it.
	handler http.Handler
	logger  *Logger
}

// ServerWrapper puts something before the gateway's router: lura's RunServer of plugins. Nil: nothing.
type ServerWrapper func(router http.Handler) http.Handler

// healthPath is lura's health endpoint.
const healthPath = "/__health"

// New builds the gateway. factory makes the executor of each backend.
func New(c *Config, factory ExecutorFactory, wrap ServerWrapper, logger *Logger) (*Server, error) {
	s := &Server{router: newRouter(), logger: logger}
	var problems []error
	for _, e := range c.Endpoints {
		handle, err := handler(e, factory(e.Backends[0], direct), logger)
		if err != nil {
			problems = append(problems, fmt.Errorf("endpoint %s %s: %w", e.Method, e.Path, err))
			continue
		}
		s.router.add(e, handle)
	}
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == healthPath {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			io.WriteString(w, `{"status":"ok"}`)
			return
		}
		s.router.ServeHTTP(w, r)
	})
	if wrap != nil {
		s.handler = wrap(s.handler)
	}
	return s, errors.Join(problems...)
}

// direct is lura's default executor: it sends the request to the backend's host. It says by itself that a host below
// .invalid does not resolve: what a machine's resolver makes of such a name, and how long that takes, is not what the tests
// are about.
func direct(ctx context.Context, r *http.Request) (*http.Response, error) {
	if host := r.URL.Hostname(); strings.HasSuffix(host, ".invalid") {
		return nil, fmt.Errorf("lookup %s: no such host (the stand-in asks no resolver)", host)
	}
	return http.DefaultClient.Do(r.WithContext(ctx))
}

// Serve serves until the listener is closed. Below /__standin/ it answers what tests ask: see debug.go.
func (s *Server) Serve(listener net.Listener) error {
	mux := http.NewServeMux()
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, debugPrefix) {
				mux.ServeHTTP(w, r)
				return
			}
			defer recovered(w, s.logger)
			s.handler.ServeHTTP(&safeCast{w}, r)
		}),
	}
	addDebug(mux)
	return server.Serve(listener)
}

// recovered is gin.Recovery: a panic in a handler is an empty 500.
func recovered(w http.ResponseWriter, logger *Logger) {
	if problem := recover(); problem != nil {
		logger.Error("[Recovery] panic recovered:", problem)
		w.WriteHeader(http.StatusInternalServerError)
	}
}
