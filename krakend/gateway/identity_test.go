package gateway

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"reflect"
	"testing"

	"edge-idempotency/krakend/bridge"
)

var jwt = &identitySource{
	namespace: []string{"envoy.filters.http.jwt_authn", "jwt"}, authHeader: "Authorization", cookie: "access_token",
	claims: []claim{{[]string{"tenant_id"}, "X-Claim-Tenant"}, {[]string{"realm", "project"}, "X-Claim-Project"}},
}

func TestAClaimCountsIfHeaderAndTokenHaveTheSameText(t *testing.T) {
	for name, test := range map[string]struct {
		claims, tenant string
		wanted         any
	}{
		"string":                  {`{"tenant_id":"acme"}`, "acme", "acme"},
		"UTF-8":                   {`{"tenant_id":"ä\n"}`, "ä\n", "ä\n"},
		"missing":                 {`{}`, "", nil},
		"lone surrogate":          {`{"tenant_id":"a\ud800"}`, "a\uFFFD", nil},
		"empty":                   {`{"tenant_id":""}`, "", nil},
		"null":                    {`{"tenant_id":null}`, "null", nil},
		"number":                  {`{"tenant_id":5}`, "5", nil},
		"2^53+1":                  {`{"tenant_id":9007199254740993}`, "9007199254740992", nil},
		"beyond int64":            {`{"tenant_id":18446744073709551616}`, "-9223372036854775808", nil},
		"boolean":                 {`{"tenant_id":true}`, "true", nil},
		"list":                    {`{"tenant_id":["a","b"]}`, "a,b", nil},
		"list of one":             {`{"tenant_id":["acme"]}`, "acme", nil},
		"object":                  {`{"tenant_id":{"a":1}}`, `{"a":1}`, nil},
		"another header":          {`{"tenant_id":"acme"}`, "evil", nil},
		"no validator's header":   {`{"tenant_id":"acme"}`, "", nil},
		"letter case of the name": {`{"TENANT_ID":"acme"}`, "acme", nil},
		"no JSON":                 {`{"tenant_id":"acme"`, "acme", nil},
		"more than one value":     {`{"tenant_id":"acme"}{}`, "acme", nil},
	} {
		header := withClaims(test.claims, nil)
		if test.tenant != "" || name == "empty" {
			header["X-Claim-Tenant"] = []string{test.tenant}
		}
		if got := tenantOf(jwt.metadata(&http.Request{Header: header})); got != test.wanted {
			t.Errorf("%s: %v, not %v", name, got, test.wanted)
		}
	}
}

func tenantOf(metadata bridge.Metadata) any {
	claims, _ := metadata["envoy.filters.http.jwt_authn"]["jwt"].(map[string]any)
	return claims["tenant_id"]
}

func TestNestedClaimsKeepTheirPath(t *testing.T) {
	header := withClaims(`{"realm":{"project":"health"},"tenant_id":"acme"}`, map[string]string{"X-Claim-Tenant": "acme", "X-Claim-Project": "health"})
	wanted := bridge.Metadata{"envoy.filters.http.jwt_authn": {"jwt": map[string]any{"tenant_id": "acme", "realm": map[string]any{"project": "health"}}}}
	if got := jwt.metadata(&http.Request{Header: header}); !reflect.DeepEqual(got, wanted) {
		t.Errorf("%v", got)
	}
}

