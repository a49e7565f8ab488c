package gateway

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"unicode"
)

const keyHeader = "Idempotency-Key"

// guardedKey is where a request's context has the lines that Guard took away.
type guardedKey struct{}

// Guard stands before KrakenD's router and takes away what an endpoint that is not bound must not pass on, whatever its input_headers
// list: a client's keys, which RoundTrip finds again, and the headers of claims, which validators write. So nothing depends on the
// gateway having read the same endpoints as KrakenD. A path with a control character is answered 400: as a parameter it would be an
// empty 500 of KrakenD.
func (g *Gateway) Guard(router http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.ContainsFunc(r.URL.Path, unicode.IsControl) {
			response := g.problems.pathAmbiguous()
			body, _ := io.ReadAll(response.Body)
			Write(w, response, body)
			return
		}
		for _, name := range g.claimHeaders {
			delete(r.Header, name)
		}
		if keys, ok := r.Header[keyHeader]; ok {
			delete(r.Header, keyHeader)
			r = r.WithContext(context.WithValue(r.Context(), guardedKey{}, keys))
		}
		router.ServeHTTP(w, r)
	})
}

// withKeys gives a client's request the lines again that Guard took away.
func withKeys(request *http.Request) *http.Request {
	keys, ok := request.Context().Value(guardedKey{}).([]string)
	if !ok {
		return request
	}
	whole := *request
	whole.Header = maps.Clone(request.Header)
	whole.Header[keyHeader] = keys
	return &whole
}

// headersOfClaims are the headers of all bindings that carry claims.
func (p *plan) headersOfClaims() []string {
	found := map[string]bool{}
	for _, b := range p.bindings {
		if b.identity != nil {
			for _, one := range b.identity.claims {
				found[one.header] = true
			}
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	return names
}
