package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// loaded is what the loader prints.
type loaded struct {
	Answers map[string]int
	// Health is the status of KrakenD's own health endpoint.
	Health int
	Wrong  []string
	Log    []string
}

// build builds the plugin and the loader, as KrakenD and its plugins are built.
func build(t *testing.T) (plugin, loader string) {
	t.Helper()
	compiler, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	if words := strings.Fields(string(compiler)); len(words) == 0 {
		t.Fatal("go env CC names no compiler")
	} else if _, err := exec.LookPath(words[0]); err != nil {
		t.Skipf("SKIPPED: krakend: a plugin needs a C compiler, and there is no %s. What this test says about R15 has not been seen.", words[0])
	}
	directory := t.TempDir()
	plugin, loader = filepath.Join(directory, "edge-idempotency.so"), filepath.Join(directory, "loader")
	for _, arguments := range [][]string{
		{"build", "-trimpath", "-buildmode=plugin", "-o", plugin, "."},
		{"build", "-trimpath", "-o", loader, "./testdata/loader"},
	} {
		command := exec.Command("go", arguments...)
		command.Env = append(os.Environ(), "CGO_ENABLED=1")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", arguments, err, output)
		}
	}
	return plugin, loader
}

// load sends requests through a plugin. given is the krakend.json that KrakenD reads, flags how its command names one.
func load(t *testing.T, loader, plugin, requests, given string, flags ...string) loaded {
	t.Helper()
	command := exec.Command(loader, append([]string{plugin, requests, "16", "refunds.create", given}, flags...)...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var result loaded
	if err := json.Unmarshal(output, &result); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return result
}

// The plugin in a process of its own, which opens it as KrakenD does. Without the plugin's memmove most requests are 503
// here, since the instances trap.
func TestThePluginUnderLoad(t *testing.T) {
	plugin, loader := build(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Restate-Id", "inv_1")
		_, _ = io.WriteString(w, r.Header.Get("Idempotency-Key")+"\n"+string(body))
	}))
	defer upstream.Close()

	file := writeConfig(t, upstream.URL, moduleFile(t))
	result := load(t, loader, plugin, "4000", file, "-dc", file)
	if result.Answers["200"] != 4000 || result.Health != http.StatusOK || len(result.Answers) != 1 || len(result.Wrong) > 0 || len(result.Log) > 0 {
		t.Errorf("%v %q %.2000q", result.Answers, result.Wrong, result.Log)
	}
}

// Whatever is broken at start, the factories give handlers that forward nothing.
func TestABrokenConfigurationForwardsNothing(t *testing.T) {
	plugin, loader := build(t)
	hits := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer upstream.Close()
	sound := writeConfig(t, upstream.URL, moduleFile(t))
	text, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]string{
		"no module":    strings.Replace(string(text), "edge_idempotency.wasm", "none.wasm", 1),
		"policy":       strings.Replace(string(text), "REQUIRED_A", "REQUIRED", 1),
		"surroundings": strings.ReplaceAll(string(text), "no-op", "json"),
		"no JSON":      string(text)[1:],
		"unbound key": strings.Replace(string(text), `"endpoints": [{`,
			`"endpoints": [{"endpoint": "/open", "input_headers": ["Idempotency-Key"], "backend": [{"host": ["`+upstream.URL+`"], "url_pattern": "/"}]}, {`, 1),
		"name not listed": strings.Replace(string(text), `["edge-idempotency"]`, `[]`, 1),
		"other endpoint":  strings.ReplaceAll(string(text), "refunds.create", "other"),
	} {
		file := filepath.Join(t.TempDir(), "krakend.json")
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		result := load(t, loader, plugin, "3", file, "-c", file)
		if result.Answers["503"] != 3 || result.Health != 503 && name != "other endpoint" || !strings.Contains(strings.Join(result.Log, "\n"), "critical [SERVICE: edge-idempotency] ") {
			t.Errorf("%s: %v %q", name, result.Answers, result.Log)
		}
	}
	for name, flags := range map[string][]string{"no file": {"-c", "/none.json"}, "no flag": nil} {
		if result := load(t, loader, plugin, "3", sound, flags...); result.Answers["503"] != 3 || result.Health != 503 {
			t.Errorf("%s: %v %d", name, result.Answers, result.Health)
		}
	}
	// The plugin finds another file than KrakenD reads.
	other := filepath.Join(t.TempDir(), "krakend.json")
	if err := os.WriteFile(other, []byte(strings.Replace(string(text), `"project_id", "subject"`, `"other", "subject"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	result := load(t, loader, plugin, "0", other, "-c", sound)
	if result.Health != 503 || !strings.Contains(strings.Join(result.Log, "\n"), "another configuration of the bridge") {
		t.Errorf("another file: %d %q", result.Health, result.Log)
	}
	if hits != 0 {
		t.Errorf("%d requests reached the upstream", hits)
	}
}

// moduleFile is the built module (`make wasm`).
func moduleFile(t *testing.T) string {
	t.Helper()
	file := os.Getenv("EDGE_WASM")
	if file == "" {
		file = filepath.Join("..", "..", "dist", "edge_idempotency.wasm")
	}
	file, err := filepath.Abs(file)
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		t.Fatalf("the module is not built: %v; run make wasm", err)
	}
	return file
}

func writeConfig(t *testing.T, upstream, module string) string {
	t.Helper()
	const template = `{
 "version": 3, "timeout": "60s", "read_timeout": "60s",
 "extra_config": {
  "router": {"disable_redirect_fixed_path": true, "disable_redirect_trailing_slash": true},
  "plugin/http-server": {"name": ["edge-idempotency"], "edge-idempotency": {
   "module": "MODULE",
   "upstreams": {"backend": {"url": "UPSTREAM"}},
   "policy": {
    "version": 1, "gateway_routes": true,
    "identity": {"sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
     "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"}}]},
    "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend"},
    "routes": [{"endpoint": "refunds.create", "path": "/api/refunds", "policy": "REQUIRED_A", "target": "Refunds/create", "recovery": false}]}}}},
 "endpoints": [{
  "endpoint": "/api/refunds", "method": "POST", "output_encoding": "no-op",
  "input_headers": ["Content-Type", "X-Claim-Tenant", "X-Claim-Project", "X-Claim-Subject"],
  "extra_config": {"auth/validator": {"alg": "ES256", "jwk_url": "https://id.example/jwks.json",
   "propagate_claims": [["tenant_id", "X-Claim-Tenant"], ["project_id", "X-Claim-Project"], ["sub", "X-Claim-Subject"]]}},
  "backend": [{"host": ["http://edge-idempotency.invalid"], "url_pattern": "/api/refunds",
   "extra_config": {"plugin/http-client": {"name": "edge-idempotency", "edge-idempotency": {"endpoint": "refunds.create", "upstream": "backend"}}}}]}]
}`
	file := filepath.Join(t.TempDir(), "krakend.json")
	text := strings.NewReplacer("MODULE", module, "UPSTREAM", upstream).Replace(template)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
