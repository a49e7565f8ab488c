package idempotency

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Options are the settings of a [Client]. A field with its zero value has the default; Owner and Credentials have none.
type Options struct {
	// Transport sends the attempts. Default: http.DefaultTransport. It must not retry by itself.
	Transport http.RoundTripper
	// Store keeps the requests until they have an answer. Default: a new MemoryStore, which a restart empties.
	Store Store
	// Owner is who makes the requests of this client: all by which the API tells its callers apart, such as tenant, project and subject. It is
	// kept with each request, and the client sends requests of this owner only. It has no default.
	Owner string
	// Credentials is asked before each attempt, and after a 401. It returns who is logged in now, and the headers that prove it, for example
	// Authorization. If the owner is not Options.Owner, nothing is sent. The headers replace the request's headers of the same names and are
	// never kept. The target is the URL of the attempt. The context ends with the caller's, at the latest after AttemptTimeout. An error ends
	// the call. It has no default.
	Credentials func(ctx context.Context, target *url.URL) (owner string, header http.Header, err error)
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
	if strings.TrimSpace(o.Owner) == "" || !utf8.ValidString(o.Owner) {
		return o, fmt.Errorf("idempotency: Options.Owner is %q: name who makes the requests of this client, in UTF-8", o.Owner)
	}
	if o.Credentials == nil {
		return o, fmt.Errorf("idempotency: Options.Credentials is missing: it says who is logged in, and gives the headers that prove it")
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
