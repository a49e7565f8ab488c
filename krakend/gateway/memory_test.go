package gateway

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

func TestTheLimitOfMemoryIsTheContainersOrTheMachines(t *testing.T) {
	const machine, two, one = "/proc/meminfo", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
	for name, test := range map[string]struct {
		files  map[string]string
		wanted uint64
		known  bool
	}{
		"container":       {map[string]string{machine: "MemTotal:       8388608 kB\nMemFree: 1 kB\n", two: "536870912\n"}, 512 << 20, true},
		"older container": {map[string]string{machine: "MemTotal: 8388608 kB\n", one: "536870912\n"}, 512 << 20, true},
		"no limit":        {map[string]string{machine: "MemTotal: 8388608 kB\n", two: "max\n"}, 8 << 30, true},
		"a large one":     {map[string]string{machine: "MemTotal: 8388608 kB\n", one: "9223372036854771712\n"}, 8 << 30, true},
		"not Linux":       {nil, 0, false},
		"odd":             {map[string]string{machine: "MemTotal: much\n", two: "\n"}, 0, false},
	} {
		read := func(file string) ([]byte, error) {
			if text, ok := test.files[file]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		}
		if limit, known := memoryLimit(read); limit != test.wanted || known != test.known {
			t.Errorf("%s: %d %v", name, limit, known)
		}
	}
	var out bytes.Buffer
	writeMemory(&out)
	if !regexp.MustCompile(`^# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes [1-9]\d+\n# TYPE idempotency_bridge_memory_limit_bytes gauge\nidempotency_bridge_memory_limit_bytes [1-9]\d+\n$`).Match(out.Bytes()) {
		t.Error(out.String())
	}
}
