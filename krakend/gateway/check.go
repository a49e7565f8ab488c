package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"edge-idempotency/krakend/bridge"
)

// plan is what a krakend.json says, read and checked.
type plan struct {
	document *krakendFile
	service  serviceConfig
	// own is the text of service.
	own        json.RawMessage
	policyText []byte
	module     []byte
	// needs is what the policy needs, and known says whether the module has told it.
	needs policyNeeds
	known bool
	// environment holds the variables that the policy names and the process has.
	environment map[string]string
	bindings    map[string]*binding
	upstreams   map[string]*upstream
	// backends are the names of the policy's backends by the names of the upstreams that are bound for them
	backends map[string]string
	mistakes Mistakes
	// spanForms are the gateway's propagators.
	spanForms []string
	// compared are the mistakes between krakend.json and the policy.
	compared Mistakes
	notes    Mistakes
}

// servicePointer is the place of the bridge's own configuration, metricsPointer that of its metrics_listen.
var (
	servicePointer = pointer("extra_config", serverPlugin, Namespace)
	metricsPointer = servicePointer + "/metrics_listen"
)

// mostInterpreted is the longest policy, in bytes, that a check has interpreted. Machine code is faster for longer ones, and interpreted
// those of megabytes would not end before the deadline of a call.
const mostInterpreted = 16 << 10

// Bounds of memory_mib.
const leastMemoryMiB, mostMemoryMiB = 8, 4096

// read reads krakend.json and what it names. The error is about what cannot be read at all; mistakes are in the plan.
func read(file string, o LoadOptions) (*plan, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("krakend.json cannot be read: %w; start KrakenD with -c FILE, or set %s", err, ConfigVariable)
	}
	document, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	document.override(o.LookupEnv)
	p := &plan{document: document, bindings: map[string]*binding{}, upstreams: map[string]*upstream{}, backends: map[string]string{}}
	if p.own = p.readServerPlugins(o); p.own == nil {
		return p, nil
	}
	decode(p.own, &p.service, servicePointer, func(at, format string, arguments ...any) {
		p.mistakes.add(at, "", format, arguments...)
	})
	p.checkNumbers()
	if listen := p.service.MetricsListen; listen != "" {
		if _, _, err := net.SplitHostPort(listen); err != nil {
			p.mistakes.add(metricsPointer, "", "%v: expected host:port, such as \"127.0.0.1:9464\"", err)
			p.service.MetricsListen = ""
		}
	}
	p.readModule(o)
	p.readPolicy(o)
	p.readNeeds(o)
	p.readUpstreams(o)
	p.spanForms = p.readPropagators(o)
	p.checkRouter()
	p.checkNames(o)
	if p.known {
		p.checkHeldBodies()
		p.checkPolicy()
	}
	p.checkEndpoints(o)
	if p.known {
		p.noteSettingsOfCalls()
	} else { // Nothing can be said of a policy that is not known.
		p.compared = nil
	}
	return p, nil
}

// readServerPlugins returns the bridge's own configuration; nil if there is none.
func (p *plan) readServerPlugins(o LoadOptions) json.RawMessage {
	at := pointer("extra_config", serverPlugin)
	if _, ok := p.document.ExtraConfig[Namespace]; ok {
		p.mistakes.add(pointer("extra_config", Namespace), "", "KrakenD's schema refuses the name there: move it, as {%q: {\"name\": [%q], %q: {…}}}", serverPlugin, Namespace, Namespace)
	}
	var plugins serverPlugins
	text, ok := p.document.ExtraConfig.get(serverPlugin)
	if ok {
		if err := json.Unmarshal(text, &plugins); err != nil {
			p.mistakes.add(at, "", "it is no object: write {\"name\": [%q], %q: {…}}", Namespace, Namespace)
			return nil
		}
	}
	if o.Plugin && ok && !slices.Contains(plugins.Name, Namespace) {
		p.mistakes.add(at+"/name", "", "add %q: KrakenD gives the plugin a hold of all endpoints only if it is listed, and endpoints that are not bound go on if the configuration is broken", Namespace)
	}
	if plugins.Own == nil {
		p.mistakes.add(at, "", "there is no %q: add {\"name\": [%q], %q: {…}}, with module, policy_file and upstreams", Namespace, Namespace, Namespace)
	}
	return plugins.Own
}

