package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"edge-idempotency/krakend/bridge"
)

// TestTheModuleAndTheBridgeHaveTheSameNames: a member that one of the two does not have would be a check that checks nothing.
func TestTheModuleAndTheBridgeHaveTheSameNames(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	set(config, object{"path": "/api/operations/{operation_id}", "secret": object{"env": "TAG"}}, policyAt("backend", "operations")...)
	set(config, object{"sources": list{apiKeys}}, policyAt("identity")...)
	set(config, object{"sources": testPolicy()["identity"].(object)["sources"]}, policyAt("routes", 0, "identity")...)
	plan, err := read(writeConfig(t, config), LoadOptions{Plugin: true})
	if err != nil {
		t.Fatal(err)
	}
	text, err := bridge.Needs(context.Background(), plan.options(LoadOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	var answer moduleAnswer
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&answer); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	var given struct{ Needs any }
	if err := json.Unmarshal(text, &given); err != nil {
		t.Fatal(err)
	}
	lacking(t, "needs", reflect.TypeFor[policyNeeds](), given.Needs)
}

// lacking tells the members that the module's answer does not have.
func lacking(t *testing.T, at string, wanted reflect.Type, given any) {
	t.Helper()
	switch wanted.Kind() {
	case reflect.Pointer:
		lacking(t, at, wanted.Elem(), given)
	case reflect.Slice:
		if items, ok := given.([]any); ok && len(items) > 0 {
			lacking(t, at, wanted.Elem(), items[0])
		}
	case reflect.Struct:
		for number := range wanted.NumField() {
			name := wanted.Field(number).Tag.Get("json")
			value, ok := given.(object)[name]
			if !ok {
				t.Errorf("%s has no %s", at, name)
			}
			lacking(t, at+"/"+name, wanted.Field(number).Type, value)
		}
	}
}
