// Runs each Idempotency-Key once, and gives a retry the stored answer: a middleware for net/http.
//
//	store, err := OpenStore("results.db", 60*time.Second, 24*time.Hour)
//	http.ListenAndServe(":9000", Idempotency(store, mux))
//
// Put it inside middlewares that refuse callers, compress, keep sessions, recover from panics or add CORS headers: what they do is not
// stored, and they do it for a replay, too. Handlers of Connect are handlers of net/http, their operation is the path, and their final errors
// have statuses that are stored, so an interceptor of its own would add nothing. The answers are in a table of SQLite, which several
// processes of one machine can share. For PostgreSQL three things differ: now, the type of body (bytea), and the driver with its
// placeholders ($1, $2 …).
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite"
)

// The database's clock decides about leases, so that the clocks of several machines need not agree.
const now = "(julianday('now') - 2440587.5) * 86400" // PostgreSQL: extract(epoch from clock_timestamp())

const table = `
CREATE TABLE IF NOT EXISTS idempotency_results (
    operation  varchar(1024) NOT NULL,     -- method and path
    key        varchar(640) NOT NULL,      -- with the caller's namespace, whole (MySQL: COLLATE utf8mb4_bin)
    fingerprint varchar(64) NOT NULL,      -- of the request, from the gateway ("collision": "forward"); without one nothing is compared
    owner      char(32) NOT NULL,          -- the attempt that claimed the key last
    expires_at double precision NOT NULL,  -- the end of the attempt's lease, and with an answer the end of its retention
    status     integer,                    -- NULL while there is no answer
    headers    text,                       -- JSON, with everything else that goes before or behind the body
    body       blob,                       -- PostgreSQL: bytea
    PRIMARY KEY (operation, key)
)`

// Inserts the claim, or takes over one whose lease has ended, or an answer whose retention has ended. One statement, so that of
// several attempts at once one gets the key: it changes one row, and the others change none.
const claim = `
INSERT INTO idempotency_results (operation, key, fingerprint, owner, expires_at) VALUES (?, ?, ?, ?, ` + now + ` + ?)
ON CONFLICT (operation, key) DO UPDATE
SET fingerprint = excluded.fingerprint, owner = excluded.owner, expires_at = excluded.expires_at, status = NULL, headers = NULL, body = NULL
WHERE idempotency_results.expires_at <= ` + now
const find = "SELECT fingerprint, status, headers, body FROM idempotency_results WHERE operation = ? AND key = ?"

// Only the owner stores its answer: an attempt that was slower than its lease has lost the key to a later one.
const keep = `
UPDATE idempotency_results SET status = ?, headers = ?, body = ?, expires_at = ` + now + ` + ?
WHERE operation = ? AND key = ? AND owner = ?`
const free = "DELETE FROM idempotency_results WHERE operation = ? AND key = ? AND owner = ? AND status IS NULL"
const deleteExpired = "DELETE FROM idempotency_results WHERE expires_at <= " + now

// An answer with one of these statuses is not stored. After 401 and 403 a caller gets a right or a new token and sends the same key again.
// After 408, 425, 429 and 5xx it expects that the work is tried again; nobody knows how far it came, so the handler's own steps have to be
// safe to repeat (OperationKey).
func isFinal(status int) bool {
	return status < 500 && !slices.Contains([]int{401, 403, 408, 425, 429}, status)
}

// Headers of one answer or one connection. A stored Set-Cookie would be a credential in the table, and a replay would put an old session
// in the place of a newer one. A caller that lost the first answer gets its cookie from the next request that sets one.
var notStored = []string{"Connection", "Date", "Keep-Alive", "Set-Cookie", "Transfer-Encoding"}

// A problem document (RFC 9457), with the members that those of the gateway have. Retry is the advice for programs.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Retry  string `json:"retry"`
}

var (
	keyTooLong = problem{"about:blank", "Idempotency key invalid", 400, "The key is longer than 640 bytes.",
		"idempotency_key_invalid", "new_key"}
	pathTooLong = problem{"about:blank", "Request invalid", 400, "The path is longer than 1024 bytes.", "request_invalid", "never"}
	keyReused   = problem{"about:blank", "Idempotency key reused", 422,
		"The key was used with another request. Send a new key for a new operation, and repeat a request unchanged.",
		"idempotency_key_reused", "new_key"}
	inFlight = problem{"about:blank", "Idempotency key in flight", 409,
		"A request with this key is still being processed. Send the same request with the same key again later to get its result.",
		"idempotency_key_in_flight", "wait"}
	storeDown = problem{"about:blank", "Temporarily unavailable", 503,
		"The key could not be checked right now. This request was not carried out; send the same request with the same key again later.",
		"dependency_unavailable", "same_key"}
	notKept = problem{"about:blank", "Temporarily unavailable", 503,
		"The request was carried out, and its answer could not be stored. Send the same request with the same key again later.",
		"dependency_unavailable", "same_key"}
)

// Store is the table.
type Store struct {
	db               *sql.DB
	lease, retention float64
}

