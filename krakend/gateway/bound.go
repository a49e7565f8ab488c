package gateway

import "encoding/json"

// EndpointOf reads which endpoint a backend's extra_config is bound to, as KrakenD hands it over after it has read
// krakend.json: extra["plugin/http-client"] (or its older name) with the bridge's name. ok is false if the backend is not bound; the endpoint is "" if it is and does not say to what.
func EndpointOf(extra map[string]any) (endpoint string, ok bool) {
	for _, name := range []string{clientPlugin, aliases[clientPlugin]} {
		named, isObject := extra[name].(map[string]any)
		if isObject && named["name"] == Namespace {
			return endpointIn(named[Namespace]), true
		}
	}
	return "", false
}

func endpointIn(own any) string {
	members, _ := own.(map[string]any)
	endpoint, _ := members["endpoint"].(string)
	return endpoint
}

// bound says whether a backend is bound to the policy, rightly or not.
func (b *krakendBackend) bound() bool {
	text, ok := b.ExtraConfig.get(clientPlugin)
	var named struct{ Name string }
	_, direct := b.ExtraConfig[Namespace]
	return direct || ok && json.Unmarshal(text, &named) == nil && named.Name == Namespace
}
