package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"sync"
	"time"

	"edge-idempotency/krakend/bridge"
	"edge-idempotency/krakend/gateway"
)

// pool holds the gateways of the process, one for each krakend.json that KrakenD runs with.
type pool struct {
	mutex   sync.Mutex
	running map[string]*instance
	// latest is the gateway that started last, also when it has closed.
	latest *gateway.Gateway
	// settle is how long a gateway stays when its context has ended. KrakenD closes its listener and then lets requests that
	// are under way come to their end.
	settle time.Duration
}

// instance is a gateway and the number of KrakenD's contexts that use it. gateway is nil if the configuration is broken.
type instance struct {
	gateway *gateway.Gateway
	users   map[context.Context]bool
}

// get returns the gateway for the krakend.json that the process runs with now, and starts it at the first call. Nil: it is
// broken, and the log has said why. KrakenD gives each of its runs a context of its own: when the context ends, the gateway
// closes if no other run uses it.
func (p *pool) get(ctx context.Context, arguments []string, log func(bridge.Level, string)) *gateway.Gateway {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	file, err := gateway.ConfigFile(arguments)
	if err != nil {
		log(bridge.LevelCritical, gateway.Prefix+err.Error())
		return nil
	}
	key := digest(file)
	used := p.running[key]
	if used == nil {
		used = &instance{users: map[context.Context]bool{}}
		used.gateway, err = gateway.Load(file, gateway.LoadOptions{Plugin: true, Log: log})
		if err != nil {
			log(bridge.LevelCritical, gateway.Prefix+"the configuration is refused: "+err.Error())
		}
		p.running[key] = used
		if used.gateway != nil {
			used.gateway.Start(p.latest)
			p.latest = used.gateway
		}
	}
	if !used.users[ctx] {
		used.users[ctx] = true
		context.AfterFunc(ctx, func() {
			time.AfterFunc(p.settle, func() { p.release(key, ctx) })
		})
	}
	return used.gateway
}

// release forgets a run of KrakenD. The gateway of the last one closes when its requests have ended.
func (p *pool) release(key string, ctx context.Context) {
	p.mutex.Lock()
	used := p.running[key]
	if used != nil {
		delete(used.users, ctx)
	}
	last := used != nil && len(used.users) == 0
	if last {
		delete(p.running, key)
	}
	p.mutex.Unlock()
	if last && used.gateway != nil {
		used.gateway.Drain(context.Background())
		_ = used.gateway.Close(context.Background())
	}
}

// digest tells configurations apart: the file's name and content.
func digest(file string) string {
	text, _ := os.ReadFile(file)
	return fmt.Sprintf("%s\x00%x", file, sha256.Sum256(text))
}
