package gateway

import (
	"strings"
	"testing"
)

// KrakenD's router does not go back from a parameter (internal/routes): what a bound endpoint loses is a mistake, with both names
// and the endpoint that is missing; what another one loses is a note. With the endpoint nothing is left to be said.
func TestPathsThatTheRouterTakesAwayAreTold(t *testing.T) {
	free := func(path string) object {
		return object{"endpoint": path, "method": "POST", "backend": list{object{"host": list{"http://other"}, "url_pattern": path}}}
	}
	checkout := func(path string) object { return testEndpoint("POST", path, "carts.checkout") }
	for name, test := range map[string]struct {
		add     list
		path    string
		mistake string
		note    string
	}{
		"a longer path": {list{free("/api/carts/special/{x}/y")}, "/api/carts/special/checkout",
			`/endpoints/3 (POST /api/carts/{id}/checkout): POST /api/carts/special/checkout does not get here: KrakenD's router does not go back from POST /api/carts/special/{x}/y; add the endpoint POST /api/carts/special/checkout, bound to "carts.checkout"`, ""},
		"a path that is not in the way": {list{free("/api/{what}")}, "", "", ""},
		"a shorter path, not bound": {list{free("/api/kinds/{x}"), free("/{any}/{y}/b/c")}, "/api/kinds/b/c", "",
			"(POST /{any}/{y}/b/c): POST /api/kinds/b/c does not get here: KrakenD's router does not go back from POST /api/kinds/{x}"},
		"another method": {list{testEndpoint("GET", "/api/carts/special/{x}/y", "")}, "", "", ""},
		"a part of it":   {list{checkout("/api/carts/7/checkout")}, "", "", ""},
		"a part of another": {list{testEndpoint("POST", "/api/carts/{id}/checkout/now", "carts.checkout")}, "",
			"the policy's endpoint carts.checkout has POST /api/carts/{cart_id}/checkout: correct", ""},
		"a part bound to another": {list{testEndpoint("POST", "/api/carts/7/checkout", "refunds.create")}, "",
			"the policy's endpoint refunds.create has POST /api/refunds", ""},
	} {
		config := clone(t, testConfig(t, "http://backend:1"))
		for _, endpoint := range test.add {
			if binds := endpoint.(object)["backend"].(list)[0].(object); endpoint.(object)["method"] == "GET" {
				binds["extra_config"] = object{}
				delete(endpoint.(object), "extra_config")
				endpoint.(object)["input_headers"] = list{}
			}
		}
		all := append(config["endpoints"].(list), test.add...)
		set(config, all, "endpoints")
		notes, err := Check(writeConfig(t, config), LoadOptions{Plugin: true})
		if text := strings.Join(notes, "\n"); !strings.Contains(text, test.note) || test.note == "" && text != "" {
			t.Errorf("%s: the notes are %q", name, notes)
		}
		if test.mistake == "" && err != nil || test.mistake != "" && (err == nil || !strings.Contains(err.Error(), test.mistake)) {
			t.Errorf("%s: %v", name, err)
		}
		if test.path == "" {
			continue
		}
		more := checkout(test.path)
		if test.note != "" {
			more = free(test.path)
		}
		set(config, append(all, more), "endpoints")
		if notes, err := Check(writeConfig(t, config), LoadOptions{Plugin: true}); err != nil || len(notes) > 0 {
			t.Errorf("%s: with %s: %v %q", name, test.path, err, notes)
		}
	}
}

func TestATextWithAColonIsAParameterToTheRouter(t *testing.T) {
	if path := krakendPath("/orders:batch/st*r/{x}/key:{k}/a"); path != "/{segment}/{segment}/{x}/{k}/a" {
		t.Error(path)
	}
}
