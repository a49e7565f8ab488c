package standin

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/luraproject/lura/v2/config"
	luragin "github.com/luraproject/lura/v2/router/gin"

	"edge-idempotency/krakend/internal/routes"

	"github.com/gin-gonic/gin"
)

// ginFinds asks KrakenD's router for each request which path it is served as; "" if it is not found.
func ginFinds(t *testing.T, endpoints []routes.Endpoint, requests []string) map[string]string {
	t.Helper()
	off := map[string]any{"disable_redirect_trailing_slash": true, "disable_redirect_fixed_path": true}
	engine := NewEngine(config.ServiceConfig{ExtraConfig: config.ExtraConfig{luragin.Namespace: off}}, NewLogger(io.Discard))
	found := ""
	for _, endpoint := range endpoints {
		path := strings.NewReplacer("{", ":", "}", "").Replace(endpoint.Path)
		engine.POST(path, func(*gin.Context) { found = endpoint.For })
	}
	answers := map[string]string{}
	for _, request := range requests {
		found = ""
		engine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, request, nil))
		answers[request] = found
	}
	return answers
}

// rightful is the endpoint that should take a request: the text before the parameter, segment by segment.
func rightful(endpoints []string, request string) string {
	best, rank := "", ""
	for _, path := range endpoints {
		own := ""
		wanted, given := strings.Split(path, "/"), strings.Split(request, "/")
		for at, segment := range wanted {
			switch {
			case len(wanted) != len(given):
			case segment == given[at]:
				own += "b"
			case strings.HasPrefix(segment, "{") && given[at] != "":
				own += "a"
			}
		}
		if len(own) == len(wanted) && own > rank {
			best, rank = path, own
		}
	}
	return best
}

// everyPath writes all paths of up to four segments, with a slash at the end and without.
func everyPath() []string {
	all, longest := []string{}, []string{""}
	for range 4 {
		var longer []string
		for _, path := range longest {
			for _, segment := range []string{"a", "b", "ab", "z"} {
				longer = append(longer, path+"/"+segment)
			}
		}
		longest = longer
		all = append(all, longest...)
	}
	for _, path := range all {
		all = append(all, path+"/")
	}
	return all
}

// randomEndpoints makes up to seven different endpoints.
func randomEndpoints(random *rand.Rand, slashes bool) []string {
	var endpoints []string
	for range 2 + random.IntN(6) {
		path := ""
		for depth := range 1 + random.IntN(4) {
			segment := []string{"a", "b", "ab", fmt.Sprintf("{p%d}", depth), fmt.Sprintf("{p%d}", depth)}[random.IntN(5)]
			path += "/" + segment
		}
		if slashes && random.IntN(4) == 0 {
			path += "/"
		}
		if !slices.Contains(endpoints, path) {
			endpoints = append(endpoints, path)
		}
	}
	return endpoints
}

// The rule of routes is gin's: what it calls lost is, nothing else is, and with an endpoint for each lost path every request
// gets to the endpoint that should take it.
func TestLostPathsAreGins(t *testing.T) {
	requests := everyPath()
	lossy := 0
	// Lists of endpoints, each with those that they need besides and what these serve.
	var written []string
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 44))
		slashes := seed%3 == 0
		first := randomEndpoints(random, slashes)
		var endpoints []routes.Endpoint
		for _, path := range first {
			endpoints = append(endpoints, routes.Endpoint{Path: path, For: path})
		}
		for round := 0; ; round++ {
			lost := routes.Find(endpoints)
			answers := ginFinds(t, endpoints, requests)
			for _, one := range lost {
				sample := "/" + strings.Join(samples(one.Path), "/")
				got, want := answers[sample], endpoints[one.Endpoint].For
				if !slashes && (got == want || round == 0 && got != "") || rightful(first, sample) != want {
					t.Fatalf("seed %d: %v: %s of %s is called lost, and gin finds %q", seed, endpoints, one.Path, want, got)
				}
			}
			if len(lost) == 0 {
				for _, request := range requests {
					if want, got := rightful(first, request), answers[request]; got != want {
						t.Fatalf("seed %d: %v: %s gets to %q, not %q", seed, endpoints, request, got, want)
					}
				}
				break
			}
			if round == 0 {
				lossy++
			}
			if round > 10 {
				t.Fatalf("seed %d: %v: no end: %v", seed, endpoints, lost)
			}
			for _, one := range lost {
				endpoints = append(endpoints, routes.Endpoint{Path: one.Path, For: endpoints[one.Endpoint].For})
			}
		}
		if added := endpoints[len(first):]; len(added) > 0 || seed%10 == 0 {
			pairs := [][2]string{}
			for _, endpoint := range added {
				pairs = append(pairs, [2]string{endpoint.Path, endpoint.For})
			}
			line, _ := json.Marshal([]any{first, pairs})
			written = append(written, string(line))
		}
	}
	// `render krakend` has the rule, too, in Rust. It is held against this file.
	file, text := "../routes/testdata/added.json", "[\n"+strings.Join(written[:120], ",\n")+"\n]\n"
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// `xtask format-cases` lays the file out.
	var known, want any
	content, err := os.ReadFile(file)
	if json.Unmarshal(content, &known) != nil || json.Unmarshal([]byte(text), &want) != nil || !reflect.DeepEqual(known, want) {
		t.Errorf("%s is another (%v): UPDATE_GOLDEN=1 go test -run LostPaths .", file, err)
	}
	if lossy < 60 {
		t.Errorf("only %d of the sets lose something", lossy)
	}
}

// samples are the segments of a path with a value for each parameter that is no text of the sets.
func samples(path string) []string {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for at, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[at] = "z"
		}
	}
	return segments
}
