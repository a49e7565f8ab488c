package standin

import (
	"encoding/json"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
)

// debugPrefix is where tests ask. KrakenD has nothing there.
const debugPrefix = "/__standin/"

// debugged answers /__standin/stats with {"goroutines": …}, a number, and /__standin/goroutines with all stacks.
func debugged(gateway http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(debugPrefix+"stats", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]int{"goroutines": goroutines()})
	})
	mux.HandleFunc(debugPrefix+"goroutines", func(w http.ResponseWriter, _ *http.Request) {
		pprof.Lookup("goroutine").WriteTo(w, 1)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, debugPrefix) {
			mux.ServeHTTP(w, r)
			return
		}
		gateway.ServeHTTP(w, r)
	})
}

// goroutines counts the goroutines, but for those of connections: a pool keeps connections for the next request.
func goroutines() int {
	stacks := make([]byte, 1<<20)
	for {
		if length := runtime.Stack(stacks, true); length < len(stacks) {
			stacks = stacks[:length]
			break
		}
		stacks = make([]byte, 2*len(stacks))
	}
	count := 0
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if !strings.Contains(stack, "net/http.(*persistConn)") && !strings.Contains(stack, "net/http.(*conn).serve") {
			count++
		}
	}
	return count
}