// OpenStore opens the table. The lease is longer than the longest request runs.
func OpenStore(path string, lease, retention time.Duration) (*Store, error) {
	file := url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(table)
	return &Store{db, lease.Seconds(), retention.Seconds()}, err
}

// changes tells how many rows a statement has changed.
func (s *Store) changes(statement string, values ...any) (int64, error) {
	result, err := s.db.Exec(statement, values...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// DeleteExpired is to be run every hour or so. Correctness does not depend on it.
func (s *Store) DeleteExpired() (int64, error) {
	return s.changes(deleteExpired)
}

// answer is what goes before and behind a body.
type answer struct {
	Status   int         `json:"-"`
	Headers  http.Header `json:"headers"` // those that the handler has set or changed
	Removed  []string    `json:"removed"` // those of middlewares around that it has removed
	Trailers http.Header `json:"trailers"`
}

type operationKey struct{}

// OperationKey is the same in every attempt, and empty for a request without a key. The handler passes it to services that it calls, and
// puts it into a unique column of rows that it inserts, so that an attempt that runs again after a crash or a 5xx does nothing twice.
func OperationKey(ctx context.Context) string {
	key, _ := ctx.Value(operationKey{}).(string)
	return key
}

// Idempotency runs the handler once for each key.
func Idempotency(store *Store, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, fingerprint := r.Header.Get("Idempotency-Key"), r.Header.Get("Idempotency-Fingerprint")
		// A request without a key runs every time; whether a key is needed is the gateway's policy.
		if key == "" {
			handler.ServeHTTP(w, r)
			return
		}
		// http.StripPrefix changes r.URL.
		path, _, _ := strings.Cut(r.RequestURI, "?")
		operation := r.Method + " " + path
		if len(key) > 640 {
			refuse(w, keyTooLong)
			return
		}
		if len(operation) > 1024 {
			refuse(w, pathTooLong)
			return
		}
		owner := rand.Text()
		claimed, err := store.changes(claim, operation, key, fingerprint, owner, store.lease)
		if err == nil && claimed == 0 {
			err = replay(w, store, operation, key, fingerprint)
		}
		if err != nil {
			log.Print("the store cannot be asked: ", err)
			refuse(w, storeDown)
		}
		if err != nil || claimed == 0 {
			return
		}

		isSettled := false
		release := func() {
			isSettled = true
			if _, err := store.changes(free, operation, key, owner); err != nil {
				log.Print("the key cannot be freed, its claim ends with its lease: ", err)
			}
		}
		// If the process dies, the claim ends with its lease instead.
		defer func() {
			if !isSettled {
				release()
			}
		}()

		digest := sha256.Sum256([]byte(operation + "\n" + key))
		// The work goes on when the caller goes away, so that a retry gets its answer.
		ctx := context.WithValue(context.WithoutCancel(r.Context()), operationKey{}, hex.EncodeToString(digest[:]))
		inner, body := r.WithContext(ctx), &wholeBody{ReadCloser: r.Body}
		inner.Body = body
		held := &heldAnswer{w: w, isHead: r.Method == http.MethodHead, header: w.Header().Clone()}
		handler.ServeHTTP(held, inner)
		// The server removes the files of a form, and middlewares around read the pattern.
		r.MultipartForm, r.Pattern = inner.MultipartForm, inner.Pattern
		if held.isBroken() {
			// It is broken off, as it would be without this middleware.
			panic(http.ErrAbortHandler)
		}

		given := held.answer()
		if isFinal(given.Status) && !body.isBroken {
			stored := given
			stored.Headers, stored.Trailers = eachValue(given.Headers, toText), eachValue(given.Trailers, toText)
			maps.DeleteFunc(stored.Headers, func(name string, _ []string) bool {
				return slices.Contains(notStored, http.CanonicalHeaderKey(name))
			})
			// Strings and lists of strings are always valid JSON.
			headers, _ := json.Marshal(stored)
			kept, err := store.changes(keep, given.Status, string(headers), held.body.Bytes(), store.retention, operation, key, owner)
			isSettled = true
			// Nobody may see an answer that a retry would not get.
			if err != nil {
				log.Print("the answer cannot be stored: ", err)
				refuse(w, notKept)
				return
			}
			if kept == 0 {
				// A later attempt has claimed the key since this one's lease ended.
				refuse(w, inFlight)
				return
			}
		} else {
			release()
		}
		send(w, given, held.body.Bytes())
	})
}

// replay answers a request whose key is claimed.
func replay(w http.ResponseWriter, store *Store, operation, key, fingerprint string) error {
	var first string
	var status sql.Null[int]
	var headers, body []byte
	err := store.db.QueryRow(find, operation, key).Scan(&first, &status, &headers, &body)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if first != "" && fingerprint != "" && first != fingerprint {
		refuse(w, keyReused)
		return nil
	}
	if !status.Valid {
		refuse(w, inFlight)
		return nil
	}
	stored := answer{Status: status.V}
	if err := json.Unmarshal(headers, &stored); err != nil {
		return err
	}
	stored.Headers, stored.Trailers = eachValue(stored.Headers, toBytes), eachValue(stored.Trailers, toBytes)
	stored.Headers.Set("Idempotent-Replayed", "true")
	send(w, stored, body)
	return nil
}

