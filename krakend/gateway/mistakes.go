package gateway

import (
	"fmt"
	"strings"
)

// Mistake is one mistake in krakend.json or in what it names.
type Mistake struct {
	// Pointer is the JSON pointer (RFC 6901) into krakend.json, or "policy#" and the pointer into the policy document.
	Pointer string
	// Where names the endpoint by method and path; empty for what belongs to no endpoint.
	Where string
	// Text is a sentence that says what is wrong and what to change.
	Text string
}

// String returns the mistake in one line.
func (m Mistake) String() string {
	if m.Where == "" {
		return m.Pointer + ": " + m.Text
	}
	return m.Pointer + " (" + m.Where + "): " + m.Text
}

// Mistakes are all mistakes of a configuration.
type Mistakes []Mistake

// Error returns one line for each mistake.
func (m Mistakes) Error() string {
	lines := make([]string, 0, len(m)+1)
	if len(m) == 1 {
		lines = append(lines, "1 mistake:")
	} else {
		lines = append(lines, fmt.Sprintf("%d mistakes:", len(m)))
	}
	for _, mistake := range m {
		lines = append(lines, mistake.String())
	}
	return strings.Join(lines, "\n  ")
}

func (m *Mistakes) add(pointer, where, format string, arguments ...any) {
	*m = append(*m, Mistake{Pointer: pointer, Where: where, Text: fmt.Sprintf(format, arguments...)})
}
