package bridge

import (
	"context"
	"fmt"
	"math"

	"github.com/tetratelabs/wazero/api"
)

// hostFunction is a function that the module can import.
type hostFunction struct {
	// types is its type in the form of signature.
	types string
	// starting says that the module can call it in _initialize and main, too. As in Envoy, others trap there.
	starting bool
	call     func(in *instance, a []uint64) status
}

// instanceKey is the key of the instance in the context of a guest call.
type instanceKey struct{}

// wrap makes a function for wazero. An i32 parameter has undefined upper bits, so functions truncate each one.
func (f hostFunction) wrap(name string) api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) {
		in, ok := ctx.Value(instanceKey{}).(*instance)
		if !ok {
			panic(fmt.Errorf("%s is called without an instance", name))
		}
		if in.life == initializing && !f.starting {
			panic(fmt.Errorf("%s is not allowed in _initialize", name))
		}
		stack[0] = uint64(f.call(in, stack))
	})
}

// hostFunctions are all functions that a module can import, by module and name.
var hostFunctions = map[string]hostFunction{
	"env.proxy_log":                          {types: "iii>i", starting: true, call: hostLog},
	"env.proxy_get_log_level":                {types: "i>i", call: hostLogLevel},
	"env.proxy_get_current_time_nanoseconds": {types: "i>i", call: hostTime},
	"env.proxy_set_tick_period_milliseconds": {types: "i>i", call: hostTickPeriod},
	// It is also called to check the deadline.
	"env.proxy_set_effective_context":    {types: "i>i", starting: true, call: hostEffectiveContext},
	"env.proxy_get_property":             {types: "iiii>i", call: hostGetProperty},
	"env.proxy_set_property":             {types: "iiii>i", call: hostSetProperty},
	"env.proxy_call_foreign_function":    {types: "iiiiii>i", call: hostForeignFunction},
	"env.proxy_get_buffer_bytes":         {types: "iiiii>i", call: hostGetBuffer},
	"env.proxy_set_buffer_bytes":         {types: "iiiii>i", call: hostSetBuffer},
	"env.proxy_get_header_map_pairs":     {types: "iii>i", call: hostGetPairs},
	"env.proxy_set_header_map_pairs":     {types: "iii>i", call: hostSetPairs},
	"env.proxy_get_header_map_size":      {types: "ii>i", call: hostGetMapSize},
	"env.proxy_get_header_map_value":     {types: "iiiii>i", call: hostGetValue},
	"env.proxy_add_header_map_value":     {types: "iiiii>i", call: hostAddValue},
	"env.proxy_replace_header_map_value": {types: "iiiii>i", call: hostReplaceValue},
	"env.proxy_remove_header_map_value":  {types: "iii>i", call: hostRemoveValue},
	"env.proxy_continue_stream":          {types: "i>i", call: hostContinue},
	"env.proxy_close_stream":             {types: "i>i", call: hostClose},
	"env.proxy_send_local_response":      {types: "iiiiiiii>i", call: hostLocalResponse},
	"env.proxy_http_call":                {types: "iiiiiiiiii>i", call: hostHTTPCall},
	"env.proxy_define_metric":            {types: "iiii>i", call: hostDefineMetric},
	"env.proxy_increment_metric":         {types: "iI>i", call: hostIncrementMetric},
	"env.proxy_record_metric":            {types: "iI>i", call: hostRecordMetric},
	"env.proxy_get_metric":               {types: "ii>i", call: hostGetMetric},
	"wasi_snapshot_preview1.environ_sizes_get": {
		types: "ii>i", starting: true, call: environSizesGet,
	},
	"wasi_snapshot_preview1.environ_get": {types: "ii>i", starting: true, call: environGet},
}

// The VM: log, clock, timer, contexts.

func hostLog(in *instance, a []uint64) status {
	level := uint32(a[0])
	text, ok := in.text(a[1], a[2])
	if !ok {
		return statusInvalidMemoryAccess
	}
	if level > uint32(LevelCritical) {
		return statusBadArgument
	}
	in.say(Level(level), text)
	return statusOK
}

