package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"
)

// The bridge's connections to upstreams obey what krakend.json says about connections to backends, as lura's NewTransport does
// (transport/http/server). They differ from KrakenD's in three points: an answer is never asked for in compressed form and never
// decompressed, HTTP/2 is used where TLS offers it, and the defaults below are those of Envoy's demo where KrakenD has no limit.
const (
	defaultDialTimeout   = 5 * time.Second
	defaultIdleTimeout   = 90 * time.Second
	defaultIdlePerHost   = 250 // as KrakenD's
	tlsHandshakeDeadline = 10 * time.Second
)

// clientTLS is the member client_tls of krakend.json.
type clientTLS struct {
	AllowInsecure    bool     `json:"allow_insecure_connections"`
	CACerts          []string `json:"ca_certs"`
	NoSystemPool     bool     `json:"disable_system_ca_pool"`
	MinVersion       string   `json:"min_version"`
	MaxVersion       string   `json:"max_version"`
	CurvePreferences []uint16 `json:"curve_preferences"`
	CipherSuites     []uint16 `json:"cipher_suites"`
	ClientCerts      []struct {
		Certificate string `json:"certificate"`
		PrivateKey  string `json:"private_key"`
	} `json:"client_certs"`
}

// tlsVersions are the names that KrakenD takes. For any other it takes TLS 1.3.
var tlsVersions = map[string]uint16{"": tls.VersionTLS13, "TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13}

// setOr returns a value, or a default if it is not set.
func setOr[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// transport makes the connections to an upstream, or to what gives its tokens.
func (k *krakendFile) transport(config *tls.Config) *http.Transport {
	dialer := &net.Dialer{
		Timeout:       setOr(time.Duration(k.DialerTimeout), defaultDialTimeout),
		FallbackDelay: time.Duration(k.DialerFallbackDelay),
		KeepAlive:     time.Duration(k.DialerKeepAlive),
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		DisableCompression:  true,
		DisableKeepAlives:   k.DisableKeepAlives,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        k.MaxIdleConns,
		MaxIdleConnsPerHost: setOr(k.MaxIdleConnsPerHost, defaultIdlePerHost),
		IdleConnTimeout:     setOr(time.Duration(k.IdleConnTimeout), defaultIdleTimeout),
		TLSHandshakeTimeout: tlsHandshakeDeadline,
		TLSClientConfig:     config,
	}
}

// readTLS reads client_tls. Nil: krakend.json says nothing about TLS.
func (p *plan) readTLS(o LoadOptions) *tls.Config {
	k := p.document
	insecure := k.AllowInsecure || k.ClientTLS != nil && k.ClientTLS.AllowInsecure
	if insecure {
		p.notes.add("/allow_insecure_connections", "", "certificates of upstreams are not verified, so whoever is between the gateway and an upstream can read and change what is sent")
	}
	if k.ClientTLS == nil {
		if !insecure {
			return nil
		}
		return &tls.Config{InsecureSkipVerify: true} //nolint:gosec // It is what krakend.json asks for.
	}
	const at = "/client_tls"
	given := k.ClientTLS
	config := &tls.Config{InsecureSkipVerify: insecure, CipherSuites: given.CipherSuites} //nolint:gosec // as above
	for _, version := range []struct {
		name, written string
		into          *uint16
	}{{"min_version", given.MinVersion, &config.MinVersion}, {"max_version", given.MaxVersion, &config.MaxVersion}} {
		known := false
		if *version.into, known = tlsVersions[version.written]; !known {
			p.mistakes.add(at+"/"+version.name, "", "there is no version %q: take TLS12 or TLS13", version.written)
		}
	}
	for _, curve := range given.CurvePreferences {
		config.CurvePreferences = append(config.CurvePreferences, tls.CurveID(curve))
	}
	if given.NoSystemPool {
		config.RootCAs = x509.NewCertPool()
	}
	for index, file := range given.CACerts {
		if config.RootCAs == nil {
			pool, err := x509.SystemCertPool()
			if err != nil {
				p.mistakes.add(at+"/ca_certs", "", "the system's authorities cannot be read: %v; set disable_system_ca_pool", err)
				break
			}
			config.RootCAs = pool
		}
		p.addAuthorities(config.RootCAs, at+pointer("ca_certs", index), file, o)
	}
	for index, files := range given.ClientCerts {
		p.addCertificate(config, at+pointer("client_certs", index), files.Certificate, files.PrivateKey, o)
	}
	return config
}

// readFile reads a file that krakend.json names. ok is false if that is a mistake, or a note because the gateway runs elsewhere.
func (p *plan) readFile(at, file string, o LoadOptions) (text []byte, ok bool) {
	text, err := os.ReadFile(resolve(o.Directory, file))
	switch {
	case err == nil:
		return text, true
	case o.Elsewhere && errors.Is(err, fs.ErrNotExist):
		p.notes.add(at, "", "%s is not on this machine: it has to be on the gateway's", file)
	default:
		p.mistakes.add(at, "", "the file cannot be read: %v", err)
	}
	return nil, false
}

// addAuthorities reads a PEM file of authorities into a pool.
func (p *plan) addAuthorities(pool *x509.CertPool, at, file string, o LoadOptions) {
	if text, ok := p.readFile(at, file, o); ok && !pool.AppendCertsFromPEM(text) {
		p.mistakes.add(at, "", "%s has no certificate in PEM form", file)
	}
}

// addCertificate reads a certificate of the gateway, with its key.
func (p *plan) addCertificate(config *tls.Config, at, certificate, key string, o LoadOptions) {
	certificateText, haveCertificate := p.readFile(at, certificate, o)
	keyText, haveKey := p.readFile(at, key, o)
	if !haveCertificate || !haveKey {
		return
	}
	pair, err := tls.X509KeyPair(certificateText, keyText)
	if err != nil {
		p.mistakes.add(at, "", "%s and %s are no certificate with its key: %v", certificate, key, err)
		return
	}
	config.Certificates = append(config.Certificates, pair)
}

// upstreamTLS is the TLS configuration of one upstream: what its own members say takes the place of client_tls.
func (p *plan) upstreamTLS(at string, config upstreamConfig, common *tls.Config, o LoadOptions) *tls.Config {
	if config.CAFile == "" && config.ClientCertFile == "" && config.ClientKeyFile == "" {
		return common.Clone()
	}
	own := common.Clone()
	if own == nil {
		own = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.CAFile != "" {
		own.RootCAs = x509.NewCertPool()
		p.addAuthorities(own.RootCAs, at+"/ca_file", config.CAFile, o)
	}
	switch {
	case config.ClientCertFile != "" && config.ClientKeyFile != "":
		own.Certificates = nil
		p.addCertificate(own, at+"/client_cert_file", config.ClientCertFile, config.ClientKeyFile, o)
	case config.ClientCertFile != "":
		p.mistakes.add(at+"/client_key_file", "", "name the file of the certificate's key")
	case config.ClientKeyFile != "":
		p.mistakes.add(at+"/client_cert_file", "", "name the file of the key's certificate")
	}
	return own
}
