package bridge

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Bridge runs the module. Its methods can be called from several goroutines.
type Bridge struct {
	options     Options
	level       Level
	module      *Module
	ownsModule  bool
	metrics     *Metrics
	environment []string
	slots       []*slot
	// pauseLimit is how long a paused stream waits for a tick to resume it, when nothing else can.
	pauseLimit time.Duration
	// startPause is how long no instance is started after one did not start.
	startPause time.Duration

	// ticks counts the watchdog's ticks.
	ticks      atomic.Uint64
	stop       chan struct{}
	closed     atomic.Bool
	goroutines sync.WaitGroup
	calls      atomic.Int64
	trapped    atomic.Uint64
	timedOut   atomic.Uint64
	unanswered [causes]atomic.Uint64
	// spare hands out an instance that has been started in advance.
	spare chan *instance
	// ctx ends when the bridge closes, and with it the calls of the guest.
	ctx    context.Context
	cancel context.CancelFunc
	// The rooms for bodies that are held.
	unverified, verified, answers room
	// next spreads requests over instances that have the same number of streams.
	next atomic.Uint32
}

const (
	// deadlineTicks is the number of the watchdog's ticks in a deadline.
	deadlineTicks = 8
	startDeadline = 10 * time.Second
	// No request waits for a policy of many routes to be read, and a machine may be busy.
	needsDeadline = time.Minute
	pauseLimit    = 10 * time.Second
	startPause    = time.Second
)

// slot is the place of an instance in the pool.
type slot struct {
	mu       sync.Mutex
	instance atomic.Pointer[instance]
	failed   time.Time
}

// forget empties the slot of an instance that has ended.
func (s *slot) forget(in *instance) { s.instance.CompareAndSwap(in, nil) }

// New compiles the module, unless the options have a compiled one, checks that it fits, starts the first instance and gives
// it the policy. A policy that the module refuses is an error with the module's own lines. Further instances start when
// requests need them.
func New(ctx context.Context, o Options) (*Bridge, error) {
	b, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	if _, err := b.slots[0].start(b); err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	if !o.withoutSpare {
		b.goroutines.Go(b.keepSpare)
	}
	return b, nil
}

// Needs asks the module what the policy of the options needs of its gateway, without a start. The answer is JSON:
// {"needs": {…}}, or {"errors": "…"} if the module refuses the policy.
func Needs(ctx context.Context, o Options) ([]byte, error) {
	if o.Deadline >= 0 {
		o.Deadline = needsDeadline
	}
	b, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	needs, err := b.newInstance().needs()
	return needs, errors.Join(err, b.Close(ctx))
}

