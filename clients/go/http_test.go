package idempotency

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// upstream is a real HTTP server. It gives each request to the handler of its number, the last handler for ever.
type upstream struct {
	*httptest.Server
	mutex    sync.Mutex
	attempts []string
	bodies   []string
	keys     []string
}

func newUpstream(t *testing.T, handlers ...http.HandlerFunc) *upstream {
	t.Helper()
	up := &upstream{}
	up.Server = httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		up.mutex.Lock()
		up.attempts = append(up.attempts, request.Header.Get(attemptHeader))
		up.bodies = append(up.bodies, string(body))
		up.keys = append(up.keys, request.Header.Get(keyHeader))
		handler := handlers[min(len(up.attempts), len(handlers))-1]
		up.mutex.Unlock()
		handler(writer, request)
	}))
	t.Cleanup(up.Close)
	return up
}

// client returns a client that really sends, with waits that take no time.
func (up *upstream) client(t *testing.T, options Options) *Client {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	options.Transport = transport
	client, _, _ := newTestClient(t, options)
	return client
}

func (up *upstream) post(t *testing.T, body string) *http.Request {
	t.Helper()
	request := post(t, body)
	request.URL, _ = url.Parse(up.URL + "/orders")
	request.Host = request.URL.Host
	return request
}

func ok(writer http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(writer, "done") }

// closes ends the connection without an answer.
func closes(writer http.ResponseWriter, _ *http.Request) {
	connection, _, _ := writer.(http.Hijacker).Hijack()
	_ = connection.Close()
}

// resets ends the connection by RST.
func resets(writer http.ResponseWriter, _ *http.Request) {
	connection, _, _ := writer.(http.Hijacker).Hijack()
	_ = connection.(*net.TCPConn).SetLinger(0)
	_ = connection.Close()
}

// raw writes these bytes and ends the connection.
func raw(text string) http.HandlerFunc {
	return func(writer http.ResponseWriter, _ *http.Request) {
		connection, _, _ := writer.(http.Hijacker).Hijack()
		_, _ = io.WriteString(connection, text)
		_ = connection.Close()
	}
}

func TestBrokenAnswersAreNoAnswers(t *testing.T) {
	for name, broken := range map[string]http.HandlerFunc{
		"closed":         closes,
		"reset":          resets,
		"half a head":    raw("HTTP/1.1 200 OK\r\nContent-Le"),
		"half a body":    raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"),
		"half of chunks": raw("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"),
		"garbage":        raw("hello\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, broken, ok)
			client := up.client(t, Options{})
			response, info := answerOf(t, client, up.post(t, "body"))
			body, _ := io.ReadAll(response.Body)
			wantEqual(t, "body", string(body), "done")
			wantEqual(t, "attempts", info.Attempts, 2)
			wantEqual(t, "attempts at the upstream", up.attempts, []string{"1", "2"})
			wantEqual(t, "bodies", up.bodies, []string{"body", "body"})
			wantEqual(t, "keys", up.keys, []string{testKey, testKey})
			wantEqual(t, "pending", pendingKeys(t, client), []string{})
		})
	}
}

func TestRefusedConnections(t *testing.T) {
	up := newUpstream(t, ok)
	client := up.client(t, Options{Attempts: 3})
	up.Close()
	failure := failureOf(t, client, up.post(t, "body"), ErrNoAnswer)
	wantEqual(t, "attempts", failure.Attempts, 3)
	var refused *net.OpError
	if !errors.As(failure, &refused) {
		t.Error(failure)
	}
}

// The time limit holds until the last byte: one server never begins its answer, the other never ends it.
func TestAttemptTimeout(t *testing.T) {
	hangs := func(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() }
	drips := func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(writer, "12345")
		_ = http.NewResponseController(writer).Flush()
		<-request.Context().Done()
	}
	for name, slow := range map[string]http.HandlerFunc{"no head": hangs, "no end": drips} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, slow)
			client := up.client(t, Options{AttemptTimeout: 50 * time.Millisecond, Attempts: 2})
			failure := failureOf(t, client, up.post(t, "body"), ErrNoAnswer)
			if !errors.Is(failure, errAttemptTimeout) || failure.Attempts != 2 {
				t.Error(failure)
			}
		})
	}
}

