package gateway

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const own, ownAt = "edge-idempotency", "/extra_config/plugin~1http-server/edge-idempotency"

// change is one change of testConfig, and the mistake that it makes.
type change struct {
	path    []any
	value   any
	pointer string
	text    string
}

func at(path ...any) []any { return path }

func policyAt(path ...any) []any {
	return append(at("extra_config", serverPlugin, own, "policy"), path...)
}

// apiKeys is a source of the policy whose callers have API keys.
var apiKeys = object{
	"name": "partner", "unkey": object{"header": "X-Partner-Key", "cluster": "keys"}, "tenant": "/identity/externalId",
	"project": "/meta/project_id", "subject": object{"field": "/keyId", "type": "client"},
}

func changes() map[string]change {
	plugin := "/endpoints/0/backend/0/extra_config/plugin~1http-client"
	return map[string]change{
		"no own configuration":     {at("extra_config", serverPlugin, own), nil, "/extra_config/plugin~1http-server", `there is no "edge-idempotency"`},
		"own configuration above":  {at("extra_config", own), object{}, "/extra_config/edge-idempotency", "schema refuses the name there"},
		"name not listed":          {at("extra_config", serverPlugin, "name"), list{"other", 1}, "/extra_config/plugin~1http-server/name", `add "edge-idempotency"`},
		"no object of plugins":     {at("extra_config", serverPlugin), "edge-idempotency", "/extra_config/plugin~1http-server", "it is no object"},
		"unknown member":           {at("extra_config", serverPlugin, own, "polcy"), 1, ownAt + "/polcy", "remove it, or take one of module, policy"},
		"another type":             {at("extra_config", serverPlugin, own, "instances"), "2", ownAt + "/instances", "a string, and a whole number"},
		"upstream's member":        {at("extra_config", serverPlugin, own, "upstreams", "backend", "insecure"), true, ownAt + "/upstreams/backend/insecure", "one of url, urls, timeout_ms, ca_file"},
		"upstream's type":          {at("extra_config", serverPlugin, own, "upstreams", "backend", "url"), 1, ownAt + "/upstreams/backend/url", "a number, and a string"},
		"upstream is no object":    {at("extra_config", serverPlugin, own, "upstreams", "backend"), "http://a", ownAt + "/upstreams/backend", "a string, and an object"},
		"little memory":            {at("extra_config", serverPlugin, own, "memory_mib"), 1, ownAt + "/memory_mib", "at least 8"},
		"metrics address":          {at("extra_config", serverPlugin, own, "metrics_listen"), "9464", ownAt + "/metrics_listen", "host:port"},
		"client credentials":       {at("endpoints", 0, "backend", 0, "extra_config", "auth/client-credentials"), object{}, "/endpoints/0/backend/0/extra_config/auth~1client-credentials", "client_credentials of the upstream"},
		"breaker of the backend":   {at("endpoints", 0, "backend", 0, "extra_config", "qos/circuit-breaker"), object{}, "/endpoints/0/backend/0/extra_config/qos~1circuit-breaker", "circuit_breaker of the upstream"},
		"cache of the client":      {at("endpoints", 0, "backend", 0, "extra_config", "qos/http-cache"), object{}, "/endpoints/0/backend/0/extra_config/qos~1http-cache", "must not be without effect"},
		"unknown part":             {at("endpoints", 0, "backend", 0, "extra_config", "auth/gcp"), object{}, "/endpoints/0/backend/0/extra_config/auth~1gcp", "must not be without effect"},
		"martian changes the URL":  {at("endpoints", 0, "backend", 0, "extra_config", "modifier/martian"), object{"fifo.Group": object{"modifiers": list{object{"querystring.Modifier": object{}}}}}, "/endpoints/0/backend/0/extra_config/modifier~1martian", "querystring.Modifier"},
		"query of the backend":     {at("endpoints", 0, "backend", 0, "input_query_strings"), list{"a"}, "/endpoints/0/backend/0/input_query_strings", "cuts off parameters"},
		"url and urls":             {at("extra_config", serverPlugin, own, "upstreams", "backend", "urls"), list{"http://a"}, ownAt + "/upstreams/backend/urls", "keep url or urls"},
		"one of urls":              {at("extra_config", serverPlugin, own, "upstreams", "backend"), object{"urls": list{"http://a", "a:1"}}, ownAt + "/upstreams/backend/urls/1", "a port only"},
		"urls are no list":         {at("extra_config", serverPlugin, own, "upstreams", "backend", "urls"), "http://a", ownAt + "/upstreams/backend/urls", "a list of strings"},
		"certificate alone":        {at("extra_config", serverPlugin, own, "upstreams", "backend", "client_cert_file"), "/none.pem", ownAt + "/upstreams/backend/client_key_file", "the certificate's key"},
		"key alone":                {at("extra_config", serverPlugin, own, "upstreams", "backend", "client_key_file"), "/none.pem", ownAt + "/upstreams/backend/client_cert_file", "the key's certificate"},
		"token without a URL":      {at("extra_config", serverPlugin, own, "upstreams", "backend", "client_credentials"), object{"client_id": "a", "client_secret": "b"}, ownAt + "/upstreams/backend/client_credentials/token_url", "the URL that gives tokens"},
		"token without a client":   {at("extra_config", serverPlugin, own, "upstreams", "backend", "client_credentials"), object{"token_url": "https://a/t", "client_secret": "b"}, ownAt + "/upstreams/backend/client_credentials/client_id", "name the client"},
		"token without a secret":   {at("extra_config", serverPlugin, own, "upstreams", "backend", "client_credentials"), object{}, ownAt + "/upstreams/backend/client_credentials/client_secret", "expected a secret"},
		"secret that is not set":   {at("extra_config", serverPlugin, own, "upstreams", "backend", "client_credentials"), object{"token_url": "https://a/t", "client_id": "a", "client_secret": object{"env": "EDGE_NONE"}}, ownAt + "/upstreams/backend/client_credentials/client_secret", "EDGE_NONE is not set"},
		"credentials' member":      {at("extra_config", serverPlugin, own, "upstreams", "backend", "client_credentials"), object{"scope": "a"}, ownAt + "/upstreams/backend/client_credentials/scope", "one of token_url"},
		"breaker without a number": {at("extra_config", serverPlugin, own, "upstreams", "backend", "circuit_breaker"), object{"interval": 60, "max_errors": 1}, ownAt + "/upstreams/backend/circuit_breaker/timeout", "from 1 to"},
		"client_tls' version":      {at("client_tls"), object{"min_version": "SSL3.0"}, "/client_tls/min_version", "TLS12 or TLS13"},
		"client_tls' authority":    {at("client_tls"), object{"ca_certs": list{"/none.pem"}}, "/client_tls/ca_certs/0", "cannot be read"},
		"client_tls' certificate":  {at("client_tls"), object{"client_certs": list{object{"certificate": "/none.pem", "private_key": "/none.pem"}}}, "/client_tls/client_certs/0", "cannot be read"},
		"claim, not bound":         {at("endpoints", 4), open(list{"X-Claim-Tenant"}, nil), "/endpoints/4/input_headers/0", "carries a verified claim"},
		"claim, other spelling":    {at("endpoints", 4), open(list{"x_claim-tenant"}, nil), "/endpoints/4/input_headers/0", "carries a verified claim"},
		"claim, other validator":   {at("endpoints", 4), open(list{"X-Claim-Tenant"}, list{list{"sub", "X-Claim-Subject"}}), "/endpoints/4/input_headers/0", "carries a verified claim"},
		"claim of bound endpoints": {at("endpoints"), list{withRoles(testEndpoint("GET", "/api/files", "files.list")), open(list{"X-Roles"}, nil)}, "/endpoints/1/input_headers/0", "carries a verified claim"},
		"what the policy writes":   {at("endpoints", 4), open(list{"X-Tenant-Id"}, nil), "/endpoints/4/input_headers/0", "what the filter has verified"},
		"written, other spelling":  {at("endpoints", 4), open(list{"x_tenant-id"}, nil), "/endpoints/4/input_headers/0", "what the filter has verified"},
		"the key for handlers":     {at("endpoints", 4), open(list{"X_Idempotency_Key"}, nil), "/endpoints/4/input_headers/0", "what the filter has verified"},
		"control of the filter":    {at("endpoints", 4), open(list{"X-Edge-Idempotency"}, nil), "/endpoints/4/input_headers/0", "must not come from a client"},
		"control of a router":      {at("endpoints", 0, "input_headers", 0), "x-envoy-retry-on", "/endpoints/0/input_headers/0", "must not come from a client"},
		"no module":                {at("extra_config", serverPlugin, own, "module"), nil, ownAt + "/module", "name the .wasm file"},
		"module unreadable":        {at("extra_config", serverPlugin, own, "module"), "/none.wasm", ownAt + "/module", "cannot be read"},
		"no policy":                {at("extra_config", serverPlugin, own, "policy"), nil, ownAt + "/policy_file", "there is no policy"},
		"policy twice":             {at("extra_config", serverPlugin, own, "policy_file"), "x.json", ownAt + "/policy_file", "there twice"},
		"negative number":          {at("extra_config", serverPlugin, own, "instances"), -1, ownAt + "/instances", "from 0 to 1024"},
		"long deadline":            {at("extra_config", serverPlugin, own, "deadline_ms"), 9_300_000_000_000, ownAt + "/deadline_ms", "from 0 to 60000"},
		"little for bodies":        {at("extra_config", serverPlugin, own, "held_bodies_mib"), 3, ownAt + "/held_bodies_mib", "at least 4"},
		"short name twice":         {at("endpoints", 0, "INPUT_HEADERS"), list{"*"}, "/endpoints/0/input_headers", "there twice"},
		"agent":                    {at("async_agent"), list{object{"backend": list{object{"extra_config": bind("refunds.create")}}}}, "/async_agent/0/backend/0/extra_config/plugin~1http-client", "bind endpoints only"},
		"registry of API keys":     {policyAt("identity", "sources", 0), apiKeys, "policy#/identity/sources/0/unkey/cluster", "keys"},
		"policy with a fraction":   {policyAt("routes", 0, "max_body_bytes"), 10.5, "policy#", "/routes/0/max_body_bytes: expected an integer"},
		"much memory":              {at("extra_config", serverPlugin, own, "memory_mib"), 5000, ownAt + "/memory_mib", "at most 4096"},
		"upstream with a path":     {at("extra_config", serverPlugin, own, "upstreams", "backend", "url"), "http://a/b", ownAt + "/upstreams/backend/url", "a port only"},
		"upstream's authorities":   {at("extra_config", serverPlugin, own, "upstreams", "backend", "ca_file"), "/none.pem", ownAt + "/upstreams/backend/ca_file", "cannot be read"},
		"upstream's timeout":       {at("extra_config", serverPlugin, own, "upstreams", "backend", "timeout_ms"), -1, ownAt + "/upstreams/backend/timeout_ms", "expected a number from 0"},
		"redirects":                {at("extra_config", "router", "disable_redirect_fixed_path"), false, "/extra_config/router/disable_redirect_fixed_path", "set it to true"},
		"slash redirects":          {at("extra_config", "router", "disable_redirect_trailing_slash"), nil, "/extra_config/router/disable_redirect_trailing_slash", "set it to true"},
		"gateway_routes":           {policyAt("gateway_routes"), nil, "policy#/gateway_routes", "set it to true"},
		"cluster":                  {policyAt("backend", "cluster"), "restate", "policy#/backend/cluster", `calls "restate"`},
		"source reads headers":     {policyAt("identity", "sources", 0), object{"name": "a", "headers_owned_by": "b", "tenant": "x-t", "project": "x-p", "subject": object{"field": "x-s"}}, "policy#/identity/sources/0/headers_owned_by", "no filter that owns headers"},
		"two metadata paths":       {policyAt("routes", 0, "identity"), object{"sources": list{object{"name": "a", "metadata": list{"other"}, "tenant": "t", "project": "p", "subject": object{"field": "s"}}}}, "policy#/routes/0/identity/sources/0/metadata", "claims of one token"},
		"dotted claim":             {policyAt("identity", "sources", 0, "tenant"), "a.b", "policy#/identity/sources/0", "reads a dot"},
		"hosts alone":              {policyAt("routes", 1), object{"endpoint": "other", "hosts": list{"a.example"}, "path": "/api/refunds", "policy": "PROHIBITED"}, "policy#/routes/1", "does not choose by host"},
		"same endpoint twice":      {at("endpoints", 4), testEndpoint("POST", "/api/carts/{other}/checkout", "carts.checkout"), "/endpoints/4", "same method and path"},
		"two backends":             {at("endpoints", 0, "backend"), list{object{"host": list{"http://a.invalid"}, "url_pattern": "/api/refunds", "extra_config": bind("refunds.create")}, object{"host": list{"http://b"}, "url_pattern": "/b"}}, "/endpoints/0/backend", "one backend"},
		"unknown member of bind":   {at("endpoints", 0, "backend", 0, "extra_config", "plugin/http-client", own, "endpont"), "x", plugin + "/edge-idempotency/endpont", "one of endpoint, upstream"},
		"no object to bind":        {at("endpoints", 0, "backend", 0, "extra_config", "plugin/http-client", own), nil, plugin, "add \"edge-idempotency\""},
		"form of the custom build": {at("endpoints", 0, "backend", 0, "extra_config"), object{own: object{"endpoint": "refunds.create", "upstream": "backend"}}, "/endpoints/0/backend/0/extra_config/edge-idempotency", "schema refuses the name there"},
		"wildcard header":          {at("endpoints", 0, "input_headers", 0), "*", "/endpoints/0/input_headers/0", "every header"},
		"raw key elsewhere":        {at("endpoints", 4), object{"endpoint": "/api/other", "method": "POST", "input_headers": list{"idempotency_KEY"}, "backend": list{object{"host": list{"http://b"}, "url_pattern": "/b"}}}, "/endpoints/4/input_headers/0", "raw key"},
		"raw key of a backend":     {at("endpoints", 4), object{"endpoint": "/api/other", "backend": list{object{"host": list{"http://b"}, "input_headers": list{"*"}}}}, "/endpoints/4/backend/0/input_headers/0", "every header"},
		"claim without validator":  {at("endpoints", 4), object{"endpoint": "/api/other", "input_headers": list{"x-claim-tenant"}, "backend": list{object{"host": list{"http://b"}}}}, "/endpoints/4/input_headers/0", "a client could set it"},
		"concurrent calls":         {at("endpoints", 0, "concurrent_calls"), 2, "/endpoints/0/concurrent_calls", "2 times"},
		"encoding":                 {at("endpoints", 0, "output_encoding"), nil, "/endpoints/0/output_encoding", `"no-op"`},
		"backend's encoding":       {at("endpoints", 0, "backend", 0, "encoding"), "json", "/endpoints/0/backend/0/encoding", `"no-op"`},
		"reachable host":           {at("endpoints", 0, "backend", 0, "host", 0), "http://restate:8080", "/endpoints/0/backend/0/host/0", "below .invalid"},
		"host that looks like it":  {at("endpoints", 0, "backend", 0, "host", 0), "http://a.invalid.example.com", "/endpoints/0/backend/0/host/0", "below .invalid"},
		"no host":                  {at("endpoints", 0, "backend", 0, "host"), nil, "/endpoints/0/backend/0/host", "a host of its own"},
		"discovery":                {at("endpoints", 0, "backend", 0, "sd"), "dns", "/endpoints/0/backend/0/sd", "remove it"},
		"other url_pattern":        {at("endpoints", 0, "backend", 0, "url_pattern"), "/Refunds/create", "/endpoints/0/backend/0/url_pattern", `"/api/refunds"`},
		"other method":             {at("endpoints", 0, "backend", 0, "method"), "PUT", "/endpoints/0/backend/0/method", `"POST"`},
		"backend's headers":        {at("endpoints", 0, "backend", 0, "input_headers"), list{"Accept"}, "/endpoints/0/backend/0/input_headers", "remove it"},
		"lambda":                   {at("endpoints", 0, "backend", 0, "extra_config", "backend/lambda"), object{}, "/endpoints/0/backend/0/extra_config/backend~1lambda", "past the bridge"},
		"unknown endpoint":         {at("endpoints", 0, "backend", 0, "extra_config"), bind("refund.create"), "/endpoints/0/backend/0/extra_config/edge-idempotency/endpoint", `those of "refunds.create"`},
		"wrong path":               {at("endpoints", 3), testEndpoint("POST", "/api/carts/checkout", "carts.checkout"), "/endpoints/3", "has POST /api/carts/{cart_id}/checkout"},
		"wrong method":             {at("endpoints", 4), testEndpoint("POST", "/api/files", "files.list"), "/endpoints/4", "has GET /api/files"},
		"no operations":            {at("endpoints", 4), testEndpoint("GET", "/api/operations/{id}", "_operations"), "/endpoints/4/backend/0/extra_config/edge-idempotency/endpoint", "no backend of the policy has `operations`"},
		"recovery is missing":      {at("endpoints", 1), testEndpoint("GET", "/api/files/x", ""), "/endpoints", "has no endpoint GET /api/refunds/by-idempotency-key/{key}"},
		"operations are missing":   {policyAt("backend", "operations"), object{"path": "/api/operations/{operation_id}", "secret": object{"env": "S"}}, "/endpoints", "no endpoint GET /api/operations/{operation_id}/output"},
		"unknown upstream":         {at("endpoints", 4, "backend", 0, "extra_config", "plugin/http-client", own, "upstream"), "x", "/endpoints/4/backend/0/extra_config", `no upstream "x"`},
		"another upstream":         {at("endpoints", 1, "backend", 0, "extra_config", "plugin/http-client", own, "upstream"), "x", "/endpoints/1/backend/0/extra_config", "with another upstream"},
		"no validator":             {at("endpoints", 0, "extra_config"), nil, "/endpoints/0/extra_config/auth~1validator", "propagate_claims for tenant_id, project_id, sub"},
		"validator that differs":   {at("endpoints", 1, "extra_config", "auth/validator", "cookie_key"), "other", "/endpoints/1/extra_config/auth~1validator", "another validator"},
		"cache of a local file":    {at("endpoints", 0, "extra_config", "auth/validator"), object{"cache": true, "jwk_local_path": "x", "propagate_claims": testValidator()["propagate_claims"]}, "/endpoints/0/extra_config/auth~1validator/cache", "remove cache"},
		"claim not propagated":     {at("endpoints", 0, "extra_config", "auth/validator", "propagate_claims", 1), list{"other", "X-Other"}, "/endpoints/0/extra_config/auth~1validator/propagate_claims", `claim "project_id"`},
		"claim over the token":     {at("endpoints", 0, "extra_config", "auth/validator", "auth_header_name"), "X_Claim_Tenant", "/endpoints/0/extra_config/auth~1validator/propagate_claims/0", "before the validator reads it"},
		"user in the token's URL":  {at("extra_config", serverPlugin, own, "upstreams", "backend", "client_credentials"), object{"token_url": "https://u:p@a/t", "client_id": "a", "client_secret": "b"}, ownAt + "/upstreams/backend/client_credentials/token_url", "without a user"},
		"claim with one word":      {at("endpoints", 0, "extra_config", "auth/validator", "propagate_claims", 1), list{"project_id"}, "/endpoints/0/extra_config/auth~1validator/propagate_claims/1", "a claim and a header"},
		"two claims, one header":   {at("endpoints", 0, "extra_config", "auth/validator", "propagate_claims", 1), list{"project_id", "x-claim-tenant"}, "/endpoints/0/extra_config/auth~1validator/propagate_claims/0", "a header of its own"},
		"claim's header unlisted":  {at("endpoints", 0, "input_headers"), list{"X-Claim-Tenant", "X-Claim-Project"}, "/endpoints/0/input_headers", `add "X-Claim-Subject"`},
		"short timeout":            {at("endpoints", 1, "timeout"), "31s", "/endpoints/1/timeout", `"32s" or more`},
		"short service timeout":    {at("timeout"), nil, "/endpoints/1/timeout", "after 2s"},
	}
}

