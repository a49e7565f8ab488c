package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// run drives the input, and returns the messages by their id, "null" for resumed ones.
func run(t *testing.T, settings, input string) map[string]map[string]any {
	t.Helper()
	var output strings.Builder
	if err := drive([]string{settings}, strings.NewReader(input), &output); err != nil {
		t.Fatal(err)
	}
	messages := map[string]map[string]any{}
	for _, line := range strings.Split(strings.TrimSpace(output.String()), "\n") {
		var message map[string]any
		if err := json.Unmarshal([]byte(line), &message); err != nil {
			t.Fatal(err, line)
		}
		id, isText := message["id"].(string)
		if !isText {
			id = "null"
		}
		messages[id] = message
	}
	return messages
}

func TestDriver(t *testing.T) {
	var works atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		switch {
		case request.Header.Get("Authorization") != "Bearer t" || request.Header.Get("Content-Type") != "application/json":
			writer.WriteHeader(400)
		case string(body) == "hang" && works.Load():
			writer.WriteHeader(503)
		case string(body) == "hang":
			<-request.Context().Done()
		case string(body) == "broken" && !works.Load():
			writer.WriteHeader(503)
		case string(body) == "refused":
			writer.Header().Set("Content-Type", "application/problem+json")
			writer.WriteHeader(422)
			_, _ = io.WriteString(writer, `{"code":"c","retry":"new_key"}`)
		default:
			writer.Header().Set("X-Operation-Id", "inv_1")
			_, _ = io.WriteString(writer, "made "+string(body))
		}
	}))
	defer server.Close()
	line := func(id, body, more string) string {
		return fmt.Sprintf(`{"id": %q, "method": "POST", "url": "%s/orders", "body": %q%s}`+"\n", id, server.URL, body, more)
	}
	settings := fmt.Sprintf(`{"store": %q, "owner": "ann", "token": "t", "base_ms": 1, "cap_ms": 2, "attempts": 2, "attempt_timeout_ms": 60000,
		"budget_ms": 60000, "max_retry_after_ms": 10, "concurrency": 3, "resume": true}`, t.TempDir())
	messages := run(t, settings, line("1", "a", "")+line("2", "broken", `, "abort_after_ms": null`)+"\n"+
		line("3", "hang", `, "abort_after_ms": 50`)+line("4", "refused", "")+strings.TrimSuffix(line("5", "b", ""), "\n"))
	for id, want := range map[string]string{
		"1": "answer 200 made a false 1 inv_1 <nil> <nil>",
		"2": "failed no_answer 2",
		"3": "failed aborted 1",
		"4": `answer 422 {"code":"c","retry":"new_key"} false 1 <nil> c new_key`,
		"5": "answer 200 made b false 1 inv_1 <nil> <nil>",
	} {
		message := messages[id]
		got := fmt.Sprint(message["event"], " ", message["error"], " ", message["attempts"])
		if message["event"] == "answer" {
			got = fmt.Sprint(message["event"], " ", message["status"], " ", message["body"], " ", message["replayed"], " ", message["attempts"], " ",
				message["operation_id"], " ", message["code"], " ", message["retry"])
		}
		if got != want || len(message["key"].(string)) != 36 {
			t.Errorf("%s: %v, want %s", id, message, want)
		}
	}

	// Another user's process sends nothing of it.
	others := run(t, strings.Replace(settings, `"ann"`, `"bob"`, 1), "")["null"]
	if others["error"] != "other_owner" {
		t.Error(others)
	}

	// The next process sends what is pending: the broken one gets its answer, and the other one none. So only that is left for the third.
	works.Store(true)
	run(t, settings, "")
	again := run(t, settings, "")["null"]
	if again["error"] != "no_answer" || again["key"] != messages["3"]["key"] {
		t.Error(again)
	}
}

func TestDriverRefusesBadInput(t *testing.T) {
	for _, test := range []struct{ settings, input string }{{"{", ""}, {`{"store": ""}`, ""}, {fmt.Sprintf(`{"store": %q}`, t.TempDir()), ""}, {fmt.Sprintf(`{"store": %q, "owner": "ann"}`, t.TempDir()), "{"}} {
		if err := drive([]string{test.settings}, strings.NewReader(test.input), io.Discard); err == nil {
			t.Error(test)
		}
	}
}