func hostLogLevel(in *instance, a []uint64) status {
	return in.writeUint32(a[0], uint32(in.bridge.level))
}

func hostTime(in *instance, a []uint64) status {
	return in.writeUint64(a[0], uint64(in.bridge.options.Now().UnixNano()))
}

func hostTickPeriod(in *instance, a []uint64) status {
	in.setTickPeriod(uint32(a[0]))
	return statusOK
}

func hostEffectiveContext(in *instance, a []uint64) status {
	id := uint32(a[0])
	if id == checkContext {
		in.checkDeadline()
		return statusOK
	}
	if id == rootContext {
		in.effective, in.stream = id, nil
		return statusOK
	}
	s, ok := in.streams[id]
	if !ok {
		return statusBadArgument
	}
	in.effective, in.stream = id, s
	return statusOK
}

func hostForeignFunction(in *instance, a []uint64) status {
	name, ok := in.bytes(a[0], a[1])
	if _, argument := in.bytes(a[2], a[3]); !ok || !argument {
		return statusInvalidMemoryAccess
	}
	if string(name) != "declare_property" {
		return statusNotFound
	}
	// Envoy keeps the declaration in the context of a configuration. The bridge needs no declaration, since it knows the type
	// of the record.
	if in.life != configuring || uint32(a[3]) == 0 {
		return statusBadArgument
	}
	return in.give(nil, a[4], a[5])
}

// Buffers.

const (
	bufferRequestBody         = 0
	bufferResponseBody        = 1
	bufferCallResponseBody    = 4
	bufferVMConfiguration     = 6
	bufferPluginConfiguration = 7
	lastBuffer                = 8
)

func hostGetBuffer(in *instance, a []uint64) status {
	start, most := uint32(a[1]), uint32(a[2])
	end := uint64(start) + uint64(most)
	if end > math.MaxUint32 {
		return statusBadArgument
	}
	var buffer []byte
	switch kind := uint32(a[0]); {
	case kind == bufferRequestBody && in.stream != nil:
		return in.giveBody(&in.stream.request, uint64(start), end, a[3], a[4])
	case kind == bufferResponseBody && in.stream != nil:
		return in.giveBody(&in.stream.response, uint64(start), end, a[3], a[4])
	case kind == bufferRequestBody, kind == bufferResponseBody, kind == bufferVMConfiguration:
	case kind == bufferCallResponseBody && in.delivering != nil:
		buffer = in.delivering.body
	case kind == bufferPluginConfiguration && in.life == configuring:
		buffer = in.bridge.options.Policy
	case kind <= lastBuffer:
		return statusNotFound
	default:
		return statusBadArgument
	}
	size := uint64(len(buffer))
	return in.give(buffer[min(uint64(start), size):min(end, size)], a[3], a[4])
}

// hostSetBuffer replaces the beginning of a body, or appends to it, as Envoy does. It does not write in the middle.
func hostSetBuffer(in *instance, a []uint64) status {
	bytes, ok := in.bytes(a[3], a[4])
	if !ok {
		return statusInvalidMemoryAccess
	}
	if in.stream == nil {
		return statusBadArgument
	}
	kind := uint32(a[0])
	if kind > bufferResponseBody {
		return statusBadArgument
	}
	d := direction(kind)
	side := in.stream.side(d)
	if !side.holding && !side.pieceVisible {
		return statusBadArgument
	}
	start, size, length := uint32(a[1]), uint32(a[2]), side.visibleLength()
	var changed []byte
	switch {
	case start == 0:
		from := int(min(uint64(size), uint64(length)))
		changed = append(make([]byte, 0, len(bytes)+length-from), bytes...)
		changed = changed[:cap(changed)]
		side.copyVisible(changed[len(bytes):], from)
	case uint64(start) >= uint64(length):
		changed = make([]byte, length, length+len(bytes))
		side.copyVisible(changed, 0)
		changed = append(changed, bytes...)
	default:
		return statusBadArgument
	}
	if side.holding {
		in.replaceHeld(in.stream, d, changed)
	} else {
		side.piece = changed
	}
	return statusOK
}

// Streams.

