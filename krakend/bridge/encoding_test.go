package bridge

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

func encodePairs(header Header) []byte {
	bytes := make([]byte, pairsSize(header))
	writePairs(bytes, header)
	return bytes
}

func TestPairsAreReadAsTheyWereWritten(t *testing.T) {
	header := Header{{":path", "/"}, {"a", ""}, {"a", "\x00\xff"}, {"", "b"}}
	encoded := encodePairs(header)
	got, ok := readPairs(encoded)
	if !ok || !reflect.DeepEqual(got, header) {
		t.Errorf("%v %v", got, ok)
	}
	for end := 1; end < len(encoded); end++ {
		if got, ok := readPairs(encoded[:end]); ok {
			t.Errorf("the first %d bytes are %v", end, got)
		}
	}
	if _, ok := readPairs(bytes.Replace(encoded, []byte("/\x00a"), []byte("/_a"), 1)); ok {
		t.Error("a value without its NUL is taken")
	}
	if _, ok := readPairs(append(encoded, 0)); ok {
		t.Error("a byte too many is taken")
	}
	if _, ok := readPairs(encodePairs(make(Header, maxPairs+1))); ok {
		t.Error("too many lines are taken")
	}
	if _, ok := readPairs(encodePairs(Header{{"a", strings.Repeat("x", maxPairsBytes)}})); ok {
		t.Error("a map that is too large is taken")
	}
	if _, ok := readPairs([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}); ok {
		t.Error("a length beyond the bytes is taken")
	}
}

func FuzzPairs(f *testing.F) {
	f.Add(encodePairs(Header{{"a", "b"}, {"c", ""}}))
	f.Add([]byte{1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		header, ok := readPairs(encoded)
		if !ok || len(header) == 0 {
			return
		}
		again, ok := readPairs(encodePairs(header))
		if !ok || !reflect.DeepEqual(again, header) {
			t.Errorf("%v became %v", header, again)
		}
	})
}

