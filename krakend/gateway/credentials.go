package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// credentialsConfig says where and how the gateway gets a token for an upstream (OAuth 2.0, client credentials).
type credentialsConfig struct {
	TokenURL string `json:"token_url"`
	ClientID string `json:"client_id"`
	// ClientSecret is a string, or {"env": NAME}.
	ClientSecret json.RawMessage `json:"client_secret"`
	Scopes       []string        `json:"scopes"`
	// EndpointParams are further parameters of the request for a token, such as audience.
	EndpointParams map[string][]string `json:"endpoint_params"`
}

// tokenDeadline is the longest time of a request for a token.
const tokenDeadline = 10 * time.Second

// tokens keeps the token of an upstream. At most one request for a token is under way.
type tokens struct {
	config clientcredentials.Config
	client *http.Client

	mutex   sync.Mutex
	current *oauth2.Token
	fetch   *fetch
}

// fetch is a request for a token. token and err are set when done is closed.
type fetch struct {
	done  chan struct{}
	token *oauth2.Token
	err   error
}

// readCredentials makes what gets tokens; nil if the upstream has no credentials, or they have mistakes.
func (p *plan) readCredentials(at string, config *credentialsConfig, transport http.RoundTripper, o LoadOptions) *tokens {
	if config == nil {
		return nil
	}
	at += "/client_credentials"
	target, err := url.Parse(config.TokenURL)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Host == "" {
		p.mistakes.add(at+"/token_url", "", "expected the URL that gives tokens, such as \"https://id.example.com/oauth/token\"")
	}
	if config.ClientID == "" {
		p.mistakes.add(at+"/client_id", "", "name the client")
	}
	return &tokens{
		config: clientcredentials.Config{ClientID: config.ClientID, ClientSecret: p.readSecret(at+"/client_secret", config.ClientSecret, o),
			TokenURL: config.TokenURL, Scopes: config.Scopes, EndpointParams: config.EndpointParams},
		// A redirect could send the secret somewhere else.
		client: &http.Client{Transport: transport, Timeout: tokenDeadline,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// readSecret reads a string, or the variable that {"env": NAME} names.
func (p *plan) readSecret(at string, text json.RawMessage, o LoadOptions) string {
	var secret string
	if json.Unmarshal(text, &secret) == nil && secret != "" {
		return secret
	}
	var variable struct{ Env string }
	if json.Unmarshal(text, &variable) != nil || variable.Env == "" {
		p.mistakes.add(at, "", "expected a secret, or {\"env\": NAME} with the variable that has it")
		return ""
	}
	secret, ok := o.LookupEnv(variable.Env)
	switch {
	case ok && secret != "":
	case o.Elsewhere:
		p.notes.add(at, "", "the variable %s is not set here: set it where KrakenD runs", variable.Env)
	default:
		p.mistakes.add(at, "", "the variable %s is not set", variable.Env)
	}
	return secret
}

// get returns a token that is valid for ten seconds at least, and waits for one until ctx ends.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mutex.Lock()
	if t.current.Valid() {
		defer t.mutex.Unlock()
		return t.current.AccessToken, nil
	}
	if t.fetch == nil {
		t.fetch = &fetch{done: make(chan struct{})}
		go t.renew(t.fetch)
	}
	waiting := t.fetch
	t.mutex.Unlock()
	select {
	case <-waiting.done:
	case <-ctx.Done():
		return "", fmt.Errorf("the token did not come in time from %s", t.config.TokenURL)
	}
	if waiting.err != nil {
		return "", waiting.err
	}
	return waiting.token.AccessToken, nil
}

// renew gets a token in a request of its own, which the end of a client's request does not end.
func (t *tokens) renew(f *fetch) {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), oauth2.HTTPClient, t.client), tokenDeadline)
	defer cancel()
	token, err := t.config.Token(ctx)
	switch {
	case err != nil:
		f.err = fmt.Errorf("there is no token: %s", oneLine(err))
	case !strings.EqualFold(token.Type(), "Bearer"):
		f.err = fmt.Errorf("%s gives a token of the type %q, and Bearer is expected", t.config.TokenURL, token.Type())
	default:
		f.token = token
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.fetch = nil
	if f.err == nil {
		t.current = token
	}
	close(f.done)
}

// oneLine writes an error without what the other side has sent, which could hold anything.
func oneLine(err error) string {
	if refused, ok := err.(*oauth2.RetrieveError); ok && refused.Response != nil { //nolint:errorlint // The library returns it as it is.
		return fmt.Sprintf("%s answers %d %s", refused.Response.Request.URL.Redacted(), refused.Response.StatusCode, refused.ErrorCode)
	}
	return err.Error()
}

// authorize puts the token into the header, in place of what else stands there. Without tokens it does nothing.
func (t *tokens) authorize(ctx context.Context, header http.Header) error {
	if t == nil {
		return nil
	}
	token, err := t.get(ctx)
	if err != nil {
		return err
	}
	header["Authorization"] = []string{"Bearer " + token}
	return nil
}
