package bridge

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// Metrics holds the metrics of all instances of a bridge. Instances that define the same name count in the same series. A
// series stays until the bridge is closed. All methods can be called from several goroutines.
type Metrics struct {
	mu     sync.Mutex
	series map[metricName]*series
	// stats tells what the bridge itself holds; nil leaves that out of the text.
	stats func() Stats
}

// Samples are the counters, gauges and histograms by the guest's own names (`name;label=value;…`).
type Samples struct {
	Counters   map[string]uint64
	Gauges     map[string]int64
	Histograms map[string]HistogramSample
}

// HistogramSample is what a histogram has seen.
type HistogramSample struct {
	// Count is the number of values.
	Count uint64
	// Sum is their sum.
	Sum uint64
	// Recent holds the latest values in their order, at most 64.
	Recent []uint64
}

type metricKind uint32

const (
	kindCounter   metricKind = 0
	kindGauge     metricKind = 1
	kindHistogram metricKind = 2
)

func (k metricKind) String() string {
	return [...]string{"counter", "gauge", "histogram"}[k]
}

type metricName struct {
	kind metricKind
	name string
}

// bounds are the upper bounds of the buckets, those of Envoy.
var bounds = [...]float64{0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000}

const recentValues = 64

type series struct {
	kind metricKind
	// value is what a counter has counted, or a gauge in two's complement.
	value atomic.Uint64

	mu      sync.Mutex
	buckets [len(bounds)]uint64
	count   uint64
	sum     uint64
	recent  []uint64
}

func (m *Metrics) define(kind uint32, name string) (*series, status) {
	if kind > uint32(kindHistogram) {
		return nil, statusBadArgument
	}
	key := metricName{metricKind(kind), name}
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.series[key]
	if !ok {
		if m.series == nil {
			m.series = map[metricName]*series{}
		}
		found = &series{kind: key.kind}
		m.series[key] = found
	}
	return found, statusOK
}

func (s *series) increment(offset int64) status {
	switch {
	case s.kind == kindHistogram, s.kind == kindCounter && offset <= 0:
		return statusBadArgument
	}
	s.value.Add(uint64(offset))
	return statusOK
}

func (s *series) record(value uint64) {
	switch s.kind {
	case kindCounter:
		s.value.Add(value)
	case kindGauge:
		s.value.Store(value)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count++
		s.sum += value
		for i, bound := range bounds {
			if float64(value) <= bound {
				s.buckets[i]++
			}
		}
		if len(s.recent) == recentValues {
			s.recent = append(s.recent[:0], s.recent[1:]...)
		}
		s.recent = append(s.recent, value)
	}
}

// Samples returns a copy of the current values.
func (m *Metrics) Samples() Samples {
	samples := Samples{map[string]uint64{}, map[string]int64{}, map[string]HistogramSample{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, series := range m.series {
		switch key.kind {
		case kindCounter:
			samples.Counters[key.name] = series.value.Load()
		case kindGauge:
			samples.Gauges[key.name] = int64(series.value.Load())
		default:
			series.mu.Lock()
			recent := append([]uint64(nil), series.recent...)
			samples.Histograms[key.name] = HistogramSample{series.count, series.sum, recent}
			series.mu.Unlock()
		}
	}
	return samples
}

// WriteText writes the metrics in Prometheus's text format. Labels are taken out of the guest's names: `x_total;case=A` is
// `x_total{case="A"}`. The metrics of the bridge itself, `idempotency_bridge_…`, show its Stats.
func (m *Metrics) WriteText(w io.Writer) error {
	type row struct {
		name, labels string
		series       *series
	}
	m.mu.Lock()
	rows := make([]row, 0, len(m.series))
	for key, series := range m.series {
		name, labels := splitName(key.name)
		rows = append(rows, row{name, labels, series})
	}
	m.mu.Unlock()
	sort.Slice(rows, func(i, j int) bool {
		a, b := rows[i], rows[j]
		if a.name != b.name {
			return a.name < b.name
		}
		if a.series.kind != b.series.kind {
			return a.series.kind < b.series.kind
		}
		return a.labels < b.labels
	})
	out := bufio.NewWriter(w)
	for i, row := range rows {
		if i == 0 || rows[i-1].name != row.name {
			fmt.Fprintf(out, "# TYPE %s %s\n", row.name, row.series.kind)
		}
		row.series.write(out, row.name, row.labels)
	}
	if m.stats != nil {
		m.stats().write(out)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("the metrics cannot be written: %w", err)
	}
	return nil
}

func (s Stats) write(out io.Writer) {
	for _, gauge := range []struct {
		name  string
		value int
	}{{"instances", s.Instances}, {"streams", s.Streams}, {"calls", s.Calls}, {"held_bytes", s.HeldBytes}} {
		fmt.Fprintf(out, "# TYPE idempotency_bridge_%[1]s gauge\nidempotency_bridge_%[1]s %[2]d\n", gauge.name, gauge.value)
	}
	const closed = "idempotency_bridge_instances_closed_total"
	fmt.Fprintf(out, "# TYPE %[1]s counter\n%[1]s{reason=\"trap\"} %[2]d\n%[1]s{reason=\"deadline\"} %[3]d\n", closed, s.Trapped, s.TimedOut)
	const unanswered = "idempotency_bridge_unanswered_total"
	fmt.Fprintf(out, "# TYPE %s counter\n", unanswered)
	for cause := CauseFault; cause < causes; cause++ {
		fmt.Fprintf(out, "%s{reason=\"%s\"} %d\n", unanswered, cause, s.Unanswered[cause])
	}
}

func (s *series) write(out io.Writer, name, labels string) {
	braced := func(labels string) string {
		if labels == "" {
			return ""
		}
		return "{" + labels + "}"
	}
	switch s.kind {
	case kindCounter:
		fmt.Fprintf(out, "%s%s %d\n", name, braced(labels), s.value.Load())
	case kindGauge:
		fmt.Fprintf(out, "%s%s %d\n", name, braced(labels), int64(s.value.Load()))
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		before := labels
		if before != "" {
			before += ","
		}
		for i, bound := range bounds {
			fmt.Fprintf(out, "%s_bucket{%sle=\"%s\"} %d\n", name, before, boundText(bound), s.buckets[i])
		}
		fmt.Fprintf(out, "%s_bucket{%sle=\"+Inf\"} %d\n", name, before, s.count)
		fmt.Fprintf(out, "%s_sum%s %d\n%s_count%s %d\n", name, braced(labels), s.sum, name, braced(labels), s.count)
	}
}

func boundText(bound float64) string {
	if bound == math.Trunc(bound) {
		return fmt.Sprintf("%d", int64(bound))
	}
	return fmt.Sprintf("%g", bound)
}

var labelEscapes = strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n")

// splitName takes the labels out of a guest's name, in their order, and gives both as Prometheus writes them.
func splitName(full string) (name, labels string) {
	name, rest, more := strings.Cut(full, ";")
	var text strings.Builder
	for more {
		var label string
		label, rest, more = strings.Cut(rest, ";")
		key, value, _ := strings.Cut(label, "=")
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, "%s=\"%s\"", prometheusName(key), labelEscapes.Replace(strings.ToValidUTF8(value, "\uFFFD")))
	}
	return prometheusName(name), text.String()
}

// prometheusName replaces the characters that Prometheus does not take in a name by "_".
func prometheusName(name string) string {
	clean := []byte(name)
	for i, c := range clean {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			clean[i] = '_'
		}
	}
	if len(clean) == 0 {
		return "_"
	}
	return string(clean)
}
