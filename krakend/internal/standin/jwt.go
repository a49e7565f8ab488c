package standin

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/luraproject/lura/v2/config"
)

// validator is the part of krakend-jose's SignatureConfig that the stand-in has.
type validator struct {
	Algorithm   string     `json:"alg"`
	HeaderName  string     `json:"auth_header_name"`
	CookieKey   string     `json:"cookie_key"`
	URL         string     `json:"jwk_url"`
	LocalPath   string     `json:"jwk_local_path"`
	NoTLS       bool       `json:"disable_jwk_security"`
	Issuer      string     `json:"issuer"`
	Audience    []string   `json:"audience"`
	Propagate   [][]string `json:"propagate_claims"`
	KeepsArrays bool       `json:"propagate_claims_preserve_array"`

	keys map[string]*ecdsa.PublicKey
}

// leeway is how far the clocks can differ (krakend-jose's default).
const leeway = time.Second

// newValidator returns nil if the endpoint has no validator.
func newValidator(parts config.ExtraConfig) (*validator, error) {
	extra, found := parts[validatorNamespace]
	if !found {
		return nil, nil
	}
	text, err := json.Marshal(extra)
	if err != nil {
		return nil, err
	}
	v := &validator{}
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("%s: %w", validatorNamespace, err)
	}
	if v.Algorithm != "ES256" {
		return nil, fmt.Errorf("%s: the stand-in verifies ES256 only, not %q", validatorNamespace, v.Algorithm)
	}
	if !strings.HasPrefix(v.URL, "https://") && !v.NoTLS {
		return nil, fmt.Errorf("%s: a jwk source without https needs disable_jwk_security", validatorNamespace)
	}
	if v.KeepsArrays {
		return nil, fmt.Errorf("%s: the stand-in does not have propagate_claims_preserve_array", validatorNamespace)
	}
	if v.keys, err = v.readKeys(); err != nil {
		return nil, fmt.Errorf("%s: %w", validatorNamespace, err)
	}
	return v, nil
}

