package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sony/gobreaker/v2"

	"edge-idempotency/krakend/bridge"
)

// breakerConfig has the members of KrakenD's qos/circuit-breaker, with the same meaning (krakend-circuitbreaker).
type breakerConfig struct {
	// Interval and Timeout are in seconds.
	Interval        int    `json:"interval"`
	Timeout         int    `json:"timeout"`
	MaxErrors       int    `json:"max_errors"`
	Name            string `json:"name"`
	LogStatusChange bool   `json:"log_status_change"`
}

type breaker = gobreaker.CircuitBreaker[*http.Response]

const mostBreakerSeconds = 86_400

// readBreaker makes the circuit breaker of an upstream; nil if it has none. As KrakenD's for no-op it counts connections that
// fail and answers that do not come, and not statuses. A request that a client gave up, or whose body broke off, counts as nothing.
func (p *plan) readBreaker(at, upstream string, config *breakerConfig, o LoadOptions) *breaker {
	if config == nil {
		return nil
	}
	at += "/circuit_breaker"
	for _, number := range []struct {
		name        string
		value, most int
	}{{"interval", config.Interval, mostBreakerSeconds}, {"timeout", config.Timeout, mostBreakerSeconds}, {"max_errors", config.MaxErrors, 1_000_000}} {
		if number.value < 1 || number.value > number.most {
			p.mistakes.add(at+"/"+number.name, "", "expected a number from 1 to %d", number.most)
			return nil
		}
	}
	settings := gobreaker.Settings{
		Name:        setOr(config.Name, upstream),
		Interval:    time.Duration(config.Interval) * time.Second,
		Timeout:     time.Duration(config.Timeout) * time.Second,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures > uint32(config.MaxErrors) },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
	}
	if config.LogStatusChange && o.Log != nil {
		settings.OnStateChange = func(name string, from, to gobreaker.State) {
			o.Log(bridge.LevelWarn, Prefix+"the circuit breaker "+name+" was "+from.String()+" and is "+to.String())
		}
	}
	return gobreaker.NewCircuitBreaker[*http.Response](settings)
}
