package bridge

import "strings"

// lower gives a name in lower case; names that are in lower case already are not copied.
func lower(name string) string { return strings.ToLower(name) }

// own gives a copy with names in lower case and some room, which the guest can change.
func (h Header) own() Header {
	const room = 8
	own := make(Header, len(h), len(h)+room)
	for i, line := range h {
		own[i] = Line{lower(line.Name), line.Value}
	}
	return own
}

// sameName compares a name of a header, which is in lower case, with one that the guest gives.
func sameName(name string, given []byte) bool {
	if len(name) != len(given) {
		return false
	}
	for i := range len(name) {
		c := given[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if name[i] != c {
			return false
		}
	}
	return true
}

// first gives the first line with a name.
func (h Header) first(name []byte) (string, bool) {
	for i := range h {
		if sameName(h[i].Name, name) {
			return h[i].Value, true
		}
	}
	return "", false
}

// size is the length of all names and values.
func (h Header) size() int {
	size := 0
	for i := range h {
		size += len(h[i].Name) + len(h[i].Value)
	}
	return size
}

// add appends a line. A pseudo header goes behind the other pseudo headers.
func (h *Header) add(name, value string) {
	line := Line{lower(name), value}
	*h = append(*h, line)
	if strings.HasPrefix(name, ":") {
		lines := *h
		at := 0
		for at < len(lines)-1 && strings.HasPrefix(lines[at].Name, ":") {
			at++
		}
		copy(lines[at+1:], lines[at:len(lines)-1])
		lines[at] = line
	}
}

// remove takes all lines with a name away.
func (h *Header) remove(name []byte) {
	lines := *h
	kept := 0
	for i := range lines {
		if sameName(lines[i].Name, name) {
			continue
		}
		if kept != i {
			lines[kept] = lines[i]
		}
		kept++
	}
	clear(lines[kept:])
	*h = lines[:kept]
}

// set puts one line in the place of all lines with this name.
func (h *Header) set(name, value string) {
	h.remove([]byte(name))
	h.add(name, value)
}

// validLine says whether a line that the guest wrote can stand in an HTTP message. Another line would let the guest's values
// break the message up.
func validLine(name, value []byte) bool {
	if len(name) > 0 && name[0] == ':' {
		name = name[1:]
	}
	if len(name) == 0 {
		return false
	}
	for _, c := range name {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	for _, c := range value {
		if c == 0 || c == '\r' || c == '\n' {
			return false
		}
	}
	return true
}
