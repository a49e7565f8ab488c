package idempotency

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// bobsClient is the client of another user with the same store.
func bobsClient(t *testing.T, annsClient *Client, answers ...func(*http.Request) (*http.Response, error)) (*Client, *script) {
	t.Helper()
	client, upstream, _ := newTestClient(t, Options{Owner: bob, Store: annsClient.options.Store, Attempts: 1}, answers...)
	return client, upstream
}

func TestAnotherUserResumes(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{Attempts: 1}, says(503), says(200))
	failureOf(t, client, post(t, "body"), ErrNoAnswer)
	other, others := bobsClient(t, client, says(200))
	wantEqual(t, "forget", other.Forget(testKey), nil)
	found := results(t, other)
	failure := asFailure(t, nil, found[testKey].Err, ErrOtherOwner)
	wantEqual(t, "owner", found[testKey].Record.Owner, ann)
	wantEqual(t, "kept", failure.Kept, true)
	if text := "it is of acme/shop/ann, and this is acme/shop/bob; the request is kept: a client of its owner"; !strings.Contains(failure.Error(), text) {
		t.Error(failure)
	}
	wantEqual(t, "requests of both", []int{len(others.seen), len(upstream.seen)}, []int{0, 1})
	wantEqual(t, "status", results(t, client)[testKey].Response.StatusCode, 200)
}

// Each attempt goes out with the credentials of the owner only, whenever another user logs in.
func TestTheUserChanges(t *testing.T) {
	processing := says(202, "Idempotency-Status: processing", "Location: /operations/1")
	type answers = []func(*http.Request) (*http.Response, error)
	for name, test := range map[string]struct {
		sent    int
		answers answers
	}{
		"before the first attempt":         {0, answers{says(200)}},
		"between two attempts":             {1, answers{says(503), says(200)}},
		"after a 401":                      {1, answers{says(401), says(200)}},
		"before the question at Location":  {1, answers{processing, says(404), says(200)}},
		"between two questions":            {2, answers{processing, says(404), says(200)}},
		"after the connection was refused": {1, answers{breaks, says(200)}},
	} {
		t.Run(name, func(t *testing.T) {
			var upstream *script
			options := Options{Credentials: func(context.Context, *url.URL) (string, http.Header, error) {
				owner := ann
				if len(upstream.seen) >= test.sent {
					owner = bob
				}
				return owner, http.Header{"Authorization": {owner}}, nil
			}}
			client, script, _ := newTestClient(t, options, test.answers...)
			upstream = script
			failure := failureOf(t, client, post(t, "body"), ErrOtherOwner)
			wantEqual(t, "kept and attempts", fmt.Sprint(failure.Kept, failure.Attempts), fmt.Sprint(test.sent > 0, test.sent))
			wantEqual(t, "pending", len(pendingKeys(t, client)), min(test.sent, 1))
			for _, sent := range script.seen {
				wantEqual(t, "credentials", sent.header.Get("Authorization"), ann)
			}
		})
	}
}

func TestCredentialsOfNobody(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{Credentials: of(" ", func(context.Context, *url.URL) (http.Header, error) { return nil, nil })}, says(200))
	wantEqual(t, "kept", failureOf(t, client, post(t, "body"), ErrCredentials).Kept, false)
	wantEqual(t, "requests", len(upstream.seen), 0)
}

// Neither waits for the other, is refused for it, or gets or removes what is of the other.
func TestTwoUsersWithOneKey(t *testing.T) {
	var client *Client
	client, _, _ = newTestClient(t, Options{}, func(*http.Request) (*http.Response, error) {
		other, _ := bobsClient(t, client, saysBody(200, "of Bob"))
		response, _ := answerOf(t, other, post(t, "other body"))
		body, _ := io.ReadAll(response.Body)
		wantEqual(t, "Bob's answer", string(body), "of Bob")
		wantEqual(t, "pending", pendingKeys(t, client), []string{testKey})
		return saysBody(200, "of Ann")(nil)
	})
	response, _ := answerOf(t, client, post(t, "body"))
	body, _ := io.ReadAll(response.Body)
	wantEqual(t, "Ann's answer", string(body), "of Ann")
}

func TestForgetOwner(t *testing.T) {
	client, _, _ := newTestClient(t, Options{Attempts: 1}, says(503))
	other, _ := bobsClient(t, client, says(503))
	failureOf(t, client, post(t, "body"), ErrNoAnswer)
	failureOf(t, other, post(t, "other body"), ErrNoAnswer)
	wantEqual(t, "forget", client.ForgetOwner(ann), nil)
	records, _ := client.Pending()
	wantEqual(t, "left", fmt.Sprint(len(records), records[0].Owner), fmt.Sprint(1, bob))
	client.claim(recordID{bob, testKey})
	asFailure(t, nil, client.ForgetOwner(bob), ErrUnderWay)
}