// options are the bridge's.
func (p *plan) options(o LoadOptions) bridge.Options {
	level := p.logLevel()
	options := bridge.Options{
		Module:      p.module,
		Policy:      p.policyText,
		Environment: p.environment,
		Instances:   p.service.Instances,
		Deadline:    time.Duration(p.service.DeadlineMs) * time.Millisecond,
		MemoryPages: uint32(p.service.MemoryMiB) * 16,
		HeldBodies:  p.service.HeldBodiesMiB << 20,
		LogLevel:    &level,
		Log:         o.Log,
		Now:         o.Now,
		Interpreter: p.service.Interpreter,
	}
	options.RequestBuffer, options.ResponseBuffer = p.buffers()
	options.Unavailable = newProblems(&p.needs).message
	options.Upstreams = roundTrippers(p.upstreams)
	if p.service.LogRecords == nil || *p.service.LogRecords {
		options.Record = func(record []byte) { o.Log(bridge.LevelInfo, Namespace+": record "+string(record)) }
	}
	return options
}

// buffers are the most bytes that are kept of one body of a request, and of an answer.
func (p *plan) buffers() (request, response int) {
	request, response = p.service.RequestBufferBytes, p.service.ResponseBufferBytes
	if request == 0 {
		request = p.needs.RequestBuffer
	}
	if response == 0 {
		response = bridge.DefaultBuffer
	}
	return request, response
}

// checkHeldBodies refuses a limit for all bodies that one body exceeds.
func (p *plan) checkHeldBodies() {
	request, response := p.buffers()
	least := (bridge.LeastHeldBodies(max(request, response)) + 1<<20 - 1) >> 20
	if held := p.service.HeldBodiesMiB; held != 0 && held < least {
		p.mistakes.add(servicePointer+"/held_bodies_mib", "", "set it to at least %d, since a third of it has to hold the longest body; 0 stands for the default", least)
	}
}

// logLevel is the level of telemetry/logging, since the module should not write what nobody shows.
func (p *plan) logLevel() bridge.Level {
	text, _ := p.document.ExtraConfig.get("telemetry/logging")
	var logging struct{ Level string }
	_ = json.Unmarshal(text, &logging)
	levels := map[string]bridge.Level{
		"DEBUG": bridge.LevelDebug, "WARNING": bridge.LevelWarn, "ERROR": bridge.LevelError, "CRITICAL": bridge.LevelCritical,
	}
	if level, ok := levels[logging.Level]; ok {
		return level
	}
	return bridge.LevelInfo
}

func (p *plan) readModule(o LoadOptions) {
	at := servicePointer + "/module"
	if p.service.Module == "" {
		p.mistakes.add(at, "", "name the .wasm file of the module")
		return
	}
	if o.ModuleFile != "" {
		p.service.Module = o.ModuleFile
	}
	module, err := os.ReadFile(resolve(o.Directory, p.service.Module))
	if o.Elsewhere && o.ModuleFile == "" && errors.Is(err, fs.ErrNotExist) {
		p.notes.add(at, "", "%s is not on this machine, so the endpoints were not compared with the policy: give the module with --module FILE", p.service.Module)
		return
	}
	if err != nil {
		p.mistakes.add(at, "", "the module cannot be read: %v; name the .wasm file", err)
		return
	}
	p.module = module
}

// The bounds of numbers. A module can address 4096 MiB.
const (
	mostInstances, mostDeadlineMs, mostTimeoutMs = 1024, 60_000, 3_600_000
	mostBufferBytes                              = 1 << 30
	mostHeldMiB                                  = 1 << 20
	numberOutOfRange                             = "expected a number from 0 to %d; 0 stands for the default"
)

// checkNumbers refuses numbers outside of their bounds, and puts the default in their place, with which the other checks go on.
func (p *plan) checkNumbers() {
	for _, number := range []struct {
		name  string
		value *int
		most  int
	}{
		{"instances", &p.service.Instances, mostInstances}, {"deadline_ms", &p.service.DeadlineMs, mostDeadlineMs},
		{"request_buffer_bytes", &p.service.RequestBufferBytes, mostBufferBytes},
		{"response_buffer_bytes", &p.service.ResponseBufferBytes, mostBufferBytes},
		{"held_bodies_mib", &p.service.HeldBodiesMiB, mostHeldMiB},
	} {
		if *number.value < 0 || *number.value > number.most {
			p.mistakes.add(servicePointer+"/"+number.name, "", numberOutOfRange, number.most)
			*number.value = 0
		}
	}
	if memory := &p.service.MemoryMiB; *memory != 0 && (*memory < leastMemoryMiB || *memory > mostMemoryMiB) {
		p.mistakes.add(servicePointer+"/memory_mib", "", "set it to at least %d, which the module needs, and at most %d, which is all that it can address; 0 stands for 64", leastMemoryMiB, mostMemoryMiB)
		*memory = 0
	}
}

