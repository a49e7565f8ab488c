package gateway

import (
	"fmt"
	"log"
	"strings"

	"edge-idempotency/krakend/bridge"
)

// Prefix begins the lines that the gateway writes at its start, as KrakenD's own lines about a part of the service begin. What is
// written about requests begins with the name alone, as in Envoy's log.
const Prefix = "[SERVICE: " + Namespace + "] "

// krakendLogger is the part of lura's logging.Logger that is used here.
type krakendLogger interface {
	Debug(v ...interface{})
	Info(v ...interface{})
	Warning(v ...interface{})
	Error(v ...interface{})
	Critical(v ...interface{})
}

// LogTo makes a log of KrakenD's logger (lura's logging.Logger). Anything else is replaced by lines on the standard error, in the form
// of KrakenD's own logger.
func LogTo(logger any) func(bridge.Level, string) {
	krakend, ok := logger.(krakendLogger)
	if !ok {
		krakend = standardError{}
	}
	return func(level bridge.Level, message string) {
		switch level {
		case bridge.LevelTrace, bridge.LevelDebug:
			krakend.Debug(message)
		case bridge.LevelInfo:
			krakend.Info(message)
		case bridge.LevelWarn:
			krakend.Warning(message)
		case bridge.LevelError:
			krakend.Error(message)
		default:
			krakend.Critical(message)
		}
	}
}

// standardError writes lines as lura's BasicLogger does.
type standardError struct{}

func (standardError) write(level string, v []interface{}) {
	log.Print("KRAKEND " + level + ": " + strings.TrimSuffix(fmt.Sprintln(v...), "\n"))
}
func (s standardError) Debug(v ...interface{})    { s.write("DEBUG", v) }
func (s standardError) Info(v ...interface{})     { s.write("INFO", v) }
func (s standardError) Warning(v ...interface{})  { s.write("WARNING", v) }
func (s standardError) Error(v ...interface{})    { s.write("ERROR", v) }
func (s standardError) Critical(v ...interface{}) { s.write("CRITICAL", v) }
