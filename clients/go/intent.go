package idempotency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// intent is one kept request on its way to its answer. One goroutine uses it.
type intent struct {
	client *Client
	record Record
	url    *url.URL
	// header has what is sent with each attempt, without the key: the record's headers, and the secret ones of the caller's request.
	header http.Header
	// credentials are those of the next attempt, if they are known already.
	credentials http.Header
	// poll is where the client asks for the answer, or nil while it sends the request itself.
	poll *url.URL
	// renewed tells whether a 401 was followed by other credentials already.
	renewed  bool
	attempts int
	deadline time.Time
}

// answer is a response that has arrived whole, up to the limit. The response's body is closed, and its bytes are here.
type answer struct {
	response *http.Response
	body     []byte
	tooLong  bool
}

var (
	errAttemptTimeout = errors.New("no whole answer within the time limit of an attempt")
	errOtherOwner     = errors.New("the user has changed")
)

// failure makes an error about the kept request.
func (i *intent) failure(kind, cause error) *Error {
	return &Error{Kind: kind, Key: i.record.Key, Attempts: i.attempts, Kept: true, Cause: cause}
}

// aborted is the cause of ErrAborted. It wraps the context's error and what the caller gave as the cause, which may differ.
func aborted(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// run sends the request until there is a final answer. It returns either that or an *Error.
func (i *intent) run(ctx context.Context) (*answer, error) {
	i.deadline = i.client.now().Add(i.client.options.Budget)
	for {
		answer, sent, err := i.attempt(ctx)
		if err != nil && ctx.Err() != nil {
			return nil, i.failure(ErrAborted, aborted(ctx))
		}
		var failed *Error
		if errors.As(err, &failed) {
			return nil, failed
		}
		var wait time.Duration
		atOnce := false
		if err == nil {
			asked, polls := i.asked(), i.poll != nil
			verdict, location := judge(answer.response, asked, polls)
			if verdict == unauthorized {
				if atOnce, err = i.renew(ctx, sent); err != nil {
					if ctx.Err() != nil {
						return nil, i.failure(ErrAborted, aborted(ctx))
					}
					return nil, err
				}
				if !atOnce {
					verdict = final
				}
			}
			switch verdict {
			case final:
				if answer.tooLong {
					return nil, i.failure(ErrAnswerTooLong, fmt.Errorf("HTTP status %d with a body of more than %d bytes: raise Options.MaxAnswerBytes",
						answer.response.StatusCode, i.client.options.MaxAnswerBytes))
				}
				return answer, nil
			case ask:
				i.poll = location
			case gone:
				i.poll = nil
			}
			err = describe(answer)
			wait = retryAfter(answer.response.Header.Get("Retry-After"), i.client.now(), i.client.options.MaxRetryAfter)
		}
		if i.attempts >= i.client.options.Attempts {
			return nil, i.failure(ErrNoAnswer, fmt.Errorf("all %d attempts are used up, the last one: %w", i.attempts, err))
		}
		wait += jitter(i.attempts-1, i.client.options.Base, i.client.options.Cap, i.client.random())
		if atOnce {
			wait = 0
		}
		if cause := i.expired(wait); cause != nil {
			return nil, i.failure(ErrExpired, fmt.Errorf("%w; the last attempt: %w", cause, err))
		}
		if i.client.now().Add(wait).After(i.deadline) {
			return nil, i.failure(ErrNoAnswer, fmt.Errorf("a wait of %v does not fit into the budget, the last attempt: %w", wait, err))
		}
		if wait > 0 && i.client.sleep(ctx, wait) != nil || ctx.Err() != nil {
			return nil, i.failure(ErrAborted, aborted(ctx))
		}
	}
}

// asked is the URL of the current attempt.
func (i *intent) asked() *url.URL {
	if i.poll != nil {
		return i.poll
	}
	return i.url
}

// expired returns why the next attempt must not be sent after the wait, or nil. To ask at Location is harmless at any time.
func (i *intent) expired(wait time.Duration) error {
	if i.poll != nil {
		return nil
	}
	return i.client.expired(i.record, wait)
}

// attempt sends one request and reads its answer whole. It returns the credentials that were sent, too. An *Error ends the intent; any other
// error means that there was no answer.
func (i *intent) attempt(ctx context.Context) (*answer, http.Header, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, i.client.options.AttemptTimeout, errAttemptTimeout)
	defer cancel()
	credentials := i.credentials
	i.credentials = nil
	if credentials == nil {
		var err error
		if credentials, err = i.client.askCredentials(ctx, i.asked()); err != nil {
			return nil, nil, i.failure(kindOf(err), err)
		}
	}
	// The wait or the credentials may have taken longer than they should, for example because the machine was suspended.
	if cause := i.expired(0); cause != nil {
		return nil, nil, i.failure(ErrExpired, cause)
	}
	i.attempts++
	request, err := i.attemptRequest(ctx, credentials)
	if err != nil {
		return nil, nil, i.failure(ErrInvalidRequest, err)
	}
	response, err := i.client.options.Transport.RoundTrip(request)
	if err != nil {
		return nil, nil, attemptError(ctx, err)
	}
	response.Request = request
	if response.Body == nil {
		return &answer{response: response}, credentials, nil
	}
	defer response.Body.Close()
	body, tooLong, err := readAtMost(response.Body, i.client.options.MaxAnswerBytes)
	if err != nil {
		return nil, nil, attemptError(ctx, fmt.Errorf("the answer with HTTP status %d was cut off: %w", response.StatusCode, err))
	}
	return &answer{response: response, body: body, tooLong: tooLong}, credentials, nil
}

// attemptError says "time limit" where the transport says only that the context has ended.
func attemptError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// renew asks for credentials after a 401, and tells whether they differ from those that were sent, which is tried once.
func (i *intent) renew(ctx context.Context, sent http.Header) (bool, error) {
	if i.renewed {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, i.client.options.AttemptTimeout)
	defer cancel()
	credentials, err := i.client.askCredentials(ctx, i.asked())
	if err != nil {
		return false, i.failure(kindOf(err), fmt.Errorf("after HTTP status 401: %w", err))
	}
	if maps.EqualFunc(canonicalHeader(credentials), canonicalHeader(sent), slices.Equal[[]string]) {
		return false, nil
	}
	i.renewed, i.credentials = true, credentials
	return true, nil
}

// askCredentials returns the headers of the caller's function, never nil without an error.
func (c *Client) askCredentials(ctx context.Context, target *url.URL) (http.Header, error) {
	shown := *target
	owner, credentials, err := c.options.Credentials(ctx, &shown)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(owner) == "" {
		return nil, errors.New("Options.Credentials returned no owner: it says whose credentials they are")
	}
	if owner != c.options.Owner {
		return nil, otherOwner(c.options.Owner, owner)
	}
	return canonicalHeader(credentials), checkHeader(credentials)
}

// otherOwner is the cause of ErrOtherOwner.
func otherOwner(owner, other string) error {
	return fmt.Errorf("%w: it is of %s, and this is %s", errOtherOwner, owner, other)
}

// kindOf is the kind of an error of askCredentials.
func kindOf(err error) error {
	if errors.Is(err, errOtherOwner) {
		return ErrOtherOwner
	}
	return ErrCredentials
}

// describe says in an error what an answer was that is not final.
func describe(answer *answer) error {
	if problem := problemOf(answer); problem.Code != "" {
		return fmt.Errorf("HTTP status %d, %s: %s", answer.response.StatusCode, problem.Code, problem.Detail)
	}
	return fmt.Errorf("HTTP status %d", answer.response.StatusCode)
}
