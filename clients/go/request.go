package idempotency

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	keyHeader     = "Idempotency-Key"
	attemptHeader = "X-Retry-Attempt"
	// A record that was kept later than so long from now has a wrong time.
	clocksDiffer = 5 * time.Minute
)

// newKey returns a UUID v4.
func newKey() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // It never returns an error.
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// canonicalHeader copies a header. net/http sends names in any case that the caller has put into the map, so a secret header has to be
// known in any case, too.
func canonicalHeader(header http.Header) http.Header {
	canonical := make(http.Header, len(header))
	for name, values := range header {
		name = http.CanonicalHeaderKey(name)
		canonical[name] = append(canonical[name], values...)
	}
	return canonical
}

// hasKey tells whether the caller gave the request a key, valid or not.
func hasKey(header http.Header) bool {
	for name, values := range header {
		if len(values) > 0 && strings.EqualFold(name, keyHeader) {
			return true
		}
	}
	return false
}

// checkHeader returns an error for a header that net/http never sends: such an error would look like an attempt without an answer.
func checkHeader(header http.Header) error {
	for name, values := range header {
		if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") != "" {
			return fmt.Errorf("%q is not the name of a header", name)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(character rune) bool { return character < ' ' && character != '\t' || character == 0x7f }) {
				// The value may be secret.
				return fmt.Errorf("the value of the header %s has a control character, for example a line feed at its end", name)
			}
		}
	}
	return nil
}

// checkKey returns an error for a value that no API takes as a key.
func checkKey(values []string) error {
	if len(values) != 1 {
		return fmt.Errorf("the request has %d headers %s: send one", len(values), keyHeader)
	}
	if values[0] == "" {
		return fmt.Errorf("the header %s is empty: leave it out to get a new key, or take a UUID v4", keyHeader)
	}
	for _, character := range []byte(values[0]) {
		if character <= ' ' || character > '~' || character == ',' {
			return fmt.Errorf("the header %s has the character %q: take a UUID v4, or other visible ASCII without a comma", keyHeader, character)
		}
	}
	return nil
}

// readRequest reads the request whole and closes its body. It returns the record to keep, the headers to send, which are those of the
// record and the secret ones, and whether the key is the caller's. The record of an error has the key, if there is one.
func (c *Client) readRequest(request *http.Request) (record Record, header http.Header, callersKey bool, err error) {
	body, err := readBody(request, c.options.MaxRequestBytes)
	header = canonicalHeader(request.Header)
	keys := header[keyHeader]
	header.Del(keyHeader)
	record = Record{Owner: c.options.Owner, Method: request.Method, Body: body, KeptAt: c.now().Round(0).UTC()}
	if len(keys) == 0 {
		record.Key = newKey()
	} else if keyErr := checkKey(keys); keyErr != nil {
		err = errors.Join(err, keyErr)
	} else {
		record.Key, callersKey = keys[0], true
	}
	err = errors.Join(err, checkHeader(header))
	if request.URL == nil || request.URL.Host == "" || request.URL.Scheme != "http" && request.URL.Scheme != "https" {
		return record, nil, callersKey, errors.Join(err, errors.New("the URL has no host, or another scheme than http and https"))
	}
	if len(request.Trailer) > 0 {
		err = errors.Join(err, errors.New("a request with trailers cannot be kept: send it without them"))
	}
	target := *request.URL
	// net/http makes a header Authorization of the user in a URL, which is already there if the request comes by http.Client.
	if target.User != nil && header.Get("Authorization") == "" {
		password, _ := target.User.Password()
		basic := http.Request{Header: header}
		basic.SetBasicAuth(target.User.Username(), password)
	}
	target.User = nil
	record.URL = target.String()
	if request.Host != request.URL.Host {
		record.Host = request.Host
	}
	record.Header = header.Clone()
	for _, name := range c.options.SecretHeaders {
		record.Header.Del(name)
	}
	return record, header, callersKey, err
}

// readBody reads the body whole, at most limit bytes, and closes it.
func readBody(request *http.Request, limit int64) ([]byte, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return nil, nil
	}
	defer request.Body.Close()
	body, tooLong, err := readAtMost(request.Body, limit)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the request's body cannot be read: %w", err)
	case tooLong:
		return nil, fmt.Errorf("the request's body is longer than %d bytes: raise Options.MaxRequestBytes", limit)
	case request.ContentLength > 0 && request.ContentLength != int64(len(body)):
		return nil, fmt.Errorf("the request's ContentLength is %d, and its body has %d bytes", request.ContentLength, len(body))
	}
	return body, nil
}

// readAtMost reads all, or limit bytes if there are more.
func readAtMost(reader io.Reader, limit int64) (content []byte, tooLong bool, err error) {
	content, err = io.ReadAll(io.LimitReader(reader, limit))
	if err != nil || int64(len(content)) < limit {
		return content, false, err
	}
	if _, err = io.ReadFull(reader, make([]byte, 1)); errors.Is(err, io.EOF) {
		return content, false, nil
	}
	return content, err == nil, err
}

// sameRequest tells whether a kept record is the same request: a key must never come with another one.
func sameRequest(one, other Record) bool {
	return one.Method == other.Method && one.URL == other.URL && one.Host == other.Host && bytes.Equal(one.Body, other.Body)
}

// attemptRequest makes the request of an attempt.
func (i *intent) attemptRequest(ctx context.Context, credentials http.Header) (*http.Request, error) {
	method, target, header := i.record.Method, i.url, i.header.Clone()
	polls := i.poll != nil
	if polls {
		method, target = http.MethodGet, i.poll
		// These say something about the body, or are conditions for the operation.
		for name := range header {
			if strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "If-") || slices.Contains([]string{"Expect", "Range"}, name) {
				header.Del(name)
			}
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range canonicalHeader(credentials) {
		header[name] = values
	}
	header.Del(keyHeader)
	header.Set(attemptHeader, strconv.Itoa(i.attempts))
	request.Header = header
	if i.record.Host != "" {
		request.Host = i.record.Host
	}
	// net/http itself repeats a request with GET or with this header that has no body, or a body with GetBody, when a connection breaks. That
	// attempt would not be counted. So there is always a body, an empty one, too, and never GetBody.
	if polls {
		request.Body = io.NopCloser(bytes.NewReader(nil))
		return request, nil
	}
	header.Set(keyHeader, i.record.Key)
	request.Body = io.NopCloser(bytes.NewReader(i.record.Body))
	request.ContentLength = int64(len(i.record.Body))
	return request, nil
}

// sameOrigin tells whether two absolute URLs have the same scheme, host and port.
func sameOrigin(one, other *url.URL) bool {
	return one.Scheme == other.Scheme && strings.EqualFold(one.Hostname(), other.Hostname()) && port(one) == port(other)
}

func port(target *url.URL) string {
	if explicit := target.Port(); explicit != "" {
		return explicit
	}
	if target.Scheme == "https" {
		return "443"
	}
	return "80"
}

// expired returns why the record must not be sent after the wait, or nil. Only the wall clock counts the time in which the machine is suspended.
func (c *Client) expired(record Record, wait time.Duration) error {
	age := c.now().Round(0).Sub(record.KeptAt)
	switch {
	case age < -clocksDiffer:
		return fmt.Errorf("it was kept %v in the future, because the clock was set, so its age is unknown; find out whether it ran", -age)
	case age+wait >= c.options.ExpiresAfter:
		return fmt.Errorf("it was kept %v ago; find out whether it ran", age)
	}
	return nil
}