func TestARecordBecomesJSON(t *testing.T) {
	// What Python's protobuf 5 writes for {"a": "x", "b": true}.
	text, err := recordJSON([]byte("\x0a\x08\x0a\x01a\x12\x03\x1a\x01x\x0a\x07\x0a\x01b\x12\x02 \x01"))
	if err != nil || string(text) != `{"a":"x","b":true}` {
		t.Errorf("%s %v", text, err)
	}
	members := map[string]any{"n": nil, "f": -1.5, "s": "x", "b": true, "c": false, "o": map[string]any{"l": []any{"y", 2.0, nil}}}
	encoded := appendStruct(nil, members)
	got, err := readStruct(encoded, maxRecordDepth)
	if err != nil || !reflect.DeepEqual(got, members) {
		t.Errorf("%v %v", got, err)
	}
	for end := 1; end < len(encoded); end++ {
		// A part of the message is another message or an error, and never a panic.
		_, _ = recordJSON(encoded[:end])
	}
	var deep any = "x"
	for range 100 {
		deep = []any{deep}
	}
	if _, err := recordJSON(appendStruct(nil, map[string]any{"d": deep})); err == nil {
		t.Error("a record of any depth is taken")
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(appendStruct(nil, map[string]any{"a": "x", "b": true, "c": []any{1.0}}))
	f.Fuzz(func(t *testing.T, message []byte) {
		if text, err := recordJSON(message); err == nil && !json.Valid(text) {
			t.Errorf("%q is no JSON", text)
		}
	})
}

func TestMetadataIsEncodedAsInEnvoy(t *testing.T) {
	metadata := Metadata{"ns": {
		"text": "x", "number": 1.5, "yes": true, "no": false, "null": nil,
		"list": []any{"a", "b"}, "object": map[string]any{"z": "1", "a": "2"}, "nulls": []any{nil},
	}}
	_, _, _, entry, rest, err := readField(appendMetadata(nil, metadata))
	if err != nil || len(rest) > 0 {
		t.Fatal(err)
	}
	_, _, _, namespace, entry, err := readField(entry)
	_, _, _, members, _, err2 := readField(entry)
	got, err3 := readStruct(members, maxRecordDepth)
	if err != nil || err2 != nil || err3 != nil || string(namespace) != "ns" || !reflect.DeepEqual(got, metadata["ns"]) {
		t.Errorf("the metadata is %q %v", namespace, got)
	}
}

func TestMetricsText(t *testing.T) {
	var m Metrics
	counter, _ := m.define(uint32(kindCounter), "x_total;case=A;tenant=a\"b\\c")
	other, _ := m.define(uint32(kindCounter), "x_total;case=B")
	same, _ := m.define(uint32(kindCounter), "x_total;case=B")
	gauge, _ := m.define(uint32(kindGauge), "y-z")
	histogram, _ := m.define(uint32(kindHistogram), "t_milliseconds;store=unkey;tenant=acme;project=shop;endpoint=a.b")
	if _, s := m.define(3, "x"); s != statusBadArgument {
		t.Errorf("a fourth kind has the status %d", s)
	}
	if counter.increment(0) != statusBadArgument || counter.increment(-1) != statusBadArgument || histogram.increment(1) != statusBadArgument {
		t.Error("an increment is taken that Envoy refuses")
	}
	counter.increment(2)
	other.increment(1)
	same.increment(1)
	gauge.record(math.MaxUint64)
	for value := range uint64(100) {
		histogram.record(value)
	}
	var text bytes.Buffer
	if err := m.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	want := `# TYPE t_milliseconds histogram
t_milliseconds_bucket{store="unkey",tenant="acme",project="shop",endpoint="a.b",le="0.5"} 1
t_milliseconds_bucket{store="unkey",tenant="acme",project="shop",endpoint="a.b",le="1"} 2
t_milliseconds_bucket{store="unkey",tenant="acme",project="shop",endpoint="a.b",le="5"} 6
t_milliseconds_bucket{store="unkey",tenant="acme",project="shop",endpoint="a.b",le="10"} 11
t_milliseconds_bucket{store="unkey",tenant="acme",project="shop",endpoint="a.b",le="25"} 26
t_milliseconds_bucket{store="unkey",tenant="acme",project="shop",endpoint="a.b",le="50"} 51
t_milliseconds_bucket{store="unkey",tenant="acme",project="shop",endpoint="a.b",le="100"} 100
`
	if !strings.HasPrefix(text.String(), want) {
		t.Errorf("the text begins with\n%s", text.String())
	}
	want = `t_milliseconds_bucket{store="unkey",tenant="acme",project="shop",endpoint="a.b",le="3600000"} 100
t_milliseconds_bucket{store="unkey",tenant="acme",project="shop",endpoint="a.b",le="+Inf"} 100
t_milliseconds_sum{store="unkey",tenant="acme",project="shop",endpoint="a.b"} 4950
t_milliseconds_count{store="unkey",tenant="acme",project="shop",endpoint="a.b"} 100
# TYPE x_total counter
x_total{case="A",tenant="a\"b\\c"} 2
x_total{case="B"} 2
# TYPE y_z gauge
y_z -1
`
	if !strings.HasSuffix(text.String(), want) {
		t.Errorf("the text ends with\n%s", text.String())
	}
	samples := m.Samples()
	if h := samples.Histograms["t_milliseconds;store=unkey;tenant=acme;project=shop;endpoint=a.b"]; h.Count != 100 || h.Sum != 4950 || len(h.Recent) != recentValues || h.Recent[63] != 99 {
		t.Errorf("the histogram is %+v", h)
	}
	if samples.Counters["x_total;case=B"] != 2 || samples.Gauges["y-z"] != -1 {
		t.Errorf("the samples are %+v", samples)
	}
}

func TestLinesThatWouldBreakAMessageAreRefused(t *testing.T) {
	for _, test := range []struct {
		name, value string
		want        bool
	}{
		{"x-a", "b", true}, {":path", "/\xff\t", true}, {"X!#$%&'*+-.^_`|~9", "", true},
		{"", "b", false}, {":", "b", false}, {"a b", "", false}, {"a:", "", false}, {"a\x00", "", false}, {"é", "", false},
		{"a", "b\r", false}, {"a", "b\n", false}, {"a", "\x00", false},
	} {
		if got := validLine([]byte(test.name), []byte(test.value)); got != test.want {
			t.Errorf("%q: %q is %v", test.name, test.value, got)
		}
	}
}

func TestRecordsAreWrittenAsEncodingJSONDoes(t *testing.T) {
	for _, value := range []any{
		"", "plain", "\"\\/", "<&>", "\x00\x1f\x7f", "ä€\u2028", "\xff", nil, true, 1.5, -1e300,
		map[string]any{}, map[string]any{"b": "x", "a": map[string]any{"<": []any{"y", nil, 2.0}}, "ä": ""},
	} {
		want, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := appendJSON([]byte("before"), value); err != nil || string(got) != "before"+string(want) {
			t.Errorf("%#v: %s, not %s: %v", value, got, want, err)
		}
	}
}
