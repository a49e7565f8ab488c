package idempotency

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of an [Error]. errors.Is(err, idempotency.ErrNoAnswer) tells them apart, also through the *url.Error of http.Client.
var (
	// ErrNoAnswer: the attempts or the budget are used up. Nobody knows whether the operation ran. The request is kept.
	ErrNoAnswer = errors.New("no answer")
	// ErrExpired: the request was kept too long ago to be sent with its key, or more than 5 minutes in the future, which means that
	// the clock was set. It is kept until Forget.
	ErrExpired = errors.New("the kept request has expired")
	// ErrAborted: the caller's context has ended. The context's error is wrapped, too. The request is kept, unless it ended
	// before the first attempt.
	ErrAborted = errors.New("aborted by the caller")
	// ErrStore: the store could not keep, read or remove the request. Nothing was sent.
	ErrStore = errors.New("the store has failed")
	// ErrCredentials: Options.Credentials has returned an error. The request is kept, unless it was not sent before.
	ErrCredentials = errors.New("the credentials are missing")
	// ErrOtherOwner: the request is of another owner than the client, or than the credentials, because the user has changed. It was not sent
	// (again). The request is kept for a client of its owner, unless the credentials were of another owner before the first attempt.
	ErrOtherOwner = errors.New("the request belongs to another owner")
	// ErrAnswerTooLong: the final answer is longer than Options.MaxAnswerBytes. The request is kept, and its answer can be
	// fetched by ResumePending of a client with a higher limit.
	ErrAnswerTooLong = errors.New("the answer is too long")
	// ErrUnderWay: this process is sending a request with this key already.
	ErrUnderWay = errors.New("a request with this key is under way in this process")
	// ErrInvalidRequest: the request cannot be sent safely. Nothing was sent; the message says what to change.
	ErrInvalidRequest = errors.New("invalid request")
)

// Error is every error that a [Client] returns for a request with a key.
type Error struct {
	// Kind is one of the Err variables of this package.
	Kind error
	// Key is the request's Idempotency-Key, or "" if it has none yet.
	Key string
	// Attempts is the number of requests that were sent in this call, polls included.
	Attempts int
	// Kept tells whether the request is in the store: ResumePending sends it again, Forget removes it.
	Kept bool
	// Cause is what happened, for example why the last attempt had no answer. It may be nil.
	Cause error
}

// Error tells the kind, the key, the number of attempts, what to do with a kept request, and the cause.
func (e *Error) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "idempotency: %v", e.Kind)
	if e.Key != "" {
		fmt.Fprintf(&text, " (key %s, attempts: %d)", e.Key, e.Attempts)
	}
	if e.Cause != nil {
		fmt.Fprintf(&text, ": %v", e.Cause)
	}
	if e.Kept && errors.Is(e.Kind, ErrOtherOwner) {
		text.WriteString("; the request is kept: a client of its owner sends it by ResumePending, ForgetOwner removes it")
	} else if e.Kept {
		text.WriteString("; the request is kept: send it by ResumePending, or remove it by Forget")
	}
	return text.String()
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}
