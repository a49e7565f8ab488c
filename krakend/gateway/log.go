package gateway

import (
	"log"

	"edge-idempotency/krakend/bridge"
)

// krakendLogger is the part of lura's logging.Logger that is used here.
type krakendLogger interface {
	Debug(v ...interface{})
	Info(v ...interface{})
	Warning(v ...interface{})
	Error(v ...interface{})
	Critical(v ...interface{})
}

// LogTo makes a log of KrakenD's logger (lura's logging.Logger). Anything else is replaced by package log, which writes to
// the standard error.
func LogTo(logger any) func(bridge.Level, string) {
	krakend, ok := logger.(krakendLogger)
	if !ok {
		return func(level bridge.Level, message string) {
			log.Printf("%s %s", level, message)
		}
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
