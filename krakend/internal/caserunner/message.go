package main

import (
	"bytes"
	"errors"
	"io"

	"edge-idempotency/krakend/bridge"
)

// line is a header line. Name and value hold any bytes.
type line struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

// message is a request or a response in an order or a result.
type message struct {
	Headers []line `json:"headers"`
	Body    []byte `json:"body"`
	// Trailers is nil if there are none.
	Trailers *[]line `json:"trailers,omitempty"`
	// Complete says whether the end of the message came. Orders do not have it: their messages are complete.
	Complete bool `json:"complete"`
}

// toBridge makes a message that has a body only if bytes or trailers follow, as a gateway does.
func (m *message) toBridge() bridge.Message {
	sent := bridge.Message{Header: toHeader(m.Headers)}
	if len(m.Body) > 0 || m.Trailers != nil {
		sent.Body = io.NopCloser(bytes.NewReader(m.Body))
	}
	if m.Trailers != nil {
		trailers := toHeader(*m.Trailers)
		sent.Trailer = func() bridge.Header { return trailers }
	}
	return sent
}

// fromBridge reads a message to its end. The error says why the end did not come; the message is what came before.
func fromBridge(m *bridge.Message) (*message, error) {
	read := &message{Headers: fromHeader(m.Header), Body: []byte{}}
	if m.Body != nil {
		body, err := io.ReadAll(m.Body)
		err = errors.Join(err, m.Body.Close())
		read.Body = body
		if err != nil {
			return read, err
		}
	}
	if m.Trailer != nil {
		if trailers := fromHeader(m.Trailer()); len(trailers) > 0 {
			read.Trailers = &trailers
		}
	}
	read.Complete = true
	return read, nil
}

func toHeader(lines []line) bridge.Header {
	header := make(bridge.Header, 0, len(lines))
	for _, l := range lines {
		header = append(header, bridge.Line{Name: string(l.Name), Value: string(l.Value)})
	}
	return header
}

func fromHeader(header bridge.Header) []line {
	lines := make([]line, 0, len(header))
	for _, l := range header {
		lines = append(lines, line{Name: []byte(l.Name), Value: []byte(l.Value)})
	}
	return lines
}
