package faktory

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"millrace/internal/job"
)

const (
	jidMin = 8    // the protocol's
	jidMax = 1024 // ours: a jid is a key of the store
)

// idPrefix begins the jid of a job that has none: the number of its queue and its own
// follow, with a hyphen between them. No client can push a jid of this form, so that it
// always means that job.
const idPrefix = "millrace-"

// shownJID returns the jid of a job: its key if that can be one, else its numbers.
func shownJID(j *job.Job) string {
	if len(j.Key) >= jidMin && len(j.Key) <= jidMax && utf8.ValidString(j.Key) {
		if _, _, numbers := parseNumbers(j.Key); !numbers {
			return j.Key
		}
	}
	b := append(make([]byte, 0, len(idPrefix)+31), idPrefix...)
	b = append(strconv.AppendUint(b, uint64(j.QueueNum), 10), '-')
	return string(strconv.AppendUint(b, uint64(j.ID), 10))
}

// parseNumbers returns the job that a jid names by its numbers.
func parseNumbers[T string | []byte](jid T) (queueNum uint32, id job.ID, ok bool) {
	if len(jid) <= len(idPrefix) || string(jid[:len(idPrefix)]) != idPrefix {
		return 0, 0, false
	}
	first, second, _ := strings.Cut(string(jid[len(idPrefix):]), "-")
	queue, okQueue := parseID(first)
	number, okID := parseID(second)
	if !okQueue || !okID || queue > math.MaxUint32 {
		return 0, 0, false
	}
	return uint32(queue), job.ID(number), true
}

// batchPrefix begins the id of a batch; clients recognise it by that.
const batchPrefix = "b-"

func appendBatchID(b []byte, id job.BatchID) []byte {
	return strconv.AppendUint(append(b, batchPrefix...), uint64(id), 10)
}

func parseBatchID(bid []byte) (job.BatchID, bool) {
	digits, ok := strings.CutPrefix(string(bid), batchPrefix)
	if !ok {
		return 0, false
	}
	n, ok := parseID(digits)
	return job.BatchID(n), ok
}

// parseID reads a number in the one spelling that it is written in.
func parseID(digits string) (uint64, bool) {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || digits[0] < '1' || digits[0] > '9' {
		return 0, false
	}
	return n, true
}

// newJID makes a jid as clients do: 24 hexadecimal digits.
func newJID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// recent holds the jids of the jobs that a connection has fetched lately. A worker
// settles what it has fetched, so most jids that come back need no new string.
type recent struct {
	kept [4]string
	next uint8
}

func (r *recent) add(jid string) {
	r.kept[r.next%uint8(len(r.kept))] = jid
	r.next++
}

// String returns b as a string.
func (r *recent) String(b []byte) string {
	for _, s := range r.kept {
		if s == string(b) {
			return s
		}
	}
	return string(b)
}
