package standin

import (
	"encoding/json"
	"net/http"
	"testing"
)

// What KrakenD 2.13.8 was seen to write into the header for each value of a claim.
func TestClaimsAsText(t *testing.T) {
	for value, want := range map[string]string{
		`"acme"`:                    "acme",
		`" acme "`:                  " acme ",
		`""`:                        "",
		`null`:                      "null",
		`["a","b"]`:                 "a,b",
		`["acme"]`:                  "acme",
		`[]`:                        "",
		`5`:                         "5",
		`1.0000001`:                 "1",
		`1.5`:                       "1.500000",
		`9007199254740993`:          "9007199254740992",
		`1180591620717411303424`:    "-9223372036854775808",
		`18446744073709551616`:      "-9223372036854775808",
		`true`:                      "true",
		`{"a": 1}`:                  `{"a":1}`,
		`[{"a":1},null,9223372036]`: "map[a:1],<nil>,9.223372036e+09",
	} {
		claims := map[string]any{}
		if err := json.Unmarshal([]byte(`{"c":`+value+`}`), &claims); err != nil {
			t.Fatal(err)
		}
		if got := text(claims, "c"); got != want {
			t.Errorf("%s becomes %q, not %q", value, got, want)
		}
	}
	if got := text(map[string]any{}, "c"); got != "" {
		t.Errorf("a missing claim becomes %q", got)
	}
}

func TestPropagatedClaimsTakeThePlaceOfTheClients(t *testing.T) {
	v := &validator{Propagate: [][]string{{"tenant", "x-tenant"}, {"org.id", "x-org"}, {"gone", "x-gone"}, {"one"}}}
	header := http.Header{"X-Tenant": {"mine", "mine"}, "X-Gone": {"mine"}, "X-Other": {"mine"}}
	v.propagate(map[string]any{"tenant": "acme", "org": map[string]any{"id": "o1"}}, header)
	want := map[string]string{"X-Tenant": "acme", "X-Org": "o1", "X-Gone": "", "X-Other": "mine"}
	for name, value := range want {
		if got := header[name]; len(got) != 1 || got[0] != value {
			t.Errorf("%s is %q, not %q", name, got, value)
		}
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	v := &validator{Issuer: "me", Audience: []string{"a"}}
	for payload, accepted := range map[string]bool{
		`{"iss":"me","aud":"a"}`:                         true,
		`{"iss":"me","aud":["b","a"],"exp":99999999999}`: true,
		`{"iss":"you","aud":"a"}`:                        false,
		`{"iss":"me","aud":"b"}`:                         false,
		`{"iss":"me","aud":"a","exp":1}`:                 false,
		`{"iss":"me","aud":"a","nbf":99999999999}`:       false,
		`{"iss":"me","aud":"a","iat":99999999999}`:       false,
		`{"iss":"me","aud":"a","sub":5}`:                 false,
		`{"iss":"me","aud":"a","x":1,"x":2}`:             false,
		`{"iss":"me","aud":"a","x":{"y":1,"y":2}}`:       false,
		`{"iss":"me","aud":"a","x":[{"y":1},{"y":1}]}`:   true,
		`{"iss":"me","aud":"a"`:                          false,
	} {
		if err := v.check([]byte(payload)); (err == nil) != accepted {
			t.Errorf("%s: %v", payload, err)
		}
	}
}
