package idempotency

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                                     0,
		"0":                                    0,
		"7":                                    7 * time.Second,
		" 7 ":                                  7 * time.Second,
		"60":                                   time.Minute,
		"61":                                   time.Minute,
		"9223372036854775807":                  time.Minute,
		"9223372036":                           time.Minute,
		"99999999999999999999999999":           time.Minute,
		"-7":                                   0,
		"+7":                                   0,
		"1.5":                                  0,
		"7s":                                   0,
		"soon":                                 0,
		"٧":                                    0,
		"Tue, 24 Nov 2026 12:00:09 GMT":        9 * time.Second,
		"Tue, 24 Nov 2026 11:59:00 GMT":        0,
		"Tue, 24 Nov 2099 12:00:00 GMT":        time.Minute,
		"Tuesday, 24-Nov-26 12:00:09 GMT":      9 * time.Second,
		"Tue Nov 24 12:00:09 2026":             9 * time.Second,
		"2026-11-24T12:00:09Z":                 0,
		"Tue, 99 Nov 2026 12:00:09 GMT":        0,
		strings.Repeat("9", 10000):             time.Minute,
		strings.Repeat("0", 10000) + "0000007": 7 * time.Second,
	} {
		if got := retryAfter(text, now, time.Minute); got != want {
			t.Errorf("retryAfter(%.40q) = %v, want %v", text, got, want)
		}
	}
}

func TestJitter(t *testing.T) {
	const base, highest = 500 * time.Millisecond, 30 * time.Second
	bounds := map[int]time.Duration{0: base, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 6: highest, 100: highest, 100000: highest}
	for n, bound := range bounds {
		for random, want := range map[float64]time.Duration{0: 0, 0.5: bound / 2, 1: bound} {
			wantEqual(t, "jitter", jitter(n, base, highest, random), want)
		}
	}
}

// The client waits for Retry-After and the random part, which grows with each retry.
func TestWaits(t *testing.T) {
	client, _, clock := newTestClient(t, Options{}, breaks, says(503, "Retry-After: 7"), says(503, "Retry-After: 999"), says(200))
	_, info := answerOf(t, client, post(t, "body"))
	wantEqual(t, "attempts", info.Attempts, 4)
	wantEqual(t, "waits", clock.waits, []time.Duration{500 * time.Millisecond, 8 * time.Second, 62 * time.Second})
}

func TestAttemptsAreUsedUp(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{Attempts: 3}, says(503), breaks)
	failure := failureOf(t, client, post(t, "body"), ErrNoAnswer)
	wantEqual(t, "key", failure.Key, testKey)
	wantEqual(t, "attempts", failure.Attempts, 3)
	wantEqual(t, "requests", len(upstream.seen), 3)
	wantEqual(t, "kept", failure.Kept, true)
	wantEqual(t, "pending", pendingKeys(t, client), []string{testKey})
	if !errors.Is(failure, errReset) {
		t.Errorf("the last cause is missing: %v", failure)
	}
	for number, request := range upstream.seen {
		wantEqual(t, "attempt", request.header.Get(attemptHeader), []string{"1", "2", "3"}[number])
		wantEqual(t, "key", request.header.Get(keyHeader), testKey)
		wantEqual(t, "body", request.body, "body")
	}
}

// The second wait would end after the budget, so it is not waited.
func TestBudgetEndsWithoutTheWait(t *testing.T) {
	client, upstream, clock := newTestClient(t, Options{Budget: 20 * time.Second}, says(503, "Retry-After: 10"))
	failure := failureOf(t, client, post(t, "body"), ErrNoAnswer)
	wantEqual(t, "requests", len(upstream.seen), 2)
	wantEqual(t, "waits", clock.waits, []time.Duration{10500 * time.Millisecond})
	wantEqual(t, "kept", failure.Kept, true)
}

func TestAttemptAtTheEndOfTheBudget(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{Budget: 10500 * time.Millisecond}, says(503, "Retry-After: 10"), says(200))
	answerOf(t, client, post(t, "body"))
	wantEqual(t, "requests", len(upstream.seen), 2)
}

// The time of the attempts counts, too.
func TestBudgetWithSlowAttempts(t *testing.T) {
	var ticking *clock
	slow := func(*http.Request) (*http.Response, error) {
		ticking.mutex.Lock()
		defer ticking.mutex.Unlock()
		ticking.at = ticking.at.Add(4 * time.Minute)
		return nil, errReset
	}
	client, upstream, clock := newTestClient(t, Options{}, slow)
	ticking = clock
	failureOf(t, client, post(t, "body"), ErrNoAnswer)
	wantEqual(t, "requests", len(upstream.seen), 3)
}

// A request that would expire during the budget is not sent after that.
func TestNoAttemptAfterExpiry(t *testing.T) {
	store := NewMemoryStore()
	client, upstream, clock := newTestClient(t, Options{Store: store}, says(503, "Retry-After: 30"))
	kept := recordOf(t, client, post(t, "body"))
	kept.KeptAt = clock.now().Add(-23*time.Hour + 45*time.Second)
	_ = store.Put(kept)
	failure := failureOf(t, client, post(t, "body"), ErrExpired)
	wantEqual(t, "attempts", failure.Attempts, 2)
	wantEqual(t, "requests", len(upstream.seen), 2)
	wantEqual(t, "waits", len(clock.waits), 1)
}

// A wait takes longer than it should while the machine is suspended, and the budget's clock does not count that.
func TestNoAttemptAfterASuspend(t *testing.T) {
	client, upstream, clock := newTestClient(t, Options{Budget: 1000 * time.Hour}, says(503), says(200))
	clock.whileWaiting = func() { clock.at = clock.at.Add(24 * time.Hour) }
	wantEqual(t, "attempts", failureOf(t, client, post(t, "body"), ErrExpired).Attempts, 1)
	wantEqual(t, "requests", len(upstream.seen), 1)
	wantEqual(t, "pending", pendingKeys(t, client), []string{testKey})
}

func TestNoAttemptWhenTheCredentialsTookTooLong(t *testing.T) {
	var ticking *clock
	slow := func(context.Context, *url.URL) (http.Header, error) {
		ticking.at = ticking.at.Add(24 * time.Hour)
		return nil, nil
	}
	client, upstream, clock := newTestClient(t, Options{Store: keepMany(1, noon), Credentials: of(ann, slow)}, says(200))
	ticking = clock
	result := results(t, client)["0"]
	wantEqual(t, "attempts", asFailure(t, result.Response, result.Err, ErrExpired).Attempts, 0)
	wantEqual(t, "requests", len(upstream.seen), 0)
}

// To ask at Location cannot make the operation run again.
func TestPollsAfterExpiry(t *testing.T) {
	client, upstream, clock := newTestClient(t, Options{Budget: 1000 * time.Hour},
		says(202, "Idempotency-Status: processing", "Location: /operations/1"), says(503), says(200))
	clock.whileWaiting = func() { clock.at = clock.at.Add(24 * time.Hour) }
	answerOf(t, client, post(t, "body"))
	wantEqual(t, "requests", len(upstream.seen), 3)
}

func TestSleepEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := sleep(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

// recordOf returns the record that the client would keep.
func recordOf(t *testing.T, client *Client, request *http.Request) Record {
	t.Helper()
	record, _, _, err := client.readRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	return record
}
