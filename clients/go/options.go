package idempotency

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Options are the settings of a [Client]. A field with its zero value has the default.
type Options struct {
	// Transport sends the attempts. Default: http.DefaultTransport. It must not retry by itself.
	Transport http.RoundTripper
	// Store keeps the requests until they have an answer. Default: a new MemoryStore, which a restart empties.
	Store Store
	// Credentials is asked before each attempt, and after a 401, and returns the headers that prove who the caller is, for example
	// Authorization. They replace the request's headers of the same names and are never kept. The target is the URL of the attempt.
	// The context ends with the caller's, at the latest after AttemptTimeout. An error ends the call. Default: no headers.
	Credentials func(ctx context.Context, target *url.URL) (http.Header, error)
	// SecretHeaders are the names of headers that are never kept, besides Authorization, Cookie and Proxy-Authorization.
	SecretHeaders []string
	// Methods are those that get a key. Default: POST, PATCH. A request of any method that has a key already is treated in the same way.
	Methods []string
	// Attempts is the highest number of requests for one intent, polls included. Default: 10.
	Attempts int
	// Budget is how long after the first attempt another one may begin. Default: 10 minutes.
	Budget time.Duration
	// AttemptTimeout is how long one attempt may take, from its start to the last byte of the answer. Default: 30 seconds.
	AttemptTimeout time.Duration
	// Base and Cap bound the random part of a wait, which is between 0 and min(Cap, Base × 2ⁿ). Default: 0.5 and 30 seconds.
	Base, Cap time.Duration
	// MaxRetryAfter is the longest time that an answer's Retry-After can ask for. Default: 60 seconds.
	MaxRetryAfter time.Duration
	// ExpiresAfter is how long a kept request can be sent with its key. It has to be less than the API keeps results. Default: 23 hours.
	ExpiresAfter time.Duration
	// ResumeConcurrency is how many requests ResumePending sends at the same time. Default: 16.
	ResumeConcurrency int
	// MaxRequestBytes and MaxAnswerBytes bound the bodies, which are read into memory. Default: 16 MiB each.
	MaxRequestBytes, MaxAnswerBytes int64
}

const mebibyte = 1 << 20

// withDefaults returns the options with defaults in place of zero values, or an error for a value that cannot be meant.
func (o Options) withDefaults() (Options, error) {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	if _, nested := o.Transport.(*Client); nested {
		return o, fmt.Errorf("idempotency: Options.Transport is a Client itself, and would retry by itself")
	}
	if o.Store == nil {
		o.Store = NewMemoryStore()
	}
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	for _, method := range o.Methods {
		if method != strings.ToUpper(method) || slices.Contains([]string{"", "GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"}, method) {
			return o, fmt.Errorf("idempotency: Options.Methods has %q: name methods that change something, in capitals, such as POST", method)
		}
	}
	o.SecretHeaders = append([]string{"Authorization", "Cookie", "Proxy-Authorization"}, o.SecretHeaders...)
	for i, name := range o.SecretHeaders {
		o.SecretHeaders[i] = http.CanonicalHeaderKey(name)
	}
	for _, option := range []struct {
		name         string
		value        *time.Duration
		defaultValue time.Duration
	}{
		{"Budget", &o.Budget, 10 * time.Minute},
		{"AttemptTimeout", &o.AttemptTimeout, 30 * time.Second},
		{"Base", &o.Base, 500 * time.Millisecond},
		{"Cap", &o.Cap, 30 * time.Second},
		{"MaxRetryAfter", &o.MaxRetryAfter, time.Minute},
		{"ExpiresAfter", &o.ExpiresAfter, 23 * time.Hour},
	} {
		if err := orDefault(option.name, option.value, option.defaultValue); err != nil {
			return o, err
		}
	}
	for _, err := range []error{
		orDefault("Attempts", &o.Attempts, 10),
		orDefault("ResumeConcurrency", &o.ResumeConcurrency, 16),
		orDefault("MaxRequestBytes", &o.MaxRequestBytes, 16*mebibyte),
		orDefault("MaxAnswerBytes", &o.MaxAnswerBytes, 16*mebibyte),
	} {
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

func orDefault[T int | int64 | time.Duration](name string, value *T, defaultValue T) error {
	if *value < 0 {
		return fmt.Errorf("idempotency: Options.%s is %v: it has to be more than 0, or 0 for the default %v", name, *value, defaultValue)
	}
	if *value == 0 {
		*value = defaultValue
	}
	return nil
}
