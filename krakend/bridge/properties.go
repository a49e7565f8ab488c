package bridge

import (
	"bytes"
	"encoding/binary"
	"math"
	"sort"
	"strconv"
	"strings"
)

// recordProperty is the property that holds the record of a request.
const recordProperty = "edge_idempotency"

func hostGetProperty(in *instance, a []uint64) status {
	path, ok := in.bytes(a[0], a[1])
	if !ok {
		return statusInvalidMemoryAccess
	}
	value, s := in.property(path)
	if s != statusOK {
		return s
	}
	switch value := value.(type) {
	case string:
		return in.giveText(value, a[2], a[3])
	case []byte:
		return in.give(value, a[2], a[3])
	}
	in.scratch, s = appendProperty(in.scratch[:0], value)
	if s != statusOK {
		return s
	}
	return in.give(in.scratch, a[2], a[3])
}

func hostSetProperty(in *instance, a []uint64) status {
	path, okPath := in.bytes(a[0], a[1])
	value, okValue := in.bytes(a[2], a[3])
	if !okPath || !okValue {
		return statusInvalidMemoryAccess
	}
	s := in.stream
	if s == nil {
		return statusNotFound
	}
	if string(path) == recordProperty {
		s.record = append(s.record[:0], value...)
		return statusOK
	}
	if s.properties == nil {
		s.properties = map[string][]byte{}
	}
	s.properties[string(path)] = append([]byte(nil), value...)
	return statusOK
}

// property resolves a path whose segments are joined by NUL. The value is a string, []byte, another type of encoding/json,
// Metadata, or a uint64.
func (in *instance) property(path []byte) (any, status) {
	first, rest, _ := cut(path)
	switch string(first) {
	case "plugin_name", "plugin_root_id", "plugin_vm_id":
		if len(rest) > 0 {
			return nil, statusNotFound
		}
		return "edge-idempotency", statusOK
	}
	s := in.stream
	if s == nil {
		return nil, statusNotFound
	}
	switch string(first) {
	case "metadata":
		return metadataAt(s.metadata, rest)
	case "request":
		return s.requestProperty(rest)
	case "xds":
		name, rest, _ := cut(rest)
		if string(name) != "route_metadata" {
			return nil, statusNotFound
		}
		return metadataAt(s.routeMetadata, rest)
	case recordProperty:
		if s.record == nil || len(rest) > 0 {
			return nil, statusNotFound
		}
		return s.record, statusOK
	}
	value, ok := s.properties[string(first)]
	if !ok || len(rest) > 0 {
		return nil, statusNotFound
	}
	return value, statusOK
}

// cut splits the first segment off. An empty last segment is not seen, as in Envoy.
func cut(path []byte) (segment, rest []byte, more bool) {
	return bytes.Cut(path, []byte{0})
}

func metadataAt(metadata Metadata, path []byte) (any, status) {
	if len(path) == 0 {
		return metadata, statusOK
	}
	member, path, _ := cut(path)
	if string(member) != "filter_metadata" {
		return nil, statusNotFound
	}
	if len(path) == 0 {
		all := make(map[string]any, len(metadata))
		for namespace, members := range metadata {
			all[namespace] = members
		}
		return all, statusOK
	}
	namespace, path, _ := cut(path)
	members, ok := metadata[string(namespace)]
	if !ok {
		return nil, statusNotFound
	}
	var value any = members
	for len(path) > 0 {
		var segment []byte
		segment, path, _ = cut(path)
		switch node := value.(type) {
		case map[string]any:
			value, ok = node[string(segment)]
		case []any:
			index, err := strconv.ParseUint(string(segment), 10, 31)
			if ok = err == nil && index < uint64(len(node)); ok {
				value = node[index]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, statusNotFound
		}
	}
	return value, statusOK
}

// requestProperty gives an attribute of the request. All but total_size are read from the headers as they are now.
func (s *stream) requestProperty(path []byte) (any, status) {
	name, rest, _ := cut(path)
	if string(name) == "total_size" && len(rest) == 0 {
		return s.received, statusOK
	}
	if !s.logging && !s.request.headersVisible {
		return nil, statusNotFound
	}
	header := s.request.header
	if string(name) == "headers" {
		var lines []string
		for _, line := range header {
			if sameName(line.Name, rest) {
				lines = append(lines, line.Value)
			}
		}
		if lines == nil {
			return nil, statusNotFound
		}
		return strings.Join(lines, ","), statusOK
	}
	pseudo, ok := map[string]string{
		"method": ":method", "host": ":authority", "scheme": ":scheme", "path": ":path", "url_path": ":path", "query": ":path",
	}[string(name)]
	value, found := header.first([]byte(pseudo))
	if !ok || !found || len(rest) > 0 {
		return nil, statusNotFound
	}
	urlPath, query, _ := strings.Cut(value, "?")
	switch string(name) {
	case "url_path":
		return urlPath, statusOK
	case "query":
		return query, statusOK
	}
	return value, statusOK
}

// appendProperty encodes a value as Envoy does: a string is its bytes, a number 8 bytes, a boolean one, a list or an object
// has the encoding of header maps, metadata as a whole is protobuf, and null cannot be encoded.
func appendProperty(to []byte, value any) ([]byte, status) {
	switch value := value.(type) {
	case string:
		return append(to, value...), statusOK
	case []byte:
		return append(to, value...), statusOK
	case bool:
		if value {
			return append(to, 1), statusOK
		}
		return append(to, 0), statusOK
	case float64:
		return binary.LittleEndian.AppendUint64(to, math.Float64bits(value)), statusOK
	case uint64:
		return binary.LittleEndian.AppendUint64(to, value), statusOK
	case []any:
		pairs := make(Header, 0, len(value))
		for _, item := range value {
			text, s := appendProperty(nil, item)
			if s != statusOK {
				return nil, s
			}
			pairs = append(pairs, Line{Name: string(text)})
		}
		return appendPairs(to, pairs), statusOK
	case map[string]any:
		pairs := make(Header, 0, len(value))
		for _, name := range sortedNames(value) {
			text, s := appendProperty(nil, value[name])
			if s != statusOK {
				return nil, s
			}
			pairs = append(pairs, Line{name, string(text)})
		}
		return appendPairs(to, pairs), statusOK
	case Metadata:
		return appendMetadata(to, value), statusOK
	}
	return nil, statusSerializationFailure
}

func appendPairs(to []byte, pairs Header) []byte {
	at := len(to)
	to = append(to, make([]byte, pairsSize(pairs))...)
	writePairs(to[at:], pairs)
	return to
}

func sortedNames[V any](members map[string]V) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
