package idempotency

import (
	"net/http"
	"net/url"
	"strings"
)

// verdict is what the client does about an answer.
type verdict int

const (
	// final: the caller gets the answer.
	final verdict = iota
	// again: the client waits, and sends the same request or the same poll.
	again
	// ask: the client waits, and asks at the answer's Location.
	ask
	// gone: the operation is not at the Location any more. The client waits, and sends the request itself.
	gone
	// unauthorized: the client sends the same again at once if there are other credentials, else the answer is final.
	unauthorized
)

// cameBefore tells a request that came before, and whose result is elsewhere.
func cameBefore(idempotencyStatus string) bool {
	return idempotencyStatus == "completed" || idempotencyStatus == "failed" || idempotencyStatus == "accepted"
}

// judge is the table "What an answer means" of clients/README.md. The asked URL is that of the attempt, and polls tells whether it was a
// Location. The URL is where to ask next, for the verdict ask only.
func judge(response *http.Response, asked *url.URL, polls bool) (verdict, *url.URL) {
	header, status := response.Header, response.StatusCode
	idempotencyStatus := value(header, "Idempotency-Status")
	kept := idempotencyStatus == "stored" || replayed(header)
	advice := value(header, "Idempotency-Retry")
	switch {
	// A kept 404 is the operation's own answer.
	case polls && status == http.StatusNotFound && !kept:
		return gone, nil
	case status == http.StatusAccepted && idempotencyStatus == "processing":
		if location := locationOf(header, asked); location != nil {
			return ask, location
		}
		return again, nil
	case status == http.StatusAccepted && cameBefore(idempotencyStatus) && locationOf(header, asked) != nil:
		return ask, locationOf(header, asked)
	case advice == "same_key" || advice == "wait":
		return again, nil
	case advice != "":
		return final, nil
	case status == http.StatusUnauthorized:
		return unauthorized, nil
	case kept:
		return final, nil
	case status == http.StatusConflict || status == http.StatusTooEarly:
		if header.Get("Retry-After") != "" {
			return again, nil
		}
		return final, nil
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout:
		return again, nil
	default:
		return final, nil
	}
}

// replayed tells whether the answer is the kept result of an earlier request.
func replayed(header http.Header) bool {
	return value(header, "Idempotency-Status") == "replayed" || value(header, "Idempotent-Replayed") == "true"
}

// value is a header's value in lower case, without spaces around it.
func value(header http.Header, name string) string {
	return strings.ToLower(strings.TrimSpace(header.Get(name)))
}

// locationOf returns the answer's Location as an absolute URL, or nil if there is none with the origin of the URL that was asked.
func locationOf(header http.Header, asked *url.URL) *url.URL {
	text := header.Get("Location")
	if text == "" {
		return nil
	}
	location, err := asked.Parse(text)
	if err != nil || location.Host == "" || !sameOrigin(location, asked) {
		return nil
	}
	location.User, location.Fragment, location.RawFragment = nil, "", ""
	return location
}
