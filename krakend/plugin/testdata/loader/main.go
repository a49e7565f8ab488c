// Command loader opens the plugin as KrakenD does and sends requests through it: `loader PLUGIN REQUESTS WORKERS ENDPOINT
// KRAKEND.JSON [KrakenD's flags]`. The plugin finds the file by the flags, and gets its own configuration from KRAKEND.JSON. It uses the standard library only: if it contained wazero, the plugin would use the loader's copy.
// It prints a JSON object: {"answers": {status: count}, "health": status, "wrong": […], "log": […]}.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"plugin"
	"strconv"
	"strings"
	"sync"
)

type factory = func(context.Context, map[string]interface{}) (http.Handler, error)

// ginContext is gin's context as far as a plugin can see it.
type ginContext struct {
	context.Context
	Request *http.Request
}

func (c *ginContext) Value(key any) any {
	if key == "_gin-gonic/gin/contextkey" {
		return c
	}
	return c.Context.Value(key)
}

type result struct {
	mutex   sync.Mutex
	Answers map[string]int `json:"answers"`
	Health  int            `json:"health"`
	Wrong   []string       `json:"wrong"`
	Log     []string       `json:"log"`
}

func (r *result) line(level string) func(...interface{}) {
	return func(v ...interface{}) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.Log = append(r.Log, level+" "+fmt.Sprint(v...))
	}
}

// logger has the methods of lura's logger.
type logger struct{ result *result }

func (l logger) Debug(v ...interface{})    {}
func (l logger) Info(v ...interface{})     {}
func (l logger) Warning(v ...interface{})  { l.result.line("warning")(v...) }
func (l logger) Error(v ...interface{})    { l.result.line("error")(v...) }
func (l logger) Critical(v ...interface{}) { l.result.line("critical")(v...) }
func (l logger) Fatal(v ...interface{})    { l.result.line("fatal")(v...) }

func main() {
	r := &result{Answers: map[string]int{}}
	if err := run(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(r)
}

func run(r *result) error {
	opened, err := plugin.Open(os.Args[1])
	if err != nil {
		return err
	}
	symbol, err := opened.Lookup("ClientRegisterer")
	if err != nil {
		return err
	}
	symbol.(interface{ RegisterLogger(interface{}) }).RegisterLogger(logger{r})
	factories := map[string]factory{}
	symbol.(interface {
		RegisterClients(func(string, func(context.Context, map[string]interface{}) (http.Handler, error)))
	}).RegisterClients(func(name string, make func(context.Context, map[string]interface{}) (http.Handler, error)) {
		factories[name] = make
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	handler, err := factories["edge-idempotency"](ctx, map[string]interface{}{
		"name": "edge-idempotency", "edge-idempotency": map[string]interface{}{"endpoint": os.Args[4], "upstream": "backend"},
	})
	if err != nil {
		return fmt.Errorf("the factory returned an error: %w", err)
	}
	if r.Health, err = health(ctx, opened, os.Args[5]); err != nil {
		return err
	}
	requests, _ := strconv.Atoi(os.Args[2])
	workers, _ := strconv.Atoi(os.Args[3])
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for number := worker; number < requests; number += workers {
				r.send(handler, number)
			}
		})
	}
	group.Wait()
	return nil
}

// health asks for the health of the gateway behind the plugin's handler, as lura puts it around the router.
func health(ctx context.Context, opened *plugin.Plugin, file string) (int, error) {
	symbol, err := opened.Lookup("HandlerRegisterer")
	if err != nil {
		return 0, err
	}
	var config struct {
		Extra map[string]map[string]interface{} `json:"extra_config"`
	}
	if text, err := os.ReadFile(file); err == nil {
		_ = json.Unmarshal(text, &config)
	}
	var handler http.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	symbol.(interface {
		RegisterHandlers(func(string, func(context.Context, map[string]interface{}, http.Handler) (http.Handler, error)))
	}).RegisterHandlers(func(name string, make func(context.Context, map[string]interface{}, http.Handler) (http.Handler, error)) {
		handler, err = make(ctx, config.Extra["plugin/http-server"], handler)
	})
	if err != nil {
		return 0, fmt.Errorf("the factory returned an error: %w", err)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest("GET", "/__health", nil))
	return recorder.Code, nil
}

// send sends one request of its own caller, and compares the answer, which repeats what came.
func (r *result) send(handler http.Handler, number int) {
	user := fmt.Sprintf("user-%d", number)
	body := strings.Repeat(strconv.Itoa(number)+" ", 1+number%700)
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"tenant_id":"acme","project_id":"health","sub":"` + user + `"}`))
	client := httptest.NewRequest("POST", "/api/refunds", strings.NewReader(body))
	client.Header = http.Header{
		"Authorization": {"Bearer e30." + claims + ".c2ln"}, "Content-Type": {"text/plain"}, "Idempotency-Key": {fmt.Sprintf("key-%d", number)},
		"X-Claim-Tenant": {"acme"}, "X-Claim-Project": {"health"}, "X-Claim-Subject": {user},
	}
	own, _ := http.NewRequest("POST", "http://edge-idempotency.invalid/api/refunds", client.Body)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, own.WithContext(&ginContext{context.Background(), client}))
	answer := recorder.Result()
	text, _ := io.ReadAll(answer.Body)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.Answers[strconv.Itoa(answer.StatusCode)]++
	wanted := fmt.Sprintf("t-acme:health:user:%s:key-%d\n%s", user, number, body)
	if answer.StatusCode == 200 && string(text) != wanted && len(r.Wrong) < 5 {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%.200q, not %.200q", text, wanted))
	}
}
