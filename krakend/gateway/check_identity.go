package gateway

import (
	"encoding/json"
	"net/textproto"
	"slices"
	"strings"
	"time"
)

// checkSources checks the identity sources of the policy: KrakenD gives claims of a token and nothing else.
func (p *plan) checkSources() {
	first := p.metadataPath()
	for _, source := range p.needs.allSources() {
		at := "policy#" + source.Pointer
		switch {
		case source.HeadersOwnedBy != "":
			p.mistakes.add(at+"/headers_owned_by", "", "KrakenD has no filter that owns headers, so a client could set them: take the identity from claims (`metadata`), or remove the source")
		case source.APIKey == "" && !slices.Equal(first, source.Metadata):
			p.mistakes.add(at+"/metadata", "", "behind KrakenD all sources read the claims of one token: write %s as elsewhere in the policy", mustJSON(first))
		}
		for _, claim := range source.Claims {
			if _, ok := claimName(claim); !ok {
				p.mistakes.add(at, "", "the claim %s cannot be propagated: KrakenD reads a dot in a name as a step into an object; choose another claim", mustJSON(claim))
			}
		}
	}
}

// metadataPath is the path under which the policy reads claims: that of the first source that reads metadata.
func (p *plan) metadataPath() []string {
	for _, source := range p.needs.allSources() {
		if len(source.Metadata) > 0 {
			return source.Metadata
		}
	}
	return nil
}

func mustJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// claimName writes a claim as propagate_claims names it. KrakenD splits a name at its dots, except one that begins with
// `http`; ok is false if the claim has no name there.
func claimName(path []string) (name string, ok bool) {
	isURL := func(name string) bool { return strings.HasPrefix(name, "http") }
	if len(path) == 1 {
		return path[0], isURL(path[0]) && len(path[0]) >= 4 || !strings.Contains(path[0], ".")
	}
	for _, segment := range path {
		if segment == "" || strings.Contains(segment, ".") {
			return "", false
		}
	}
	name = strings.Join(path, ".")
	return name, !isURL(name)
}

// trustedHeaders say which headers tell a backend something that was verified.
type trustedHeaders struct {
	// claims: a validator writes them. owned: the policy sets or removes them.
	claims, owned func(name string) bool
}

