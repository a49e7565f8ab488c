package gateway

import (
	"encoding/json"
	"slices"
	"strings"
)

// policyView is the part of a policy document that the checks compare with krakend.json. The module reads the document by
// itself and refuses what is wrong in it.
type policyView struct {
	DocsURL       string                 `json:"docs_url"`
	GatewayRoutes bool                   `json:"gateway_routes"`
	Mode          string                 `json:"mode"`
	FutureKeys    string                 `json:"shadow_key_header"`
	Identity      *identityView          `json:"identity"`
	Backend       defaultBackend         `json:"backend"`
	Named         map[string]backendView `json:"backends"`
	Routes        []routeView            `json:"routes"`
	Webhooks      struct {
		Unkey   *clusterView `json:"unkey"`
		OpenBao *clusterView `json:"openbao"`
	} `json:"webhooks"`
	Callers map[string]struct {
		Routes []string `json:"routes"`
	} `json:"callers"`
	Parameters   string   `json:"parameter_headers"`
	RetryHeaders []string `json:"retry_headers"`
	ErrorMember  bool     `json:"error_member"`
	WaitMs       *int     `json:"recovery_wait_ms"`
}

type clusterView struct {
	Cluster string `json:"cluster"`
}

// keyRegistry knows the callers' API keys.
type keyRegistry struct {
	Cluster string `json:"cluster"`
	Header  string `json:"header"`
}

type identityView struct {
	Forward struct {
		Tenant  string `json:"tenant"`
		Project string `json:"project"`
		Subject string `json:"subject"`
	} `json:"forward"`
	Sources []struct {
		Name     string          `json:"name"`
		Metadata []string        `json:"metadata"`
		Unkey    *keyRegistry    `json:"unkey"`
		Headers  string          `json:"headers_owned_by"`
		Tenant   json.RawMessage `json:"tenant"`
		Project  json.RawMessage `json:"project"`
		Subject  struct {
			Field json.RawMessage `json:"field"`
		} `json:"subject"`
	} `json:"sources"`
}

type routeView struct {
	Endpoint     string          `json:"endpoint"`
	Methods      []string        `json:"methods"`
	Hosts        []string        `json:"hosts"`
	Path         string          `json:"path"`
	Policy       string          `json:"policy"`
	Backend      string          `json:"backend"`
	Mode         string          `json:"mode"`
	Target       string          `json:"target"`
	Recovery     *bool           `json:"recovery"`
	Webhook      json.RawMessage `json:"webhook"`
	Identity     *identityView   `json:"identity"`
	MaxBodyBytes int             `json:"max_body_bytes"`
	Query        []string        `json:"query"`
}

// The part of a path between a route's path and the key, and the last segment of a path that does not wait
// (docs/contract.md section 6).
const recoverySegment, outputSegment = "by-idempotency-key", "output"

// defaultWaitMs is the default of the policy's recovery_wait_ms, and defaultMaxBody that of a route's
// max_body_bytes (docs/contract.md sections 4 and 6).
const defaultWaitMs, defaultMaxBody = 30_000, 1 << 20

// methods are the route's methods.
func (r *routeView) methods() []string {
	if len(r.Methods) == 0 {
		return []string{"POST"}
	}
	return r.Methods
}

// recovers says whether results of the route can be asked for by key.
func (p *policyView) recovers(r *routeView) bool {
	mode := r.Mode
	if mode == "" {
		mode = p.Mode
	}
	makesKeys := r.Policy == "REQUIRED_A" || r.Policy == "ACCEPTED"
	return makesKeys && r.Target != "" && r.Webhook == nil && (r.Recovery == nil || *r.Recovery) &&
		p.backendOf(r).Kind == "restate" && mode != "shadow"
}

// needsIdentity says whether requests on the route are refused that have no identity.
func (r *routeView) needsIdentity() bool {
	if r.Webhook != nil {
		return false
	}
	named := strings.Contains(r.Target, "{tenant}") || strings.Contains(r.Target, "{project}") || strings.Contains(r.Target, "{subject}")
	return r.Policy == "REQUIRED_A" || r.Policy == "ACCEPTED" || named
}

// takesSignedCallers says whether signed callers may call the route.
func (p *policyView) takesSignedCallers(r *routeView) bool {
	for _, caller := range p.Callers {
		if slices.Contains(caller.Routes, r.Endpoint) {
			return true
		}
	}
	return false
}

// identityOf returns the identity rules of a route.
func (p *policyView) identityOf(r *routeView) *identityView {
	if r != nil && r.Identity != nil {
		return r.Identity
	}
	return p.Identity
}

