package bridge

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// The wire format of envoy.config.core.v3.Metadata (map<string, Struct> filter_metadata = 1), google.protobuf.Struct
// (map<string, Value> fields = 1), ListValue (repeated Value values = 1) and Value.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5

	valueNull   = 1
	valueNumber = 2
	valueString = 3
	valueBool   = 4
	valueStruct = 5
	valueList   = 6
)

// maxRecordDepth bounds the structs and lists inside of each other in a record.
const maxRecordDepth = 16

func appendField[B string | []byte](to []byte, number byte, bytes B) []byte {
	to = append(to, number<<3|wireBytes)
	to = binary.AppendUvarint(to, uint64(len(bytes)))
	return append(to, bytes...)
}

func appendEntry(to []byte, name string, value []byte) []byte {
	return appendField(to, 1, appendField(appendField(nil, 1, name), 2, value))
}

func appendMetadata(to []byte, metadata Metadata) []byte {
	for _, namespace := range sortedNames(metadata) {
		to = appendEntry(to, namespace, appendStruct(nil, metadata[namespace]))
	}
	return to
}

func appendStruct(to []byte, members map[string]any) []byte {
	for _, name := range sortedNames(members) {
		to = appendEntry(to, name, appendValue(nil, members[name]))
	}
	return to
}

// appendValue writes a Value. A Go type that encoding/json does not make becomes a Value without a kind.
func appendValue(to []byte, value any) []byte {
	switch value := value.(type) {
	case nil:
		return append(to, valueNull<<3|wireVarint, 0)
	case float64:
		to = append(to, valueNumber<<3|wire64)
		return binary.LittleEndian.AppendUint64(to, math.Float64bits(value))
	case string:
		return appendField(to, valueString, value)
	case bool:
		flag := byte(0)
		if value {
			flag = 1
		}
		return append(to, valueBool<<3|wireVarint, flag)
	case map[string]any:
		return appendField(to, valueStruct, appendStruct(nil, value))
	case []any:
		var items []byte
		for _, item := range value {
			items = appendField(items, 1, appendValue(nil, item))
		}
		return appendField(to, valueList, items)
	}
	return to
}

var errMalformed = errors.New("the message is malformed")

// recordJSON gives a google.protobuf.Struct as a JSON object.
func recordJSON(message []byte) ([]byte, error) {
	members, err := readStruct(message, maxRecordDepth)
	if err != nil {
		return nil, fmt.Errorf("the record of a request is no google.protobuf.Struct: %w", err)
	}
	return appendJSON(make([]byte, 0, 2*len(message)), members)
}

// appendJSON writes what json.Marshal does. Each request has a record, most of whose values are short texts.
func appendJSON(to []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case map[string]any:
		to = append(to, '{')
		for i, name := range sortedNames(value) {
			if i > 0 {
				to = append(to, ',')
			}
			to, _ = appendJSON(to, name)
			var err error
			if to, err = appendJSON(append(to, ':'), value[name]); err != nil {
				return nil, err
			}
		}
		return append(to, '}'), nil
	case string:
		if !strings.ContainsFunc(value, needsEscape) {
			return append(append(append(to, '"'), value...), '"'), nil
		}
	}
	text, err := json.Marshal(value)
	return append(to, text...), err
}

func needsEscape(c rune) bool {
	return c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
}

// readField takes the next field off a message. number is what a varint or a fixed-size field holds.
func readField(message []byte) (field uint64, wire byte, number uint64, bytes, rest []byte, err error) {
	tag, size := binary.Uvarint(message)
	if size <= 0 {
		return 0, 0, 0, nil, nil, errMalformed
	}
	rest, wire = message[size:], byte(tag&7)
	switch wire {
	case wireVarint, wireBytes:
		number, size = binary.Uvarint(rest)
		if size <= 0 {
			return 0, 0, 0, nil, nil, errMalformed
		}
		rest = rest[size:]
		if wire == wireBytes {
			if number > uint64(len(rest)) {
				return 0, 0, 0, nil, nil, errMalformed
			}
			bytes, rest = rest[:number], rest[number:]
		}
	case wire64:
		if len(rest) < 8 {
			return 0, 0, 0, nil, nil, errMalformed
		}
		number, rest = binary.LittleEndian.Uint64(rest), rest[8:]
	case wire32:
		if len(rest) < 4 {
			return 0, 0, 0, nil, nil, errMalformed
		}
		number, rest = uint64(binary.LittleEndian.Uint32(rest)), rest[4:]
	default:
		return 0, 0, 0, nil, nil, errMalformed
	}
	return tag >> 3, wire, number, bytes, rest, nil
}

func readStruct(message []byte, depth int) (map[string]any, error) {
	members := map[string]any{}
	for len(message) > 0 {
		_, wire, _, entry, rest, err := readField(message)
		if err != nil || wire != wireBytes {
			return nil, errMalformed
		}
		message = rest
		var name string
		var value any
		for len(entry) > 0 {
			field, wire, _, bytes, rest, err := readField(entry)
			if err != nil || wire != wireBytes {
				return nil, errMalformed
			}
			entry = rest
			switch field {
			case 1:
				name = string(bytes)
			case 2:
				if value, err = readValue(bytes, depth); err != nil {
					return nil, err
				}
			}
		}
		members[name] = value
	}
	return members, nil
}

func readValue(message []byte, depth int) (value any, err error) {
	if depth == 0 {
		return nil, errMalformed
	}
	for len(message) > 0 {
		field, wire, number, bytes, rest, err := readField(message)
		if err != nil {
			return nil, err
		}
		message = rest
		switch {
		case field == valueNull && wire == wireVarint:
			value = nil
		case field == valueNumber && wire == wire64:
			value = math.Float64frombits(number)
		case field == valueString && wire == wireBytes:
			value = string(bytes)
		case field == valueBool && wire == wireVarint:
			value = number != 0
		case field == valueStruct && wire == wireBytes:
			if value, err = readStruct(bytes, depth-1); err != nil {
				return nil, err
			}
		case field == valueList && wire == wireBytes:
			items := []any{}
			for len(bytes) > 0 {
				_, wire, _, item, rest, err := readField(bytes)
				if err != nil || wire != wireBytes {
					return nil, errMalformed
				}
				bytes = rest
				decoded, err := readValue(item, depth-1)
				if err != nil {
					return nil, err
				}
				items = append(items, decoded)
			}
			value = items
		default:
			return nil, errMalformed
		}
	}
	return value, nil
}
