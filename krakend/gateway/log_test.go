package gateway

import (
	"bytes"
	"log"
	"regexp"
	"testing"

	"edge-idempotency/krakend/bridge"
)

// Until KrakenD's logger is there, lines have the form of KrakenD's.
func TestLinesBeforeTheLoggerAreLikeKrakenDs(t *testing.T) {
	var out bytes.Buffer
	defer log.SetOutput(log.Writer())
	log.SetOutput(&out)
	for level, name := range map[bridge.Level]string{bridge.LevelDebug: "DEBUG", bridge.LevelInfo: "INFO", bridge.LevelWarn: "WARNING", bridge.LevelError: "ERROR", bridge.LevelCritical: "CRITICAL"} {
		out.Reset()
		LogTo(nil)(level, Prefix+"line")
		if form := regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d KRAKEND ` + name + `: \[SERVICE: edge-idempotency\] line\n$`); !form.Match(out.Bytes()) {
			t.Errorf("%q", out.String())
		}
	}
}
