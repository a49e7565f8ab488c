package gateway

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
)

// writeMemory writes how much memory the process has and may have, in Prometheus's text format. What the system does not tell is left
// out.
func writeMemory(out io.Writer) {
	if resident, ok := residentBytes(); ok {
		fmt.Fprintf(out, "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %d\n", resident)
	}
	if limit, ok := memoryLimit(os.ReadFile); ok {
		fmt.Fprintf(out, "# TYPE idempotency_bridge_memory_limit_bytes gauge\nidempotency_bridge_memory_limit_bytes %d\n", limit)
	}
}

// residentBytes is the memory of the process (proc_pid_statm(5), the second number, in pages).
func residentBytes() (uint64, bool) {
	text, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	return pages * uint64(os.Getpagesize()), err == nil
}

// memoryLimit is the limit of the container (cgroup 2, or 1), or else all memory of the machine.
func memoryLimit(read func(string) ([]byte, error)) (uint64, bool) {
	machine, known := uint64(0), false
	if text, err := read("/proc/meminfo"); err == nil {
		fields := bytes.Fields(text)
		if len(fields) > 1 && string(fields[0]) == "MemTotal:" {
			kib, err := strconv.ParseUint(string(fields[1]), 10, 64)
			machine, known = kib*1024, err == nil
		}
	}
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := read(file)
		if err != nil {
			continue
		}
		// Without a limit there is "max", or a number beyond all machines.
		if limit, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64); err == nil && (!known || limit < machine) {
			return limit, true
		}
	}
	return machine, known
}