func hostContinue(in *instance, a []uint64) status {
	kind := uint32(a[0])
	if kind > 1 {
		return statusBadArgument
	}
	if in.stream == nil {
		return statusOK
	}
	// Asked to go on in either direction, Envoy takes the request's maps away at once.
	in.stream.request.hide()
	in.deferred = append(in.deferred, deferredAction{stream: in.stream, kind: deferContinue, direction: direction(kind)})
	return statusOK
}

func hostClose(in *instance, a []uint64) status {
	if uint32(a[0]) > 1 {
		return statusBadArgument
	}
	if in.stream != nil {
		in.deferred = append(in.deferred, deferredAction{stream: in.stream, kind: deferReset})
	}
	return statusOK
}

func hostLocalResponse(in *instance, a []uint64) status {
	_, okDetails := in.bytes(a[1], a[2])
	body, okBody := in.bytes(a[3], a[4])
	pairs, okPairs := in.bytes(a[5], a[6])
	if !okDetails || !okBody || !okPairs {
		return statusInvalidMemoryAccess
	}
	code := uint32(a[0])
	if code < 100 || code > 999 {
		return statusBadArgument
	}
	header, ok := readPairs(pairs)
	if !ok || !validHeader(header) {
		return statusBadArgument
	}
	if in.stream == nil {
		return statusOK
	}
	grpc := int32(a[7]) >= 0
	reply := &localReply{status: int(code), header: header, body: append([]byte(nil), body...), grpc: grpc}
	in.deferred = append(in.deferred, deferredAction{stream: in.stream, kind: deferReply, reply: reply})
	return statusOK
}

func validHeader(header Header) bool {
	for _, line := range header {
		if !validLine([]byte(line.Name), []byte(line.Value)) {
			return false
		}
	}
	return true
}

// Metrics.

func hostDefineMetric(in *instance, a []uint64) status {
	name, ok := in.text(a[1], a[2])
	if !ok {
		return statusInvalidMemoryAccess
	}
	series, s := in.bridge.metrics.define(uint32(a[0]), name)
	if s != statusOK {
		return s
	}
	// The kind stands in the low bits of the id, as in Envoy.
	in.series = append(in.series, series)
	return in.writeUint32(a[3], uint32(len(in.series))<<2|uint32(a[0]))
}

// metric gives the series with an id.
func (in *instance) metric(id uint32) (*series, status) {
	index := uint64(id >> 2)
	if index == 0 || index > uint64(len(in.series)) || uint32(in.series[index-1].kind) != id&3 {
		return nil, statusNotFound
	}
	return in.series[index-1], statusOK
}

func hostIncrementMetric(in *instance, a []uint64) status {
	series, s := in.metric(uint32(a[0]))
	if s != statusOK {
		return s
	}
	return series.increment(int64(a[1]))
}

func hostRecordMetric(in *instance, a []uint64) status {
	series, s := in.metric(uint32(a[0]))
	if s != statusOK {
		return s
	}
	series.record(a[1])
	return statusOK
}

func hostGetMetric(in *instance, a []uint64) status {
	series, s := in.metric(uint32(a[0]))
	if s != statusOK {
		return s
	}
	if series.kind == kindHistogram {
		return statusBadArgument
	}
	return in.writeUint64(a[1], series.value.Load())
}

// WASI: the environment only.

const (
	wasiSuccess status = 0
	wasiFault   status = 21
)

func environSizesGet(in *instance, a []uint64) status {
	size := 0
	for _, entry := range in.bridge.environment {
		size += len(entry)
	}
	if in.writeUint32(a[0], uint32(len(in.bridge.environment))) != statusOK || in.writeUint32(a[1], uint32(size)) != statusOK {
		return wasiFault
	}
	return wasiSuccess
}

func environGet(in *instance, a []uint64) status {
	slot, at := uint32(a[0]), uint32(a[1])
	for _, entry := range in.bridge.environment {
		if in.writeUint32(uint64(slot), at) != statusOK || !in.memory.WriteString(at, entry) {
			return wasiFault
		}
		slot += 4
		at += uint32(len(entry))
	}
	return wasiSuccess
}
