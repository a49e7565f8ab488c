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

func answerWith(w http.ResponseWriter, status int, members map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(members)
}

// pay asks the payment provider, which deduplicates by our key: after a crash here, the second attempt moves no money. It answers itself
// when there is no payment.
func pay(w http.ResponseWriter, r *http.Request, what string, ordered order) (payment struct{ ID string }, isPaid bool) {
	body, err := json.Marshal(ordered)
	if err == nil {
		r, err = http.NewRequestWithContext(r.Context(), http.MethodPost, os.Getenv("PAYMENTS_URL")+"/"+what, bytes.NewReader(body))
	}
	if err != nil {
		log.Print(err)
		answerWith(w, http.StatusInternalServerError, nil)
		return payment, false
	}
	r.Header.Set("Content-Type", "application/json")
	if key := OperationKey(r.Context()); key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	status, detail := http.StatusServiceUnavailable, "The payment provider does not answer"
	reply, err := client.Do(r)
	if err == nil {
		defer reply.Body.Close()
		switch reply.StatusCode {
		case http.StatusOK:
			if err = json.NewDecoder(reply.Body).Decode(&payment); err == nil {
				return payment, true
			}
			status, detail = http.StatusInternalServerError, "The payment provider answers with something else"
		case http.StatusPaymentRequired:
			status, detail = reply.StatusCode, "The card was declined"
		case http.StatusForbidden:
			status, detail = reply.StatusCode, "The card needs a right that the caller does not have"
		}
	}
	answerWith(w, status, map[string]string{"detail": detail})
	return payment, false
}

// create makes a handler that reads an order and pays for it.
func create(what string, head func(http.Header, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var ordered order
		err := json.NewDecoder(r.Body).Decode(&ordered)
		if err != nil || ordered.Item == nil || ordered.Amount == nil {
			answerWith(w, http.StatusUnprocessableEntity, map[string]string{"detail": "An order or refund has an item and an amount"})
		} else if payment, isPaid := pay(w, r, what, ordered); isPaid {
			head(w.Header(), payment.ID)
			answerWith(w, http.StatusCreated, map[string]string{"id": payment.ID, "item": *ordered.Item})
		}
	}
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
	mux.HandleFunc("POST /orders", create("charges", func(header http.Header, payment string) {
		header.Set("Location", "/orders/"+payment)
		header.Add("Set-Cookie", (&http.Cookie{Name: "basket", Path: "/", MaxAge: -1}).String())
	}))
	mux.HandleFunc("POST /refunds", create("refunds", func(http.Header, string) {}))
	mux.HandleFunc("DELETE /orders/{item}", func(w http.ResponseWriter, r *http.Request) {
		item, amount := r.PathValue("item"), 0
		if _, isPaid := pay(w, r, "cancellations", order{&item, &amount}); isPaid {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	address := "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "9000")
	fmt.Println("listening on", address)
	log.Fatal(http.ListenAndServe(address, Idempotency(store, mux)))
}