func eachValue(header http.Header, change func(string) string) http.Header {
	changed := http.Header{}
	for name, values := range header {
		changed[name] = nil
		for _, value := range values {
			changed[name] = append(changed[name], change(value))
		}
	}
	return changed
}

// A header has bytes, and JSON has characters: each byte becomes the character of its number (Latin-1).
func toText(value string) string {
	var text strings.Builder
	for _, char := range []byte(value) {
		text.WriteRune(rune(char))
	}
	return text.String()
}

func toBytes(text string) string {
	var value []byte
	for _, char := range text {
		value = append(value, byte(char))
	}
	return string(value)
}

// wholeBody knows whether the request has come whole: what a handler answers to a part of one is no answer to the request.
type wholeBody struct {
	io.ReadCloser
	isBroken bool
}

func (b *wholeBody) Read(part []byte) (int, error) {
	n, err := b.ReadCloser.Read(part)
	var tooLarge *http.MaxBytesError
	if err != nil && err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) && !errors.As(err, &tooLarge) {
		b.isBroken = true
	}
	return n, err
}

// heldAnswer keeps the answer back until it is stored: what a caller has seen, a retry gets. It has no Unwrap, with which a
// ResponseController would send a part of it, and no Hijack: a connection cannot be stored.
type heldAnswer struct {
	w            http.ResponseWriter
	isHead       bool
	header, sent http.Header // what the handler sees, and what it was when the handler wrote the head
	status       int
	body         bytes.Buffer
}

func (h *heldAnswer) Header() http.Header { return h.header }

func (h *heldAnswer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if h.status != 0 {
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		// Early hints are not the answer.
		before := h.w.Header().Clone()
		replaceHeader(h.w, h.header)
		h.w.WriteHeader(status)
		replaceHeader(h.w, before)
		return
	}
	h.status, h.sent = status, h.header.Clone()
}

func (h *heldAnswer) Write(part []byte) (int, error) {
	if h.status == 0 {
		h.WriteHeader(http.StatusOK)
	}
	if h.status < 200 || h.status == http.StatusNoContent || h.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	return h.body.Write(part)
}

// Flush is for handlers that cannot do without an http.Flusher.
func (h *heldAnswer) Flush() {
	if h.status == 0 {
		h.WriteHeader(http.StatusOK)
	}
}

func (h *heldAnswer) SetReadDeadline(end time.Time) error {
	return http.NewResponseController(h.w).SetReadDeadline(end)
}

func (h *heldAnswer) SetWriteDeadline(end time.Time) error {
	return http.NewResponseController(h.w).SetWriteDeadline(end)
}

// isBroken tells whether the body has another length than its header says.
func (h *heldAnswer) isBroken() bool {
	length, err := strconv.Atoi(h.sent.Get("Content-Length"))
	return err == nil && !h.isHead && h.status != http.StatusNotModified && length != h.body.Len()
}

// answer is what the handler has changed of the headers. The others are those of middlewares around, for a replay anew.
func (h *heldAnswer) answer() answer {
	h.Flush()
	given := answer{Status: h.status, Headers: http.Header{}, Trailers: http.Header{}}
	before := h.w.Header()
	for name, values := range h.sent {
		// An empty list says that the server adds none, so it is a change, too.
		if old, has := before[name]; !has || !slices.Equal(old, values) {
			given.Headers[name] = values
		}
	}
	for name := range before {
		if _, has := h.sent[name]; !has {
			given.Removed = append(given.Removed, name)
		}
	}
	for _, line := range h.sent.Values("Trailer") {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values, has := h.header[name]; has {
				given.Trailers[name] = values
			}
		}
	}
	for name, values := range h.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			given.Trailers[name] = values
			delete(given.Headers, name)
		}
	}
	return given
}

func replaceHeader(w http.ResponseWriter, by http.Header) {
	clear(w.Header())
	for name, values := range by {
		w.Header()[name] = values
	}
}

// send sends an answer, for the first time or again.
func send(w http.ResponseWriter, given answer, body []byte) {
	for _, name := range given.Removed {
		delete(w.Header(), name)
	}
	for name, values := range given.Headers {
		w.Header()[name] = values
	}
	w.WriteHeader(given.Status)
	if len(body) > 0 {
		// A caller that has gone away gets the answer again.
		_, _ = w.Write(body)
	}
	if len(given.Trailers) > 0 {
		// With a length, which a short body would get, there are no trailers.
		_ = http.NewResponseController(w).Flush()
	}
	for name, values := range given.Trailers {
		w.Header()[name] = values
	}
}

func refuse(w http.ResponseWriter, document problem) {
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Content-Language", "en")
	header.Set("Cache-Control", "no-store")
	if after := map[string]string{"wait": "1", "same_key": "5"}[document.Retry]; after != "" {
		header.Set("Retry-After", after)
	}
	w.WriteHeader(document.Status)
	_ = json.NewEncoder(w).Encode(document)
}
