package bridge

import (
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// benchBody is the size of both bodies.
const benchBody = 1024

// cpuTime is what the process has used so far. Other processes of a busy machine do not change it, unlike the time of a clock.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// host is a way to run a module.
type host struct {
	name    string
	options CompileOptions
}

var hosts = []host{
	{"compiler", CompileOptions{}},
	{"compiler_without_deadline", CompileOptions{unbounded: true}},
	{"interpreter", CompileOptions{Interpreter: true}},
}

func benchModule(b *testing.B, h host, module func() []byte) *Module {
	b.Helper()
	m, err := Compile(context.Background(), module(), h.options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

func benchBridge(b *testing.B, m *Module, h host) *Bridge {
	o := Options{Compiled: m, Policy: []byte(policy)}
	if h.options.unbounded {
		o.Deadline = -1
	}
	bridge, err := New(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = bridge.Close(context.Background()) })
	return bridge
}

// emptyGuest calls the callbacks of an exchange in a guest that does nothing, without the bridge.
type emptyGuest struct {
	functions [6]api.Function
	stack     [3]uint64
}

func newEmptyGuest(b *testing.B, m *Module) *emptyGuest {
	module, err := m.runtime.InstantiateModule(context.Background(), m.compiled, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		b.Fatal(err)
	}
	var g emptyGuest
	for i, name := range []string{
		"proxy_on_context_create", "proxy_on_request_headers", "proxy_on_request_body",
		"proxy_on_response_headers", "proxy_on_response_body", "proxy_on_delete",
	} {
		g.functions[i] = module.ExportedFunction(name)
	}
	return &g
}

func (g *emptyGuest) exchange(b *testing.B) {
	for _, function := range g.functions {
		if err := function.CallWithStack(context.Background(), g.stack[:]); err != nil {
			b.Fatal(err)
		}
	}
}

// benchExchange makes one exchange with a body of 1 KiB each way.
func benchExchange(b *testing.B, bridge *Bridge, key string, body string) {
	m, err := bridge.Exchange(context.Background(), post("/orders", key, body), func(_ context.Context, m *Message) (*Message, error) {
		if _, err := io.Copy(io.Discard, m.Body); err != nil {
			return nil, err
		}
		return response("200", body, Line{"x-restate-id", "inv_1"}, Line{"content-type", "application/json"}), nil
	})
	if err != nil || m.Header[0].Value != "200" {
		b.Fatal(m, err)
	}
	if _, err := io.Copy(io.Discard, m.Body); err != nil {
		b.Fatal(err)
	}
	m.Body.Close()
}

// BenchmarkExchange measures a keyed request through the built module, and in the same run, in turns, wazero calling a guest
// that does nothing. The ratio is that of both.
func BenchmarkExchange(b *testing.B) {
	body := `{"a":"` + strings.Repeat("x", benchBody-8) + `"}`
	for _, h := range hosts {
		b.Run(h.name, func(b *testing.B) {
			bridge := benchBridge(b, benchModule(b, h, func() []byte { return builtModule(b) }), h)
			empty := newEmptyGuest(b, benchModule(b, h, func() []byte { return guestFile(b, "empty") }))
			var inBridge, inEmpty time.Duration // of CPU
			b.ReportAllocs()
			b.ResetTimer()
			const turn = 500
			for done := 0; done < b.N; done += turn {
				rounds := min(turn, b.N-done)
				start := cpuTime(b)
				for range rounds {
					benchExchange(b, bridge, "key-of-this-request", body)
				}
				inBridge += cpuTime(b) - start
				b.StopTimer()
				start = cpuTime(b)
				for range rounds {
					empty.exchange(b)
				}
				inEmpty += cpuTime(b) - start
				b.StartTimer()
			}
			b.ReportMetric(float64(inBridge.Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(inEmpty.Nanoseconds())/float64(b.N), "empty-cpu-ns/op")
			b.ReportMetric(float64(inBridge)/float64(inEmpty), "ratio")
		})
	}
}

// BenchmarkEmptyGuestInTheBridge measures what the bridge itself costs: the same exchange, and the guest does nothing.
func BenchmarkEmptyGuestInTheBridge(b *testing.B) {
	body := strings.Repeat("x", benchBody)
	for _, h := range hosts {
		b.Run(h.name, func(b *testing.B) {
			bridge := benchBridge(b, benchModule(b, h, func() []byte { return guestFile(b, "empty") }), h)
			b.ReportAllocs()
			start := cpuTime(b)
			for b.Loop() {
				benchExchange(b, bridge, "k", body)
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkInstance measures the start of another instance.
func BenchmarkInstance(b *testing.B) {
	bridge := benchBridge(b, benchModule(b, hosts[0], func() []byte { return builtModule(b) }), hosts[0])
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		in, err := bridge.startInstance()
		if err != nil {
			b.Fatal(err)
		}
		in.shutDown()
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
}

// BenchmarkCompile measures the compilation of the module.
func BenchmarkCompile(b *testing.B) {
	module := builtModule(b)
	start := cpuTime(b)
	for b.Loop() {
		m, err := Compile(context.Background(), module, CompileOptions{})
		if err != nil {
			b.Fatal(err)
		}
		_ = m.Close(context.Background())
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
}
