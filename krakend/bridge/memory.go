package bridge

import (
	"encoding/binary"
	"math"
)

// status is what a host function answers (proxy_status_t).
type status uint32

const (
	statusOK                   status = 0
	statusNotFound             status = 1
	statusBadArgument          status = 2
	statusSerializationFailure status = 3
	statusInvalidMemoryAccess  status = 6
	statusUnimplemented        status = 12
)

// bytes gives a view of the guest's memory. It is valid until the guest runs again.
func (in *instance) bytes(pointer, length uint64) ([]byte, bool) {
	return in.memory.Read(uint32(pointer), uint32(length))
}

// text copies a string out of the guest's memory.
func (in *instance) text(pointer, length uint64) (string, bool) {
	view, ok := in.bytes(pointer, length)
	return string(view), ok
}

func (in *instance) writeUint32(pointer uint64, value uint32) status {
	if !in.memory.WriteUint32Le(uint32(pointer), value) {
		return statusInvalidMemoryAccess
	}
	return statusOK
}

func (in *instance) writeUint64(pointer uint64, value uint64) status {
	if !in.memory.WriteUint64Le(uint32(pointer), value) {
		return statusInvalidMemoryAccess
	}
	return statusOK
}

// allocate asks the guest for memory that then belongs to the guest, and gives a view of it. The guest runs meanwhile, so
// views that were taken before are not valid any more.
func (in *instance) allocate(size int, pointer, length uint64) ([]byte, status) {
	var address uint32
	if size > math.MaxInt32 {
		return nil, statusInvalidMemoryAccess
	}
	if size > 0 {
		in.allocateStack[0] = uint64(uint32(size))
		if err := in.allocator.CallWithStack(in.ctx, in.allocateStack[:]); err != nil {
			// The guest has trapped inside of its own call. That call ends with the same error.
			panic(err)
		}
		address = uint32(in.allocateStack[0])
		if address == 0 {
			return nil, statusInvalidMemoryAccess
		}
	}
	if s := in.writeUint32(pointer, address); s != statusOK {
		return nil, s
	}
	if s := in.writeUint32(length, uint32(size)); s != statusOK {
		return nil, s
	}
	view, ok := in.memory.Read(address, uint32(size))
	if !ok {
		return nil, statusInvalidMemoryAccess
	}
	return view, statusOK
}

// give hands bytes over to the guest. No bytes are the pointer 0 and the length 0.
func (in *instance) give(bytes []byte, pointer, length uint64) status {
	view, s := in.allocate(len(bytes), pointer, length)
	if s == statusOK {
		copy(view, bytes)
	}
	return s
}

// giveBody is give for a part of the body that the guest sees.
func (in *instance) giveBody(side *side, start, end, pointer, length uint64) status {
	size := uint64(side.visibleLength())
	start, end = min(start, size), min(end, size)
	view, s := in.allocate(int(end-start), pointer, length)
	if s == statusOK {
		side.copyVisible(view, int(start))
	}
	return s
}

// giveText is give for a string.
func (in *instance) giveText(text string, pointer, length uint64) status {
	view, s := in.allocate(len(text), pointer, length)
	if s == statusOK {
		copy(view, text)
	}
	return s
}

// giveHeader hands header lines over in the ABI's encoding. No lines are no bytes.
func (in *instance) giveHeader(header Header, pointer, length uint64) status {
	if len(header) == 0 {
		return in.give(nil, pointer, length)
	}
	view, s := in.allocate(pairsSize(header), pointer, length)
	if s == statusOK {
		writePairs(view, header)
	}
	return s
}

// pairsSize is the size of header lines in the ABI's encoding: their number, the lengths of each name and value, then all
// names and values with a NUL after each.
func pairsSize(header Header) int {
	size := 4
	for i := range header {
		size += 10 + len(header[i].Name) + len(header[i].Value)
	}
	return size
}

// writePairs writes into view, whose length is pairsSize(header).
func writePairs(view []byte, header Header) {
	binary.LittleEndian.PutUint32(view, uint32(len(header)))
	lengths, texts := view[4:], view[4+8*len(header):]
	for i := range header {
		name, value := header[i].Name, header[i].Value
		binary.LittleEndian.PutUint32(lengths[8*i:], uint32(len(name)))
		binary.LittleEndian.PutUint32(lengths[8*i+4:], uint32(len(value)))
		n := copy(texts, name)
		texts[n] = 0
		v := copy(texts[n+1:], value)
		texts[n+1+v] = 0
		texts = texts[n+v+2:]
	}
}

// Above these Envoy reads a map that the guest sends as empty.
const (
	maxPairsBytes = 1 << 20
	maxPairs      = 1024
)

// readPairs reads header lines in the ABI's encoding. ok is false if they are malformed or above Envoy's limits.
func readPairs(bytes []byte) (header Header, ok bool) {
	if len(bytes) == 0 {
		return nil, true
	}
	if len(bytes) > maxPairsBytes || len(bytes) < 4 {
		return nil, false
	}
	count := binary.LittleEndian.Uint32(bytes)
	rest := bytes[4:]
	if count > maxPairs || uint64(len(rest)) < uint64(count)*8 {
		return nil, false
	}
	lengths, texts := rest[:count*8], rest[count*8:]
	take := func(length uint32) (string, bool) {
		if uint64(len(texts)) < uint64(length)+1 || texts[length] != 0 {
			return "", false
		}
		text := string(texts[:length])
		texts = texts[length+1:]
		return text, true
	}
	header = make(Header, 0, count)
	for ; len(lengths) > 0; lengths = lengths[8:] {
		name, okName := take(binary.LittleEndian.Uint32(lengths))
		value, okValue := take(binary.LittleEndian.Uint32(lengths[4:]))
		if !okName || !okValue {
			return nil, false
		}
		header = append(header, Line{lower(name), value})
	}
	return header, len(texts) == 0
}
