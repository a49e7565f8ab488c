package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"edge-idempotency/krakend/internal/routes"
)

// Names of krakend.json.
const (
	clientPlugin  = "plugin/http-client"
	serverPlugin  = "plugin/http-server"
	noOp          = "no-op"
	invalidDomain = ".invalid"
)

// attachMargin is the time that a request for a stored result takes besides its wait: the lookup of the invocation (1 s) and
// room for the answer.
const attachMargin = 2 * time.Second

// Namespaces of backends that send the request somewhere else than to the bridge.
var otherTransports = []string{
	"backend/lambda", "github.com/devopsfaith/krakend-lambda", "backend/graphql", "github.com/devopsfaith/krakend/transport/http/client/graphql",
	"backend/amqp/producer", "github.com/devopsfaith/krakend-amqp/produce", "backend/amqp/consumer", "github.com/devopsfaith/krakend-amqp/consume",
	"backend/pubsub/publisher", "github.com/devopsfaith/krakend-pubsub/publisher", "backend/pubsub/subscriber", "github.com/devopsfaith/krakend-pubsub/subscriber",
}

// Namespaces that a bound backend can have beside the bridge's own: KrakenD carries them out around the bridge, or they have no effect
// on requests. The value is a note about what of them has none.
var backendParts = map[string]string{
	clientPlugin: "", "qos/ratelimit/proxy": "", "github.com/devopsfaith/krakend-ratelimit/juju/proxy": "",
	"validation/cel": "", "github.com/devopsfaith/krakend-cel": "", "telemetry/opentelemetry": "",
	"modifier/martian": ofModifiers, "github.com/devopsfaith/krakend-martian": ofModifiers,
	"modifier/lua-backend": ofModifiers, "github.com/devopsfaith/krakend-lua/proxy/backend": ofModifiers,
	"plugin/req-resp-modifier": ofModifiers, "github.com/devopsfaith/krakend/proxy/plugin": ofModifiers,
}

// Namespaces of endpoints that can change a request.
var endpointModifiers = []string{
	"modifier/lua-endpoint", "github.com/devopsfaith/krakend-lua/router", "modifier/lua-proxy", "github.com/devopsfaith/krakend-lua/proxy",
	"plugin/req-resp-modifier", "github.com/devopsfaith/krakend/proxy/plugin",
}

// behindASecondHop is how several backends, another encoding or a shadow proxy go together with the bridge.
const behindASecondHop = "; what merges, encodes or shadows stands in a second KrakenD, which is the upstream of this endpoint (docs/gateways.md, \"Several backends behind one key\")"

const ofModifiers = "it can change header lines, the body and the answer; a method, a path or a query that it changes has no effect, since the bridge sends the client's own"

// refusedParts are namespaces of backends that could not do what they say, each with the reason.
var refusedParts = map[string]string{
	"auth/client-credentials":                                 ofCredentials,
	"github.com/devopsfaith/krakend-oauth2-clientcredentials": ofCredentials,
	"qos/circuit-breaker":                                     ofBreakers,
	"github.com/devopsfaith/krakend-circuitbreaker/gobreaker": ofBreakers,
}

const (
	ofCredentials = "the bridge has an HTTP client of its own, so requests would go out without the token that this part gets: move it to client_credentials of the upstream"
	ofBreakers    = "the bridge answers by itself if the upstream fails, so this part would never see an error: move it to circuit_breaker of the upstream"
)

// endpointCheck checks one endpoint of krakend.json.
type endpointCheck struct {
	plan    *plan
	at      string // JSON pointer of the endpoint
	where   string // method and path
	method  string
	route   *krakendRoute
	options LoadOptions
	// compares says that the mistakes found now depend on what the policy says.
	compares bool
}

func (c *endpointCheck) add(member, format string, arguments ...any) {
	into := &c.plan.mistakes
	if c.compares {
		into = &c.plan.compared
	}
	into.add(c.at+member, c.where, format, arguments...)
}

