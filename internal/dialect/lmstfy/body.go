package lmstfy

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"millrace/internal/dialect"
)

// buffer is a piece of memory for what comes in and what goes out.
type buffer struct {
	in, out []byte
	claim   dialect.Claim // what in has of the memory of all connections
}

// bufferKept is how large a buffer may have grown to be used again.
const bufferKept = 256 << 10

var bufferPool = sync.Pool{New: func() any { return new(buffer) }}

func getBuffer() *buffer {
	b, ok := bufferPool.Get().(*buffer)
	if !ok {
		return new(buffer)
	}
	return b
}

func putBuffer(b *buffer) {
	if cap(b.in) > bufferKept {
		b.in = nil
	}
	if cap(b.out) > bufferKept {
		b.out = nil
	}
	b.in, b.out = b.in[:0], b.out[:0]
	b.claim.Drop()
	bufferPool.Put(b)
}

// errTooLarge means that a body is longer than its limit, errBusy that all that are
// being received are too long together.
var (
	errTooLarge = errors.New("body too large")
	errBusy     = errors.New("too many long bodies")
)

// bodyFirst is what is made room for before anything has arrived: the announced
// length is only believed up to this.
const bodyFirst = 64 << 10

// readBody reads the body of a request behind b, up to a limit. What is known to be
// larger is not read at all. What is more than usual is taken from the claim.
func (d *Dialect) readBody(r *http.Request, b []byte, limit int, claim *dialect.Claim) ([]byte, error) {
	if r.ContentLength > int64(limit) {
		return b, errTooLarge
	}
	if r.ContentLength == 0 || r.Body == nil {
		return b, nil
	}
	start := len(b)
	// One more than announced, so that the end is found without growing.
	if want := int(min(max(r.ContentLength, 511), bodyFirst)) + 1; cap(b)-start < want {
		b = append(make([]byte, 0, start+want), b...)
	}
	for {
		if len(b) == cap(b) {
			if !claim.Set(d.opts.Shared, 2*cap(b)) {
				return b, errBusy
			}
			b = append(make([]byte, 0, 2*cap(b)), b...)
		}
		n, err := r.Body.Read(b[len(b):min(cap(b), start+limit+1)])
		b = b[:len(b)+n]
		switch {
		case len(b)-start > limit:
			return b, errTooLarge
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		}
	}
}

// body reads the body of a request that publishes. It has answered if it is not ok.
func (x *exchange) body(b *buffer, limit int) (ok bool) {
	var err error
	b.in, err = x.d.readBody(x.r, b.in, limit, &b.claim)
	switch {
	case err == nil:
		return true
	case errors.Is(err, errTooLarge):
		x.fail(http.StatusRequestEntityTooLarge, textBodyLarge)
	case errors.Is(err, errBusy):
		x.fail(http.StatusServiceUnavailable, textBusy)
	default:
		x.fail(http.StatusBadRequest, textBody)
	}
	return false
}

// dropBody reads and forgets the body of a request that has no use for one. As long as
// it has not been read to its end, net/http does not watch the connection, and a
// consumer that hangs up would not be noticed. It has answered if it is not ok.
func (x *exchange) dropBody() (ok bool) {
	limit := int64(x.d.bulkLimit())
	if x.r.ContentLength > limit {
		x.fail(http.StatusRequestEntityTooLarge, textBodyLarge)
		return false
	}
	if x.r.ContentLength == 0 || x.r.Body == nil {
		return true
	}
	n, err := io.Copy(io.Discard, io.LimitReader(x.r.Body, limit+1))
	switch {
	case err != nil:
		x.fail(http.StatusBadRequest, textBody)
	case n > limit:
		x.fail(http.StatusRequestEntityTooLarge, textBodyLarge)
	default:
		return true
	}
	return false
}

// bulkLimit bounds the body of a bulk request: as many jobs as there may be, each as
// large as it may be, and some room for blanks between them.
func (d *Dialect) bulkLimit() int { return bulkMax*d.opts.MaxBody + bulkBlank }

const bulkBlank = 64 << 10
