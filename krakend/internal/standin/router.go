package standin

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// contextKey is what gin's context answers to with itself (gin's ContextKey).
const contextKey = "_gin-gonic/gin/contextkey"

// Context is the part of *gin.Context that plugins read by reflection: the client's own request, and the writer of its
// response. Contexts are used again for other requests, as gin does: whoever reads one later than during its request reads
// another client's request.
type Context struct {
	Request *http.Request
	Writer  http.ResponseWriter

	params map[string]string
}

// route is an endpoint as the router sees it.
type route struct {
	method   string
	segments []string
	handle   func(w http.ResponseWriter, c *Context)
}

// router matches as gin's tree does with redirects off and UseRawPath off: on the decoded path, byte for byte, and a
// literal segment takes precedence over a parameter.
type router struct {
	routes   []route
	contexts sync.Pool
}

func newRouter() *router {
	return &router{contexts: sync.Pool{New: func() any { return &Context{} }}}
}

func (t *router) add(e *Endpoint, handle func(http.ResponseWriter, *Context)) {
	t.routes = append(t.routes, route{e.Method, strings.Split(e.Path, "/"), handle})
}

// ServeHTTP is gin's handleHTTPRequest, with the handlers for unknown paths and methods of krakend-ce's NewEngine.
func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segments := strings.Split(r.URL.Path, "/")
	best := t.match(segments, r.Method)
	if best == nil {
		status, body := http.StatusNotFound, "404 page not found"
		var allowed []string
		for _, method := range []string{"DELETE", "GET", "PATCH", "POST", "PUT"} {
			if t.match(segments, method) != nil {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) > 0 {
			status, body = http.StatusMethodNotAllowed, "405 method not allowed"
			w.Header().Set("Allow", strings.Join(allowed, ", "))
		}
		setOwnHeaders(w.Header())
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(status)
		w.Write([]byte(body))
		return
	}
	params := make(map[string]string)
	for i, segment := range best.segments {
		if !isParameter(segment) {
			continue
		}
		// lura's paramChecker
		value := segments[i]
		decoded, err := url.PathUnescape(value)
		if err != nil || decoded != value || strings.ContainsAny(decoded, "?#") {
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte("error: encoded url params"))
			return
		}
		params[segment[1:len(segment)-1]] = value
	}
	c, _ := t.contexts.Get().(*Context)
	c.Request, c.Writer, c.params = r, &ginWriter{w}, params
	defer t.contexts.Put(c)
	best.handle(c.Writer, c)
}

func (t *router) match(segments []string, method string) *route {
	var best *route
	for i := range t.routes {
		candidate := &t.routes[i]
		if candidate.method == method && candidate.takes(segments) && (best == nil || candidate.precedes(best)) {
			best = candidate
		}
	}
	return best
}

// takes says whether the route matches. A parameter takes a segment that is not empty.
func (r *route) takes(segments []string) bool {
	if len(r.segments) != len(segments) {
		return false
	}
	for i, segment := range r.segments {
		if isParameter(segment) && segments[i] != "" || segment == segments[i] {
			continue
		}
		return false
	}
	return true
}

// precedes says whether the route stands before another that matches, too: where they differ first, its segment is literal.
func (r *route) precedes(other *route) bool {
	for i, segment := range r.segments {
		if mine, theirs := isParameter(segment), isParameter(other.segments[i]); mine != theirs {
			return theirs
		}
	}
	return false
}

func isParameter(segment string) bool {
	return len(segment) > 2 && segment[0] == '{' && segment[len(segment)-1] == '}'
}
