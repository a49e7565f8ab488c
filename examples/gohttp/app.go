// Takes orders and refunds, each of which calls a payment provider, and does each of them once for each Idempotency-Key.
//
//	cd examples/gohttp && go mod init orders && go mod tidy
//	PAYMENTS_URL=https://payments.example.com PORT=9000 go run .
//
// IDEMPOTENCY_DB, IDEMPOTENCY_LEASE_SECONDS and IDEMPOTENCY_RETENTION_SECONDS say where answers are kept, and how long.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

var client = http.Client{Timeout: 25 * time.Second}

type order struct {
	Item   *string `json:"item"`
	Amount *int    `json:"amount"`
}

// refusal is an error that the caller gets.
type refusal struct {
	status int
	detail string
}

func (r refusal) Error() string { return r.detail }

// pay asks the payment provider, which deduplicates by our key: after a crash here, the second attempt moves no money.
func pay(ctx context.Context, what string, ordered order) (string, error) {
	body, err := json.Marshal(ordered)
	if err != nil {
		return "", err
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("PAYMENTS_URL")+"/"+what, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	call.Header.Set("Content-Type", "application/json")
	if key := OperationKey(ctx); key != "" {
		call.Header.Set("Idempotency-Key", key)
	}
	reply, err := client.Do(call)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	switch reply.StatusCode {
	case http.StatusOK:
		var payment struct{ ID string }
		err := json.NewDecoder(reply.Body).Decode(&payment)
		return payment.ID, err
	case http.StatusPaymentRequired:
		return "", refusal{reply.StatusCode, "The card was declined"}
	case http.StatusForbidden:
		return "", refusal{reply.StatusCode, "The card needs a right that the caller does not have"}
	}
	return "", refusal{http.StatusServiceUnavailable, "The payment provider does not answer"}
}

func write(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// handle gives a handler's error its answer.
func handle(handler func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := handler(w, r); err != nil {
			told, ok := err.(refusal)
			if !ok {
				log.Print(err)
				told = refusal{http.StatusInternalServerError, "Something is wrong here"}
			}
			write(w, told.status, map[string]string{"detail": told.detail})
		}
	}
}

// create reads an order and pays for it.
func create(r *http.Request, what string) (map[string]string, error) {
	var ordered order
	err := json.NewDecoder(r.Body).Decode(&ordered)
	if err != nil || ordered.Item == nil || ordered.Amount == nil {
		return nil, refusal{http.StatusUnprocessableEntity, "An order or refund has an item and an amount"}
	}
	payment, err := pay(r.Context(), what, ordered)
	return map[string]string{"id": payment, "item": *ordered.Item}, err
}

func main() {
	seconds := func(name, standard string) time.Duration {
		value, err := time.ParseDuration(cmp.Or(os.Getenv(name), standard) + "s")
		if err != nil {
			log.Fatal(name, ": ", err)
		}
		return value
	}
	// The lease is longer than the gateway waits for an answer (60 s in a rendered configuration) and than any handler runs.
	lease, retention := seconds("IDEMPOTENCY_LEASE_SECONDS", "90"), seconds("IDEMPOTENCY_RETENTION_SECONDS", "86400")
	store, err := OpenStore(cmp.Or(os.Getenv("IDEMPOTENCY_DB"), "results.db"), lease, retention)
	if err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", handle(func(w http.ResponseWriter, r *http.Request) error {
		paid, err := create(r, "charges")
		if err != nil {
			return err
		}
		w.Header().Set("Location", "/orders/"+paid["id"])
		http.SetCookie(w, &http.Cookie{Name: "basket", Path: "/", MaxAge: -1})
		write(w, http.StatusCreated, paid)
		return nil
	}))
	mux.HandleFunc("POST /refunds", handle(func(w http.ResponseWriter, r *http.Request) error {
		paid, err := create(r, "refunds")
		if err == nil {
			write(w, http.StatusCreated, paid)
		}
		return err
	}))
	mux.HandleFunc("DELETE /orders/{item}", handle(func(w http.ResponseWriter, r *http.Request) error {
		item, amount := r.PathValue("item"), 0
		if _, err := pay(r.Context(), "cancellations", order{&item, &amount}); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}))
	address := "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "9000")
	fmt.Println("listening on", address)
	log.Fatal(http.ListenAndServe(address, Idempotency(store, mux)))
}
