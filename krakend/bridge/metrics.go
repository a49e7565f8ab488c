package bridge

import "io"

// Metrics holds the metrics of all instances of a bridge.
type Metrics struct{}

// Samples are the counters, gauges and histogram samples by the guest's own names.
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
}

// Samples returns a copy of the current values.
func (m *Metrics) Samples() Samples { return Samples{} }

// WriteText writes the metrics in Prometheus's text format.
func (m *Metrics) WriteText(w io.Writer) error { return nil }