// open is an endpoint that is not bound. With claims it has a validator.
func open(headers, claims list) object {
	endpoint := object{"endpoint": "/open", "method": "GET", "input_headers": headers, "backend": list{object{"host": list{"http://other"}, "url_pattern": "/open"}}}
	if claims != nil {
		endpoint["extra_config"] = object{"auth/validator": object{"alg": "ES256", "propagate_claims": claims}}
	}
	return endpoint
}

func withRoles(endpoint object) object {
	validator := endpoint["extra_config"].(object)["auth/validator"].(object)
	validator["propagate_claims"] = append(validator["propagate_claims"].(list), list{"roles", "X-Roles"})
	return endpoint
}

// An endpoint that is not bound can take a claim that its own validator writes.
func TestAnEndpointThatIsNotBoundTakesItsOwnClaims(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	set(config, open(list{"X-Claim-Tenant"}, list{list{"tenant_id", "x-claim-tenant"}}), "endpoints", 4)
	if _, err := Check(writeConfig(t, config), LoadOptions{Plugin: true}); err != nil {
		t.Error(err)
	}
}

func TestEachMistakeIsToldWithItsPlaceAndWhatToChange(t *testing.T) {
	for name, test := range changes() {
		config := clone(t, testConfig(t, "http://backend:1"))
		set(config, clone(t, object{"value": test.value})["value"], test.path...)
		_, err := Check(writeConfig(t, config), LoadOptions{Plugin: true})
		var mistakes Mistakes
		if !errors.As(err, &mistakes) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := false
		for _, mistake := range mistakes {
			found = found || mistake.Pointer == test.pointer && strings.Contains(mistake.Text, test.text)
		}
		if !found {
			t.Errorf("%s: %q at %s is not among\n%v", name, test.text, test.pointer, err)
		}
	}
}

