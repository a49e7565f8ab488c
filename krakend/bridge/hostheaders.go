package bridge

// The kinds of header maps (proxy_header_map_type_t).
const (
	mapRequestHeaders       = 0
	mapRequestTrailers      = 1
	mapResponseHeaders      = 2
	mapResponseTrailers     = 3
	mapCallResponseHeaders  = 6
	mapCallResponseTrailers = 7
	lastMap                 = 7
)

// readable gives a header map as the guest can read it now; nil stands for a map that is not there now.
func (in *instance) readable(kind uint32) *Header {
	switch {
	case kind == mapCallResponseHeaders && in.delivering != nil:
		return &in.delivering.header
	case kind == mapCallResponseTrailers && in.delivering != nil && in.delivering.trailer != nil:
		return &in.delivering.trailer
	case in.stream == nil:
		return nil
	}
	s := in.stream
	switch kind {
	case mapRequestHeaders:
		if s.logging || s.request.headersVisible {
			return &s.request.header
		}
	case mapRequestTrailers:
		if s.request.trailersVisible {
			return &s.request.trailer
		}
	case mapResponseHeaders:
		if s.logging && s.response.begun || s.response.headersVisible {
			return &s.response.header
		}
	case mapResponseTrailers:
		if s.logging && s.response.hasTrailer || s.response.trailersVisible {
			return &s.response.trailer
		}
	}
	return nil
}

// writable gives a header map as the guest can change it now. Headers that have gone on belong to the gateway.
func (in *instance) writable(kind uint32) *Header {
	if in.stream == nil || kind > mapResponseTrailers {
		return nil
	}
	side := in.stream.side(direction(kind / 2))
	if kind == mapRequestHeaders || kind == mapResponseHeaders {
		if side.headersVisible && !side.passed {
			return &side.header
		}
		return nil
	}
	// In the last body callback any change of trailers creates them.
	if !side.hasTrailer && side.pieceVisible && side.ended && !side.complete {
		side.hasTrailer, side.trailersVisible = true, true
	}
	if side.hasTrailer && side.trailersVisible {
		return &side.trailer
	}
	return nil
}

func hostGetPairs(in *instance, a []uint64) status {
	kind := uint32(a[0])
	if kind > lastMap {
		return statusBadArgument
	}
	header := in.readable(kind)
	if header == nil {
		return in.give(nil, a[1], a[2])
	}
	return in.giveHeader(*header, a[1], a[2])
}

func hostSetPairs(in *instance, a []uint64) status {
	bytes, ok := in.bytes(a[1], a[2])
	if !ok {
		return statusInvalidMemoryAccess
	}
	header := in.writable(uint32(a[0]))
	lines, ok := readPairs(bytes)
	if header == nil || !ok || !validHeader(lines) {
		return statusBadArgument
	}
	*header = lines
	return statusOK
}

func hostGetMapSize(in *instance, a []uint64) status {
	header := in.readable(uint32(a[0]))
	if header == nil {
		return statusBadArgument
	}
	return in.writeUint32(a[1], uint32(header.size()))
}

func hostGetValue(in *instance, a []uint64) status {
	name, ok := in.bytes(a[1], a[2])
	if !ok {
		return statusInvalidMemoryAccess
	}
	header := in.readable(uint32(a[0]))
	if header == nil {
		if in.stream != nil && in.stream.logging {
			return statusNotFound
		}
		return statusBadArgument
	}
	value, ok := header.first(name)
	if !ok {
		return statusNotFound
	}
	return in.giveText(value, a[3], a[4])
}

// line reads a name and a value from the guest's memory, and gives the header map to change.
func (in *instance) line(a []uint64) (header *Header, name, value string, s status) {
	rawName, okName := in.bytes(a[1], a[2])
	rawValue, okValue := in.bytes(a[3], a[4])
	if !okName || !okValue {
		return nil, "", "", statusInvalidMemoryAccess
	}
	header = in.writable(uint32(a[0]))
	if header == nil || !validLine(rawName, rawValue) {
		return nil, "", "", statusBadArgument
	}
	return header, string(rawName), string(rawValue), statusOK
}

func hostAddValue(in *instance, a []uint64) status {
	header, name, value, s := in.line(a)
	if s == statusOK {
		header.add(name, value)
	}
	return s
}

func hostReplaceValue(in *instance, a []uint64) status {
	header, name, value, s := in.line(a)
	if s == statusOK {
		header.set(lower(name), value)
	}
	return s
}

func hostRemoveValue(in *instance, a []uint64) status {
	name, ok := in.bytes(a[1], a[2])
	if !ok {
		return statusInvalidMemoryAccess
	}
	header := in.writable(uint32(a[0]))
	if header == nil {
		return statusBadArgument
	}
	header.remove(name)
	return statusOK
}
