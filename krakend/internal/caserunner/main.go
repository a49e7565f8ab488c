// The case runner is a test program: it runs behaviour cases (tests/testkit/src/cases/format.rs) through the bridge with the real module.
// The tests in wasm-tests/tests/bridge.rs start it, give it the cases and compare what came of them.
//
// It reads orders from standard input, one JSON document a line, and writes its results to standard output in the same
// form. While it runs a case it can write {"call": …}, and the next line that it reads is the response of the store.
// Bytes stand in base64, so that every byte of a header line, a path or a body arrives as it is.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"edge-idempotency/krakend/bridge"
)

// patience is the longest time that a case can take. Only a case whose request waits for ever takes as long.
const patience = 30 * time.Second

// order is what the tests ask for: one of the two.
type order struct {
	Exchange *exchangeOrder `json:"exchange"`
	Start    *configuration `json:"start"`
}

// configuration is what a bridge is started with.
type configuration struct {
	Policy      []byte            `json:"policy"`
	Environment map[string]string `json:"environment"`
	// Upstreams holds the names of the clusters that the module can call.
	Upstreams []string `json:"upstreams"`
	// NowUnixMS is the clock; without it the clock stands at defaultNow.
	NowUnixMS *int64 `json:"now_unix_ms"`
}

// defaultNow is the clock of a case that does not set it, as in the other runners: 2026-01-01 UTC.
const defaultNow = 1_767_225_600_000

// runner holds what all cases share.
type runner struct {
	module *bridge.Module
	// turn guards the pipe: a call and its reply are two lines that belong together.
	turn sync.Mutex
	in   *bufio.Reader
	out  *json.Encoder
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "caserunner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string, in io.Reader, out io.Writer) error {
	if len(arguments) != 1 {
		return errors.New("name the module's file, and nothing else: caserunner edge_idempotency.wasm")
	}
	code, err := os.ReadFile(arguments[0])
	if err != nil {
		return fmt.Errorf("read the module (`make wasm` builds it): %w", err)
	}
	module, err := bridge.Compile(ctx, code, bridge.CompileOptions{})
	if err != nil {
		return fmt.Errorf("compile the module: %w", err)
	}
	defer module.Close(ctx)
	r := &runner{module: module, in: bufio.NewReader(in), out: json.NewEncoder(out)}
	for {
		var o order
		if err := r.read(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		var result any
		switch {
		case o.Exchange != nil:
			result = r.exchange(ctx, o.Exchange)
		case o.Start != nil:
			result = r.start(ctx, o.Start)
		default:
			return errors.New("an order has the member exchange or the member start")
		}
		if err := r.write(map[string]any{"result": result}); err != nil {
			return fmt.Errorf("write a result: %w", err)
		}
	}
}

func (r *runner) read(into any) error {
	line, err := r.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, into)
}

func (r *runner) write(line any) error { return r.out.Encode(line) }
