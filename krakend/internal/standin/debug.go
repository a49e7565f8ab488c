package standin

import (
	"encoding/json"
	"net/http"
	"runtime"
	"runtime/pprof"
)

// debugPrefix is where tests ask. KrakenD has nothing there.
const debugPrefix = "/__standin/"

// addDebug answers /__standin/stats with {"goroutines": …, "bridge": …} and /__standin/goroutines with all their stacks.
func addDebug(mux *http.ServeMux, stats func() any) {
	mux.HandleFunc(debugPrefix+"stats", func(w http.ResponseWriter, _ *http.Request) {
		// What waits for the garbage collector is no leak.
		runtime.GC()
		told := map[string]any{"goroutines": runtime.NumGoroutine()}
		if stats != nil {
			told["bridge"] = stats()
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(told)
	})
	mux.HandleFunc(debugPrefix+"goroutines", func(w http.ResponseWriter, _ *http.Request) {
		pprof.Lookup("goroutine").WriteTo(w, 1)
	})
}