// claims are the members below the metadata path that the rules read, each as a path of names. A header's name and a
// constant are none.
func (i *identityView) claims() [][]string {
	if i == nil {
		return nil
	}
	var claims [][]string
	for _, source := range i.Sources {
		if len(source.Metadata) == 0 {
			continue
		}
		for _, member := range []json.RawMessage{source.Tenant, source.Project, source.Subject.Field} {
			path := memberPath(member)
			known := slices.ContainsFunc(claims, func(other []string) bool { return slices.Equal(other, path) })
			if len(path) > 0 && !known {
				claims = append(claims, path)
			}
		}
	}
	return claims
}

// memberPath reads a name or an array of names; anything else is none.
func memberPath(text json.RawMessage) []string {
	var name string
	if json.Unmarshal(text, &name) == nil && name != "" {
		return []string{name}
	}
	var path []string
	if json.Unmarshal(text, &path) == nil {
		return path
	}
	return nil
}

// apiKeys is the registry that the rules name, with its JSON pointer below them; nil if callers have no API keys.
func (v *identityView) apiKeys() (at string, registry *keyRegistry) {
	if v == nil {
		return "", nil
	}
	for index, source := range v.Sources {
		if source.Unkey != nil {
			return pointer("sources", index, "unkey"), source.Unkey
		}
	}
	return "", nil
}

// clusters are the names of the upstreams that the module calls, each with its JSON pointer.
func (p *policyView) clusters() map[string]string {
	names := map[string]string{}
	for at, backend := range p.backends() {
		if backend.Cluster != "" {
			names[backend.Cluster] = "policy#" + at + "/cluster"
		}
	}
	if p.Webhooks.Unkey != nil && p.Webhooks.Unkey.Cluster != "" {
		names[p.Webhooks.Unkey.Cluster] = "policy#/webhooks/unkey/cluster"
	}
	if at, registry := p.Identity.apiKeys(); registry != nil && registry.Cluster != "" {
		names[registry.Cluster] = "policy#/identity" + at + "/cluster"
	}
	if p.Webhooks.OpenBao != nil && p.Webhooks.OpenBao.Cluster != "" {
		names[p.Webhooks.OpenBao.Cluster] = "policy#/webhooks/openbao/cluster"
	}
	return names
}

// variables are the names of environment variables that a document mentions as {"env": NAME}, in no order.
func variables(document any, found map[string]bool) {
	switch value := document.(type) {
	case map[string]any:
		if name, ok := value["env"].(string); ok && len(value) == 1 {
			found[name] = true
		}
		for _, member := range value {
			variables(member, found)
		}
	case []any:
		for _, item := range value {
			variables(item, found)
		}
	}
}

// isParameter says whether a segment of a path in krakend.json is one parameter.
func isParameter(segment string) bool {
	return len(segment) > 2 && segment[0] == '{' && segment[len(segment)-1] == '}'
}

// krakendPath writes a template of the policy as KrakenD can serve it: a parameter behind a text (`key:{name}`) becomes one that
// stands for the whole segment, and so does a text with a colon or a star, with which parameters begin in KrakenD's router. The
// module checks the text.
func krakendPath(template string) string {
	segments := strings.Split(template, "/")
	for at, segment := range segments {
		if brace := strings.Index(segment, "{"); brace > 0 {
			segments[at] = segment[brace:]
		} else if brace < 0 && strings.ContainsAny(segment, ":*") {
			segments[at] = "{segment}"
		}
	}
	return strings.Join(segments, "/")
}

// ownedHeaders says which request headers the policy itself sets or removes. What the module leaves of them goes to the
// upstream, whatever input_headers lists.
func (p *policyView) ownedHeaders() func(name string) bool {
	owned := map[string]bool{"idempotency-key": true, "x-request-id": true, strings.ToLower(p.FutureKeys): true}
	for _, backend := range p.backends() {
		owned[strings.ToLower(backend.KeyHeader)] = true
	}
	rules := []*identityView{p.Identity}
	for at := range p.Routes {
		rules = append(rules, p.Routes[at].Identity)
	}
	for _, identity := range rules {
		if identity != nil {
			for _, name := range []string{identity.Forward.Tenant, identity.Forward.Project, identity.Forward.Subject} {
				owned[strings.ToLower(name)] = true
			}
		}
	}
	prefix := strings.ToLower(p.Parameters)
	return func(name string) bool {
		name = strings.ReplaceAll(name, "_", "-")
		return owned[name] || prefix != "" && strings.HasPrefix(name, prefix)
	}
}