func TestTheTokenIsTheOneThatTheValidatorReads(t *testing.T) {
	token := func(tenant string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"tenant_id":"`+tenant+`"}`)) + ".c2ln"
	}
	for name, test := range map[string]struct {
		header http.Header
		wanted any
	}{
		"bearer in any case":     {http.Header{"Authorization": {"bEARER " + token("acme")}}, "acme"},
		"without bearer":         {http.Header{"Authorization": {token("acme")}}, "acme"},
		"first line":             {http.Header{"Authorization": {token("acme"), token("evil")}}, "acme"},
		"not the second line":    {http.Header{"Authorization": {token("evil"), token("acme")}}, nil},
		"cookie":                 {http.Header{"Cookie": {"access_token=" + token("acme")}}, "acme"},
		"the header before":      {http.Header{"Authorization": {token("evil")}, "Cookie": {"access_token=" + token("acme")}}, nil},
		"a broken header before": {http.Header{"Authorization": {"x"}, "Cookie": {"access_token=" + token("acme")}}, nil},
		"an empty header before": {http.Header{"Authorization": {""}, "Cookie": {"access_token=" + token("acme")}}, "acme"},
		"JSON form":              {http.Header{"Authorization": {`{"payload":"` + base64.RawURLEncoding.EncodeToString([]byte(`{"tenant_id":"acme"}`)) + `"}`}}, nil},
		"JSON form with dots":    {http.Header{"Authorization": {`{"payload":"e30","x":".` + base64.RawURLEncoding.EncodeToString([]byte(`{"tenant_id":"acme"}`)) + `."}`}}, nil},
		"white space in it":      {http.Header{"Authorization": {" " + token("acme")}}, nil},
		"four parts":             {http.Header{"Authorization": {token("acme") + ".x"}}, nil},
		"white space":            {http.Header{"Authorization": {"e30." + base64.URLEncoding.EncodeToString([]byte(`{"tenant_id":"acme"} `)) + ".c2ln"}}, "acme"},
		"two claim lines":        {http.Header{"Authorization": {token("acme")}, "X-Claim-Tenant": {"acme", "acme"}}, nil},
		"no token":               {http.Header{}, nil},
	} {
		if test.header["X-Claim-Tenant"] == nil {
			test.header["X-Claim-Tenant"] = []string{"acme"}
		}
		if got := tenantOf(jwt.metadata(&http.Request{Header: test.header})); got != test.wanted {
			t.Errorf("%s: %v, not %v", name, got, test.wanted)
		}
	}
}

func TestWithoutAValidatorNothingIsAnIdentity(t *testing.T) {
	header := withClaims(`{"tenant_id":"acme"}`, map[string]string{"X-Claim-Tenant": "acme"})
	if got := (*identitySource)(nil).metadata(&http.Request{Header: header}); got != nil {
		t.Errorf("%v", got)
	}
}

func TestTheModulesViewOfARequest(t *testing.T) {
	header := alice()
	header["X_claim_tenant"], header["X-Two"] = []string{"evil"}, []string{"b", "a"}
	header["X-Edge-Idempotency"], header["X-Envoy-Retry-On"] = []string{"1"}, []string{"5xx"}
	ctx, own := call{method: "GET", path: "http://other/api/files?b=2&a=%7e", host: "API.example.com.:443", header: header, listed: []string{"X-Two"}}.requests(context.Background())
	source := &identitySource{namespace: jwt.namespace, authHeader: "Authorization", cookie: "access_token", claims: jwt.claims[:1]}
	from, ok := clientOf(ctx)
	if !ok {
		t.Fatal("the client's request was not found")
	}
	path, ok := rawPath(from.request)
	if !ok {
		t.Fatal("the path is refused")
	}
	v := newView(own, from.request, path, &binding{endpoint: "files.list", identity: source})
	var got [][2]string
	for _, line := range v.request.Header {
		if line.Name != "x-request-id" && line.Name != "authorization" {
			got = append(got, [2]string{line.Name, line.Value})
		}
	}
	wanted := [][2]string{
		{":method", "GET"}, {":scheme", "http"}, {":authority", "API.example.com"}, {":path", "/api/files?b=2&a=%7e"},
		{"content-type", "application/json"}, {"idempotency-key", "key-1"}, {"user-agent", "KrakenD"},
		{"x-claim-project", "health"}, {"x-claim-subject", "alice"}, {"x-forwarded-host", "API.example.com.:443"}, {"x-two", "b"}, {"x-two", "a"},
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("%q\nnot\n%q", got, wanted)
	}
	if v.unlisted[bridge.Line{Name: "x-two", Value: "b"}] || !v.unlisted[bridge.Line{Name: "idempotency-key", Value: "key-1"}] {
		t.Errorf("%v", v.unlisted)
	}
	if v.request.RouteMetadata["edge.idempotency"]["endpoint"] != "files.list" {
		t.Errorf("%v", v.request.RouteMetadata)
	}
	operation := newView(own, from.request, path, &binding{endpoint: Operations})
	if operation.request.RouteMetadata != nil || operation.request.Metadata != nil {
		t.Errorf("%v %v", operation.request.RouteMetadata, operation.request.Metadata)
	}
}

func TestClaimsAreNamedAsKrakenDReadsThem(t *testing.T) {
	for _, test := range []struct {
		path   []string
		wanted string
		ok     bool
	}{
		{[]string{"sub"}, "sub", true},
		{[]string{"a", "b"}, "a.b", true},
		{[]string{"https://example.com/tenant"}, "https://example.com/tenant", true},
		{[]string{"a.b"}, "", false},
		{[]string{"a", "b.c"}, "", false},
		{[]string{"a", ""}, "", false},
		{[]string{"http", "b"}, "", false},
	} {
		if name, ok := claimName(test.path); ok != test.ok || ok && name != test.wanted {
			t.Errorf("%q: %q, %v", test.path, name, ok)
		}
	}
}

// HTTP/2 lets such bytes pass.
func TestAPathThatBreaksARequestLineIsRefused(t *testing.T) {
	for uri, wanted := range map[string]bool{"/a?b=c": true, "/a?b=c HTTP/1.1": false, "/a?b\tc": false, "/a?b\x7f": false, "/a?b#c": false} {
		if path, ok := rawPath(&http.Request{RequestURI: uri, URL: &url.URL{Path: "/a"}}); ok != wanted || ok && path != uri {
			t.Errorf("%q: %q, %v", uri, path, ok)
		}
	}
}