func (v *validator) readKeys() (map[string]*ecdsa.PublicKey, error) {
	var text []byte
	var err error
	if v.LocalPath != "" {
		text, err = os.ReadFile(v.LocalPath)
	} else {
		text, err = fetch(v.URL)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key set: %w", err)
	}
	var set struct {
		Keys []struct {
			ID    string `json:"kid"`
			Curve string `json:"crv"`
			X     string `json:"x"`
			Y     string `json:"y"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("parse the key set: %w", err)
	}
	keys := make(map[string]*ecdsa.PublicKey)
	for _, key := range set.Keys {
		x, errX := base64.RawURLEncoding.DecodeString(key.X)
		y, errY := base64.RawURLEncoding.DecodeString(key.Y)
		if err := errors.Join(errX, errY); err != nil || key.Curve != "P-256" {
			return nil, fmt.Errorf("the key %q is no P-256 key: %w", key.ID, err)
		}
		keys[key.ID] = &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(x), Y: new(big.Int).SetBytes(y)}
	}
	return keys, nil
}

func fetch(url string) ([]byte, error) {
	response, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// claims verifies the request's token, from the header or else the cookie, and returns its claims: numbers are float64.
func (v *validator) claims(r *http.Request) (map[string]any, error) {
	name, cookie := v.HeaderName, v.CookieKey
	if name == "" {
		name = "Authorization"
	}
	if cookie == "" {
		cookie = "access_token"
	}
	raw := r.Header.Get(name)
	if len(raw) > 7 && strings.EqualFold(raw[:7], "BEARER ") {
		raw = raw[7:]
	}
	if raw == "" {
		found, err := r.Cookie(cookie)
		if err != nil {
			return nil, errors.New("there is no token")
		}
		raw = found.Value
	}
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil, errors.New("the token does not have three parts")
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return nil, err
		}
	}
	var head struct {
		Algorithm string `json:"alg"`
		Key       string `json:"kid"`
	}
	if err := json.Unmarshal(decoded[0], &head); err != nil {
		return nil, err
	}
	key, signature := v.keys[head.Key], decoded[2]
	if head.Algorithm != v.Algorithm || key == nil || len(signature) != 64 {
		return nil, errors.New("another algorithm, key or length of the signature")
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	first, second := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	if !ecdsa.Verify(key, digest[:], first, second) {
		return nil, errors.New("the signature is wrong")
	}
	if err := v.check(decoded[1]); err != nil {
		return nil, err
	}
	claims := make(map[string]any)
	return claims, json.Unmarshal(decoded[1], &claims)
}

// check is go-jose's jwt.Claims with ValidateWithLeeway. A registered claim of another type is an error, and so is a name
// that occurs twice: go-jose's own decoder refuses it.
func (v *validator) check(payload []byte) error {
	if err := namesOnce(json.NewDecoder(bytes.NewReader(payload))); err != nil {
		return err
	}
	var registered struct {
		Issuer    string          `json:"iss"`
		Subject   string          `json:"sub"`
		Audience  json.RawMessage `json:"aud"`
		Expires   *float64        `json:"exp"`
		NotBefore *float64        `json:"nbf"`
		IssuedAt  *float64        `json:"iat"`
		ID        string          `json:"jti"`
	}
	if err := json.Unmarshal(payload, &registered); err != nil {
		return err
	}
	if v.Issuer != "" && v.Issuer != registered.Issuer {
		return errors.New("another issuer")
	}
	var audience []string
	if len(registered.Audience) > 0 && json.Unmarshal(registered.Audience, &audience) != nil {
		audience = make([]string, 1)
		if err := json.Unmarshal(registered.Audience, &audience[0]); err != nil {
			return err
		}
	}
	for _, name := range v.Audience {
		if !slices.Contains(audience, name) {
			return errors.New("another audience")
		}
	}
	at := func(seconds *float64) time.Time { return time.Unix(int64(*seconds), 0) }
	now := time.Now()
	switch {
	case registered.NotBefore != nil && now.Add(leeway).Before(at(registered.NotBefore)):
		return errors.New("the token is not valid yet")
	case registered.Expires != nil && now.Add(-leeway).After(at(registered.Expires)):
		return errors.New("the token has expired")
	case registered.IssuedAt != nil && now.Add(leeway).Before(at(registered.IssuedAt)):
		return errors.New("the token was issued in the future")
	}
	return nil
}

// namesOnce reads one JSON value and returns an error if an object in it has a name twice.
func namesOnce(decoder *json.Decoder) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	open, isOpen := token.(json.Delim)
	if !isOpen {
		return nil
	}
	names := make(map[any]bool)
	for decoder.More() {
		if open == '{' {
			name, err := decoder.Token()
			if err != nil {
				return err
			}
			if names[name] {
				return fmt.Errorf("%v occurs twice", name)
			}
			names[name] = true
		}
		if err := namesOnce(decoder); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}

// propagate writes claims into header lines and overwrites what the client sent (krakend-jose's propagateHeaders). A claim
// that is missing becomes an empty line.
func (v *validator) propagate(claims map[string]any, header http.Header) {
	for _, pair := range v.Propagate {
		if len(pair) != 2 {
			continue
		}
		name, from := pair[0], claims
		if keys := strings.Split(name, "."); len(keys) > 1 && !strings.HasPrefix(name, "http") {
			for _, key := range keys[:len(keys)-1] {
				from, _ = from[key].(map[string]any)
			}
			name = keys[len(keys)-1]
		}
		header.Set(pair[1], text(from, name))
	}
}

// text is krakend-jose's Claims.Get: lists are joined with commas, whole numbers go through int, and null is "null".
func text(claims map[string]any, name string) string {
	value, found := claims[name]
	if !found {
		return ""
	}
	switch v := value.(type) {
	case string:
		return v
	case float64:
		if whole := math.Round(v); math.Abs(v-whole) <= 1e-6 {
			return fmt.Sprintf("%d", int(whole))
		}
		return fmt.Sprintf("%f", v)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = fmt.Sprintf("%v", item)
		}
		return strings.Join(items, ",")
	default:
		written, _ := json.Marshal(v)
		return string(written)
	}
}
