package bridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// rootContext is the id of the context of the configuration. Streams count from 2.
const rootContext = 1

// lifePart is a part of an instance's life. Some host functions and buffers belong to one part only.
type lifePart int

const (
	// initializing: the module can log and read its environment.
	initializing lifePart = iota
	// configuring: the module can read the policy.
	configuring
	running
)

// exitDeadline is the exit code of a call that takes too long.
const exitDeadline = 0x65646765

// instance is one instance of the module. Its mutex is held during calls into the guest, and never while something waits.
type instance struct {
	bridge *Bridge
	// slot is the instance's place in the pool; nil while it is a spare.
	slot *slot
	// ctx is the context of all guest calls; it holds the instance.
	ctx context.Context
	// open is the number of streams that were given to the instance, for the choice of an instance.
	open atomic.Int64
	// expires is the number of the watchdog's tick at which the running call has taken too long; 0: no call runs.
	expires uint64

	mu            sync.Mutex
	module        api.Module
	memory        api.Memory
	allocator     api.Function
	allocateStack [1]uint64
	stack         [8]uint64
	parts         [2][3]guestFunction
	create        guestFunction
	onTick        guestFunction
	onReply       guestFunction
	onLog         guestFunction
	onDone        guestFunction
	onDelete      guestFunction

	life lifePart
	dead bool
	// effective is the context that host calls act on, and stream its stream; nil for the root.
	effective uint32
	stream    *stream
	streams   map[uint32]*stream
	last      uint32
	deferred  []deferredAction
	// deferredRoom is the room that deferred uses again.
	deferredRoom [4]deferredAction
	// series are the metrics by their number.
	series     []*series
	calls      map[uint32]*call
	lastToken  uint32
	delivering *callReply
	scratch    []byte
	tickPeriod time.Duration
	ticks      *time.Ticker
	// gone is closed when the instance has ended.
	gone chan struct{}
	// startLog keeps the guest's errors until it has started.
	startLog []string
}

// guestFunction is a callback of the module; its function is nil if the module does not export it.
type guestFunction struct {
	name     string
	function api.Function
}

func (f *guestFunction) exported() bool { return f.function != nil }

func (b *Bridge) newInstance() *instance {
	in := &instance{
		bridge: b, streams: map[uint32]*stream{}, calls: map[uint32]*call{}, last: rootContext,
		gone: make(chan struct{}),
	}
	in.ctx = context.WithValue(context.Background(), instanceKey{}, in)
	return in
}

// startInstance starts an instance and gives it the policy. An error has the guest's own lines.
func (b *Bridge) startInstance() (*instance, error) {
	in := b.newInstance()
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.start(); err != nil {
		in.end()
		return nil, err
	}
	return in, nil
}

// needs starts the instance without a policy, asks it what the policy needs, and ends it.
func (in *instance) needs() ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	defer in.end()
	if err := in.initialize(); err != nil {
		return nil, err
	}
	ask := guestFunction{needsExport, in.module.ExportedFunction(needsExport)}
	if !ask.exported() {
		return nil, fmt.Errorf("the module does not export %s: use a module and a bridge of the same release", needsExport)
	}
	policy := in.bridge.options.Policy
	address, err := in.call(&guestFunction{allocators[0], in.allocator}, nil, uint64(len(policy)))
	if err == nil && !in.memory.Write(uint32(address), policy) {
		err = errors.New("it gives no memory")
	}
	if err != nil {
		return nil, fmt.Errorf("the module cannot take the policy (the limit of its memory is in MemoryPages): %w", err)
	}
	answer, err := in.call(&ask, nil, address, uint64(len(policy)))
	if err != nil {
		return nil, in.startFailure(ask.name, err)
	}
	text, ok := in.text(answer>>32, answer&math.MaxUint32)
	if !ok {
		return nil, fmt.Errorf("%s returns a text outside of the module's memory: use a module and a bridge of the same release", needsExport)
	}
	return []byte(text), nil
}

