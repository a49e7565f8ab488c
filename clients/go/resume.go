package idempotency

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"sync"
)

// Result is what has become of a kept request.
type Result struct {
	// Record is the request. It is empty if the store could not read it, which Err then tells.
	Record Record
	// Response is the final answer with its body in memory, or nil if there is an error. Of tells more.
	Response *http.Response
	// Err is an *Error, or nil.
	Err error
}

// ResumePending sends each kept request of this owner that is not under way in this client, with its key, and yields the answer or the error of each as
// soon as it is there. Nothing is sent before the loop begins. A request is removed from the store when its answer is yielded.
//
// A request of another owner is not sent: its error is ErrOtherOwner, and it stays. A request that has expired is not sent: its error is ErrExpired, and it stays. A request that the store cannot read is an ErrStore.
// When the loop or the context ends early, the requests without an answer stay in the store.
func (c *Client) ResumePending(ctx context.Context) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		sending, cancel := context.WithCancel(ctx)
		ended := make(chan resumed)
		go c.resumeAll(sending, ended)
		// Every goroutine has ended when the loop ends.
		defer func() {
			cancel()
			for left := range ended {
				left.release()
			}
		}()
		for one := range ended {
			if one.answer != nil {
				one.result.Response = one.intent.response(ctx, one.answer, c.options.Store.Delete(one.intent.record.Owner, one.intent.record.Key))
			}
			one.release()
			if !yield(one.result) {
				return
			}
		}
	}
}

// resumed is a result on its way to the loop. An answer is not yet removed from the store.
type resumed struct {
	result  Result
	intent  *intent
	answer  *answer
	release func()
}

// resumeAll sends what is pending, and closes the channel when all have ended.
func (c *Client) resumeAll(ctx context.Context, ended chan<- resumed) {
	defer close(ended)
	var group sync.WaitGroup
	defer group.Wait()
	slots := make(chan struct{}, c.options.ResumeConcurrency)
	nothing := func() {}
	for record, err := range c.options.Store.All() {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			ended <- resumed{result: Result{Err: &Error{Kind: ErrStore, Kept: true, Cause: err}}, release: nothing}
			continue
		}
		if record.Owner != c.options.Owner {
			cause := otherOwner(record.Owner, c.options.Owner)
			ended <- resumed{result: Result{Record: record, Err: &Error{Kind: ErrOtherOwner, Key: record.Key, Kept: true, Cause: cause}}, release: nothing}
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		group.Go(func() {
			defer func() { <-slots }()
			if c.claim(record.id()) {
				one, isThere := c.resume(ctx, record.Key)
				one.release = func() { c.release(record.id()) }
				if !isThere {
					one.release()
					return
				}
				ended <- one
			}
		})
	}
}

// resume sends one pending request, whose key the caller has claimed. The second result is false if the request has got its answer
// before its key was claimed.
func (c *Client) resume(ctx context.Context, key string) (resumed, bool) {
	record, found, err := c.options.Store.Get(c.options.Owner, key)
	if err != nil {
		return resumed{result: Result{Err: &Error{Kind: ErrStore, Key: key, Kept: true, Cause: err}}}, true
	}
	if !found {
		return resumed{}, false
	}
	failed := func(kind, cause error) (resumed, bool) {
		return resumed{result: Result{Record: record, Err: &Error{Kind: kind, Key: key, Kept: true, Cause: cause}}}, true
	}
	if cause := c.expired(record, 0); cause != nil {
		return failed(ErrExpired, cause)
	}
	target, err := url.Parse(record.URL)
	if err != nil {
		return failed(ErrInvalidRequest, err)
	}
	intent := &intent{client: c, record: record, url: target, header: canonicalHeader(record.Header)}
	answer, err := intent.run(ctx)
	return resumed{result: Result{Record: record, Err: err}, intent: intent, answer: answer}, true
}

// Forget removes a kept request of this owner, so that it is never sent again. It is no error if there is none with this key. While the request is under
// way the error is ErrUnderWay: abort it first.
func (c *Client) Forget(key string) error {
	return c.forget(recordID{c.options.Owner, key})
}

// ForgetOwner removes all kept requests of an owner, for the log-out: nobody sends them again. What is under way in this client stays, with the
// error ErrUnderWay: abort it first. For records that the store cannot read the error is not nil, either; the others are removed.
func (c *Client) ForgetOwner(owner string) error {
	var failures []error
	for record, err := range c.options.Store.All() {
		if err != nil {
			failures = append(failures, &Error{Kind: ErrStore, Kept: true, Cause: err})
		} else if record.Owner == owner {
			failures = append(failures, c.forget(record.id()))
		}
	}
	return errors.Join(failures...)
}

func (c *Client) forget(id recordID) error {
	if !c.claim(id) {
		return &Error{Kind: ErrUnderWay, Key: id.key, Kept: true, Cause: errors.New("abort it first")}
	}
	defer c.release(id)
	if err := c.options.Store.Delete(id.owner, id.key); err != nil {
		return &Error{Kind: ErrStore, Key: id.key, Kept: true, Cause: err}
	}
	return nil
}

// Pending returns the kept requests of all owners, also those that are under way. For those that the store cannot read the error is not nil; the
// others are returned beside it.
func (c *Client) Pending() ([]Record, error) {
	var records []Record
	var failures []error
	for record, err := range c.options.Store.All() {
		if err != nil {
			failures = append(failures, &Error{Kind: ErrStore, Kept: true, Cause: err})
			continue
		}
		records = append(records, record)
	}
	return records, errors.Join(failures...)
}
