package bridge

import (
	"encoding/binary"
	"sort"
)

// recordProperty is the property that holds the record of a request.
const recordProperty = "edge_idempotency"

// hostGetProperty gives the properties that the filter reads, encoded as Envoy does. Others are not found.
func hostGetProperty(in *instance, a []uint64) status {
	path, ok := in.bytes(a[0], a[1])
	if !ok {
		return statusInvalidMemoryAccess
	}
	s := in.stream
	if s == nil {
		return statusNotFound
	}
	switch string(path) {
	case "metadata":
		in.scratch = appendMetadata(in.scratch[:0], s.metadata)
	case "request\x00total_size":
		in.scratch = binary.LittleEndian.AppendUint64(in.scratch[:0], s.received)
	case "xds\x00route_metadata\x00filter_metadata\x00edge.idempotency\x00endpoint":
		endpoint, ok := s.routeMetadata["edge.idempotency"]["endpoint"].(string)
		if !ok {
			return statusNotFound
		}
		in.scratch = append(in.scratch[:0], endpoint...)
	default:
		return statusNotFound
	}
	return in.give(in.scratch, a[2], a[3])
}

// hostSetProperty takes the record of a request.
func hostSetProperty(in *instance, a []uint64) status {
	path, okPath := in.bytes(a[0], a[1])
	value, okValue := in.bytes(a[2], a[3])
	if !okPath || !okValue {
		return statusInvalidMemoryAccess
	}
	if in.stream == nil || string(path) != recordProperty {
		return statusNotFound
	}
	in.stream.record = append(in.stream.record[:0], value...)
	return statusOK
}

func sortedNames[V any](members map[string]V) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
