package dialect

import (
	"bytes"
	"net/http"
)

// TakeAlone waits for the one place of those who make an answer that takes long, as lists of all queues do. Each such
// answer keeps a processor busy and leaves garbage. If several were made at the same time, all other connections would
// stand in line behind them for the processors. The caller calls end when the answer is made, before it is sent: a
// client that does not read must delay nobody.
func (s *Shared) TakeAlone() (end func()) {
	s.alone <- struct{}{}
	return func() { <-s.alone }
}

// TakeAlone is that of Shared. The connection gives up its turn, so that others do not wait for both.
func (c *Conn) TakeAlone() (end func()) {
	c.rest()
	return c.shared.TakeAlone()
}

// Alone makes a handler of answers that take long to make (see TakeAlone). What is made is sent afterwards.
func (s *Shared) Alone(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.alone <- struct{}{}:
		case <-r.Context().Done():
			return // nobody wants the answer any more
		}
		answer := kept{header: w.Header()}
		func() {
			defer func() { <-s.alone }() // also after a panic
			h.ServeHTTP(&answer, r)
		}()
		if answer.status != 0 {
			w.WriteHeader(answer.status)
		}
		_, _ = w.Write(answer.body.Bytes()) // an error means that the client has gone
	})
}

// kept is an answer that is not sent yet.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header.
func (k *kept) Header() http.Header { return k.header }

// WriteHeader keeps the status.
func (k *kept) WriteHeader(status int) { k.status = status }

// Write keeps a part of the answer.
func (k *kept) Write(b []byte) (int, error) { return k.body.Write(b) }