// A validator would refuse who has no token.
func TestCallersWithAPIKeysNeedTheirHeaderAndNoValidator(t *testing.T) {
	config := clone(t, testConfig(t, "http://backend:1"))
	set(config, apiKeys, policyAt("identity", "sources", 0)...)
	set(config, object{"url": "http://keys:1"}, "extra_config", serverPlugin, own, "upstreams", "keys")
	if _, err := Check(writeConfig(t, config), LoadOptions{Plugin: true}); err != nil {
		t.Errorf("with validators: %v", err)
	}
	for index := range 3 {
		set(config, nil, "endpoints", index, "extra_config", "auth/validator")
	}
	_, err := Check(writeConfig(t, config), LoadOptions{Plugin: true})
	if err == nil || !strings.Contains(err.Error(), `/endpoints/0/input_headers`) || !strings.Contains(err.Error(), `add "x-partner-key"`) {
		t.Errorf("without the header: %v", err)
	}
	for index := range 3 {
		set(config, list{"X-Partner-Key"}, "endpoints", index, "input_headers")
	}
	if _, err := Check(writeConfig(t, config), LoadOptions{Plugin: true}); err != nil {
		t.Errorf("with the header: %v", err)
	}
}

func TestTheConfigurationWithoutMistakesHasNone(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	for _, form := range []string{"plugin", "older names", "custom build"} {
		endpoints := config["endpoints"].(list)
		for index := range endpoints {
			extra := endpoints[index].(object)["extra_config"].(object)
			backend := endpoints[index].(object)["backend"].(list)[0].(object)
			bound := backend["extra_config"].(object)
			switch form {
			case "older names":
				extra["github.com/devopsfaith/krakend-jose/validator"] = extra["auth/validator"]
				bound[aliases[clientPlugin]] = bound[clientPlugin]
				delete(extra, "auth/validator")
				delete(bound, clientPlugin)
			}
		}
		if service := config["extra_config"].(object); form == "older names" {
			service[aliases[serverPlugin]] = service[serverPlugin]
			delete(service, serverPlugin)
		} else if form == "custom build" { // KrakenD looks for no plugin of that name.
			set(config, list{}, "extra_config", aliases[serverPlugin], "name")
		}
		notes, err := Check(writeConfig(t, config), LoadOptions{Plugin: form != "custom build", Aliases: aliases})
		if err != nil || len(notes) != 0 {
			t.Errorf("%s: %q, %v", form, notes, err)
		}
	}
}

