package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

type registration struct {
	Awakeable string `json:"awakeable"`
	TTL       int    `json:"ttl_s"`
}

// promise: from now on `key`, which is `{tenant}:{project}:{what is waited for}`, leads here, for as long as `ttl` says.
func promise[T any](ctx restate.Context, key string, ttl time.Duration) (restate.AwakeableFuture[T], error) {
	outcome := restate.Awakeable[T](ctx)
	_, err := restate.Object[any](ctx, "Promises", key, "await").Request(registration{outcome.Id(), int(ttl.Seconds())})
	return outcome, err
}

type event struct {
	Type string `json:"type"`
}

// The payment provider, as far as this example needs it: a real one is called here, and answers with the id of the charge.
func charge(ctx restate.Context, order string) (string, error) {
	return restate.Run(ctx, func(restate.RunContext) (string, error) { return "ch_" + order, nil }, restate.WithName("charge the card"))
}

// Whose charge it is: the gateway sets these headers from the caller's token.
func scope(ctx restate.Context) string {
	headers := ctx.Request().Headers
	return headers.Get("x-tenant-id") + ":" + headers.Get("x-project-id")
}

// Orders is the service.
type Orders struct{}

// Pay waits for the one event that there will be.
func (Orders) Pay(ctx restate.Context, order string) (map[string]string, error) {
	id, err := charge(ctx, order)
	if err != nil {
		return nil, err
	}
	paid, err := promise[event](ctx, fmt.Sprintf("%s:stripe:%s", scope(ctx), id), 24*time.Hour)
	if err != nil {
		return nil, err
	}
	came, err := paid.Result()
	if err != nil {
		return nil, err
	}
	return map[string]string{"order": order, "charge": id, "event": came.Type}, nil
}

// Settle waits for one of two events, where the key holds the event's type.
func (Orders) Settle(ctx restate.Context, order string) (map[string]any, error) {
	id, err := charge(ctx, order)
	if err != nil {
		return nil, err
	}
	succeeded, err := promise[event](ctx, fmt.Sprintf("%s:stripe:charge.succeeded:%s", scope(ctx), id), 24*time.Hour)
	if err != nil {
		return nil, err
	}
	failed, err := promise[event](ctx, fmt.Sprintf("%s:stripe:charge.failed:%s", scope(ctx), id), 24*time.Hour)
	if err != nil {
		return nil, err
	}
	first, err := restate.WaitFirst(ctx, succeeded, failed)
	if err != nil {
		return nil, err
	}
	return map[string]any{"order": order, "paid": first == restate.Future(succeeded)}, nil
}

func main() {
	orders := restate.NewService("Orders").
		Handler("pay", restate.NewServiceHandler(Orders{}.Pay)).
		Handler("settle", restate.NewServiceHandler(Orders{}.Settle))
	log.Fatal(server.NewRestate().Bind(orders).Start(context.Background(), "127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "9080")))
}
