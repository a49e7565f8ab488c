package idempotency

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"testing"
	"time"
)

// keepMany puts records with the keys "0", "1" and so on into a new store.
func keepMany(count int, at time.Time) Store {
	store := NewMemoryStore()
	for number := range count {
		record := Record{
			Owner: ann, Key: fmt.Sprint(number), Method: "POST", URL: target, Body: fmt.Append(nil, "body ", number), KeptAt: at,
			Header: http.Header{"Content-Type": {"text/plain"}},
		}
		_ = store.Put(record)
	}
	return store
}

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func results(t *testing.T, client *Client) map[string]Result {
	t.Helper()
	found := map[string]Result{}
	for result := range client.ResumePending(t.Context()) {
		found[result.Record.Key] = result
	}
	return found
}

func TestExpiredRecordsAreNotSent(t *testing.T) {
	for age, expired := range map[time.Duration]bool{
		23*time.Hour - 1: false, 23 * time.Hour: true, 9999 * time.Hour: true,
		// The clock of the machine was set.
		-5 * time.Minute: false, -5*time.Minute - 1: true,
	} {
		client, upstream, _ := newTestClient(t, Options{Store: keepMany(1, noon.Add(-age))}, says(200))
		result := results(t, client)["0"]
		if !expired {
			wantEqual(t, "error", result.Err, nil)
			continue
		}
		failure := asFailure(t, result.Response, result.Err, ErrExpired)
		wantEqual(t, "key", failure.Key, "0")
		wantEqual(t, "requests", len(upstream.seen), 0)
		wantEqual(t, "pending", pendingKeys(t, client), []string{"0"})
		wantEqual(t, "forget", client.Forget("0"), nil)
		wantEqual(t, "pending", pendingKeys(t, client), []string{})
	}
}

// A request that is under way is neither resumed nor forgotten, and its key takes no second request.
func TestWhatIsUnderWay(t *testing.T) {
	started, goOn := make(chan struct{}), make(chan struct{})
	client, upstream, _ := newTestClient(t, Options{}, func(request *http.Request) (*http.Response, error) {
		close(started)
		<-goOn
		return says(200)(request)
	})
	var group sync.WaitGroup
	group.Go(func() { answerOf(t, client, post(t, "body")) })
	<-started
	wantEqual(t, "results", len(results(t, client)), 0)
	wantEqual(t, "pending", pendingKeys(t, client), []string{testKey})
	asFailure(t, nil, client.Forget(testKey), ErrUnderWay)
	failureOf(t, client, post(t, "body"), ErrUnderWay)
	close(goOn)
	group.Wait()
	wantEqual(t, "requests", len(upstream.seen), 1)
	wantEqual(t, "forget", client.Forget(testKey), nil)
}

func TestResumeTwiceAtTheSameTime(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{Store: keepMany(200, noon), ResumeConcurrency: 8}, says(503), says(200))
	var group sync.WaitGroup
	var mutex sync.Mutex
	counts := map[string]int{}
	for range 4 {
		group.Go(func() {
			for result := range client.ResumePending(t.Context()) {
				mutex.Lock()
				counts[result.Record.Key]++
				mutex.Unlock()
			}
		})
	}
	group.Wait()
	wantEqual(t, "keys", len(counts), 200)
	for key, count := range counts {
		wantEqual(t, "results of "+key, count, 1)
	}
	wantEqual(t, "requests", len(upstream.seen), 201)
}

// listed is a store whose list is older than the store.
type listed struct {
	Store
	old Store
}

func (l listed) All() iter.Seq2[Record, error] { return l.old.All() }

// A request that got its answer after the store was listed is not sent again.
func TestResumeOfAnOldList(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{}, says(200))
	client.options.Store = listed{Store: NewMemoryStore(), old: keepMany(3, noon)}
	wantEqual(t, "results", len(results(t, client)), 0)
	wantEqual(t, "requests", len(upstream.seen), 0)
	wantEqual(t, "under way", len(client.underWay), 0)
}

// The answers that the loop did not take stay in the store.
func TestALoopThatEndsEarly(t *testing.T) {
	client, _, _ := newTestClient(t, Options{Store: keepMany(50, noon), ResumeConcurrency: 50}, says(200))
	taken := 0
	for result := range client.ResumePending(t.Context()) {
		if result.Err != nil {
			t.Error(result.Err)
		}
		if taken++; taken == 5 {
			break
		}
	}
	wantEqual(t, "pending", len(pendingKeys(t, client)), 45)
	wantEqual(t, "under way", len(client.underWay), 0)
	wantEqual(t, "results of the second time", len(results(t, client)), 45)
}

func TestResumeWithAContextThatEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client, _, _ := newTestClient(t, Options{Store: keepMany(3, noon), ResumeConcurrency: 1}, func(request *http.Request) (*http.Response, error) {
		cancel()
		<-request.Context().Done()
		return nil, request.Context().Err()
	})
	count := 0
	for result := range client.ResumePending(ctx) {
		asFailure(t, result.Response, result.Err, ErrAborted)
		count++
	}
	if count == 0 || count == 3 {
		t.Errorf("%d results", count)
	}
	wantEqual(t, "pending", len(pendingKeys(t, client)), 3)
}

func TestStoresThatFailDuringResume(t *testing.T) {
	store := &failing{Store: keepMany(1, noon), delete: errReset}
	client, _, _ := newTestClient(t, Options{Store: store}, says(200))
	info, _ := Of(results(t, client)["0"].Response)
	wantEqual(t, "store's error", info.StoreError, errReset)
	asFailure(t, nil, client.Forget("0"), ErrStore)
	store.get = errReset
	for result := range client.ResumePending(t.Context()) {
		failure := asFailure(t, result.Response, result.Err, ErrStore)
		if !errors.Is(failure, errReset) || failure.Key != "0" {
			t.Error(failure)
		}
	}
}
