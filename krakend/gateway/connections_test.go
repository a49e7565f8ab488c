package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// refund sends a request with a key of its own.
func refund(t *testing.T, g *Gateway, key string) (*http.Response, string) {
	t.Helper()
	header := alice()
	header.Set("Idempotency-Key", key)
	return exchange(t, g, "refunds.create", call{method: "POST", path: "/api/refunds", header: header, body: strings.NewReader(`{"a":1}`), listed: []string{"Content-Type", "Authorization"}})
}

func expect(t *testing.T, what string, status int, response *http.Response, body string) {
	t.Helper()
	if response.StatusCode != status || status == 503 && (!strings.Contains(body, `"code":"dependency_unavailable"`) || response.Header.Get("Idempotency-Retry") != "same_key") {
		t.Errorf("%s: %d %s, not %d", what, response.StatusCode, body, status)
	}
}

// withUpstream is testConfig with other members of its upstream.
func withUpstream(t *testing.T, members object) object {
	config := testConfig(t, "")
	set(config, members, "extra_config", serverPlugin, own, "upstreams", "backend")
	return config
}

func TestConnectionsObeyTheMembersOfTheService(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	for name, value := range map[string]any{"dialer_timeout": "3s", "dialer_keep_alive": "4s", "idle_connection_timeout": "5s", "response_header_timeout": "6s",
		"max_idle_connections": 7, "max_idle_connections_per_host": 8, "disable_keep_alives": true} {
		set(config, value, name)
	}
	environment := map[string]string{"KRAKEND_MAX_IDLE_CONNECTIONS": "9", "KRAKEND_IDLE_CONNECTION_TIMEOUT": "10s", "KRAKEND_DISABLE_KEEP_ALIVES": "false"}
	lookup := func(name string) (string, bool) { value, ok := environment[name]; return value, ok }
	for _, test := range []struct {
		lookup   func(string) (string, bool)
		idle     int
		idleTime time.Duration
		closes   bool
	}{{func(string) (string, bool) { return "", false }, 7, 5 * time.Second, true}, {lookup, 9, 10 * time.Second, false}} {
		plan, err := read(writeConfig(t, config), LoadOptions{Plugin: true, LookupEnv: test.lookup})
		if err != nil || len(plan.mistakes) > 0 {
			t.Fatal(err, plan.mistakes)
		}
		u := plan.upstreams["backend"]
		if u.timeout != 6*time.Second || u.transport.MaxIdleConnsPerHost != 8 || u.transport.MaxIdleConns != test.idle ||
			u.transport.IdleConnTimeout != test.idleTime || u.transport.DisableKeepAlives != test.closes || !u.transport.DisableCompression {
			t.Errorf("%+v %v", u.transport, u.timeout)
		}
	}
	set(config, 500, "extra_config", serverPlugin, own, "upstreams", "backend", "timeout_ms")
	if plan, _ := read(writeConfig(t, config), LoadOptions{Plugin: true}); plan.upstreams["backend"].timeout != 500*time.Millisecond {
		t.Error("timeout_ms does not take the place of response_header_timeout")
	}
	if plan, _ := read(writeConfig(t, testConfig(t, "http://backend:1")), LoadOptions{Plugin: true}); plan.upstreams["backend"].timeout != time.Minute || plan.upstreams["backend"].transport.MaxIdleConnsPerHost != 250 {
		t.Error("the defaults are others")
	}
	if _, err := Check(writeText(t, `{"dialer_timeout": "soon"}`), LoadOptions{}); err == nil || !strings.Contains(err.Error(), "/dialer_timeout: \"soon\" is no duration") {
		t.Error(err)
	}
}

// A host that takes no connection: dialer_timeout ends the wait.
func TestTheTimeOfAConnectionHasALimit(t *testing.T) {
	document := krakendFile{DialerTimeout: duration(time.Nanosecond)}
	connection, err := document.transport(nil).DialContext(context.Background(), "tcp", "127.0.0.1:1")
	var failed net.Error
	if connection != nil || !errors.As(err, &failed) || !failed.Timeout() {
		t.Errorf("%v", err)
	}
}

// authority is a certificate authority of tests.
type testAuthority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// file is its certificate in PEM form.
	file string
}

func newAuthority(t *testing.T) *testAuthority {
	t.Helper()
	a := &testAuthority{}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var files [2]string
	a.certificate, a.key, files = a.sign(t, template)
	a.file = files[0]
	return a
}

// sign makes a certificate, and writes it and its key into files.
func (a *testAuthority) sign(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, [2]string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	text, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyText, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	files := [2]string{filepath.Join(directory, "cert.pem"), filepath.Join(directory, "key.pem")}
	for at, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: text}, {Type: "EC PRIVATE KEY", Bytes: keyText}} {
		if err := os.WriteFile(files[at], pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, err := x509.ParseCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key, files
}

// leaf makes a certificate for 127.0.0.1, or of a client.
func (a *testAuthority) leaf(t *testing.T, usage x509.ExtKeyUsage) (tls.Certificate, [2]string) {
	t.Helper()
	_, _, files := a.sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{usage}})
	pair, err := tls.LoadX509KeyPair(files[0], files[1])
	if err != nil {
		t.Fatal(err)
	}
	return pair, files
}

