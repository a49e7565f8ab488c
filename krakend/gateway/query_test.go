package gateway

import (
	"net/http"
	"net/url"
	"testing"
)

func TestTheQueryHasWhatKrakenDLetsThroughAsTheClientWroteIt(t *testing.T) {
	for _, test := range []struct{ client, krakend, wanted string }{
		{"/a", "", "/a"},
		{"/a?", "", "/a"},
		{"/a?x=1", "", "/a"},
		{"/a?x=1", "x=1", "/a?x=1"},
		{"/a?b=2&a=1&flag", "a=1&b=2&flag=", "/a?b=2&a=1&flag"},
		{"/a?b=2&secret=1&a=%7e&b=3", "a=~&b=2&b=3", "/a?b=2&a=%7e&b=3"},
		{"/a?%61=1&A=2", "a=1", "/a?%61=1"},
		{"/a?a=1;b=2&c=%zz&d=1", "d=1", "/a?d=1"},
		{"/a?a=1;b=2&a=3", "a=3", "/a?a=3"},
		{"/a?a=1&&b=2", "a=1&b=2", "/a?a=1&b=2"},
		{"/a?a=1?b=2", "a=1%3Fb%3D2", "/a?a=1?b=2"},
		{"/a?a+b=1", "a+b=1", "/a?a+b=1"},
	} {
		if got := passQuery(test.client, &url.URL{RawQuery: test.krakend}); got != test.wanted {
			t.Errorf("%s: %s, not %s", test.client, got, test.wanted)
		}
	}
}

// The filter and the upstream see the same query. KrakenD's own request says what input_query_strings lets through.
func TestTheUpstreamGetsTheListedParameters(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	config := testConfig(t, upstream.URL)
	set(config, object{"kind": "generic"}, policyAt("backend")...)
	set(config, list{object{"endpoint": "files.list", "methods": list{"GET"}, "path": "/api/files", "policy": "PROHIBITED"}}, policyAt("routes")...)
	set(config, config["endpoints"].(list)[4:], "endpoints")
	g := load(t, config)
	for listed, wanted := range map[string]string{"": "/api/files", "limit=2": "/api/files?limit=2", "admin=1&limit=2": "/api/files?admin=1&limit=2"} {
		ctx, request := call{method: "GET", path: "/api/files?admin=1&limit=2", header: http.Header{}}.requests(t.Context())
		request.URL.RawQuery = listed
		response, err := g.RoundTrip(ctx, "files.list", request)
		if err != nil || response.StatusCode != 200 {
			t.Fatal(response, err)
		}
		_ = response.Body.Close()
		if got := upstream.requests[upstream.count()-1].RequestURI; got != wanted {
			t.Errorf("%q: %s, not %s", listed, got, wanted)
		}
	}
}
