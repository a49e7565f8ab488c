// Package retries has a client of Go's retryablehttp that sends a request again until there is an answer.
package retries

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// NewClient makes a client. timeout is that of an attempt, base the first wait.
func NewClient(timeout, base time.Duration) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.RetryMax, client.RetryWaitMin = 9, base
	client.HTTPClient.Timeout = timeout                         // of each attempt
	client.ErrorHandler = retryablehttp.PassthroughErrorHandler // the caller gets the last answer
	client.CheckRetry = func(ctx context.Context, answer *http.Response, err error) (bool, error) {
		if err != nil || ctx.Err() != nil {
			return retryablehttp.DefaultRetryPolicy(ctx, answer, err)
		}
		if withoutKey(answer.Request) {
			return false, nil
		}
		switch answer.Header.Get("Idempotency-Retry") {
		case "same_key", "wait":
			return true, nil
		case "":
			inFlight := (answer.StatusCode == 409 || answer.StatusCode == 425) && answer.Header.Get("Retry-After") != ""
			again, _ := retryablehttp.DefaultRetryPolicy(ctx, answer, nil)
			return inFlight || again, nil
		}
		return false, nil // a kept error
	}
	client.Backoff = func(low, high time.Duration, attempt int, answer *http.Response) time.Duration {
		if answer != nil { // DefaultBackoff reads the Retry-After of a 429 and of a 503 only
			busy := *answer
			busy.StatusCode = http.StatusServiceUnavailable
			answer = &busy
		}
		return min(retryablehttp.DefaultBackoff(low, high, attempt, answer), time.Minute) + rand.N(low)
	}
	client.PrepareRetry = func(request *http.Request) error {
		if withoutKey(request) { // the attempt before got no answer
			return errors.New("a POST without an Idempotency-Key is not sent again")
		}
		return nil
	}
	return client
}

func withoutKey(request *http.Request) bool {
	return request.Method == http.MethodPost && request.Header.Get("Idempotency-Key") == ""
}
