package bridge

import (
	"reflect"

	"github.com/tetratelabs/wazero"
)

// withoutGoroutines keeps wazero from starting a goroutine for each call of a module that was compiled with
// WithCloseOnContextDone. The goroutine waits for the end of the context, which never ends here: the watchdog closes instances.
// What ends a call then is in the machine code, and stays. wazero has no option for this (1.12.0), so its field is found by its
// name. It is false if this wazero has no such field: then each call starts a goroutine, and all else is the same.
func withoutGoroutines(compiled wazero.CompiledModule) bool {
	engine := member(reflect.ValueOf(compiled), "compiledEngine")
	if engine.Kind() == reflect.Interface {
		engine = engine.Elem()
	}
	modules := member(engine, "compiledModules")
	if modules.Kind() != reflect.Map {
		return false
	}
	found := false
	for each := modules.MapRange(); each.Next(); {
		flag := member(member(each.Value(), "compiledModule"), "ensureTermination")
		if flag.Kind() != reflect.Bool || !flag.CanAddr() {
			return false
		}
		*(*bool)(flag.Addr().UnsafePointer()) = false
		found = true
	}
	return found
}

// member is a member of the struct that a pointer points to; the zero Value if there is none.
func member(pointer reflect.Value, name string) reflect.Value {
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() || pointer.Elem().Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return pointer.Elem().FieldByName(name)
}