// An upstream that asks for a certificate of the client gets the one of client_tls, or its own.
func TestAnUpstreamGetsTheGatewaysCertificate(t *testing.T) {
	authority := newAuthority(t)
	server, _ := authority.leaf(t, x509.ExtKeyUsageServerAuth)
	_, client := authority.leaf(t, x509.ExtKeyUsageClientAuth)
	other := newAuthority(t)
	_, wrong := other.leaf(t, x509.ExtKeyUsageClientAuth)
	clients := x509.NewCertPool()
	clients.AddCert(authority.certificate)
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(answerOK))
	upstream.TLS = &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	upstream.StartTLS()
	defer upstream.Close()
	serviceTLS := func(files [2]string) object {
		return object{"ca_certs": list{authority.file}, "client_certs": list{object{"certificate": files[0], "private_key": files[1]}}}
	}
	for name, test := range map[string]struct {
		service, upstream object
		status            int
	}{
		"of the service":  {serviceTLS(client), object{}, 200},
		"of the upstream": {nil, object{"ca_file": authority.file, "client_cert_file": client[0], "client_key_file": client[1]}, 200},
		"upstream's own":  {serviceTLS(wrong), object{"client_cert_file": client[0], "client_key_file": client[1]}, 200},
		"another one's":   {serviceTLS(wrong), object{}, 503},
		"none":            {nil, object{"ca_file": authority.file}, 503},
		"other authority": {serviceTLS(client), object{"ca_file": other.file}, 503},
	} {
		test.upstream["url"] = upstream.URL
		config := withUpstream(t, test.upstream)
		if test.service != nil {
			config["client_tls"] = test.service
		}
		response, body := refund(t, load(t, config), "key-1")
		expect(t, name, test.status, response, body)
	}
	config := withUpstream(t, object{"url": upstream.URL, "client_cert_file": client[0], "client_key_file": wrong[1]})
	if _, err := Check(writeConfig(t, config), LoadOptions{Plugin: true}); err == nil || !strings.Contains(err.Error(), "are no certificate with its key") {
		t.Error(err)
	}
}

func TestCertificatesOfUpstreamsAreVerifiedUnlessTheServiceSaysOtherwise(t *testing.T) {
	upstream := httptest.NewTLSServer(http.HandlerFunc(answerOK))
	defer upstream.Close()
	for name, test := range map[string]struct {
		service object
		status  int
	}{
		"nothing said":     {object{}, 503},
		"for the service":  {object{"allow_insecure_connections": true}, 200},
		"in client_tls":    {object{"client_tls": object{"allow_insecure_connections": true}}, 200},
		"another pool":     {object{"client_tls": object{"disable_system_ca_pool": true}}, 503},
		"too old, as said": {object{"client_tls": object{"allow_insecure_connections": true, "max_version": "TLS11", "min_version": "TLS10"}}, 503},
	} {
		config := testConfig(t, upstream.URL)
		for member, value := range test.service {
			config[member] = value
		}
		response, body := refund(t, load(t, config), "key-1")
		expect(t, name, test.status, response, body)
	}
}

// net/http reads HTTP_PROXY once in a process, so the gateway runs in another one.
func TestRequestsGoThroughTheProxyOfTheEnvironment(t *testing.T) {
	if os.Getenv("EDGE_TEST_PROXY") != "" {
		response, body := refund(t, load(t, testConfig(t, "http://upstream.test:8080")), "key-1")
		fmt.Printf("status %d %s\n", response.StatusCode, body)
		return
	}
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.RequestURI + " " + r.Header.Get("Idempotency-Key")
		answerOK(w, r)
	}))
	defer proxy.Close()
	for _, variables := range [][]string{{"HTTP_PROXY=" + proxy.URL, "NO_PROXY="}, {"HTTP_PROXY=" + proxy.URL, "NO_PROXY=.test"}, {"HTTP_PROXY=", "NO_PROXY="}} {
		command := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		command.Env = append(append(os.Environ(), "EDGE_TEST_PROXY=1", "http_proxy=", "no_proxy="), variables...)
		out, err := command.CombinedOutput()
		through := strings.Contains(string(out), "status 200 ")
		if err != nil || through == (len(asked) == 0) || through != (variables[0] != "HTTP_PROXY=" && variables[1] == "NO_PROXY=") {
			t.Errorf("%v: %v, %d requests through the proxy\n%s", variables, err, len(asked), out)
		}
		if through {
			if got := <-asked; got != "http://upstream.test:8080/restate/call/Refunds/create t-acme:health:user:alice:key-1" {
				t.Error(got)
			}
		}
	}
}

// closedAddress is an address where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