// served says which way of a policy's route an endpoint of krakend.json serves.
type served struct {
	endpoint string
	way
}

// checkEndpoints checks all endpoints and makes the bindings.
func (p *plan) checkEndpoints(o LoadOptions) {
	trusted := trustedHeaders{claims: p.claimHeaders(), owned: p.needs.owns}
	seen := map[[2]string]bool{}
	ways := map[served]bool{}
	router := map[string][]routedEndpoint{}
	for index := range p.document.Endpoints {
		route := &p.document.Endpoints[index]
		method := strings.ToUpper(route.Method)
		if method == "" {
			method = "GET"
		}
		c := &endpointCheck{plan: p, at: pointer("endpoints", index), where: method + " " + route.Endpoint, method: method, route: route, options: o}
		if key := [2]string{method, anonymous(route.Endpoint)}; seen[key] {
			c.add("", "an endpoint before has the same method and path: remove one of the two")
		} else {
			seen[key] = true
		}
		bound, backend := c.binding()
		c.headers(bound != nil, trusted)
		routed := routedEndpoint{routes.Endpoint{Path: route.Endpoint, For: route.Endpoint}, c, bound}
		if bound != nil {
			c.surroundings(backend)
			c.compares = true
			if way, ok := c.way(bound.Endpoint); ok {
				c.query(way)
				c.bind(bound, way)
				routed.For = krakendPath(way.Path)
				ways[way] = ways[way] || anonymous(routed.For) == anonymous(route.Endpoint)
			}
		}
		router[method] = append(router[method], routed)
	}
	p.missingEndpoints(ways)
	for _, method := range slices.Sorted(maps.Keys(router)) {
		p.lostPaths(router[method])
	}
}

// routedEndpoint is an endpoint as KrakenD's router has it; bound is nil if it is not bound.
type routedEndpoint struct {
	routes.Endpoint
	check *endpointCheck
	bound *boundBackend
}

// lostPaths refuses endpoints of one method that keep each other from requests in KrakenD's router.
func (p *plan) lostPaths(endpoints []routedEndpoint) {
	plain := make([]routes.Endpoint, len(endpoints))
	for number, endpoint := range endpoints {
		plain[number] = endpoint.Endpoint
	}
	for _, lost := range routes.Find(plain) {
		loser, taker := endpoints[lost.Endpoint], endpoints[lost.Behind]
		const what = "%s %s does not get here: KrakenD's router does not go back from %s; add the endpoint %s %s, "
		method := loser.check.method
		if loser.bound == nil {
			p.notes.add(loser.check.at, loser.check.where, what+"which is this one again, or change one of the two paths", method, lost.Path, taker.check.where, method, lost.Path)
			continue
		}
		p.compared.add(loser.check.at, loser.check.where, what+"bound to %q as this one is, or change one of the two paths", method, lost.Path, taker.check.where, method, lost.Path, loser.bound.Endpoint)
	}
}

// anonymous writes a path without the names of its parameters.
func anonymous(path string) string {
	segments := strings.Split(path, "/")
	for at, segment := range segments {
		if isParameter(segment) {
			segments[at] = "{}"
		}
	}
	return strings.Join(segments, "/")
}

// binding finds what binds the endpoint to the policy, and the number of the backend that has it.
func (c *endpointCheck) binding() (*boundBackend, int) {
	var found *boundBackend
	place := 0
	for index := range c.route.Backend {
		text, at, ok := c.boundText(index)
		if !ok {
			continue
		}
		bound := new(boundBackend)
		wrong := false
		decode(text, bound, at, func(at, format string, arguments ...any) {
			wrong = true
			c.add(at, format, arguments...)
		})
		if wrong {
			continue
		}
		found, place = bound, index
	}
	if found != nil && len(c.route.Backend) != 1 {
		c.add("/backend", "an endpoint of the policy has one backend: remove the others"+behindASecondHop)
	}
	return found, place
}

