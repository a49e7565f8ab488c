package gateway

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// decode reads an object of the bridge's own configuration into a struct. add gets each member that the struct does not have
// or that has another type, with its place; at is the place of the object.
func decode(text json.RawMessage, into any, at string, add func(at, format string, arguments ...any)) {
	decodeValue(text, reflect.ValueOf(into).Elem(), at, add)
}

func decodeValue(text json.RawMessage, into reflect.Value, at string, add func(at, format string, arguments ...any)) {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	isStruct := into.Kind() == reflect.Struct
	isTable := into.Kind() == reflect.Map && into.Type().Elem().Kind() == reflect.Struct
	if !isStruct && !isTable {
		wrongType(json.Unmarshal(text, into.Addr().Interface()), into.Type(), at, add)
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		wrongType(err, into.Type(), at, add)
		return
	}
	for name, value := range members {
		if isTable {
			item := reflect.New(into.Type().Elem())
			decodeValue(value, item.Elem(), at+pointer(name), add)
			if into.IsNil() {
				into.Set(reflect.MakeMap(into.Type()))
			}
			into.SetMapIndex(reflect.ValueOf(name), item.Elem())
			continue
		}
		if field := memberNamed(into, name); field.IsValid() {
			decodeValue(value, field, at+pointer(name), add)
			continue
		}
		add(at+pointer(name), "there is no such member: remove it, or take one of %s", strings.Join(memberNames(into.Type()), ", "))
	}
}

// wrongType adds the mistake if err is one.
func wrongType(err error, wanted reflect.Type, at string, add func(at, format string, arguments ...any)) {
	if err == nil {
		return
	}
	found := err.Error()
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		found = withArticle(kind.Value)
	}
	expected := "an object"
	switch wanted.Kind() {
	case reflect.String:
		expected = "a string"
	case reflect.Int:
		expected = "a whole number"
	case reflect.Bool:
		expected = "true or false"
	case reflect.Slice:
		expected = "a list of strings"
	}
	add(at, "it is %s, and %s is expected: correct it", found, expected)
}

func withArticle(noun string) string {
	if strings.HasPrefix(noun, "array") || strings.HasPrefix(noun, "object") {
		return "an " + noun
	}
	return "a " + noun
}

// memberNamed returns the field of a struct for a member's name; letter case does not count, as in encoding/json.
func memberNamed(value reflect.Value, name string) reflect.Value {
	for index, member := range memberNames(value.Type()) {
		if strings.EqualFold(member, name) {
			return value.Field(index)
		}
	}
	return reflect.Value{}
}

func memberNames(kind reflect.Type) []string {
	names := make([]string, kind.NumField())
	for index := range names {
		names[index] = kind.Field(index).Tag.Get("json")
	}
	return names
}