func (in *instance) start() error {
	if err := in.initialize(); err != nil {
		return err
	}
	in.life = configuring
	if _, err := in.call(&in.create, nil, rootContext, 0); err != nil {
		return in.startFailure(in.create.name, err)
	}
	if err := in.startCall("proxy_on_vm_start", rootContext, 0); err != nil {
		return err
	}
	if err := in.startCall("proxy_on_configure", rootContext, uint64(len(in.bridge.options.Policy))); err != nil {
		return err
	}
	in.life, in.startLog = running, nil
	return nil
}

// initialize makes the guest ready for a configuration.
func (in *instance) initialize() error {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	module, err := in.bridge.module.runtime.InstantiateModule(in.ctx, in.bridge.module.compiled, config)
	if err != nil {
		return fmt.Errorf("the module cannot be instantiated (its memory limit is in MemoryPages): %w", err)
	}
	in.module, in.memory = module, module.ExportedMemory("memory")
	in.find()
	if err := in.startCall("_initialize"); err != nil {
		return err
	}
	return in.startCall("main", 0, 0)
}

// find looks up the exports once.
func (in *instance) find() {
	look := func(name string) guestFunction {
		return guestFunction{name, in.module.ExportedFunction(name)}
	}
	for d, prefix := range []string{"proxy_on_request_", "proxy_on_response_"} {
		for part, name := range []string{"headers", "body", "trailers"} {
			in.parts[d][part] = look(prefix + name)
		}
	}
	in.create, in.onTick = look("proxy_on_context_create"), look("proxy_on_tick")
	in.onReply, in.onLog = look("proxy_on_http_call_response"), look("proxy_on_log")
	in.onDone, in.onDelete = look("proxy_on_done"), look("proxy_on_delete")
	for _, name := range allocators {
		if in.allocator == nil {
			in.allocator = in.module.ExportedFunction(name)
		}
	}
}

// startCall makes a call of the start. A callback with a result answers whether the module goes on.
func (in *instance) startCall(name string, arguments ...uint64) error {
	function := guestFunction{name, in.module.ExportedFunction(name)}
	if !function.exported() {
		return nil
	}
	result, err := in.call(&function, nil, arguments...)
	if err != nil {
		return in.startFailure(name, err)
	}
	if name != "main" && len(function.function.Definition().ResultTypes()) == 1 && uint32(result) == 0 {
		return in.startFailure(name, errors.New("the module refused its configuration"))
	}
	return nil
}

func (in *instance) startFailure(callback string, err error) error {
	for _, line := range in.startLog {
		err = fmt.Errorf("%w\n%s", err, line)
	}
	if isDeadline(err) {
		return fmt.Errorf("the module did not return from %s in time: shorten the policy, or try again on a machine with less to do", callback)
	}
	return fmt.Errorf("the module does not start, correct its policy: %s: %w", callback, err)
}

// say writes a line of the guest into the log.
func (in *instance) say(level Level, text string) {
	if in.life != running && level >= LevelError {
		in.startLog = append(in.startLog, text)
	}
	in.bridge.log(level, text)
}

// checkDeadline ends the running call if it takes too long. Loops of the guest call it.
func (in *instance) checkDeadline() {
	if in.expires != 0 && in.bridge.ticks.Load() > in.expires {
		panic(sys.NewExitError(exitDeadline))
	}
}

// call calls into the guest, with the mutex held.
func (in *instance) call(f *guestFunction, s *stream, arguments ...uint64) (uint64, error) {
	if !f.exported() {
		return 0, nil
	}
	in.effective, in.stream = rootContext, s
	if s != nil {
		in.effective = s.id
	}
	copy(in.stack[:], arguments)
	in.expires = in.bridge.expiry(in.life)
	err := f.function.CallWithStack(in.ctx, in.stack[:])
	in.expires = 0
	in.effective, in.stream = rootContext, nil
	return in.stack[0], err
}

