package idempotency

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
)

// Each case is the first answer; the second one is a 200. So one attempt means that the first answer was final.
func TestAnswerTable(t *testing.T) {
	const location = "Location: /operations/1"
	for _, test := range []struct {
		name     string
		answer   func(*http.Request) (*http.Response, error)
		attempts int
		// asked is the method and the path of the second attempt.
		asked string
	}{
		{"no answer", breaks, 2, "POST /orders"},
		{"processing with a Location", says(202, "Idempotency-Status: processing", location), 2, "GET /operations/1"},
		{"processing with another origin", says(202, "Idempotency-Status: processing", "Location: https://api.test/operations/1"), 2, "POST /orders"},
		{"processing without a Location", says(202, "Idempotency-Status: processing"), 2, "POST /orders"},
		{"completed with a Location", says(202, "Idempotency-Status: completed", "Idempotent-Replayed: true", location), 2, "GET /operations/1"},
		{"failed with a Location", says(202, "Idempotency-Status: failed", "Idempotency-Retry: new_key", location), 2, "GET /operations/1"},
		{"accepted with a Location", says(202, "Idempotency-Status: accepted", location), 2, "GET /operations/1"},
		{"completed with another origin", says(202, "Idempotency-Status: completed", "Location: https://api.test/operations/1"), 1, ""},
		{"completed without a Location", says(202, "Idempotency-Status: completed"), 1, ""},
		{"200 with completed", says(200, "Idempotency-Status: completed", location), 1, ""},
		{"202 that is not processing", says(202, location), 1, ""},
		{"200 with processing", says(200, "Idempotency-Status: processing", location), 1, ""},
		{"same_key", says(500, "Idempotency-Retry: same_key"), 2, "POST /orders"},
		{"same_key with a status that is final", says(400, "Idempotency-Retry: same_key"), 2, "POST /orders"},
		{"same_key of a kept answer", says(500, "Idempotency-Retry: same_key", "Idempotency-Status: stored"), 2, "POST /orders"},
		{"wait", says(409, "Idempotency-Retry: wait"), 2, "POST /orders"},
		{"advice in other case", says(409, "Idempotency-Retry: Wait "), 2, "POST /orders"},
		{"new_key", says(409, "Idempotency-Retry: new_key", "Retry-After: 1"), 1, ""},
		{"never", says(503, "Idempotency-Retry: never"), 1, ""},
		{"unknown advice", says(503, "Idempotency-Retry: later"), 1, ""},
		{"401 without credentials", says(401), 1, ""},
		{"kept 503: stored", says(503, "Idempotency-Status: stored"), 1, ""},
		{"kept 429: replayed", says(429, "Idempotency-Status: replayed"), 1, ""},
		{"kept 409: Idempotent-Replayed", says(409, "Idempotent-Replayed: true", "Retry-After: 1"), 1, ""},
		{"503 that is not kept", says(503, "Idempotent-Replayed: false"), 2, "POST /orders"},
		{"409 with Retry-After", says(409, "Retry-After: 1"), 2, "POST /orders"},
		{"409 with a Retry-After that means nothing", says(409, "Retry-After: soon"), 2, "POST /orders"},
		{"409 without Retry-After", says(409), 1, ""},
		{"425 with Retry-After", says(425, "Retry-After: 1"), 2, "POST /orders"},
		{"425 without Retry-After", says(425), 1, ""},
		{"429", says(429), 2, "POST /orders"},
		{"502", says(502), 2, "POST /orders"},
		{"503", says(503), 2, "POST /orders"},
		{"504", says(504), 2, "POST /orders"},
		{"200", says(200), 1, ""},
		{"302", says(302, "Location: /elsewhere"), 1, ""},
		{"400", says(400), 1, ""},
		{"404", says(404), 1, ""},
		{"422", says(422), 1, ""},
		{"500", says(500), 1, ""},
		{"501", says(501), 1, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			client, upstream, _ := newTestClient(t, Options{}, test.answer, says(200))
			_, info := answerOf(t, client, post(t, "body"))
			wantEqual(t, "attempts", info.Attempts, test.attempts)
			wantEqual(t, "requests", len(upstream.seen), test.attempts)
			if test.attempts == 2 {
				second := upstream.seen[1]
				asked, _ := url.Parse(second.url)
				wantEqual(t, "second attempt", second.method+" "+asked.Path, test.asked)
			}
			wantEqual(t, "pending", pendingKeys(t, client), []string{})
		})
	}
}

func TestPollHasNeitherKeyNorBody(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{}, says(202, "Idempotency-Status: processing", "Location: /operations/1"), says(200))
	answerOf(t, client, post(t, "body", "Content-Type: text/plain", "If-Match: x", "X-Project: shop", "Authorization: Bearer a"))
	poll := upstream.seen[1]
	wantEqual(t, "body", poll.body, "")
	wantEqual(t, "headers", poll.header, http.Header{"Authorization": {"Bearer a"}, "X-Project": {"shop"}, attemptHeader: {"2"}})
}

func TestSameOriginOfLocation(t *testing.T) {
	asked, _ := url.Parse("https://api.test/a/b?c")
	for location, want := range map[string]string{
		"":                              "",
		"/x":                            "https://api.test/x",
		"x?y=1#z":                       "https://api.test/a/x?y=1",
		"https://API.test:443/x":        "https://API.test:443/x",
		"https://user:pw@api.test/x":    "https://api.test/x",
		"//api.test/x":                  "https://api.test/x",
		"//other.test/x":                "",
		"http://api.test/x":             "",
		"http://api.test:443/x":         "",
		"https://api.test:8443/x":       "",
		"https://api.test.evil.test/x":  "",
		"https://api.test@evil.test/x":  "",
		"mailto:someone@api.test":       "",
		"https://api.test:bad/x":        "",
		"http://[::1":                   "",
		"\\\\evil.test/x":               "https://api.test/a/%5C%5Cevil.test/x",
		"javascript:alert(1)":           "",
		"https:/x":                      "",
		"https://sub.api.test/x":        "",
		"https://api.test.":             "",
		"https://api.test":              "https://api.test",
		"HTTPS://api.test/upper-scheme": "https://api.test/upper-scheme",
	} {
		got := ""
		if found := locationOf(http.Header{"Location": {location}}, asked); found != nil {
			got = found.String()
		}
		wantEqual(t, fmt.Sprintf("Location %q", location), got, want)
	}
}
