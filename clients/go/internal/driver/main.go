// Command driver sends intents for the project's end-to-end tests, as clients/DRIVER.md says.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	idempotency "edge-idempotency/clients/go"
)

type settings struct {
	Store            string `json:"store"`
	Owner            string `json:"owner"`
	Token            string `json:"token"`
	BaseMS           int    `json:"base_ms"`
	CapMS            int    `json:"cap_ms"`
	Attempts         int    `json:"attempts"`
	AttemptTimeoutMS int    `json:"attempt_timeout_ms"`
	BudgetMS         int    `json:"budget_ms"`
	MaxRetryAfterMS  int    `json:"max_retry_after_ms"`
	Concurrency      int    `json:"concurrency"`
	Resume           bool   `json:"resume"`
}

type intent struct {
	ID           string `json:"id"`
	Method       string `json:"method"`
	URL          string `json:"url"`
	Body         string `json:"body"`
	AbortAfterMS *int   `json:"abort_after_ms"`
}

type answered struct {
	Event       string  `json:"event"`
	ID          *string `json:"id"`
	Key         string  `json:"key"`
	Status      int     `json:"status"`
	Body        string  `json:"body"`
	Replayed    bool    `json:"replayed"`
	Attempts    int     `json:"attempts"`
	OperationID *string `json:"operation_id"`
	Code        *string `json:"code"`
	Retry       *string `json:"retry"`
}

type failed struct {
	Event    string  `json:"event"`
	ID       *string `json:"id"`
	Key      *string `json:"key"`
	Error    string  `json:"error"`
	Attempts int     `json:"attempts"`
	Message  string  `json:"message"`
}

func main() {
	if err := drive(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// drive reads intents until the input ends, and returns when all of them are done.
func drive(arguments []string, input io.Reader, output io.Writer) error {
	if len(arguments) != 1 {
		return errors.New("usage: driver SETTINGS (see clients/DRIVER.md)")
	}
	set := settings{Concurrency: 64}
	if err := json.Unmarshal([]byte(arguments[0]), &set); err != nil {
		return fmt.Errorf("the settings: %w", err)
	}
	client, err := newClient(set)
	if err != nil {
		return err
	}
	tell := &teller{encoder: json.NewEncoder(output)}
	if set.Resume {
		for result := range client.ResumePending(context.Background()) {
			tell.result(nil, result.Response, result.Err)
		}
	}
	return errors.Join(sendAll(client, max(1, set.Concurrency), input, tell), tell.err)
}

func newClient(set settings) (*idempotency.Client, error) {
	store, err := idempotency.NewFileStore(set.Store)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = set.Concurrency
	milliseconds := func(count int) time.Duration { return time.Duration(count) * time.Millisecond }
	return idempotency.New(idempotency.Options{
		Transport: transport, Store: store, Attempts: set.Attempts, Base: milliseconds(set.BaseMS), Cap: milliseconds(set.CapMS),
		AttemptTimeout: milliseconds(set.AttemptTimeoutMS), Budget: milliseconds(set.BudgetMS),
		MaxRetryAfter: milliseconds(set.MaxRetryAfterMS), ResumeConcurrency: set.Concurrency,
		Owner: set.Owner,
		Credentials: func(context.Context, *url.URL) (string, http.Header, error) {
			if set.Token == "" {
				return set.Owner, nil, nil
			}
			return set.Owner, http.Header{"Authorization": {"Bearer " + set.Token}}, nil
		},
	})
}

func sendAll(client *idempotency.Client, concurrency int, input io.Reader, tell *teller) error {
	var group sync.WaitGroup
	defer group.Wait()
	slots := make(chan struct{}, concurrency)
	httpClient := idempotency.NewHTTPClient(client)
	lines := bufio.NewReader(input)
	for {
		line, err := lines.ReadBytes('\n')
		if len(strings.TrimSpace(string(line))) > 0 {
			var one intent
			if err := json.Unmarshal(line, &one); err != nil {
				return fmt.Errorf("a line of the input: %w", err)
			}
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				response, err := send(httpClient, one)
				tell.result(&one.ID, response, err)
			})
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func send(client *http.Client, one intent) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if one.AbortAfterMS != nil {
		defer time.AfterFunc(time.Duration(*one.AbortAfterMS)*time.Millisecond, cancel).Stop()
	}
	request, err := http.NewRequestWithContext(ctx, one.Method, one.URL, strings.NewReader(one.Body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return client.Do(request)
}

// teller writes one message at a time.
type teller struct {
	mutex   sync.Mutex
	encoder *json.Encoder
	err     error
}

func (t *teller) result(id *string, response *http.Response, err error) {
	message := any(nil)
	if err != nil {
		message = failureOf(id, err)
	} else {
		info, _ := idempotency.Of(response)
		// The body is in memory, so it can be read without an error.
		body, _ := io.ReadAll(response.Body)
		message = answered{
			Event: "answer", ID: id, Key: info.Key, Status: response.StatusCode, Body: string(body), Replayed: info.Replayed, Attempts: info.Attempts,
			OperationID: orNull(info.OperationID), Code: orNull(info.Code), Retry: orNull(info.Retry),
		}
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.err = errors.Join(t.err, t.encoder.Encode(message))
}

func failureOf(id *string, err error) failed {
	message := failed{Event: "failed", ID: id, Error: "other", Message: err.Error()}
	var failure *idempotency.Error
	if errors.As(err, &failure) {
		message.Key, message.Attempts = orNull(failure.Key), failure.Attempts
	}
	switch {
	case errors.Is(err, idempotency.ErrNoAnswer):
		message.Error = "no_answer"
	case errors.Is(err, idempotency.ErrExpired):
		message.Error = "expired"
	case errors.Is(err, idempotency.ErrAborted):
		message.Error = "aborted"
	case errors.Is(err, idempotency.ErrOtherOwner):
		message.Error = "other_owner"
	}
	return message
}

// orNull makes null of an empty text.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
