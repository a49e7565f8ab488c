package gateway

import "encoding/json"

// backendView is the part of a backend of a policy document that the checks read.
type backendView struct {
	Kind       string `json:"kind"`
	Cluster    string `json:"cluster"`
	KeyHeader  string `json:"key_header"`
	Operations *struct {
		Path string `json:"path"`
	} `json:"operations"`
}

// defaultBackend is the member `backend` of a policy document: the only backend, or the name of one of `backends`.
type defaultBackend struct {
	name string
	only backendView
}

// UnmarshalJSON reads a name or an object.
func (d *defaultBackend) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &d.name) == nil {
		return nil
	}
	return json.Unmarshal(text, &d.only)
}

// backendName is the name of the backend of a route; it is empty if the document has one backend. Without a route it is that of
// the default.
func (p *policyView) backendName(r *routeView) string {
	if r != nil && r.Backend != "" {
		return r.Backend
	}
	return p.Backend.name
}

// backendOf is the backend of a route, or the default without one.
func (p *policyView) backendOf(r *routeView) backendView {
	if name := p.backendName(r); name != "" {
		return p.Named[name]
	}
	return p.Backend.only
}

// backends are all backends, by the JSON pointers of their objects.
func (p *policyView) backends() map[string]backendView {
	if p.Backend.name == "" {
		return map[string]backendView{pointer("backend"): p.Backend.only}
	}
	all := map[string]backendView{}
	for name, backend := range p.Named {
		all[pointer("backends", name)] = backend
	}
	return all
}

// operations is the path of operations, and the name of their backend. The path is empty if there are none.
func (p *policyView) operations() (path, backend string) {
	if p.Backend.name == "" {
		if own := p.Backend.only.Operations; own != nil {
			path = own.Path
		}
		return path, ""
	}
	for name, own := range p.Named {
		if own.Operations != nil {
			return own.Operations.Path, name
		}
	}
	return "", ""
}
