package gateway

import (
	"encoding/json"
	"slices"
	"strings"
)

// policyNeeds is what the policy needs of KrakenD, as the module says it (crates/engine/src/policy/needs/json.rs).
type policyNeeds struct {
	DocsURL       string   `json:"docs_url"`
	RetryHeaders  []string `json:"retry_headers"`
	ErrorMember   bool     `json:"error_member"`
	GatewayRoutes bool     `json:"gateway_routes"`
	WaitMs        int      `json:"wait_ms"`
	// RequestBuffer is what the longest body of a request takes, in bytes.
	RequestBuffer int `json:"request_buffer"`
	// Clusters are the upstreams that the module calls: their names, and JSON pointers of the objects that name them.
	Clusters [][2]string `json:"clusters"`
	// Variables are the environment variables that hold secrets.
	Variables []string `json:"variables"`
	// WrittenHeaders are the request headers that the module writes: names in lower case, or prefixes with `*`.
	WrittenHeaders []string `json:"written_headers"`
	// Operations is nil if there are none.
	Operations *operationsNeeds `json:"operations"`
	// Sources are the document's own.
	Sources []sourceNeeds `json:"sources"`
	Routes  []routeNeeds  `json:"routes"`
}

type operationsNeeds struct {
	Backend string `json:"backend"`
	Ways    []way  `json:"ways"`
}

type routeNeeds struct {
	Endpoint string   `json:"endpoint"`
	Hosts    []string `json:"hosts"`
	// Backend is the name of its backend; empty if the document has one.
	Backend       string `json:"backend"`
	NeedsIdentity bool   `json:"needs_identity"`
	// Signed says whether signed callers may call the route.
	Signed  bool `json:"signed"`
	Webhook bool `json:"webhook"`
	// Query are the parameters that reach the target.
	Query []string `json:"query"`
	Ways  []way    `json:"ways"`
	// Sources are the route's own; nil if it has those of the document.
	Sources []sourceNeeds `json:"sources"`
}

// way is a method and a path. Result is empty, or says how a request for a result asks for it.
type way struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Result string `json:"result"`
}

// attach is the Result of a request that waits.
const attach = "attach"

// ofKrakenD says whether KrakenD answers the method by itself.
func (w way) ofKrakenD() bool { return w.Method == "HEAD" || w.Method == "OPTIONS" }

// sourceNeeds is an identity source.
type sourceNeeds struct {
	// Pointer is its JSON pointer.
	Pointer string `json:"pointer"`
	// Metadata is the path under which it reads claims; empty for another kind of source.
	Metadata []string `json:"metadata"`
	// HeadersOwnedBy is the filter that owns its headers.
	HeadersOwnedBy string `json:"headers_owned_by"`
	// APIKey is the header with API keys.
	APIKey string `json:"api_key"`
	// Claims are what it reads below Metadata, each as a path of names.
	Claims [][]string `json:"claims"`
}

// sourcesOf are the identity sources of a route; without a route those of the document.
func (n *policyNeeds) sourcesOf(r *routeNeeds) []sourceNeeds {
	if r != nil && r.Sources != nil {
		return r.Sources
	}
	return n.Sources
}

// allSources are the identity sources of the document and of its routes.
func (n *policyNeeds) allSources() []sourceNeeds {
	all := slices.Clone(n.Sources)
	for _, route := range n.Routes {
		all = append(all, route.Sources...)
	}
	return all
}

// claims are what sources read below the metadata path, each once.
func claims(sources []sourceNeeds) [][]string {
	var claims [][]string
	for _, source := range sources {
		for _, path := range source.Claims {
			if !slices.ContainsFunc(claims, func(other []string) bool { return slices.Equal(other, path) }) {
				claims = append(claims, path)
			}
		}
	}
	return claims
}

// apiKeyHeader is the header in which callers send API keys; empty if they have none.
func apiKeyHeader(sources []sourceNeeds) string {
	for _, source := range sources {
		if source.APIKey != "" {
			return source.APIKey
		}
	}
	return ""
}

// owns says which request headers the module sets or removes. What it leaves of them goes to the upstream, whatever input_headers
// lists.
func (n *policyNeeds) owns(name string) bool {
	name = strings.ReplaceAll(name, "_", "-")
	return name == "x-request-id" || slices.ContainsFunc(n.WrittenHeaders, func(own string) bool {
		own = strings.ReplaceAll(own, "_", "-")
		prefix, isPrefix := strings.CutSuffix(own, "*")
		return name == own || isPrefix && strings.HasPrefix(name, prefix)
	})
}

// moduleAnswer is what the module says of a policy: its needs, or its errors in one text.
type moduleAnswer struct {
	Needs  policyNeeds `json:"needs"`
	Errors string      `json:"errors"`
}

func readNeeds(text []byte) (answer moduleAnswer, err error) {
	return answer, json.Unmarshal(text, &answer)
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
