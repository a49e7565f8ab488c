package idempotency

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Client is an [http.RoundTripper] that sends each request of one owner with a key until there is an answer. Use New. Several goroutines can use it at
// the same time.
type Client struct {
	options Options
	now     func() time.Time
	sleep   func(ctx context.Context, wait time.Duration) error
	random  func() float64

	mutex sync.Mutex
	// underWay has the requests that this client is sending.
	underWay map[recordID]struct{}
}

// New returns a client, or an error for an option that cannot be meant.
func New(options Options) (*Client, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Client{options: options, now: time.Now, sleep: sleep, random: rand.Float64, underWay: map[recordID]struct{}{}}, nil
}

// NewHTTPClient returns an http.Client that sends by the client and follows no redirect. It has no Timeout: the options bound each attempt
// and all of them, and a request's context ends earlier if the caller wants that.
func NewHTTPClient(client *Client) *http.Client {
	return &http.Client{
		Transport:     client,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip sends a request with a method of Options.Methods, or with a key, until there is an answer, and returns that, whatever its status,
// with its body in memory. Of tells the key and more. Its error is an *Error. The request's context ends waits and attempts.
//
// Any other request goes to Options.Transport as it is.
func (c *Client) RoundTrip(request *http.Request) (*http.Response, error) {
	callersKey := hasKey(request.Header)
	if err := c.checkRedirect(request, callersKey); err != nil {
		closeBody(request)
		return nil, err
	}
	if !callersKey && !slices.Contains(c.options.Methods, request.Method) {
		return c.options.Transport.RoundTrip(request)
	}
	record, header, callersKey, err := c.readRequest(request)
	if err != nil {
		return nil, &Error{Kind: ErrInvalidRequest, Key: record.Key, Cause: err}
	}
	if !c.claim(record.id()) {
		cause := errors.New("wait for its answer, or take a new key for a new intent")
		return nil, &Error{Kind: ErrUnderWay, Key: record.Key, Kept: true, Cause: cause}
	}
	defer c.release(record.id())
	ctx := request.Context()
	intent, err := c.keep(ctx, record, header, callersKey)
	if err != nil {
		return nil, err
	}
	answer, err := intent.run(ctx)
	if err != nil {
		return nil, err
	}
	return intent.response(ctx, answer, c.options.Store.Delete(record.Owner, record.Key)), nil
}

// checkRedirect refuses a request that http.Client makes of a redirect, because the key and the body are for the first origin only.
func (c *Client) checkRedirect(request *http.Request, hasKey bool) error {
	info, keyed := Of(request.Response)
	if !keyed && (request.Response == nil || !hasKey) {
		return nil
	}
	cause := fmt.Errorf("the answer was a redirect (HTTP status %d to %q), which must not be followed: "+
		"use NewHTTPClient, or return http.ErrUseLastResponse in CheckRedirect", request.Response.StatusCode, request.Response.Header.Get("Location"))
	return &Error{Kind: ErrInvalidRequest, Key: info.Key, Attempts: info.Attempts, Cause: cause}
}

// keep puts a new request into the store. A request that is kept already under the caller's key goes on as it was kept.
func (c *Client) keep(ctx context.Context, record Record, header http.Header, callersKey bool) (*intent, error) {
	failure := func(kind, cause error, kept bool) (*intent, error) {
		return nil, &Error{Kind: kind, Key: record.Key, Kept: kept, Cause: cause}
	}
	found := false
	if callersKey {
		var err error
		if record, found, err = c.earlier(record); err != nil {
			return nil, err
		}
	}
	if cause := c.expired(record, 0); cause != nil {
		return failure(ErrExpired, cause, true)
	}
	target, err := url.Parse(record.URL)
	if err != nil {
		return failure(ErrInvalidRequest, err, found)
	}
	// Without credentials nothing is sent, and so nothing is kept.
	bounded, cancel := context.WithTimeout(ctx, c.options.AttemptTimeout)
	defer cancel()
	credentials, err := c.askCredentials(bounded, target)
	if ctx.Err() != nil {
		return failure(ErrAborted, aborted(ctx), found)
	}
	if err != nil {
		return failure(kindOf(err), err, found)
	}
	if !found {
		err := c.options.Store.Put(record)
		if errors.Is(err, ErrRecordExists) {
			// Another process has kept a request under this key meanwhile.
			var earlierErr error
			if record, found, earlierErr = c.earlier(record); earlierErr != nil {
				return nil, earlierErr
			}
			if !found {
				return failure(ErrStore, fmt.Errorf("another user of the store has just sent and removed a request with this key: %w", err), false)
			}
		} else if err != nil {
			// A request that the caller believes lost must not be sent by ResumePending.
			deleteErr := c.removeRest(record)
			return failure(ErrStore, errors.Join(err, deleteErr), deleteErr != nil)
		}
	}
	return &intent{client: c, record: record, url: target, header: header, credentials: credentials}, nil
}

// earlier returns the request as it is kept already under its key, or the given one and false. Its error is an *Error.
func (c *Client) earlier(record Record) (Record, bool, error) {
	earlier, found, err := c.options.Store.Get(record.Owner, record.Key)
	if err != nil {
		return record, false, &Error{Kind: ErrStore, Key: record.Key, Cause: err}
	}
	if found && !sameRequest(earlier, record) {
		cause := errors.New("another request is kept under this key: take a new key, or Forget the other request")
		return record, false, &Error{Kind: ErrInvalidRequest, Key: record.Key, Kept: true, Cause: cause}
	}
	if found {
		record.KeptAt = earlier.KeptAt
	}
	return record, found, nil
}

// removeRest removes what a failed Put has left, but not what another process has put meanwhile.
func (c *Client) removeRest(record Record) error {
	left, found, err := c.options.Store.Get(record.Owner, record.Key)
	if err == nil && found && !(sameRequest(left, record) && left.KeptAt.Equal(record.KeptAt)) {
		return nil
	}
	return c.options.Store.Delete(record.Owner, record.Key)
}

// claim takes an owner's key for one request, and tells whether it was free.
func (c *Client) claim(id recordID) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if _, taken := c.underWay[id]; taken {
		return false
	}
	c.underWay[id] = struct{}{}
	return true
}

func (c *Client) release(id recordID) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.underWay, id)
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}
