package bridge

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

const abiMarker = "proxy_abi_version_0_2_1"

// CompileOptions says how a module is compiled.
type CompileOptions struct {
	// Interpreter chooses wazero's interpreter in place of its compiler.
	Interpreter bool
	// MemoryPages is the most memory that an instance can have, in pages of 64 KiB; 0 stands for DefaultMemoryPages.
	MemoryPages uint32

	// unbounded leaves out the checks that let a deadline end a call. It is for measurements only.
	unbounded bool
}

// mostMemoryPages is 4 GiB, all that a module can address.
const mostMemoryPages = 1 << 16

// machineCode keeps what was compiled until the process ends, so that a gateway with a new configuration starts at once.
var machineCode = wazero.NewCompilationCache()

// Module is a compiled module. Several bridges can use it at the same time.
type Module struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

// Compile compiles a .wasm file and checks that it fits: it imports only functions that the bridge has, with their types, and
// exports the marker of ABI 0.2.1, a memory and an allocator. The error names what does not fit.
func Compile(ctx context.Context, module []byte, o CompileOptions) (*Module, error) {
	config := wazero.NewRuntimeConfig()
	if o.Interpreter {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	pages := o.MemoryPages
	if pages == 0 {
		pages = DefaultMemoryPages
	}
	if pages > mostMemoryPages {
		return nil, fmt.Errorf("MemoryPages is %d: a module can address at most %d pages", pages, mostMemoryPages)
	}
	runtime := wazero.NewRuntimeWithConfig(ctx, config.WithMemoryLimitPages(pages).WithCompilationCache(machineCode))
	m, err := compile(ctx, runtime, module, o.unbounded)
	if err != nil {
		return nil, errors.Join(err, runtime.Close(ctx))
	}
	return m, nil
}

func compile(ctx context.Context, runtime wazero.Runtime, module []byte, unbounded bool) (*Module, error) {
	var err error
	if !unbounded {
		module, err = meter(module)
	}
	var compiled wazero.CompiledModule
	if err == nil {
		compiled, err = runtime.CompileModule(ctx, module)
	}
	if err != nil {
		return nil, fmt.Errorf("the module cannot be compiled; give the bridge the .wasm file that `make wasm` builds: %w", err)
	}
	if err := checkExports(compiled); err != nil {
		return nil, err
	}
	if err := provideImports(ctx, runtime, compiled); err != nil {
		return nil, err
	}
	return &Module{runtime: runtime, compiled: compiled}, nil
}

// Close ends the module. No bridge may use it any more.
func (m *Module) Close(ctx context.Context) error { return m.runtime.Close(ctx) }

// checkExports looks for what a host cannot do without, so that a wrong file is refused before anything runs.
func checkExports(compiled wazero.CompiledModule) error {
	functions := compiled.ExportedFunctions()
	if _, ok := functions[abiMarker]; !ok {
		return fmt.Errorf("the module does not export %s: the bridge hosts modules of proxy-wasm ABI 0.2.1 only", abiMarker)
	}
	if _, ok := compiled.ExportedMemories()["memory"]; !ok {
		return errors.New("the module does not export a memory named \"memory\": it is not a proxy-wasm module")
	}
	for name, function := range functions {
		expected, ok := callbackTypes[name]
		if !ok {
			continue
		}
		actual := signature(function.ParamTypes(), function.ResultTypes())
		if name == "main" || actual == expected {
			continue
		}
		return fmt.Errorf("the module exports %s as %s, and ABI 0.2.1 has %s: the module is for another ABI", name, actual, expected)
	}
	for _, name := range allocators {
		if _, ok := functions[name]; ok {
			return nil
		}
	}
	return fmt.Errorf("the module exports none of %s: the host cannot hand results to it", strings.Join(allocators, ", "))
}

// provideImports makes the host modules out of the module's own import list.
func provideImports(ctx context.Context, runtime wazero.Runtime, compiled wazero.CompiledModule) error {
	var unfit []string
	builders := map[string]wazero.HostModuleBuilder{}
	provided := map[string]bool{}
	for _, definition := range compiled.ImportedFunctions() {
		from, name, _ := definition.Import()
		function, ok := hostFunctions[from+"."+name]
		if !ok {
			unfit = append(unfit, fmt.Sprintf("%s.%s", from, name))
			continue
		}
		actual := signature(definition.ParamTypes(), definition.ResultTypes())
		if actual != function.types {
			unfit = append(unfit, fmt.Sprintf("%s.%s as %s (the bridge has it as %s)", from, name, actual, function.types))
			continue
		}
		if provided[from+"."+name] {
			continue
		}
		provided[from+"."+name] = true
		builder, ok := builders[from]
		if !ok {
			builder = runtime.NewHostModuleBuilder(from)
			builders[from] = builder
		}
		builder.NewFunctionBuilder().
			WithGoModuleFunction(function.wrap(name), definition.ParamTypes(), definition.ResultTypes()).Export(name)
	}
	if len(compiled.ImportedMemories()) > 0 {
		unfit = append(unfit, "a memory")
	}
	if len(unfit) > 0 {
		sort.Strings(unfit)
		return fmt.Errorf("the module imports what the bridge does not have: %s. Use a module and a bridge of the same release",
			strings.Join(unfit, ", "))
	}
	for from, builder := range builders {
		if _, err := builder.Instantiate(ctx); err != nil {
			return fmt.Errorf("the host functions of %s cannot be provided: %w", from, err)
		}
	}
	return nil
}

// signature writes a function's type as "iI>i": i is i32, I is i64, and other types have their code in hexadecimal digits.
func signature(params, results []api.ValueType) string {
	var text strings.Builder
	write := func(types []api.ValueType) {
		for _, valueType := range types {
			switch valueType {
			case api.ValueTypeI32:
				text.WriteByte('i')
			case api.ValueTypeI64:
				text.WriteByte('I')
			default:
				fmt.Fprintf(&text, "<%02x>", valueType)
			}
		}
	}
	write(params)
	text.WriteByte('>')
	write(results)
	return text.String()
}

// allocators are the exports by which a module hands out memory, in the order of preference.
var allocators = []string{"proxy_on_memory_allocate", "malloc"}

// needsExport is the module's own: it says what a policy needs.
const needsExport = "edge_idempotency_needs"

// callbackTypes are the callbacks of the ABI that the bridge makes, and needsExport.
var callbackTypes = map[string]string{
	"_initialize":                 ">",
	"main":                        "ii>i",
	"proxy_on_memory_allocate":    "i>i",
	"malloc":                      "i>i",
	"proxy_on_context_create":     "ii>",
	"proxy_on_vm_start":           "ii>i",
	"proxy_on_configure":          "ii>i",
	"proxy_on_tick":               "i>",
	"proxy_on_http_call_response": "iiiii>",
	"proxy_on_request_headers":    "iii>i",
	"proxy_on_request_body":       "iii>i",
	"proxy_on_request_trailers":   "ii>i",
	"proxy_on_response_headers":   "iii>i",
	"proxy_on_response_body":      "iii>i",
	"proxy_on_response_trailers":  "ii>i",
	"proxy_on_log":                "i>",
	"proxy_on_done":               "i>i",
	"proxy_on_delete":             "i>",
	needsExport:                   "ii>I",
}
