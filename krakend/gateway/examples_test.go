package gateway

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"edge-idempotency/krakend/bridge"
)

// The example passes all checks, and the module starts with its policy; nothing is left to be said about it.
func TestTheExamplesStart(t *testing.T) {
	// What the note says is meant: the demo's reports.run is for the scheduler.
	for name, wanted := range map[string][]string{"demo": {"only signed callers can use the endpoint"}} {
		directory := filepath.Join("..", "examples", name)
		config := readObject(t, filepath.Join(directory, "krakend.json"))
		policy, err := filepath.Abs(filepath.Join(directory, "policy.json"))
		if err != nil {
			t.Fatal(err)
		}
		set(config, modulePath(t), "extra_config", serverPlugin, own, "module")
		set(config, policy, "extra_config", serverPlugin, own, "policy_file")
		set(config, "127.0.0.1:0", "extra_config", serverPlugin, own, "metrics_listen")
		file := writeConfig(t, config)
		options := LoadOptions{Plugin: true, LookupEnv: func(name string) (string, bool) {
			return strings.Repeat("s", 40), !strings.HasPrefix(name, "KRAKEND_")
		}}
		notes, err := Check(file, options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, note := range notes {
			if !slices.ContainsFunc(wanted, func(text string) bool { return strings.Contains(note, text) }) {
				t.Errorf("%s: %s", name, note)
			}
		}
		log := new(lines)
		options.Log = log.write
		g, err := Load(file, options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if strings.Contains(log.text(), bridge.LevelError.String()+" ") {
			t.Errorf("%s: %s", name, log.text())
		}
	}
}

// The examples' policies are those of the project, except for what KrakenD cannot have.
func TestTheExamplesPoliciesDifferFromTheProjectsInWhatKrakenDNeeds(t *testing.T) {
	demo := readObject(t, filepath.Join("..", "..", "deploy", "demo", "policy.json"))
	demo["gateway_routes"] = true
	// KrakenD adds no credentials to the module's calls.
	set(demo, object{"env": "UNKEY_ROOT_KEY"}, "webhooks", "unkey", "root_key")
	set(demo, object{"env": "OPENBAO_TOKEN"}, "webhooks", "openbao", "token")
	for name, wanted := range map[string]object{"demo": demo} {
		given := readObject(t, filepath.Join("..", "examples", name, "policy.json"))
		if !reflect.DeepEqual(given, wanted) {
			t.Errorf("examples/%s/policy.json is not the project's policy with what KrakenD needs", name)
		}
	}
}

// KrakenD's own defaults for what the examples leave out would end recoveries early.
func TestTheExamplesWaitAsLongAsThePolicy(t *testing.T) {
	for _, name := range []string{"demo"} {
		text, err := os.ReadFile(filepath.Join("..", "examples", name, "krakend.json"))
		if err != nil {
			t.Fatal(err)
		}
		document, err := parse(name, text)
		if err != nil || time.Duration(document.Timeout) < 32*time.Second || document.ReadTimeout == 0 {
			t.Errorf("%s: %v, %v", name, document, err)
		}
	}
}

func readObject(t *testing.T, file string) object {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var document object
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return document
}
