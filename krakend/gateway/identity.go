package gateway

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"edge-idempotency/krakend/bridge"
)

// identitySource says where the verified claims of a request are.
type identitySource struct {
	// namespace is the path under which the policy reads claims: the filter's name, and the members below it.
	namespace []string
	// authHeader and cookie are the places where KrakenD's validator looks for the token, in this order.
	authHeader, cookie string
	claims             []claim
}

// claim is one claim that the policy reads.
type claim struct {
	// path is the path in the token.
	path []string
	// header is the header into which the validator writes it; canonical.
	header string
}

// equal says whether two sources read the same claims from the same places.
func (s *identitySource) equal(other *identitySource) bool {
	if s == nil || other == nil {
		return s == other
	}
	sameClaims := slices.EqualFunc(s.claims, other.claims, func(one, two claim) bool {
		return one.header == two.header && slices.Equal(one.path, two.path)
	})
	return sameClaims && s.cookie == other.cookie && strings.EqualFold(s.authHeader, other.authHeader)
}

// metadata returns the claims of a request that KrakenD's validator has verified. A claim counts only if the validator wrote
// it into its header and the token has the same text as a JSON string: KrakenD writes numbers, lists and null as text, too,
// and different numbers as the same text. Any other claim is absent, and the module refuses the request.
func (s *identitySource) metadata(r *http.Request) bridge.Metadata {
	if s == nil || len(s.namespace) == 0 {
		return nil
	}
	token := s.token(r)
	if token == nil {
		return nil
	}
	claims := map[string]any{}
	for _, claim := range s.claims {
		lines := r.Header[claim.header]
		text, ok := textAt(token, claim.path)
		// Different texts that are no Unicode become the same text with U+FFFD.
		if ok && text != "" && !strings.ContainsRune(text, unicode.ReplacementChar) && len(lines) == 1 && lines[0] == text {
			put(claims, claim.path, text)
		}
	}
	for _, name := range slices.Backward(s.namespace[1:]) {
		claims = map[string]any{name: claims}
	}
	return bridge.Metadata{s.namespace[0]: claims}
}

// sender is the first claim of the metadata that the policy reads, which is its tenant.
func (s *identitySource) sender(metadata bridge.Metadata) string {
	if metadata == nil || len(s.claims) == 0 {
		return ""
	}
	var value any = metadata[s.namespace[0]]
	for _, name := range slices.Concat(s.namespace[1:], s.claims[0].path) {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	text, _ := value.(string)
	return text
}

// token returns the claims of the token that the validator has verified, which is found as the validator finds it
// (krakend-jose, gin/jose.go): the header, with or without "Bearer ", and only if it is empty the cookie. KrakenD also takes
// the JSON form of a token; here only the compact form counts. Nil: there is no such token.
func (s *identitySource) token(r *http.Request) map[string]json.RawMessage {
	raw := r.Header.Get(s.authHeader)
	if len(raw) > 7 && strings.EqualFold(raw[:7], "Bearer ") {
		raw = raw[7:]
	}
	if raw == "" {
		cookie, err := r.Cookie(s.cookie)
		if err != nil {
			return nil
		}
		raw = cookie.Value
	}
	parts := strings.Split(raw, ".")
	if len(parts) != 3 || !isToken(raw) {
		return nil
	}
	payload, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims map[string]json.RawMessage
	if json.Unmarshal(payload, &claims) != nil {
		return nil
	}
	return claims
}

// inToken are the characters of the compact form of a token (RFC 7515 section 3.1).
var inToken = func() (in [256]bool) {
	for _, character := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") {
		in[character] = true
	}
	return in
}()

func isToken(text string) bool {
	for at := range len(text) {
		if !inToken[text[at]] {
			return false
		}
	}
	return true
}

// textAt returns the string at a path of a JSON object; ok is false for anything else.
func textAt(object map[string]json.RawMessage, path []string) (text string, ok bool) {
	for _, name := range path[:len(path)-1] {
		var below map[string]json.RawMessage
		if json.Unmarshal(object[name], &below) != nil {
			return "", false
		}
		object = below
	}
	value := object[path[len(path)-1]]
	// null would leave the text as it is.
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &text) != nil {
		return "", false
	}
	return text, true
}

// put writes a text at a path, and makes the objects on the way.
func put(object map[string]any, path []string, text string) {
	for _, name := range path[:len(path)-1] {
		below, ok := object[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			object[name] = below
		}
		object = below
	}
	object[path[len(path)-1]] = text
}
