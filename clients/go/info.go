package idempotency

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
)

// Info is what the client tells beside a response.
type Info struct {
	// Key is the request's Idempotency-Key.
	Key string
	// Attempts is the number of requests that were sent, polls included.
	Attempts int
	// Replayed tells whether the response is the kept result of an earlier request: nothing was done again.
	Replayed bool
	// OperationID is the header X-Operation-Id, or "".
	OperationID string
	// Code and Detail are those of a problem document: why the request was refused. Else they are "".
	Code, Detail string
	// Retry is what to do about an error: "same_key", "wait", "new_key", "never" and so on, from the header Idempotency-Retry, or else
	// from the problem document. Else it is "".
	Retry string
	// StoreError is not nil if the store could not remove the request after its answer. ResumePending will send it once more, and get the
	// kept result.
	StoreError error
}

type infoKey struct{}

// Of returns what the client tells beside a response. It is false for a response to a request without a key.
func Of(response *http.Response) (Info, bool) {
	if response == nil || response.Request == nil {
		return Info{}, false
	}
	info, found := response.Request.Context().Value(infoKey{}).(Info)
	return info, found
}

// problem has the members of a problem document (RFC 9457) that a program reads.
type problem struct {
	Code   string `json:"code"`
	Retry  string `json:"retry"`
	Detail string `json:"detail"`
}

// problemOf returns the answer's problem document, or an empty one.
func problemOf(answer *answer) problem {
	var document problem
	kind, _, err := mime.ParseMediaType(answer.response.Header.Get("Content-Type"))
	if err != nil || kind != "application/problem+json" || json.Unmarshal(answer.body, &document) != nil {
		return problem{}
	}
	return document
}

// response makes the caller's response of a final answer.
func (i *intent) response(ctx context.Context, answer *answer, storeError error) *http.Response {
	response, document := answer.response, problemOf(answer)
	info := Info{
		Key: i.record.Key, Attempts: i.attempts, Replayed: replayed(response.Header), OperationID: response.Header.Get("X-Operation-Id"),
		Code: document.Code, Detail: document.Detail, Retry: value(response.Header, "Idempotency-Retry"), StoreError: storeError,
	}
	if info.Retry == "" {
		info.Retry = document.Retry
	}
	// The context of the attempt has ended. The body has been sent.
	response.Request = response.Request.WithContext(context.WithValue(ctx, infoKey{}, info))
	response.Request.Body, response.Request.ContentLength = nil, 0
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(answer.body)), int64(len(answer.body))
	return response
}
