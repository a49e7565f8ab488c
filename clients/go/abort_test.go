package idempotency

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
)

func withContext(t *testing.T) (*http.Request, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return post(t, "body").WithContext(ctx), cancel
}

// cancels is a body that ends the context when it is read, and then breaks.
type cancels struct{ cancel context.CancelFunc }

func (c cancels) Read([]byte) (int, error) { c.cancel(); return 0, context.Canceled }
func (c cancels) Close() error             { return nil }

func TestAbortDuringTheBody(t *testing.T) {
	request, cancel := withContext(t)
	client, _, _ := newTestClient(t, Options{}, func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: cancels{cancel}}, nil
	})
	failureOf(t, client, request, ErrAborted)
	wantEqual(t, "pending", pendingKeys(t, client), []string{testKey})
}

func TestAbortWhileTheCredentialsAreAsked(t *testing.T) {
	for _, call := range []int{1, 2} {
		request, cancel := withContext(t)
		calls := 0
		options := Options{Credentials: of(ann, func(ctx context.Context, _ *url.URL) (http.Header, error) {
			if calls++; calls == call {
				cancel()
				return nil, ctx.Err()
			}
			return nil, nil
		})}
		client, _, _ := newTestClient(t, options, says(401))
		failure := failureOf(t, client, request, ErrAborted)
		wantEqual(t, "kept", failure.Kept, call == 2)
	}
}

// Other credentials need no wait, which would see the abort.
func TestAbortWithOtherCredentials(t *testing.T) {
	request, cancel := withContext(t)
	calls := 0
	options := Options{Credentials: of(ann, func(context.Context, *url.URL) (http.Header, error) {
		if calls++; calls == 2 {
			cancel()
		}
		return http.Header{"Authorization": {strconv.Itoa(calls)}}, nil
	})}
	client, upstream, _ := newTestClient(t, options, says(401))
	failureOf(t, client, request, ErrAborted)
	wantEqual(t, "requests", len(upstream.seen), 1)
}

// The deadline is the caller's, so it is an abort; the cause of the caller is told, too.
func TestDeadlineAndCause(t *testing.T) {
	cause := errors.New("the user has gone")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, cause)
	defer cancel()
	client, _, _ := newTestClient(t, Options{}, says(200))
	failure := failureOf(t, client, post(t, "body").WithContext(ctx), ErrAborted)
	if !errors.Is(failure, context.DeadlineExceeded) || !errors.Is(failure, cause) {
		t.Error(failure)
	}
}

// An answer that is whole is given, also if the caller aborts at that moment.
func TestAbortAfterTheAnswer(t *testing.T) {
	request, cancel := withContext(t)
	client, _, _ := newTestClient(t, Options{}, func(r *http.Request) (*http.Response, error) {
		response, err := saysBody(201, "made")(r)
		cancel()
		return response, err
	})
	response, _ := answerOf(t, client, request)
	body, err := io.ReadAll(response.Body)
	wantEqual(t, "body", string(body), "made")
	wantEqual(t, "error", err, nil)
	wantEqual(t, "pending", pendingKeys(t, client), []string{})
}
