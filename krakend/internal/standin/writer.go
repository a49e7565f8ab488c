package standin

import "net/http"

// safeCast is what lura puts around net/http's writer, by the same name and with the same field: the bridge has to find the
// client's connection behind it.
type safeCast struct {
	w http.ResponseWriter
}

func (s *safeCast) Header() http.Header { return s.w.Header() }

func (s *safeCast) Write(b []byte) (int, error) { return s.w.Write(b) }

func (s *safeCast) WriteHeader(statusCode int) { s.w.WriteHeader(statusCode) }

func (s *safeCast) Flush() {
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

// ginWriter is the writer that gin puts around the one it gets.
type ginWriter struct{ http.ResponseWriter }

// Unwrap gives the inner writer, as gin's does.
func (w *ginWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
