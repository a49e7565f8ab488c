package idempotency

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter returns how long the value of a header Retry-After asks to wait, between 0 and the longest time: it is a number of seconds or
// an HTTP date. Anything else, and a date that has passed, is 0.
func retryAfter(text string, now time.Time, longest time.Duration) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		// A number that is too big for an integer is longer than any longest time.
		if err != nil || seconds > int64(longest/time.Second) {
			return longest
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(longest, max(0, date.Sub(now)))
}

// jitter returns a time between 0 and min(highest, base × 2ⁿ). The random number is in [0, 1).
func jitter(n int, base, highest time.Duration, random float64) time.Duration {
	return time.Duration(random * min(float64(highest), math.Ldexp(float64(base), n)))
}

// sleep waits, or returns the context's error as soon as the context ends.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
