// What handlers do with an answer, between middlewares around the one of examples/gohttp and inside it. around.json has the requests.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var pieces = []string{"one, ", "two, ", "three"}

// sessions keeps a session in a cookie, which it sets with the head of an answer.
func sessions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items := 0
		if cookie, err := r.Cookie("session"); err == nil {
			_, _ = fmt.Sscan(cookie.Value, &items)
		}
		before := items
		answer := &headed{ResponseWriter: w, head: func() {
			if items != before {
				http.SetCookie(w, &http.Cookie{Name: "session", Value: fmt.Sprint(items)})
			}
		}}
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), sessionKey{}, &items)))
	})
}

type sessionKey struct{}

// headed calls a function before the head, and may have another way for the body.
type headed struct {
	http.ResponseWriter
	head  func()
	isOut bool
	body  *gzip.Writer
}

func (h *headed) WriteHeader(status int) {
	if !h.isOut {
		h.isOut = true
		h.head()
	}
	h.ResponseWriter.WriteHeader(status)
}

func (h *headed) Write(part []byte) (int, error) {
	if !h.isOut {
		h.WriteHeader(http.StatusOK)
	}
	if h.body != nil {
		return h.body.Write(part)
	}
	return h.ResponseWriter.Write(part)
}

func (h *headed) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// compressed compresses a body that has a type and is not compressed yet.
func compressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Add("Vary", "Accept-Encoding")
		answer := &headed{ResponseWriter: w}
		answer.head = func() {
			takes := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
			if takes && header.Get("Content-Type") != "" && header.Get("Content-Encoding") == "" {
				header.Del("Content-Length")
				header.Set("Content-Encoding", "gzip")
				answer.body = gzip.NewWriter(w)
			}
		}
		next.ServeHTTP(answer, r)
		if answer.body != nil {
			_ = answer.body.Close()
		}
	})
}

func secured(next http.Handler) http.Handler {
	next = http.MaxBytesHandler(next, 8)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		next.ServeHTTP(w, r)
	})
}

func presets(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Cache-Control": "no-store", "X-Gone": "1", "X-Api-Version": "3", "Vary": "origin",
		} {
			w.Header().Set(name, value)
		}
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
		next.ServeHTTP(w, r)
	})
}

// recovered answers 500 when a handler panics.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func handlers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"cart": func(w http.ResponseWriter, r *http.Request) {
			items := r.Context().Value(sessionKey{}).(*int)
			*items++
			_, _ = fmt.Fprintf(w, `{"items":%d}`, *items)
		},
		"cookies": func(w http.ResponseWriter, _ *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
			_, _ = io.WriteString(w, "{}")
		},
		"text": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader(strings.Repeat("all work and no play ", 200)))
		},
		"changed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("Vary", "accept-language")
			w.Header().Del("X-Gone")
			w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			w.Header().Set("Cache-Control", "private, max-age=60")
			_, _ = io.WriteString(w, "a,b\n")
		},
		"empty":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusSeeOther) },
		"file":     func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "file.txt") },
		"stream": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			for _, piece := range pieces {
				_, _ = io.Copy(w, strings.NewReader(piece))
				if err := http.NewResponseController(w).Flush(); err != nil {
					panic(err)
				}
			}
		},
		"breaks": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "partial")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"hints": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, "{}")
		},
		"invalid": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(99) },
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "ok")
			w.Header().Set("X-Sum", "7")
		},
		"unannounced": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok")
			w.(http.Flusher).Flush()
			w.Header().Set(http.TrailerPrefix+"X-Sum", "7")
		},
		"twice": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"answer":1}`)
			w.Header().Set("X-A", "1")
			w.WriteHeader(http.StatusAccepted)
		},
		"sniffed": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<!doctype html><p>") },
		"bytes": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-B", "\xff")
			w.Header()["set-cookie"] = []string{"a=1"}
		},
		"untyped": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "<!doctype html><p>")
		},
		"short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "part")
		},
		"upgrade": func(w http.ResponseWriter, _ *http.Request) {
			if _, _, err := http.NewResponseController(w).Hijack(); errors.Is(err, errors.ErrUnsupported) {
				http.Error(w, "no upgrade with a key", http.StatusUpgradeRequired)
			}
		},
		"body": func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16))
			if err != nil {
				http.Error(w, "no body", http.StatusRequestEntityTooLarge)
				return
			}
			_, _ = w.Write(bytes.ToUpper(body))
		},
	}
}

// A procedure of Connect: the header tells what it answers.
func create(_ context.Context, request *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
	code := connect.Code(0)
	if name := request.Header().Get("X-Code"); name != "" {
		if err := code.UnmarshalText([]byte(name)); err != nil {
			return nil, err
		}
		return nil, connect.NewError(code, errors.New("as it was told"))
	}
	reply := connect.NewResponse(wrapperspb.String("made " + request.Msg.GetValue()))
	reply.Header().Set("X-A", "1")
	reply.Trailer().Set("X-Sum", "7")
	return reply, nil
}

func main() {
	store, err := OpenStore(os.Getenv("IDEMPOTENCY_DB"), 24*time.Hour, 24*time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	var mutex sync.Mutex
	runs := map[string]int{}
	counted := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mutex.Lock()
			runs[r.RequestURI]++
			mutex.Unlock()
			next.ServeHTTP(w, r)
		})
	}
	inner, mux := http.NewServeMux(), http.NewServeMux()
	for path, handler := range handlers() {
		inner.Handle("/"+path, handler)
	}
	inner.Handle("/shop.v1.Orders/Create", connect.NewUnaryHandler("/shop.v1.Orders/Create", create))
	same := func(next http.Handler) http.Handler { return next }
	for name, parts := range map[string][2]func(http.Handler) http.Handler{
		"bare": {same, same}, "session": {sessions, same}, "session-after": {same, sessions}, "compressed": {compressed, same},
		"compressed-after": {same, compressed}, "secured": {secured, same}, "presets": {presets, same},
	} {
		once := Idempotency(store, counted(parts[1](inner)))
		mux.Handle("/"+name+"/", http.StripPrefix("/"+name, parts[0](recovered(once))))
	}
	mux.HandleFunc("/runs", func(w http.ResponseWriter, _ *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		_ = json.NewEncoder(w).Encode(runs)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux))
}