// callback makes a callback and then what the guest asked for during it. alive is false if the instance is gone.
func (in *instance) callback(f *guestFunction, s *stream, arguments ...uint64) (result uint64, alive bool) {
	if in.dead {
		return 0, false
	}
	result, err := in.call(f, s, arguments...)
	if err != nil {
		in.trapped(f.name, err)
		return 0, false
	}
	for len(in.deferred) > 0 && !in.dead {
		action := in.deferred[0]
		in.deferred[0] = deferredAction{}
		in.deferred = in.deferred[1:]
		in.runDeferred(action)
	}
	if len(in.deferred) == 0 {
		in.deferred = in.deferredRoom[:0]
	}
	return result, !in.dead
}

// newStream opens a stream in the guest.
func (in *instance) newStream(s *stream) {
	for {
		in.last++
		if _, used := in.streams[in.last]; !used && in.last > rootContext {
			break
		}
	}
	s.id = in.last
	in.streams[s.id] = s
	in.callback(&in.create, s, uint64(s.id), rootContext)
}

// closeStream ends a stream, whether it was answered or the client has gone.
func (in *instance) closeStream(s *stream) {
	if s.closed {
		return
	}
	s.logging = true
	in.callback(&in.onLog, s, uint64(s.id))
	s.logging = false
	s.request.hide()
	s.response.hide()
	in.callback(&in.onDone, s, uint64(s.id))
	in.callback(&in.onDelete, s, uint64(s.id))
	s.closed = true
	in.bridge.release(s, toUpstream)
	in.bridge.release(s, toClient)
	delete(in.streams, s.id)
	in.open.Add(-1)
	s.interrupt()
}

// trapped ends the instance after a trap or the deadline.
func (in *instance) trapped(callback string, err error) {
	if in.dead {
		return
	}
	what := "trapped"
	if isDeadline(err) {
		what = "did not return in time"
		in.bridge.timedOut.Add(1)
	} else {
		in.bridge.trapped.Add(1)
	}
	in.bridge.log(LevelCritical, fmt.Sprintf(
		"edge-idempotency: %s %s; its instance is closed, and its %d open requests are answered with 503: %v",
		callback, what, open(in.streams), oneLine(err)))
	in.end()
}

// open counts the streams that are not over.
func open(streams map[uint32]*stream) int {
	count := 0
	for _, s := range streams {
		if !s.over() {
			count++
		}
	}
	return count
}

// end closes the instance and ends its calls. Its streams are given up, but for those whose answer is there as a whole.
func (in *instance) end() {
	if in.dead {
		return
	}
	in.dead = true
	if in.slot != nil {
		in.slot.forget(in)
	}
	close(in.gone)
	if in.ticks != nil {
		in.ticks.Stop()
	}
	cause := CauseFault
	if in.bridge.closed.Load() {
		cause = CauseBusy
	}
	for _, call := range in.calls {
		call.cancel()
	}
	in.deferred = nil
	for _, s := range in.streams {
		if !s.over() {
			s.giveUp(cause)
		}
	}
	if in.module != nil {
		// The instance is gone in any case, so there is nothing to do about an error.
		_ = in.module.Close(context.Background())
	}
}

// setTickPeriod starts, changes or stops the ticks of the instance.
func (in *instance) setTickPeriod(milliseconds uint32) {
	in.tickPeriod = time.Duration(milliseconds) * time.Millisecond
	switch {
	case in.tickPeriod == 0 && in.ticks != nil:
		in.ticks.Stop()
	case in.tickPeriod == 0:
	case in.ticks != nil:
		in.ticks.Reset(in.tickPeriod)
	default:
		in.ticks = time.NewTicker(in.tickPeriod)
		in.bridge.goroutines.Go(func() { in.tickLoop(in.ticks.C) })
	}
}

func (in *instance) tickLoop(ticks <-chan time.Time) {
	for {
		select {
		case <-in.gone:
			return
		case <-ticks:
			in.tick()
		}
	}
}

func (in *instance) tick() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.life == running {
		in.callback(&in.onTick, nil, rootContext)
	}
}

// isDeadline says whether a call failed because the watchdog closed the instance.
func isDeadline(err error) bool {
	var exit *sys.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitDeadline
}

// oneLine writes an error of wazero, which has a stack trace, on one line of bounded length.
func oneLine(err error) string {
	const most = 1000
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