// net/http itself repeats a request with the header Idempotency-Key when a connection breaks that was used before. The control shows
// that it does so here, and that the attempts of the client are those of the upstream.
func TestNetHTTPRepeatsNothingByItself(t *testing.T) {
	for _, body := range []string{"body", ""} {
		for name, broken := range map[string]http.HandlerFunc{"closed": closes, "reset": resets} {
			t.Run(name+" "+body, func(t *testing.T) {
				control := newUpstream(t, ok, broken, ok)
				plain := control.client(t, Options{}).options.Transport
				for range 2 {
					response, err := plain.RoundTrip(control.post(t, body))
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
				wantEqual(t, "requests of net/http for two calls", len(control.attempts), 3)

				up := newUpstream(t, ok, broken, ok)
				client := up.client(t, Options{})
				answerOf(t, client, up.post(t, body))
				_, info := answerOf(t, client, up.post(t, body))
				wantEqual(t, "attempts", info.Attempts, 2)
				wantEqual(t, "attempts at the upstream", up.attempts, []string{"1", "1", "2"})
				wantEqual(t, "bodies", up.bodies, []string{body, body, body})
			})
		}
	}
}

// The same holds for the questions at Location.
func TestNetHTTPRepeatsNoPollByItself(t *testing.T) {
	for name, broken := range map[string]http.HandlerFunc{"closed": closes, "reset": resets} {
		t.Run(name, func(t *testing.T) {
			processing := func(writer http.ResponseWriter, _ *http.Request) {
				writer.Header().Set("Idempotency-Status", "processing")
				writer.Header().Set("Location", "/operations/1")
				writer.WriteHeader(http.StatusAccepted)
			}
			up := newUpstream(t, processing, broken, ok)
			_, info := answerOf(t, up.client(t, Options{}), up.post(t, "body"))
			wantEqual(t, "attempts", info.Attempts, 3)
			wantEqual(t, "attempts at the upstream", up.attempts, []string{"1", "2", "3"})
			wantEqual(t, "bodies", up.bodies, []string{"body", "", ""})
		})
	}
}

func TestHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		if request.Header.Get(attemptHeader) == "1" {
			panic(http.ErrAbortHandler) // It resets the stream.
		}
		_, _ = io.WriteString(writer, request.Proto+" "+string(body))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for _, body := range []string{"body", ""} {
		client, _, _ := newTestClient(t, Options{Transport: server.Client().Transport})
		request := post(t, body)
		request.URL, _ = url.Parse(server.URL)
		response, info := answerOf(t, client, request)
		content, _ := io.ReadAll(response.Body)
		wantEqual(t, "body", string(content), "HTTP/2.0 "+body)
		wantEqual(t, "attempts", info.Attempts, 2)
	}
}

func TestRedirects(t *testing.T) {
	for _, status := range []int{301, 303, 307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			elsewhere := newUpstream(t, ok)
			up := newUpstream(t, func(writer http.ResponseWriter, _ *http.Request) {
				writer.Header().Set("Location", elsewhere.URL)
				writer.WriteHeader(status)
			})
			client := up.client(t, Options{})
			response, err := NewHTTPClient(client).Post(up.URL, "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "status", response.StatusCode, status)
			_, err = (&http.Client{Transport: client}).Do(up.post(t, "body"))
			failure := asFailure(t, nil, err, ErrInvalidRequest)
			if !strings.Contains(failure.Error(), "CheckRedirect") || !strings.Contains(failure.Error(), elsewhere.URL) {
				t.Error(failure)
			}
			wantEqual(t, "key", failure.Key, testKey)
			wantEqual(t, "requests that were redirected", len(elsewhere.attempts), 0)
			// A redirect of a request without a key is the affair of http.Client.
			response, err = (&http.Client{Transport: client}).Get(up.URL)
			if err != nil || response.StatusCode != 200 {
				t.Error(response, err)
			}
		})
	}
}