// claimHeaders are the headers into which validators put claims: those of bound endpoints any claim, others those that the policy
// reads.
func (p *plan) claimHeaders() func(name string) bool {
	read := claims(p.needs.allSources())
	var headers []string
	for index := range p.document.Endpoints {
		route := &p.document.Endpoints[index]
		validator, ok := readValidator(route)
		if !ok {
			continue
		}
		bound := slices.ContainsFunc(route.Backend, func(backend krakendBackend) bool { return backend.bound() })
		for _, pair := range validator.PropagateClaims {
			wanted := len(pair) == 2 && (bound || slices.ContainsFunc(read, func(path []string) bool {
				name, ok := claimName(path)
				return ok && name == pair[0]
			}))
			if wanted {
				headers = append(headers, pair[1])
			}
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(headers, func(header string) bool { return sameHeader(header, name) })
	}
}

// readValidator reads auth/validator of an endpoint; ok is false if there is none.
func readValidator(route *krakendRoute) (validator validatorConfig, ok bool) {
	text, ok := route.ExtraConfig.get("auth/validator")
	if ok {
		_ = json.Unmarshal(text, &validator)
	}
	return validator, ok
}

// validator checks what KrakenD itself cannot start with.
func (c *endpointCheck) validator() {
	text, ok := c.route.ExtraConfig.get("auth/validator")
	if !ok {
		return
	}
	at := "/extra_config/auth~1validator"
	var validator validatorConfig
	if err := json.Unmarshal(text, &validator); err != nil {
		c.add(at, "%v: correct the validator, KrakenD answers 401 to everybody", err)
		return
	}
	if validator.Cache && validator.JWKLocalPath != "" {
		c.add(at+"/cache", "KrakenD does not start with cache and jwk_local_path together: remove cache")
	}
}

// bind makes the binding of the endpoint's name, or compares it with the one that another endpoint has made.
func (c *endpointCheck) bind(bound *boundBackend, way served) {
	p := c.plan
	at := "/backend/0/extra_config"
	target := p.upstreams[bound.Upstream]
	if target == nil {
		c.add(at, "there is no upstream %q in %s/upstreams: add it, or take a name that is there", bound.Upstream, servicePointer)
	}
	route := p.route(bound.Endpoint)
	made := &binding{endpoint: bound.Endpoint, upstream: target, identity: c.identity(route)}
	if route != nil {
		made.hosts = route.Hosts
	}
	if target != nil {
		c.backend(at, bound.Upstream, route)
	}
	c.timeout(way)
	first, ok := p.bindings[bound.Endpoint]
	if !ok {
		p.bindings[bound.Endpoint] = made
		return
	}
	if first.upstream != made.upstream {
		c.add(at, "an endpoint before is bound to %s with another upstream: take the same", bound.Endpoint)
	}
	if !first.identity.equal(made.identity) {
		c.add("/extra_config/auth~1validator", "an endpoint before is bound to %s with another validator: take the same auth_header_name, cookie_key and propagate_claims", bound.Endpoint)
	}
}

// backend refuses an upstream that endpoints of two backends are bound to: one of the two would get requests, and keys, of the
// other.
func (c *endpointCheck) backend(at, upstream string, route *routeNeeds) {
	p := c.plan
	name := ""
	if route != nil {
		name = route.Backend
	} else if p.needs.Operations != nil {
		name = p.needs.Operations.Backend
	}
	if first, ok := p.backends[upstream]; ok && first != name {
		c.add(at, "an endpoint before binds the upstream %q for the policy's backend %q, and this endpoint's backend is %q: take an upstream of its own", upstream, first, name)
		return
	}
	p.backends[upstream] = name
}

// identity checks the validator against the claims that the route reads. Nil: no validator stands before the endpoint.
func (c *endpointCheck) identity(route *routeNeeds) *identitySource {
	p := c.plan
	const at = "/extra_config/auth~1validator"
	sources := p.needs.sourcesOf(route)
	needed := route == nil || route.NeedsIdentity
	validator, ok := readValidator(c.route)
	keys := apiKeyHeader(sources)
	if keys != "" && (route == nil || !route.Webhook) {
		if !ok && !slices.ContainsFunc(c.route.InputHeaders, func(name string) bool { return name == "*" || strings.EqualFold(name, keys) }) {
			c.add("/input_headers", "add %q, in which callers send their API keys", keys)
		}
		if ok {
			p.notes.add(c.at, c.where, "KrakenD's validator refuses who has no token, so callers with API keys cannot use the endpoint")
		}
	}
	if !ok {
		switch {
		case keys != "":
			// The module asks for an API key.
		case needed && route != nil && route.Signed:
			p.notes.add(c.at, c.where, "without auth/validator only signed callers can use the endpoint")
		case needed:
			c.add(at, "the endpoint needs an identity: add the validator, with propagate_claims for %s", claimList(sources))
		}
		return nil
	}
	if needed && route != nil && route.Signed {
		p.notes.add(c.at, c.where, "KrakenD's validator refuses who has no token, so signed callers cannot use the endpoint")
	}
	source := &identitySource{namespace: p.metadataPath(), authHeader: validator.AuthHeaderName, cookie: validator.CookieKey}
	if source.authHeader == "" {
		source.authHeader = "Authorization"
	}
	if source.cookie == "" {
		source.cookie = "access_token"
	}
	targets := map[string]int{}
	for index, pair := range validator.PropagateClaims {
		if len(pair) != 2 {
			c.add(at+pointer("propagate_claims", index), "expected a claim and a header")
			continue
		}
		targets[textproto.CanonicalMIMEHeaderKey(pair[1])]++
	}
	for _, path := range claims(sources) {
		name, _ := claimName(path)
		pair := slices.IndexFunc(validator.PropagateClaims, func(pair []string) bool { return len(pair) == 2 && pair[0] == name })
		if pair < 0 {
			if needed {
				c.add(at+"/propagate_claims", "the policy reads the claim %q: add [%q, \"X-Claim-…\"]", name, name)
			}
			continue
		}
		header := textproto.CanonicalMIMEHeaderKey(validator.PropagateClaims[pair][1])
		if targets[header] > 1 {
			c.add(at+pointer("propagate_claims", pair), "two claims go into the header %s: give each a header of its own", header)
		}
		if !slices.ContainsFunc(c.route.InputHeaders, func(name string) bool { return strings.EqualFold(name, header) }) {
			c.add("/input_headers", "add %q, into which the validator puts the claim %q", header, name)
		}
		if sameHeader(header, source.authHeader) {
			c.add(at+pointer("propagate_claims", pair), "the token is in %s, too, and the bridge takes headers of claims off before the validator reads it: take another header", source.authHeader)
		}
		source.claims = append(source.claims, claim{path: path, header: header})
	}
	return source
}

// claimList names the claims that sources read.
func claimList(sources []sourceNeeds) string {
	var names []string
	for _, path := range claims(sources) {
		if name, ok := claimName(path); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// timeout checks that KrakenD waits as long as the module does.
func (c *endpointCheck) timeout(way served) {
	if way.Result != attach {
		return
	}
	wait := time.Duration(c.plan.needs.WaitMs) * time.Millisecond
	timeout := time.Duration(c.route.Timeout)
	if timeout == 0 {
		timeout = time.Duration(c.plan.document.Timeout)
	}
	if timeout == 0 {
		timeout = 2 * time.Second
	}
	if timeout < wait+attachMargin {
		c.add("/timeout", "KrakenD ends the request after %s, and the policy waits %s for a result (recovery_wait_ms): set it to %q or more",
			timeout, wait, (wait + attachMargin).String())
	}
}
