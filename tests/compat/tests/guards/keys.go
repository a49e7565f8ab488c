package main

import (
	"cmp"
	"context"
	"log"
	"os"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

func show(context restate.Context, _ restate.Void) (string, error) {
	return cmp.Or(context.Request().Headers.Get("x-idempotency-key"), "none"), nil
}

func main() {
	keys := restate.NewService("Keys").Handler("show", restate.NewServiceHandler(show))
	log.Fatal(server.NewRestate().Bind(keys).Start(context.Background(), "127.0.0.1:"+os.Getenv("PORT")))
}
