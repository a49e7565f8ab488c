package standin

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Logger has the methods of lura's logging.Logger. Plugins get it as a value without a type.
type Logger struct {
	mutex sync.Mutex
	out   io.Writer
}

// NewLogger writes lines to out.
func NewLogger(out io.Writer) *Logger { return &Logger{out: out} }

// Debug writes a line.
func (l *Logger) Debug(v ...interface{}) { l.write("DEBUG", v) }

// Info writes a line.
func (l *Logger) Info(v ...interface{}) { l.write("INFO", v) }

// Warning writes a line.
func (l *Logger) Warning(v ...interface{}) { l.write("WARNING", v) }

// Error writes a line.
func (l *Logger) Error(v ...interface{}) { l.write("ERROR", v) }

// Critical writes a line.
func (l *Logger) Critical(v ...interface{}) { l.write("CRITICAL", v) }

// Fatal writes a line and ends the process.
func (l *Logger) Fatal(v ...interface{}) {
	l.write("FATAL", v)
	os.Exit(1)
}

func (l *Logger) write(level string, v []interface{}) {
	text := strings.TrimSuffix(fmt.Sprintln(v...), "\n")
	l.mutex.Lock()
	defer l.mutex.Unlock()
	fmt.Fprintf(l.out, "%s %s %s\n", time.Now().UTC().Format("2006/01/02 15:04:05.000"), level, text)
}
