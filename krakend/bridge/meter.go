package bridge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Machine code cannot be interrupted, and one call that does not end would stop the whole process at the next garbage collection.
// So the bridge adds to the head of each loop of the module that it counts its turns, and after turnsBetweenChecks of them calls
// the host, which ends the call if it takes too long (docs/decisions/0017-guest-deadline.md). The call is that of a function which
// the module imports in any case, with an argument that the module does not use: so no index in the module changes.

const (
	turnsBetweenChecks = 1 << 16
	// checkContext is the argument of proxy_set_effective_context that stands for a check.
	checkContext = 1<<32 - 1

	checkModule, checkFunction = "env", "proxy_set_effective_context"
)

// The sections of a module that are read (WebAssembly core specification, 5.5).
const (
	sectionImport = 2
	sectionGlobal = 6
	sectionExport = 7
	sectionCode   = 10
)

var errModule = errors.New("the module is no valid WebAssembly")

// reader reads a part of a module. After the end it gives zeros, and failed is true.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(count uint64) []byte {
	if count > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return nil
	}
	taken := r.rest[:count]
	r.rest = r.rest[count:]
	return taken
}

func (r *reader) byte() byte {
	if one := r.take(1); len(one) == 1 {
		return one[0]
	}
	return 0
}

// skipNumber skips a number, which may be signed.
func (r *reader) skipNumber() {
	for r.byte() >= 0x80 {
	}
}

// number reads an unsigned number.
func (r *reader) number() uint64 {
	value, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return value
}

func (r *reader) vector() []byte { return r.take(r.number()) }

func appendVector(to, bytes []byte) []byte {
	return append(binary.AppendUvarint(to, uint64(len(bytes))), bytes...)
}

// meter adds the counting to a module.
func meter(module []byte) ([]byte, error) {
	r := &reader{rest: module}
	metered := append([]byte(nil), r.take(8)...)
	var check, turns uint64
	hasCheck, hasGlobal := false, false
	for len(r.rest) > 0 {
		id := r.byte()
		content := r.vector()
		if !hasGlobal && id >= sectionGlobal && id != 13 {
			hasGlobal = true
			own := content
			if id != sectionGlobal {
				own = []byte{0}
			}
			global, count := addGlobal(own)
			turns += count
			metered = appendVector(append(metered, sectionGlobal), global)
			if id == sectionGlobal {
				continue
			}
		}
		switch id {
		case sectionImport:
			check, turns, hasCheck = readImports(content)
		case sectionCode:
			var head []byte
			if hasCheck {
				head = meterLoop(turns, check)
			}
			var err error
			if content, err = meterCode(content, head); err != nil {
				return nil, err
			}
		}
		metered = appendVector(append(metered, id), content)
	}
	if r.failed {
		return nil, errModule
	}
	return metered, nil
}

// readImports finds the function to call, and counts the globals that are imported.
func readImports(section []byte) (check, globals uint64, found bool) {
	r := &reader{rest: section}
	functions := uint64(0)
	for count := r.number(); count > 0 && !r.failed; count-- {
		from, name := string(r.vector()), string(r.vector())
		switch r.byte() {
		case 0: // A function and its type.
			r.number()
			if from == checkModule && name == checkFunction {
				check, found = functions, true
			}
			functions++
		case 1: // A table: its type and its limits.
			r.byte()
			r.limits()
		case 2: // A memory.
			r.limits()
		case 3: // A global: its type and whether it can change.
			r.take(2)
			globals++
		default:
			r.failed = true
		}
	}
	return check, globals, found && !r.failed
}

func (r *reader) limits() {
	hasMost := r.byte()&1 == 1
	r.number()
	if hasMost {
		r.number()
	}
}

// addGlobal adds the counter behind the other globals, and returns how many these are.
func addGlobal(section []byte) (added []byte, count uint64) {
	r := &reader{rest: section}
	count = r.number()
	added = append(binary.AppendUvarint(nil, count+1), r.rest...)
	added = append(added, 0x7f, 1) // An i32 that changes.
	return append(append(added, setTurns()...), 0x0b), count
}

// setTurns is the instruction i32.const turnsBetweenChecks.
func setTurns() []byte { return appendSigned([]byte{0x41}, turnsBetweenChecks) }