// boundText returns the object that binds a backend, and where it is.
func (c *endpointCheck) boundText(index int) (json.RawMessage, string, bool) {
	extra := c.route.Backend[index].ExtraConfig
	own, direct := extra[Namespace]
	if direct {
		c.add(pointer("backend", index, "extra_config", Namespace), "KrakenD's schema refuses the name there: move it, as {%q: {\"name\": %q, %q: {…}}}", clientPlugin, Namespace, Namespace)
	}
	if text, ok := extra.get(clientPlugin); ok {
		var named struct {
			Name string          `json:"name"`
			Own  json.RawMessage `json:"edge-idempotency"`
		}
		at := pointer("backend", index, "extra_config", clientPlugin)
		if json.Unmarshal(text, &named) == nil && named.Name == Namespace {
			if direct {
				c.add(at, "the backend is bound twice: keep one of the two")
			}
			if named.Own == nil {
				c.add(at, "add %q with the endpoint and the upstream", Namespace)
				return nil, "", false
			}
			return named.Own, at + pointer(Namespace), true
		}
		if direct {
			c.add(at, "another plugin takes the place of the bridge: remove it")
		}
	}
	return own, pointer("backend", index, "extra_config", Namespace), direct
}

// query notes parameters that the policy lets through and KrakenD does not.
func (c *endpointCheck) query(way served) {
	route := c.plan.route(way.endpoint)
	if route == nil || way.Result != "" {
		return
	}
	for _, name := range route.Query {
		if !slices.Contains(c.route.InputQuery, name) && !slices.Contains(c.route.InputQuery, "*") {
			c.plan.notes.add(c.at+"/input_query_strings", c.where, "the policy lets the parameter %q through, and KrakenD removes what is not listed: add it", name)
		}
	}
}

// headers checks the headers that the endpoint lets through.
func (c *endpointCheck) headers(bound bool, trusted trustedHeaders) {
	validator, _ := readValidator(c.route)
	overwritten := func(name string) bool {
		return slices.ContainsFunc(validator.PropagateClaims, func(pair []string) bool { return len(pair) == 2 && sameHeader(pair[1], name) })
	}
	check := func(at string, names []string) {
		for index, name := range names {
			member := at + pointer(index)
			switch {
			case name == "*":
				c.add(member, "`*` lets every header through, keys and forged identities among them: list the headers by name")
			case !bound && sameHeader(name, "idempotency-key"):
				c.add(member, "the endpoint is not bound, so a client's raw key would reach its backend: remove %q, or bind the endpoint", name)
			case controlsTheFilter(name):
				c.add(member, "%q tells the filter or a router what to do, and must not come from a client: remove it", name)
			case overwritten(name):
			case trusted.claims(name):
				c.add(member, "%q carries a verified claim elsewhere, and no auth/validator of this endpoint writes it, so a client could set it: remove it, or add it to propagate_claims", name)
			case !bound && trusted.owned(strings.ToLower(name)):
				c.add(member, "%q tells backends what the filter has verified, and the endpoint is not bound, so a client could set it: remove it", name)
			}
		}
	}
	check("/input_headers", c.route.InputHeaders)
	for index, backend := range c.route.Backend {
		check(pointer("backend", index, "input_headers"), backend.InputHeaders)
	}
}

// controlsTheFilter says whether a header is one that the bridge removes from requests of clients (binding.hides).
func controlsTheFilter(name string) bool {
	return sameHeader(name, "x-edge-idempotency") || strings.HasPrefix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), hintPrefix)
}

