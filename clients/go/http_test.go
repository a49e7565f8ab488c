package idempotency

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
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
