package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// shortNames are the namespaces that the checks rely on, and that KrakenD knows by their older names only if its build says so.
var shortNames = []string{"auth/validator", "router"}

// checkNames checks that KrakenD reads the members that the checks have read.
func (p *plan) checkNames(o LoadOptions) {
	for _, at := range p.document.repeated {
		p.mistakes.add(at, "", "the member is there twice, where letter case does not count: keep one")
	}
	for index, agent := range p.document.AsyncAgents {
		for number, backend := range agent.Backend {
			for _, name := range []string{Namespace, clientPlugin, aliases[clientPlugin]} {
				text, ok := backend.ExtraConfig[name]
				if ok && (name == Namespace || bytes.Contains(text, []byte(Namespace))) {
					p.mistakes.add(pointer("async_agent", index, "backend", number, "extra_config", name), "", "an agent has no client whose identity was verified: bind endpoints only")
				}
			}
		}
	}
	if o.Plugin {
		return
	}
	known := func(at, where string, extra extraConfig) {
		for _, name := range shortNames {
			if _, ok := extra[name]; ok && o.Aliases[name] != aliases[name] {
				p.mistakes.add(at+pointer("extra_config", name), where, "this build of KrakenD does not know the name and overlooks what it says: fill config.ExtraConfigAlias as KrakenD's cmd/krakend-ce/main.go does, before anything else")
			}
		}
	}
	known("", "", p.document.ExtraConfig)
	for index, route := range p.document.Endpoints {
		known(pointer("endpoints", index), strings.ToUpper(route.Method)+" "+route.Endpoint, route.ExtraConfig)
	}
}

// repeatedNames returns the pointers of members that an object of krakend.json has twice, where letter case does not count.
// Go's decoder and KrakenD's choose between such members in different ways. It looks at the document itself, its endpoints and
// their backends, whose names KrakenD knows.
func repeatedNames(text []byte) []string {
	var found []string
	document := members(text, "", &found)
	for index, endpoint := range items(document["endpoints"]) {
		at := pointer("endpoints", index)
		for number, backend := range items(members(endpoint, at, &found)["backend"]) {
			members(backend, at+pointer("backend", number), &found)
		}
	}
	return found
}

func items(text json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	_ = json.Unmarshal(text, &list)
	return list
}

// members reads an object by its names in lower case, and adds the pointers of those that come again.
func members(text []byte, at string, found *[]string) map[string]json.RawMessage {
	object := map[string]json.RawMessage{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return object
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return object
		}
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return object
		}
		folded := strings.ToLower(fmt.Sprint(name))
		if _, again := object[folded]; again {
			*found = append(*found, at+pointer(name))
		}
		object[folded] = value
	}
	return object
}

// Aliases returns the older names of namespaces by the short ones: what config.ExtraConfigAlias of a complete build has, as far as
// the checks rely on it.
func Aliases() map[string]string { return maps.Clone(aliases) }