// appendSigned writes a number that is not negative as a signed one.
func appendSigned(to []byte, number uint64) []byte {
	for number >= 0x40 {
		to = append(to, byte(number)|0x80)
		number >>= 7
	}
	return append(to, byte(number))
}

// meterLoop is what stands at the head of each loop.
func meterLoop(turns, check uint64) []byte {
	get, set := binary.AppendUvarint([]byte{0x23}, turns), binary.AppendUvarint([]byte{0x24}, turns)
	return bytes.Join([][]byte{
		get, {0x41, 1, 0x6b}, set, // turns = turns - 1
		get, {0x45, 0x04, 0x40}, // if turns == 0
		setTurns(), set,
		{0x41, 0x7f}, binary.AppendUvarint([]byte{0x10}, check), {0x1a}, // check(-1), without its result
		{0x0b},
	}, nil)
}

func meterCode(section, head []byte) ([]byte, error) {
	r := &reader{rest: section}
	count := r.number()
	metered := binary.AppendUvarint(make([]byte, 0, len(section)+len(section)/8), count)
	for range count {
		body, err := meterFunction(r.vector(), head)
		if err != nil {
			return nil, err
		}
		metered = appendVector(metered, body)
	}
	if r.failed || len(r.rest) > 0 {
		return nil, errModule
	}
	return metered, nil
}

func meterFunction(body, head []byte) ([]byte, error) {
	const loop = 0x03
	r := &reader{rest: body}
	for count := r.number(); count > 0 && !r.failed; count-- {
		r.number()
		r.byte()
	}
	metered := append(make([]byte, 0, len(body)+len(head)), body[:len(body)-len(r.rest)]...)
	for len(r.rest) > 0 {
		before := r.rest
		code := r.byte()
		if err := r.immediates(code); err != nil {
			return nil, err
		}
		metered = append(metered, before[:len(before)-len(r.rest)]...)
		if code == loop && head == nil {
			return nil, fmt.Errorf("the module does not import %s.%s, by which loops end: use a module and a bridge of the same release", checkModule, checkFunction)
		}
		if code == loop {
			metered = append(metered, head...)
		}
	}
	if r.failed {
		return nil, errModule
	}
	return metered, nil
}

// immediates skips what follows an instruction's code (5.4).
func (r *reader) immediates(code byte) error {
	switch {
	case code == 0x0e: // br_table
		for count := r.number() + 1; count > 0 && !r.failed; count-- {
			r.skipNumber()
		}
	case code == 0x11, code >= 0x28 && code <= 0x3e: // call_indirect, loads and stores
		r.skipNumber()
		r.skipNumber()
	case code == 0x1c: // select with types
		r.vector()
	case code >= 0x02 && code <= 0x04, code == 0x0c, code == 0x0d, code == 0x10, code >= 0x20 && code <= 0x26,
		code >= 0x3f && code <= 0x42, code == 0xd0, code == 0xd2:
		r.skipNumber()
	case code == 0x43:
		r.take(4)
	case code == 0x44:
		r.take(8)
	case code == 0xfc:
		switch sub := r.number(); {
		case sub <= 7:
		case sub == 8, sub == 10, sub == 12, sub == 14:
			r.skipNumber()
			r.skipNumber()
		case sub <= 17:
			r.skipNumber()
		default:
			return unknownInstruction(code)
		}
	case code == 0xfd: // Vectors.
		switch sub := r.number(); {
		case sub <= 11, sub == 92, sub == 93: // Loads and stores.
			r.skipNumber()
			r.skipNumber()
		case sub == 12, sub == 13: // A constant, a shuffle.
			r.take(16)
		case sub >= 21 && sub <= 34: // A lane.
			r.take(1)
		case sub >= 84 && sub <= 91: // Loads and stores of a lane.
			r.skipNumber()
			r.skipNumber()
			r.take(1)
		case sub > 255:
			return unknownInstruction(code)
		}
	case code <= 0x01, code == 0x05, code == 0x0b, code == 0x0f, code == 0x1a, code == 0x1b, code >= 0x45 && code <= 0xc4, code == 0xd1:
	default:
		return unknownInstruction(code)
	}
	return nil
}

func unknownInstruction(code byte) error {
	return fmt.Errorf("the module has an instruction %#x that the bridge does not know: use a module and a bridge of the same release", code)
}
