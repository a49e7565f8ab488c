package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

func claim(_ restate.Context, fingerprint string) (string, error) { return fingerprint, nil }

func main() {
	guard := restate.NewService("IdempotencyGuard",
		restate.WithIdempotencyRetention(170*time.Hour),
		restate.WithJournalRetention(0),
		restate.WithInvocationRetryPolicy(
			restate.WithMaxRetryInterval(5*time.Second), restate.WithMaxRetryAttempts(10_000_000), restate.PauseOnMaxAttempts()),
	).Handler("claim", restate.NewServiceHandler(claim))
	log.Fatal(server.NewRestate().Bind(guard).Start(context.Background(), "127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "9090")))
}
