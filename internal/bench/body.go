package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// A body is a JSON string that says which job it is: which run pushed it, its number in the run and when
// it was pushed, in hexadecimal digits, and then what fills it to its size.
const (
	tagDigits    = 8
	numberDigits = 12
	timeDigits   = 14
	headSize     = 1 + tagDigits + numberDigits + timeDigits
	filler       = 'x'
	// SizeMin is the size of the smallest body that can be numbered.
	SizeMin = headSize + 1
)

// Blank returns a body of a size that is at least SizeMin and belongs to no run.
func Blank(size int) []byte { return appendBody(nil, 0, job{}, size) }

// job is what a body tells.
type job struct {
	number uint64
	pushed time.Duration // since the run began
}

func newTag() uint32 { return rand.Uint32() | 1 } //nolint:gosec // no secret, and never that of Blank

// appendBody appends the body of a job.
func appendBody(b []byte, tag uint32, j job, size int) []byte {
	b = append(b, '"')
	b = appendHex(b, uint64(tag), tagDigits)
	b = appendHex(b, j.number, numberDigits)
	b = appendHex(b, uint64(j.pushed), timeDigits) //nolint:gosec // not before the run
	for range size - SizeMin {
		b = append(b, filler)
	}
	return append(b, '"')
}

func appendHex(b []byte, v uint64, digits int) []byte {
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[v>>shift&0xf])
	}
	return b
}

// errStranger means that a job is not of this run.
var errStranger = errors.New("the queue has a job that this run did not push: choose another queue")

// parseBody reads what a body tells and makes sure that it is whole.
func parseBody(b []byte, tag uint32) (job, error) {
	if len(b) < SizeMin || b[0] != '"' || b[len(b)-1] != '"' {
		return job{}, errStranger
	}
	var fields [3]uint64
	at := 1
	for i, digits := range [...]int{tagDigits, numberDigits, timeDigits} {
		v, err := strconv.ParseUint(string(b[at:at+digits]), 16, 64)
		if err != nil {
			return job{}, errStranger
		}
		fields[i] = v
		at += digits
	}
	if fields[0] != uint64(tag) {
		return job{}, errStranger
	}
	if rest := b[headSize : len(b)-1]; bytes.Count(rest, []byte{filler}) != len(rest) {
		return job{}, fmt.Errorf("job %d came back changed", fields[1])
	}
	return job{number: fields[1], pushed: time.Duration(fields[2])}, nil //nolint:gosec // of 56 bits
}