func TestAllMistakesComeAtOnceTheModulesToo(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	set(config, "NONE", "extra_config", serverPlugin, own, "policy", "routes", 1, "policy")
	set(config, 2, "endpoints", 0, "concurrent_calls")
	set(config, "json", "endpoints", 1, "output_encoding")
	_, err := Load(writeConfig(t, config), LoadOptions{Plugin: true})
	for _, wanted := range []string{"3 mistakes", "/routes/1/policy", "/endpoints/0/concurrent_calls (POST /api/refunds)", "/endpoints/1/output_encoding"} {
		if err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%q is not in %v", wanted, err)
		}
	}
}

// Mistakes in addresses come with the others, and a number that wazero cannot have is told, too.
func TestNumbersAndAddressesAreToldWithTheOthers(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	set(config, "9464", "extra_config", serverPlugin, own, "metrics_listen")
	set(config, 2, "endpoints", 0, "concurrent_calls")
	for _, memory := range []int{1, 5000, -1} {
		set(config, memory, "extra_config", serverPlugin, own, "memory_mib")
		_, err := Load(writeConfig(t, config), LoadOptions{Plugin: true})
		for _, wanted := range []string{"3 mistakes", ownAt + "/memory_mib: ", ownAt + "/metrics_listen: address 9464: missing port", "/endpoints/0/concurrent_calls"} {
			if err == nil || !strings.Contains(err.Error(), wanted) {
				t.Errorf("%d: %q is not in %v", memory, wanted, err)
			}
		}
	}
}

