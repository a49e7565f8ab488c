package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func none(string) (string, bool) { return "", false }

func example(name string) (config, policy string) {
	directory := filepath.Join("..", "examples", name)
	return filepath.Join(directory, "krakend.json"), filepath.Join(directory, "policy.json")
}

// module is the built module (`make wasm`).
func module() string {
	if path := os.Getenv("EDGE_WASM"); path != "" {
		return path
	}
	return filepath.Join("..", "..", "dist", "edge_idempotency.wasm")
}

// No secret of production is on this machine, and the module need not be.
func TestTheExamplesPassWithoutTheGatewaysMachine(t *testing.T) {
	config, policy := example("demo")
	for _, way := range []string{"--custom-build=false", "--custom-build"} {
		for note, more := range map[string][]string{
			"note: /extra_config/plugin~1http-server/edge-idempotency/module: /etc/krakend/edge_idempotency.wasm is not on this machine, so the endpoints were not compared with the policy": nil,
			"note: policy#: the variable UNKEY_ROOT_KEY is not set here": {"--module", module()},
		} {
			out := new(strings.Builder)
			if status := run(append(more, way, "--policy", policy, config), none, out); status != 0 || !strings.Contains(out.String(), note) {
				t.Errorf("%s %q: %d, %q is not in\n%s", way, more, status, note, out)
			}
		}
	}
}

// Interpreted, its module would be ended at the deadline of a call.
func TestALongPolicyIsChecked(t *testing.T) {
	config, policy := example("demo")
	text, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	routes := document["routes"].([]any)
	for number := range 10_000 {
		name := fmt.Sprintf("r%d", number)
		routes = append(routes, map[string]any{"endpoint": name, "path": "/long/" + name + "/{id}", "methods": []string{"POST"}, "policy": "PROHIBITED", "target": "R/run"})
	}
	document["routes"] = routes
	file := filepath.Join(t.TempDir(), "policy.json")
	if text, err = json.Marshal(document); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out := new(strings.Builder)
	if status := run([]string{"--policy", file, "--module", module(), config}, none, out); status != 0 || !strings.Contains(out.String(), "r9999") {
		t.Errorf("%d\n%.2000s", status, out)
	}
}

func TestMistakesAreToldWithTheAdviceForKrakenD(t *testing.T) {
	config, policy := example("demo")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "krakend.json")
	changed := strings.Replace(string(text), `"disable_redirect_fixed_path": true`, `"disable_redirect_fixed_path": false`, 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	out := new(strings.Builder)
	if status := run([]string{"--policy", policy, file}, none, out); status != 2 || !strings.Contains(out.String(), "1 mistake:\n  /extra_config/router/disable_redirect_fixed_path: set it to true") {
		t.Errorf("%d\n%s", status, out)
	}
	for _, arguments := range [][]string{nil, {"--polcy", "x"}, {"/none.json"}, {config, config}, {config}, {"--policy", policy, "--module", "/none.wasm", config}} {
		if status := run(arguments, none, out); status != 2 {
			t.Errorf("%q: %d", arguments, status)
		}
	}
}