// surroundings checks the members of a bound endpoint that do not depend on its route.
func (c *endpointCheck) surroundings(index int) {
	if c.route.ConcurrentCalls > 1 {
		c.add("/concurrent_calls", "KrakenD would send each request %d times: remove it", c.route.ConcurrentCalls)
	}
	encoding := c.route.OutputEncoding
	if encoding == "" {
		encoding = c.plan.document.OutputEncoding
	}
	if encoding != noOp {
		c.add("/output_encoding", "set it to %q: another encoding changes bodies and statuses"+behindASecondHop, noOp)
	}
	backend := &c.route.Backend[index]
	at := pointer("backend", index)
	if backend.Encoding != "" && backend.Encoding != noOp {
		c.add(at+"/encoding", "set it to %q", noOp)
	}
	hosts, hostAt := backend.Host, at+"/host"
	if len(hosts) == 0 {
		c.add(hostAt, "name a host of its own below .invalid, e.g. [\"http://edge-idempotency.invalid\"]: without the bridge nothing may reach a backend")
	}
	for number, host := range hosts {
		if !isInvalidHost(host) {
			c.add(hostAt+pointer(number), "%q can be reached without the bridge, and then raw keys would be: write a name below .invalid, such as \"http://edge-idempotency.invalid\", and put the real one into upstreams", host)
		}
	}
	if backend.SD != "" && backend.SD != "static" {
		c.add(at+"/sd", "remove it: a name below .invalid has no servers to discover; several hosts stand in urls of the upstream, and one name with several addresses is looked up for each new connection")
	}
	if backend.URLPattern != c.route.Endpoint {
		c.add(at+"/url_pattern", "set it to the endpoint's path, %q: the module rewrites paths", c.route.Endpoint)
	}
	if backend.Method != "" && !strings.EqualFold(backend.Method, c.method) {
		c.add(at+"/method", "set it to %q, or remove it", c.method)
	}
	if len(backend.InputHeaders) > 0 {
		c.add(at+"/input_headers", "it cuts off headers that the endpoint lists: remove it")
	}
	if len(backend.InputQuery) > 0 {
		c.add(at+"/input_query_strings", "it cuts off parameters that the endpoint lists: remove it")
	}
	for _, name := range otherTransports {
		if _, ok := backend.ExtraConfig[name]; ok {
			c.add(at+pointer("extra_config", name), "it sends the request past the bridge: remove it")
		}
	}
	c.backendParts(at, backend)
	for _, name := range endpointModifiers {
		if _, ok := c.route.ExtraConfig[name]; ok {
			c.plan.notes.add(c.at+pointer("extra_config", name), c.where, ofModifiers)
		}
	}
	c.validator()
}

// backendParts refuses the parts of a bound backend that would have no effect.
func (c *endpointCheck) backendParts(at string, backend *krakendBackend) {
	for name, text := range backend.ExtraConfig {
		member := at + pointer("extra_config", name)
		note, known := backendParts[name]
		reason, refused := refusedParts[name]
		switch {
		case refused:
			c.add(member, "%s", reason)
		case known && note == "", name == Namespace, name == aliases[clientPlugin], slices.Contains(otherTransports, name):
		case known && martianChangesURL(text):
			c.add(member, "url.Modifier, querystring.Modifier and port.Modifier have no effect, since the bridge sends the client's own path and query to the upstream: remove them")
		case known:
			c.plan.notes.add(c.at+member, c.where, "%s", note)
		case name != "" && strings.ContainsRune("@$_#", rune(name[0])): // a comment
		default:
			c.add(member, "it belongs to KrakenD's own HTTP client, or the bridge does not know what it does around a backend, and it must not be without effect: remove it, or set it on the endpoint")
		}
	}
}

// martianChangesURL says whether a part has a modifier of martian's that changes the URL of a request.
func martianChangesURL(text []byte) bool {
	for _, name := range []string{"url.Modifier", "querystring.Modifier", "port.Modifier"} {
		if bytes.Contains(text, []byte(`"`+name+`"`)) {
			return true
		}
	}
	return false
}

// isInvalidHost says whether a backend's host is a name below .invalid, which never resolves (RFC 6761 section 6.4).
func isInvalidHost(host string) bool {
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	target, err := url.Parse(host)
	return err == nil && (strings.HasSuffix(strings.ToLower(target.Hostname()), invalidDomain))
}