// prepare makes a bridge without instances.
func prepare(ctx context.Context, o Options) (*Bridge, error) {
	b := &Bridge{
		options: o, level: LevelInfo, module: o.Compiled, metrics: &Metrics{}, stop: make(chan struct{}),
		pauseLimit: pauseLimit, startPause: startPause, spare: make(chan *instance),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.setDefaults()
	b.metrics.stats = b.Stats
	if b.module == nil {
		module, err := Compile(ctx, o.Module, CompileOptions{
			Interpreter: o.Interpreter, MemoryPages: o.MemoryPages, unbounded: o.Deadline < 0,
		})
		if err != nil {
			return nil, err
		}
		b.module, b.ownsModule = module, true
	}
	for _, name := range sortedNames(o.Environment) {
		b.environment = append(b.environment, name+"="+o.Environment[name]+"\x00")
	}
	b.goroutines.Go(b.watchdog)
	return b, nil
}

func (b *Bridge) setDefaults() {
	o := &b.options
	if o.Instances <= 0 {
		o.Instances = runtime.GOMAXPROCS(0)
	}
	if o.Deadline == 0 {
		o.Deadline = DefaultDeadline
	}
	if o.RequestBuffer <= 0 {
		o.RequestBuffer = DefaultBuffer
	}
	if o.ResponseBuffer <= 0 {
		o.ResponseBuffer = DefaultBuffer
	}
	longest := max(o.RequestBuffer, o.ResponseBuffer)
	if o.HeldBodies <= 0 {
		o.HeldBodies = max(DefaultHeldBodies, LeastHeldBodies(longest))
	}
	for _, r := range []*room{&b.unverified, &b.verified, &b.answers} {
		r.limit, r.most = o.HeldBodies/3, mostTaken(longest)
	}
	if o.LogLevel != nil {
		b.level = *o.LogLevel
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for range o.Instances {
		b.slots = append(b.slots, &slot{})
	}
}

func (b *Bridge) log(level Level, text string) {
	if b.options.Log != nil {
		b.options.Log(level, text)
	}
}

// start gives the instance of a slot, and starts one if the slot is empty.
func (s *slot) start(b *Bridge) (*instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.instance.Load(); in != nil {
		return in, nil
	}
	if b.closed.Load() {
		return nil, errors.New("the bridge is closed")
	}
	if since := time.Since(s.failed); since < b.startPause {
		return nil, errors.New("an instance did not start a moment ago")
	}
	in, err := b.takeInstance()
	if err != nil {
		s.failed = time.Now()
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.slot = s
	if !in.dead {
		s.instance.Store(in)
	}
	return in, nil
}

// takeInstance gives the spare instance, or starts one.
func (b *Bridge) takeInstance() (*instance, error) {
	select {
	case in := <-b.spare:
		return in, nil
	default:
		return b.startInstance()
	}
}

// keepSpare has an instance ready for when one ends: to start it takes a millisecond, in which all cores may have to wait.
func (b *Bridge) keepSpare() {
	for {
		in, err := b.startInstance()
		if err != nil {
			// A request that needs an instance tells why it does not start.
			select {
			case <-time.After(b.startPause):
				continue
			case <-b.stop:
				return
			}
		}
		select {
		case b.spare <- in:
		case <-in.gone:
		case <-b.stop:
			in.shutDown()
			return
		}
	}
}

// pick chooses the instance for a stream: one without streams, else a new one, else the one with the fewest.
func (b *Bridge) pick() (*instance, error) {
	var best *instance
	var empty *slot
	var fewest int64
	from := int(b.next.Add(1) % uint32(len(b.slots)))
	for i := range b.slots {
		slot := b.slots[(from+i)%len(b.slots)]
		in := slot.instance.Load()
		if in == nil {
			empty = slot
			continue
		}
		if open := in.open.Load(); best == nil || open < fewest {
			best, fewest = in, open
		}
	}
	if best != nil && (fewest == 0 || empty == nil) {
		return best, nil
	}
	if best != nil && !empty.mu.TryLock() {
		// Somebody starts an instance there already.
		return best, nil
	} else if best != nil {
		empty.mu.Unlock()
	}
	in, err := empty.start(b)
	if err != nil && best != nil {
		return best, nil
	}
	if err != nil {
		b.log(LevelCritical, fmt.Sprintf("edge-idempotency: no instance of the module is there, so requests are answered with 503: %v", err))
	}
	return in, err
}

// Metrics returns the metrics of all instances.
func (b *Bridge) Metrics() *Metrics { return b.metrics }

// Stats returns what the bridge holds now.
func (b *Bridge) Stats() Stats {
	stats := Stats{
		Calls: int(b.calls.Load()), Trapped: b.trapped.Load(), TimedOut: b.timedOut.Load(),
		HeldBytes: b.unverified.inUse() + b.verified.inUse() + b.answers.inUse(),
	}
	for cause := range stats.Unanswered {
		stats.Unanswered[cause] = b.unanswered[cause].Load()
	}
	for _, slot := range b.slots {
		if in := slot.instance.Load(); in != nil {
			stats.Instances++
			stats.Streams += int(in.open.Load())
		}
	}
	return stats
}

// Tick lets the timer of each instance fire once, now. The guest writes what it has counted into the metrics on a tick, so
// whoever shows the metrics can call it before.
func (b *Bridge) Tick(ctx context.Context) {
	for _, slot := range b.slots {
		if in := slot.instance.Load(); in != nil && ctx.Err() == nil {
			in.tick()
		}
	}
}

// Close ends all instances. Requests that are open are answered with 503. It returns when no goroutine of the bridge is left,
// or ctx is done.
func (b *Bridge) Close(ctx context.Context) error {
	if b.closed.Swap(true) {
		return nil
	}
	for _, slot := range b.slots {
		slot.mu.Lock()
		in := slot.instance.Load()
		slot.mu.Unlock()
		if in != nil {
			in.shutDown()
		}
	}
	b.cancel()
	close(b.stop)
	done := make(chan struct{})
	go func() {
		b.goroutines.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("calls to upstreams are still under way: %w", ctx.Err())
	}
	if b.ownsModule {
		if err := b.module.Close(ctx); err != nil {
			return fmt.Errorf("the module cannot be closed: %w", err)
		}
	}
	return nil
}

// shutDown ends the configuration in the guest, which writes its last counts, and then the instance.
func (in *instance) shutDown() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.callback(&in.onDone, nil, rootContext)
	in.callback(&in.onDelete, nil, rootContext)
	in.end()
}

// watchdog counts its own ticks, and not the clock's time: a process that stood still as a whole ends no calls.
func (b *Bridge) watchdog() {
	if b.options.Deadline < 0 {
		return
	}
	ticker := time.NewTicker(max(b.options.Deadline/deadlineTicks, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-ticker.C:
			b.ticks.Add(1)
		}
	}
}

// expiry is the watchdog's tick at which a call that starts now has taken too long.
func (b *Bridge) expiry(life lifePart) uint64 {
	ticks := uint64(deadlineTicks)
	if life != running && b.options.Deadline > 0 {
		ticks = max(ticks, uint64(startDeadline/max(b.options.Deadline/deadlineTicks, time.Millisecond)))
	}
	return b.ticks.Load() + ticks
}