func TestAnswerThatIsTooLong(t *testing.T) {
	long := func(status int) http.HandlerFunc {
		return func(writer http.ResponseWriter, _ *http.Request) {
			writer.WriteHeader(status)
			_, _ = writer.Write(bytes.Repeat([]byte("x"), 11))
		}
	}
	up := newUpstream(t, long(503), long(200))
	client := up.client(t, Options{MaxAnswerBytes: 10})
	failure := failureOf(t, client, up.post(t, "body"), ErrAnswerTooLong)
	wantEqual(t, "attempts", failure.Attempts, 2)
	wantEqual(t, "kept", failure.Kept, true)

	client = up.client(t, Options{MaxAnswerBytes: 11, Store: client.options.Store})
	for result := range client.ResumePending(t.Context()) {
		body, _ := io.ReadAll(result.Response.Body)
		wantEqual(t, "body", len(body), 11)
	}
	wantEqual(t, "pending", pendingKeys(t, client), []string{})
}

func TestInfo(t *testing.T) {
	refusal := func(writer http.ResponseWriter, _ *http.Request) {
		writer.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		writer.Header().Set("X-Operation-Id", "inv_1")
		writer.WriteHeader(422)
		_, _ = io.WriteString(writer, `{"code": "idempotency_key_reused", "retry": "new_key", "detail": "Send a new key.", "status": 422}`)
	}
	replay := func(writer http.ResponseWriter, _ *http.Request) {
		writer.Header().Set("Idempotency-Status", "replayed")
		writer.Header().Set("Idempotency-Retry", "new_key")
		writer.WriteHeader(409)
	}
	own := func(writer http.ResponseWriter, _ *http.Request) {
		writer.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(writer, `{"code": "voucher-1", "detail": "a code of the API itself"}`)
	}
	up := newUpstream(t, refusal, replay, own, ok)
	client := up.client(t, Options{})
	response, info := answerOf(t, client, up.post(t, "body"))
	wantEqual(t, "refusal", info, Info{
		Key: testKey, Attempts: 1, OperationID: "inv_1", Code: "idempotency_key_reused", Retry: "new_key", Detail: "Send a new key.",
	})
	wantEqual(t, "request of the response", response.Request.URL.String()+" "+response.Request.Header.Get(keyHeader), up.URL+"/orders "+testKey)
	wantEqual(t, "context of the response", response.Request.Context().Err(), nil)
	_, info = answerOf(t, client, up.post(t, "body"))
	wantEqual(t, "replay", info, Info{Key: testKey, Attempts: 1, Replayed: true, Retry: "new_key"})
	_, info = answerOf(t, client, up.post(t, "body"))
	wantEqual(t, "answer with a code", info, Info{Key: testKey, Attempts: 1})
	response, info = answerOf(t, client, up.post(t, "body"))
	wantEqual(t, "answer", info, Info{Key: testKey, Attempts: 1})
	wantEqual(t, "length", response.ContentLength, 4)
	if _, known := Of(nil); known {
		t.Error("Of(nil)")
	}
}

func TestAThousandIntentsAtATime(t *testing.T) {
	var mutex sync.Mutex
	tries := map[string]int{}
	up := newUpstream(t, func(writer http.ResponseWriter, request *http.Request) {
		mutex.Lock()
		tries[request.Header.Get(keyHeader)]++
		try := tries[request.Header.Get(keyHeader)]
		mutex.Unlock()
		if try == 1 {
			writer.WriteHeader(503)
		}
	})
	store, err := NewFileStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	httpClient := NewHTTPClient(up.client(t, Options{Store: store}))
	var group sync.WaitGroup
	for range 1000 {
		group.Go(func() {
			response, err := httpClient.Post(up.URL, "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Error(err)
				return
			}
			if info, _ := Of(response); info.Attempts != 2 || response.StatusCode != 200 {
				t.Errorf("%+v", info)
			}
		})
	}
	group.Wait()
	wantEqual(t, "keys", len(tries), 1000)
	for record, err := range store.All() {
		t.Error(record.Key, err)
	}
}
