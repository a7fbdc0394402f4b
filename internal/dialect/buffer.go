package dialect

import (
	"math/bits"
	"sync"
)

// Buffers come in powers of four from 16 KiB to 1 MiB. Larger ones are rare
// (one huge command) and left to the garbage collector.
const (
	bufferMin   = 16 << 10
	bufferMax   = 1 << 20
	bufferKinds = 4
)

// buffers holds *[]byte, so that putting one back does not allocate a header;
// headers holds the empty *[]byte of buffers in use.
var (
	buffers [bufferKinds]sync.Pool
	headers = sync.Pool{New: func() any { return new([]byte) }}
)

// bufferKind returns the smallest pool whose buffers have room for n bytes.
func bufferKind(n int) int {
	if n <= bufferMin {
		return 0
	}
	return (bits.Len(uint(n-1)) - bits.Len(bufferMin-1) + 1) / 2
}

// bufferSize returns how large the buffer is that getBuffer(n) returns.
func bufferSize(n int) int {
	k := bufferKind(n)
	if k >= bufferKinds {
		return n
	}
	return bufferMin << (2 * k)
}

// getBuffer returns a buffer of length zero with room for at least n bytes.
func getBuffer(n int) []byte {
	k := bufferKind(n)
	if k >= bufferKinds {
		return make([]byte, 0, n)
	}
	if h, ok := buffers[k].Get().(*[]byte); ok {
		b := *h
		*h = nil
		headers.Put(h)
		return b[:0]
	}
	return make([]byte, 0, bufferSize(n))
}

// putBuffer gives a buffer back for reuse; nobody may use it any more. Buffers
// that were not made by getBuffer are welcome if their size fits a pool.
func putBuffer(b []byte) {
	if cap(b) < bufferMin || cap(b) > bufferMax {
		return
	}
	k := bufferKind(cap(b))
	if bufferMin<<(2*k) > cap(b) {
		k-- // a grown buffer between two sizes serves the smaller
	}
	h, ok := headers.Get().(*[]byte)
	if !ok {
		return
	}
	*h = b[:0]
	buffers[k].Put(h)
}