func TestRequestsGoToEachHostInTurn(t *testing.T) {
	one, two := newRecorder(t, answerOK), newRecorder(t, answerOK)
	g := load(t, withUpstream(t, object{"urls": list{one.URL, two.URL}}))
	for count := range 6 {
		response, body := refund(t, g, fmt.Sprint("key-", count))
		expect(t, "in turn", 200, response, body)
	}
	if one.count() != 3 || two.count() != 3 {
		t.Errorf("%d and %d requests", one.count(), two.count())
	}
	if host := one.requests[0].Host; host != strings.TrimPrefix(one.URL, "http://") {
		t.Errorf("the host is %s", host)
	}
}

// A host that takes no connection is passed over, with the whole body. A host that breaks off gets no second try: it may have done
// what was asked.
func TestAHostThatTakesNoConnectionIsPassedOver(t *testing.T) {
	working := newRecorder(t, answerOK)
	g := load(t, withUpstream(t, object{"urls": list{closedAddress(t), working.URL, closedAddress(t)}}))
	for count := range 6 {
		response, body := refund(t, g, fmt.Sprint("key-", count))
		expect(t, "closed hosts", 200, response, body)
	}
	for _, body := range working.bodies {
		if body != `{"a":1}` {
			t.Errorf("the body is %q", body)
		}
	}
	if working.count() != 6 {
		t.Errorf("%d requests", working.count())
	}

	var broken atomic.Int64
	breaks := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/restate/call/") {
			broken.Add(1)
		}
		panic(http.ErrAbortHandler)
	}))
	defer breaks.Close()
	g = load(t, withUpstream(t, object{"urls": list{breaks.URL, breaks.URL}}))
	response, body := refund(t, g, "key-1")
	expect(t, "broken off", 503, response, body)
	if broken.Load() != 1 {
		t.Errorf("%d requests", broken.Load())
	}

	g = load(t, withUpstream(t, object{"urls": list{closedAddress(t), closedAddress(t)}}))
	response, body = refund(t, g, "key-1")
	expect(t, "all closed", 503, response, body)
}

// net/http sends a request without a body again by itself, on another connection and so perhaps on another host, if a connection
// breaks that was used before, and if it has a key.
func TestARequestThatAHostHasTakenGoesOutOnce(t *testing.T) {
	posts := func(hosts int) (came [2]int, status int) {
		var mutex sync.Mutex
		var urls list
		for index := range hosts {
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ContentLength != 0 {
					answerOK(w, r)
					return
				}
				mutex.Lock()
				came[index]++
				mutex.Unlock()
				if hosts > 1 {
					_ = server.Listener.Close() // Whoever dials again is refused.
				}
				panic(http.ErrAbortHandler)
			}))
			defer server.Close()
			urls = append(urls, server.URL)
		}
		config := withUpstream(t, object{"urls": urls})
		set(config, object{"kind": "generic"}, policyAt("backend")...)
		set(config, list{object{"endpoint": "pokes", "path": "/api/pokes", "policy": "ACCEPTED"}}, policyAt("routes")...)
		set(config, list{testEndpoint("POST", "/api/pokes", "pokes")}, "endpoints")
		g := load(t, config)
		for range hosts {
			response, body := exchange(t, g, "pokes", call{method: "POST", path: "/api/pokes", header: alice(), body: strings.NewReader("{}")})
			expect(t, "a connection", 200, response, body)
		}
		response, _ := exchange(t, g, "pokes", call{method: "POST", path: "/api/pokes", header: alice()})
		return came, response.StatusCode
	}
	for hosts := 1; hosts <= 2; hosts++ {
		if came, status := posts(hosts); came[0]+came[1] != 1 || status != 503 {
			t.Errorf("%d hosts: %v requests, answered %d", hosts, came, status)
		}
	}
}

// The body of a client that streams arrives once and whole, whichever host takes it.
func TestABodyThatStreamsIsKeptForTheNextHost(t *testing.T) {
	working := newRecorder(t, answerOK)
	large := strings.Repeat("x", 300_000)
	config := withUpstream(t, object{"urls": list{closedAddress(t), working.URL}})
	set(config, object{"kind": "generic"}, policyAt("backend")...)
	set(config, list{object{"endpoint": "files.list", "methods": list{"GET"}, "path": "/api/files", "policy": "PROHIBITED"},
		object{"endpoint": "uploads", "path": "/api/uploads", "policy": "PROHIBITED"}}, policyAt("routes")...)
	set(config, list{testEndpoint("POST", "/api/uploads", "uploads")}, "endpoints")
	g := load(t, config)
	for range 4 {
		reader, writer := io.Pipe()
		go func() {
			_, err := io.Copy(writer, strings.NewReader(large))
			_ = writer.CloseWithError(err)
		}()
		response, body := exchange(t, g, "uploads", call{method: "POST", path: "/api/uploads", header: http.Header{}, body: reader})
		expect(t, "upload", 200, response, body)
	}
	for _, body := range working.bodies {
		if body != large {
			t.Errorf("%d bytes", len(body))
		}
	}
	if working.count() != 4 {
		t.Errorf("%d requests", working.count())
	}
}