func TestNotes(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	set(config, config["endpoints"].(list)[:4], "endpoints")
	delete(config, "read_timeout")
	set(config, true, "allow_insecure_connections")
	set(config, object{}, "endpoints", 0, "backend", 0, "extra_config", "modifier/lua-backend")
	set(config, object{}, "endpoints", 0, "extra_config", "modifier/lua-proxy")
	set(config, list{"before", "limit"}, policyAt("routes", 0, "query")...)
	set(config, list{"limit"}, "endpoints", 0, "input_query_strings")
	set(config, object{"url": "http://calls:1", "timeout_ms": 100, "circuit_breaker": object{"interval": 1, "timeout": 1, "max_errors": 1}}, "extra_config", serverPlugin, own, "upstreams", "calls")
	set(config, object{"token_url": "http://tokens/t", "client_id": "a", "client_secret": "b"}, "extra_config", serverPlugin, own, "upstreams", "calls", "client_credentials")
	notes, err := Check(writeConfig(t, config), LoadOptions{Plugin: true})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(notes, "\n")
	for _, wanted := range []string{"no endpoint of krakend.json is bound to files.list", "/read_timeout", "/allow_insecure_connections: certificates",
		"extra_config/modifier~1lua-backend (POST /api/refunds): it can change header lines", "/endpoints/0/extra_config/modifier~1lua-proxy",
		`/endpoints/0/input_query_strings (POST /api/refunds): the policy lets the parameter "before" through`,
		"/upstreams/calls/circuit_breaker: no endpoint is bound to this upstream", "/upstreams/calls/timeout_ms: no endpoint", "/token_url: the secret and the token go over the network in clear text"} {
		if !strings.Contains(all, wanted) {
			t.Errorf("%q is not in %s", wanted, all)
		}
	}
}