// readPolicy reads the text of the policy document.
func (p *plan) readPolicy(o LoadOptions) {
	at := servicePointer + "/policy_file"
	if o.PolicyFile != "" && p.service.PolicyFile != "" {
		p.service.PolicyFile = o.PolicyFile
	}
	switch {
	case p.service.Policy != nil && p.service.PolicyFile != "":
		p.mistakes.add(at, "", "the policy is there twice: keep policy or policy_file")
	case p.service.Policy != nil:
		p.policyText = p.service.Policy
	case p.service.PolicyFile != "":
		text, err := os.ReadFile(resolve(o.Directory, p.service.PolicyFile))
		if err != nil {
			p.mistakes.add(at, "", "the policy cannot be read: %v; name the policy document", err)
			return
		}
		p.policyText = text
	default:
		p.mistakes.add(at, "", "there is no policy: write the document as policy, or name its file in policy_file")
	}
}

// readNeeds asks the module what the policy needs. The mistakes of the policy itself are the module's own lines.
func (p *plan) readNeeds(o LoadOptions) {
	if p.module == nil || p.policyText == nil {
		return
	}
	var answer moduleAnswer
	options := p.options(o)
	// One call about a short policy is not worth machine code for the whole module.
	options.Interpreter = options.Interpreter || o.Elsewhere && len(p.policyText) <= mostInterpreted
	text, err := bridge.Needs(context.Background(), options)
	if err == nil {
		answer, err = readNeeds(text)
	}
	if err != nil {
		p.mistakes.add(servicePointer+"/module", "", "%v", err)
		return
	}
	if answer.Errors != "" {
		p.mistakes.add("policy#", "", "%s", answer.Errors)
		return
	}
	p.needs, p.known = answer.Needs, true
	p.environment = map[string]string{}
	names := slices.Sorted(slices.Values(p.needs.Variables))
	for _, name := range slices.Compact(names) {
		if value, ok := o.LookupEnv(name); ok {
			p.environment[name] = value
		} else if o.Elsewhere {
			p.notes.add("policy#", "", "the variable %s is not set here: set it where KrakenD runs, which refuses the policy without it", name)
		}
	}
}

// resolve returns a path as seen from a directory.
func resolve(directory, path string) string {
	if directory == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(directory, path)
}

// checkRouter checks the service's own switches of the router.
func (p *plan) checkRouter() {
	text, _ := p.document.ExtraConfig.get("router")
	var router struct {
		FixedPath     bool `json:"disable_redirect_fixed_path"`
		TrailingSlash bool `json:"disable_redirect_trailing_slash"`
	}
	_ = json.Unmarshal(text, &router)
	if p.document.ReadTimeout == 0 {
		p.notes.add("/read_timeout", "", "without it a client that stops in the middle of a body keeps its request longer than the endpoint's timeout: set it, for example to \"60s\"")
	}
	const why = "set it to true: a client that follows a redirect may send a POST again as a GET"
	if !router.FixedPath {
		p.mistakes.add("/extra_config/router/disable_redirect_fixed_path", "", why)
	}
	if !router.TrailingSlash {
		p.mistakes.add("/extra_config/router/disable_redirect_trailing_slash", "", why)
	}
}

// checkPolicy checks what the policy cannot have behind KrakenD.
func (p *plan) checkPolicy() {
	if !p.needs.GatewayRoutes {
		p.mistakes.add("policy#/gateway_routes", "", "set it to true: KrakenD chooses the endpoint, and the bridge tells the module its name")
	}
	for _, cluster := range p.needs.Clusters {
		if name, at := cluster[0], cluster[1]; p.upstreams[name] == nil {
			p.mistakes.add("policy#"+at+"/cluster", "", "the module calls %q, and %s/upstreams has no such name: add it", name, servicePointer)
		}
	}
	p.checkSources()
	seen := map[served]string{}
	for at, route := range p.needs.Routes {
		for _, way := range route.Ways {
			place := served{way: way}
			place.Path = anonymous(krakendPath(way.Path))
			if other, ok := seen[place]; ok && other != route.Endpoint && way.Result == "" {
				p.mistakes.add("policy#"+pointer("routes", at), "", "%s %s is also the endpoint %s, and KrakenD does not choose by host: give one of the two another path, or run a gateway for each host",
					way.Method, way.Path, other)
				break
			}
			seen[place] = route.Endpoint
		}
	}
}
