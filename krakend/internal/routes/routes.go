// Package routes says which paths KrakenD's router does not reach.
//
// gin looks for an endpoint segment by segment, the text before the parameter, and goes back to the parameter where the text
// leads nowhere. It does not go back from a parameter: /a/{x}/b takes POST /a/1 away from /{p}/{x}, and /a/{x} takes POST /a/1/b
// away from /{p}/{x}/b; the client gets 404 or 405. The way out is an endpoint of its own for what is taken away, here /a/{x}
// and /a/{x}/b. This follows gin's tree.go (1.9 to 1.12), and internal/standin holds it against gin.
package routes

import (
	"maps"
	"slices"
	"strings"
)

// Endpoint is an endpoint of krakend.json.
type Endpoint struct {
	// Path as it stands there.
	Path string
	// For is the path that the endpoint serves, as the policy has it or Path itself. Several can serve parts of one path.
	For string
}

// Lost is a path that gin does not bring to its endpoint.
type Lost struct {
	// Path, as an endpoint of its own that serves what Endpoint does, is found.
	Path string
	// Endpoint is the number of an endpoint that serves the path, Behind of the one that takes it away.
	Endpoint, Behind int
}

// node is a segment of gin's tree.
type node struct {
	texts      map[string]*node
	parameters []edge // the longer prefix first
	// endpoint is the number of the endpoint that ends here, or -1; through is one that goes through here.
	endpoint, through int
	// parameter says that gin comes here by a parameter.
	parameter bool
	path      []string
}

// edge is a parameter, which is behind a text or not.
type edge struct {
	prefix, segment string
	to              *node
}

// Find returns what is lost among the endpoints of one method; nothing twice. A path with a slash at its end can be told as lost
// although gin finds it.
func Find(endpoints []Endpoint) []Lost {
	tree, served := &node{endpoint: -1}, &node{endpoint: -1}
	of := map[string]int{}
	for number, endpoint := range endpoints {
		tree.add(split(endpoint.Path), number)
		own := anonymous(split(endpoint.For))
		if _, known := of[own]; !known {
			of[own] = number
			served.add(split(endpoint.For), number)
		}
	}
	var found []Lost
	known := map[string]bool{}
	tree.each(func(at *node) {
		for _, owner := range of {
			path, ok := meet(at.path, split(endpoints[owner].For))
			if !ok {
				continue
			}
			first, stop := tree.find(path, false)
			rightful, _ := served.find(path, true)
			switch {
			case rightful == nil || known[anonymous(path)]:
				continue
			case stop != nil:
				found = append(found, Lost{"/" + strings.Join(tree.named(path), "/"), rightful.endpoint, stop.through})
			case first != nil && of[anonymous(split(endpoints[first.endpoint].For))] != rightful.endpoint:
				found = append(found, Lost{"/" + strings.Join(tree.named(path), "/"), rightful.endpoint, first.endpoint})
			default:
				continue
			}
			known[anonymous(path)] = true
		}
	})
	slices.SortFunc(found, func(a, b Lost) int { return strings.Compare(a.Path, b.Path) })
	return found
}

func split(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

// prefix is the text before a segment's parameter. gin takes a colon for one, too.
func prefix(segment string) (string, bool) {
	at := strings.IndexAny(segment, "{:*")
	return segment[:max(at, 0)], at >= 0
}

// anonymous writes a path without the names of its parameters.
func anonymous(path []string) string {
	segments := slices.Clone(path)
	for at, segment := range path {
		if before, parameter := prefix(segment); parameter {
			segments[at] = before + "{}"
		}
	}
	return strings.Join(segments, "/")
}

func (n *node) add(rest []string, number int) {
	if len(rest) == 0 {
		n.endpoint = number
		return
	}
	next := &node{endpoint: -1, through: number, path: append(slices.Clip(n.path), rest[0])}
	before, parameter := prefix(rest[0])
	if parameter {
		at := slices.IndexFunc(n.parameters, func(e edge) bool { return e.prefix == before })
		if at >= 0 {
			next = n.parameters[at].to
		} else {
			next.parameter = true
			n.parameters = append(n.parameters, edge{before, rest[0], next})
			slices.SortFunc(n.parameters, func(a, b edge) int { return len(b.prefix) - len(a.prefix) })
		}
	} else if known := n.texts[rest[0]]; known != nil {
		next = known
	} else {
		if n.texts == nil {
			n.texts = map[string]*node{}
		}
		n.texts[rest[0]] = next
	}
	next.add(rest[1:], number)
}

// each visits all nodes, always in the same order.
func (n *node) each(visit func(*node)) {
	visit(n)
	for _, text := range slices.Sorted(maps.Keys(n.texts)) {
		n.texts[text].each(visit)
	}
	for _, e := range n.parameters {
		e.to.each(visit)
	}
}

// find returns the node of the endpoint that gin finds for a path, or the one at which it gives up. Back: it never gives up.
func (n *node) find(rest []string, back bool) (found, stop *node) {
	if len(rest) == 0 {
		switch {
		case n.endpoint >= 0:
			return n, nil
		case !back && (n.parameter || n.texts[""] != nil):
			return nil, n
		}
		return nil, nil
	}
	if !back && n.parameter && len(n.texts)+len(n.parameters) == 0 {
		return nil, n
	}
	if text := n.texts[rest[0]]; text != nil {
		if found, stop = text.find(rest[1:], back); found != nil || stop != nil {
			return found, stop
		}
	}
	for _, e := range n.parameters {
		if takes(e.prefix, rest[0]) {
			if found, stop = e.to.find(rest[1:], back); found != nil || stop != nil {
				return found, stop
			}
		}
	}
	if !back && len(rest) == 1 && rest[0] == "" {
		return nil, n
	}
	return nil, nil
}

// meet is the path that begins as both do, and goes on as the second.
func meet(begin, path []string) ([]string, bool) {
	if len(begin) > len(path) {
		return nil, false
	}
	met := slices.Clone(path)
	for at, segment := range begin {
		var ok bool
		if met[at], ok = meetSegments(segment, path[at]); !ok {
			return nil, false
		}
	}
	return met, true
}

func meetSegments(one, two string) (string, bool) {
	before, parameter := prefix(one)
	other, both := prefix(two)
	switch {
	case !parameter && !both:
		return one, one == two
	case !parameter:
		return one, takes(other, one)
	case !both:
		return two, takes(before, two)
	case strings.HasPrefix(before, other):
		return one, true
	}
	return two, strings.HasPrefix(other, before)
}

// takes says whether a parameter behind a prefix takes a segment.
func takes(prefix, segment string) bool {
	return len(segment) > len(prefix) && strings.HasPrefix(segment, prefix)
}

// named gives the parameters of a path the names that they have in the tree, since gin takes one name in a place.
func (n *node) named(path []string) []string {
	named := slices.Clone(path)
	for at, segment := range path {
		if n == nil {
			break
		}
		before, parameter := prefix(segment)
		if !parameter {
			n = n.texts[segment]
			continue
		}
		edges := n.parameters
		n = nil
		for _, e := range edges {
			if e.prefix == before {
				named[at], n = e.segment, e.to
			}
		}
	}
	return named
}
