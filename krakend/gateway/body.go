package gateway

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// atOnce is the longest body that is read before the upstream is called.
const atOnce = 64 << 10

// copyBuffers are for bodies that pass.
var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// setBody gives a request its body. The upstream gets it in parts if it is long or its length is not known. The error is that of
// ctx, or of the body.
func setBody(ctx context.Context, request *http.Request, body io.ReadCloser, length int64) error {
	request.ContentLength = length
	switch _, whole := body.(io.WriterTo); {
	case whole: // It is in memory.
		request.Body = body
	case length >= 0 && length <= atOnce:
		small := &smallBody{bytes: make([]byte, length)}
		if err := small.fill(ctx, body); err != nil {
			return err
		}
		request.Body = small
	default:
		request.Body = endingWith(ctx, body)
	}
	return nil
}

// idleWorkers takes work for a goroutine that has done some already.
var idleWorkers = make(chan func())

// workerRest is how long a goroutine waits for more work.
const workerRest = time.Second

// inWorker runs a function in another goroutine, which the next function may get. A new goroutine would have to grow its stack
// for each call of the module, by copying it.
func inWorker(work func()) {
	select {
	case idleWorkers <- work:
		return
	default:
	}
	go func() {
		rest := time.NewTimer(workerRest)
		defer rest.Stop()
		for {
			work()
			rest.Reset(workerRest)
			select {
			case work = <-idleWorkers:
			case <-rest.C:
				return
			}
		}
	}()
}

// smallBody is a body that is read before it is sent.
type smallBody struct {
	bytes []byte
	at    int
}

// fill reads the body. The read of a client's body lasts until the client sends something, so it has a goroutine of its own.
func (s *smallBody) fill(ctx context.Context, body io.ReadCloser) error {
	read := make(chan error, 1)
	inWorker(func() {
		_, err := io.ReadFull(body, s.bytes)
		if err == nil {
			// The module sees the end, and what comes behind it.
			_, err = io.Copy(io.Discard, body)
		}
		_ = body.Close()
		read <- err
	})
	select {
	case err := <-read:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Read reads what is there.
func (s *smallBody) Read(into []byte) (int, error) {
	if s.at == len(s.bytes) {
		return 0, io.EOF
	}
	count := copy(into, s.bytes[s.at:])
	s.at += count
	return count, nil
}

// Close does nothing: the body itself is closed.
func (s *smallBody) Close() error { return nil }

// endingWith returns a body whose reads end when ctx does. A read of the client's body lasts until the client sends something,
// and net/http returns no error of a request before the reads of its body have ended.
func endingWith(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	reader, writer := io.Pipe()
	streamed := &streamedBody{PipeReader: reader}
	stop := context.AfterFunc(ctx, func() { _ = writer.CloseWithError(context.Cause(ctx)) })
	go func() {
		buffer, _ := copyBuffers.Get().(*[32 << 10]byte)
		_, err := io.CopyBuffer(writer, struct{ io.Reader }{body}, buffer[:])
		copyBuffers.Put(buffer)
		streamed.ended.Store(err == nil)
		stop()
		_ = writer.CloseWithError(err)
		_ = body.Close()
	}()
	return streamed
}

// streamedBody is a body that passes.
type streamedBody struct {
	*io.PipeReader
	ended atomic.Bool
}

// stillSending says whether the client has not sent the whole body yet.
func stillSending(body io.ReadCloser) bool {
	streamed, ok := body.(*streamedBody)
	return ok && !streamed.ended.Load()
}