func TestAFileThatIsNoExpandedJSONIsNamedAsWhatItIs(t *testing.T) {
	for text, wanted := range map[string]string{
		"{\"version\": 3,\n {{ include \"x\" }}}": "FC_OUT",
		"version: 3\n":            "line 1",
		"{\"endpoints\": 3}":      "endpoints",
		"{\"timeout\": \"soon\"}": "/timeout: \"soon\" is no duration",
		"{\"endpoints\": [{}, {\"timeout\": \"soon\"}]}": "/endpoints/1/timeout: \"soon\" is no duration",
	} {
		if _, err := Check(writeText(t, text), LoadOptions{}); err == nil || !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Check("/none.json", LoadOptions{}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
}

func TestTheFileIsFound(t *testing.T) {
	for _, test := range []struct {
		variables map[string]string
		arguments []string
		wanted    string
	}{
		{nil, []string{"krakend", "run", "-c", "a.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-ca.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-c=a.json"}, "a.json"},
		{nil, []string{"krakend", "run", "--config", "a.json", "-d"}, "a.json"},
		{nil, []string{"krakend", "run", "--config=a.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-dc", "a.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-ddca.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-dc=a.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-d", "-c", "a.json"}, "a.json"},
		{nil, []string{"krakend", "-c", "a.json", "run"}, "a.json"},
		{nil, []string{"krakend", "--debug", "--config", "a.json", "run"}, "a.json"},
		{nil, []string{"krakend", "run", "-c", "b.json", "--config=a.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-p", "8080", "-c", "a.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-dp", "-c", "-c", "a.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-p8080", "--port", "-cb.json", "-c", "a.json"}, "a.json"},
		{nil, []string{"krakend", "run", "-d=1", "-c", "-a.json"}, "-a.json"},
		{nil, []string{"krakend", "run", "-c=a=b.json"}, "a=b.json"},
		{nil, []string{"krakend", "run", "--", "-c", "a.json"}, ""},
		{nil, []string{"krakend", "run", "-"}, ""},
		{nil, []string{"krakend", "run", "-c"}, ""},
		{nil, []string{"-c"}, ""},
		{nil, nil, ""},
		{nil, []string{"krakend", "run"}, ""},
		{map[string]string{"FC_ENABLE": "1"}, []string{"krakend", "-c", "a.json"}, ""},
		{map[string]string{"FC_ENABLE": "1", "FC_OUT": "b.json"}, []string{"krakend", "-c", "a.json"}, "b.json"},
		{map[string]string{"FC_OUT": "b.json"}, []string{"krakend", "-c", "a.json"}, "a.json"},
		{map[string]string{ConfigVariable: "c.json", "FC_ENABLE": "1"}, []string{"krakend", "-c", "a.json"}, "c.json"},
	} {
		for _, name := range []string{ConfigVariable, flexibleEnable, flexibleOut} {
			t.Setenv(name, test.variables[name])
		}
		file, err := ConfigFile(test.arguments)
		if file != test.wanted || (err == nil) == (test.wanted == "") {
			t.Errorf("%v %v: %q, %v", test.variables, test.arguments, file, err)
		}
	}
}

func TestTheModuleSeesTheVariablesThatThePolicyNames(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	set(config, object{"path": "/api/operations/{operation_id}", "secret": list{object{"env": "ONE"}, object{"env": "TWO"}}}, "extra_config", serverPlugin, own, "policy", "backend", "operations")
	plan, err := read(writeConfig(t, config), LoadOptions{LookupEnv: func(name string) (string, bool) { return "value of " + name, name != "TWO" }})
	if err != nil || len(plan.environment) != 1 || plan.environment["ONE"] != "value of ONE" {
		t.Errorf("%v %v", plan.environment, err)
	}
}

func TestPolicyFilesAreReadFromTheGivenDirectory(t *testing.T) {
	directory := t.TempDir()
	config := testConfig(t, "http://backend:1")
	policy := config["extra_config"].(object)[serverPlugin].(object)[own].(object)["policy"]
	text := writeConfig(t, policy.(object))
	if err := os.Rename(text, filepath.Join(directory, "policy.json")); err != nil {
		t.Fatal(err)
	}
	set(config, nil, "extra_config", serverPlugin, own, "policy")
	set(config, "policy.json", "extra_config", serverPlugin, own, "policy_file")
	if _, err := Check(writeConfig(t, config), LoadOptions{Plugin: true, Directory: directory}); err != nil {
		t.Error(err)
	}
}

func TestKrakenDsOwnVariablesTakeThePlaceOfMembers(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	delete(config["endpoints"].(list)[0].(object), "output_encoding")
	for value, wanted := range map[string]string{
		"KRAKEND_TIMEOUT=5s": "/endpoints/1/timeout", "KRAKEND_OUTPUT_ENCODING=json": "/endpoints/0/output_encoding", "KRAKEND_OUTPUT_ENCODING=no-op": "",
	} {
		name, value, _ := strings.Cut(value, "=")
		_, err := Check(writeConfig(t, config), LoadOptions{Plugin: true, LookupEnv: func(asked string) (string, bool) { return value, asked == name }})
		if wanted == "" && err != nil || wanted != "" && (err == nil || !strings.Contains(err.Error(), wanted)) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

func TestTheBufferTakesTheLongestBodyOfThePolicy(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	set(config, 5<<20, "extra_config", serverPlugin, own, "policy", "routes", 0, "max_body_bytes")
	for given, wanted := range map[int]int{0: 5<<20 + 64<<10, 100: 100} {
		set(config, given, "extra_config", serverPlugin, own, "request_buffer_bytes")
		plan, err := read(writeConfig(t, config), LoadOptions{Plugin: true})
		if err != nil || plan.options(LoadOptions{}).RequestBuffer != wanted {
			t.Errorf("%d: %v", given, err)
		}
	}
}

func TestRoutesWithoutRecoveryNeedNoEndpointsForIt(t *testing.T) {
	for name, path := range map[string][]any{
		"shadow": policyAt("routes", 0, "mode"), "document in shadow": policyAt("mode"), "generic": policyAt("backend", "kind"), "off": policyAt("routes", 0, "recovery"),
	} {
		config := testConfig(t, "http://backend:1")
		var value any = strings.Fields(name)[len(strings.Fields(name))-1]
		if name == "off" {
			value = false
		}
		set(config, value, path...)
		endpoints := config["endpoints"].(list)
		set(config, list{endpoints[0], endpoints[3], endpoints[4]}, "endpoints")
		if _, err := Check(writeConfig(t, config), LoadOptions{Plugin: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheModuleIsNotStartedWithNumbersOutOfRange(t *testing.T) {
	for _, memory := range []int{-1, 5000} {
		config := testConfig(t, "http://backend:1")
		set(config, memory, "extra_config", serverPlugin, own, "memory_mib")
		if _, err := Load(writeConfig(t, config), LoadOptions{Plugin: true}); err == nil || !strings.Contains(err.Error(), "memory_mib: set it to at least") || !strings.Contains(err.Error(), "1 mistake:") {
			t.Errorf("%d: %v", memory, err)
		}
	}
}

func TestACustomBuildHasToKnowTheNames(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	for name, known := range map[string]map[string]string{"nothing": nil, "another": {"auth/validator": "x", "router": aliases["router"]}} {
		_, err := Check(writeConfig(t, config), LoadOptions{Aliases: known})
		if err == nil || !strings.Contains(err.Error(), "/endpoints/0/extra_config/auth~1validator (POST /api/refunds): this build") ||
			strings.Contains(err.Error(), "/extra_config/router: this build") != (known == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEachBackendHasAnUpstreamOfItsOwn: what the filter decides for one backend must not arrive at the other.
func TestEachBackendHasAnUpstreamOfItsOwn(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	restate := clone(t, testConfig(t, ""))["extra_config"].(object)[serverPlugin].(object)[own].(object)["policy"].(object)["backend"]
	set(config, object{"restate": restate, "api": object{"kind": "generic"}}, policyAt("backends")...)
	set(config, "restate", policyAt("backend")...)
	if _, err := Check(writeConfig(t, config), LoadOptions{Plugin: true}); err != nil {
		t.Fatal(err)
	}
	set(config, "api", policyAt("routes", 2, "backend")...)
	endpoints := config["endpoints"].(list)
	at := len(endpoints) - 1
	_, err := Check(writeConfig(t, config), LoadOptions{Plugin: true})
	if err == nil || !strings.Contains(err.Error(), `binds the upstream "backend" for the policy's backend "restate", and this endpoint's backend is "api"`) {
		t.Errorf("one upstream for both: %v", err)
	}
	set(config, object{"url": "http://api:1"}, "extra_config", serverPlugin, own, "upstreams", "api")
	set(config, "api", "endpoints", at, "backend", 0, "extra_config", "plugin/http-client", own, "upstream")
	if _, err := Check(writeConfig(t, config), LoadOptions{Plugin: true}); err != nil {
		t.Errorf("one for each: %v", err)
	}
}