// way finds which way of the policy the endpoint serves, as a whole or in part.
func (c *endpointCheck) way(endpoint string) (served, bool) {
	at := "/backend/0" + pointer("extra_config", Namespace, "endpoint")
	route := c.plan.route(endpoint)
	if endpoint == Operations && c.plan.needs.Operations == nil {
		c.add(at, "no backend of the policy has `operations`: remove the endpoint")
		return served{}, false
	} else if endpoint != Operations && route == nil {
		c.add(at, "the policy has no endpoint %q: %s", endpoint, c.plan.suggestion(c.method, c.route.Endpoint))
		return served{}, false
	}
	own, ok := c.plan.wayOf(c.method, c.route.Endpoint)
	if ok && own.endpoint == endpoint {
		return own, true
	}
	var ways []string
	for _, way := range c.plan.ways() {
		if way.endpoint == endpoint && !way.ofKrakenD() {
			ways = append(ways, way.Method+" "+krakendPath(way.Path))
		}
	}
	c.add("", "the policy's endpoint %s has %s: correct the method, the path or the name", endpoint, strings.Join(ways, ", "))
	return served{}, false
}

// ways lists all methods and paths of the policy.
func (p *plan) ways() []served {
	var ways []served
	for _, route := range p.needs.Routes {
		for _, way := range route.Ways {
			ways = append(ways, served{route.Endpoint, way})
		}
	}
	if p.needs.Operations != nil {
		for _, way := range p.needs.Operations.Ways {
			ways = append(ways, served{Operations, way})
		}
	}
	return ways
}

// wayOf finds the way of the policy that an endpoint's requests are on: where several take its path, the one that has a text first
// where another has a parameter.
func (p *plan) wayOf(method, path string) (found served, ok bool) {
	best := ""
	given := strings.Split(path, "/")
	for _, way := range p.ways() {
		rank := ""
		wanted := strings.Split(krakendPath(way.Path), "/")
		for at, segment := range wanted {
			if len(wanted) != len(given) || way.Method != method {
				break
			} else if segment == given[at] && !isParameter(segment) {
				rank += "b"
			} else if isParameter(segment) && given[at] != "" {
				rank += "a"
			}
		}
		if len(rank) == len(wanted) && rank > best {
			found, ok, best = way, true, rank
		}
	}
	return found, ok
}

// route finds a route by its endpoint's name.
func (p *plan) route(endpoint string) *routeNeeds {
	for at := range p.needs.Routes {
		if p.needs.Routes[at].Endpoint == endpoint {
			return &p.needs.Routes[at]
		}
	}
	return nil
}

// suggestion names the endpoint that has the method and the path.
func (p *plan) suggestion(method, path string) string {
	if way, ok := p.wayOf(method, path); ok {
		return fmt.Sprintf("this method and path are those of %q", way.endpoint)
	}
	return "take a name of its routes"
}

// missingEndpoints notes the routes that no endpoint serves, and refuses routes of which a part is missing.
func (p *plan) missingEndpoints(ways map[served]bool) {
	for at, route := range p.needs.Routes {
		if !slices.ContainsFunc(route.Ways, func(way way) bool { return ways[served{route.Endpoint, way}] }) {
			p.notes.add("policy#"+pointer("routes", at), "", "no endpoint of krakend.json is bound to %s, so KrakenD answers 404 there", route.Endpoint)
			continue
		}
		for _, way := range route.Ways {
			switch {
			case ways[served{route.Endpoint, way}] || way.ofKrakenD():
			case way.Result == "":
				p.compared.add("/endpoints", "", "%s has no endpoint %s %s: add it, or remove the method from the policy", route.Endpoint, way.Method, krakendPath(way.Path))
			default:
				p.compared.add("/endpoints", "", "%s has no endpoint %s %s, with which results are asked for: add it, or set `\"recovery\": false` in the policy", route.Endpoint, way.Method, krakendPath(way.Path))
			}
		}
	}
	if p.needs.Operations != nil {
		for _, way := range p.needs.Operations.Ways {
			if !ways[served{Operations, way}] {
				p.compared.add("/endpoints", "", "there is no endpoint GET %s bound to %q, to which answers send clients: add it, or remove `operations` from the policy", way.Path, Operations)
			}
		}
	}
}
