package masenko

import (
	"bytes"
	"errors"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
)

// verb is the first word of a request.
type verb uint8

const (
	verbUnknown verb = iota
	verbPing
	verbPush
	verbFetch
	verbAck
	verbNack
	verbInfo
	verbQuit
	verbAtomic
	verbDone
	verbCount = int(verbDone) + 1
)

var verbNames = [verbCount]string{
	"", "PING", "PUSH", "FETCH", "ACK", "NACK", "INFO", "QUIT", "ATOMIC", "DONE",
}

// splitLine returns the verb of a line as sent, and what follows the first
// space. One CR at the end is dropped (protocol section 1).
func splitLine(line []byte) (word, body []byte) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	word, body, _ = bytes.Cut(line, []byte{' '})
	return word, body
}

// parseVerb recognises a verb, case-insensitively.
func parseVerb(word []byte) verb {
	if len(word) < 3 || len(word) > 6 {
		return verbUnknown
	}
	for v := verbPing; int(v) < verbCount; v++ {
		if name := verbNames[v]; len(name) == len(word) && foldASCII(word, name) {
			return v
		}
	}
	return verbUnknown
}

// foldASCII reports whether word is name, which is in upper case and as long.
func foldASCII(word []byte, name string) bool {
	for i, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}

const (
	defaultQueue = "default"
	defaultRetry = 20
	blockersMax  = 255
	queuesMax    = 4096
)

// errPayload means that a body is not what the verb wants.
var errPayload = errors.New("cannot unmarshal payload")

// errQueues means that a fetch names too many queues.
var errQueues = errors.New("too many queues")

// pushRequest is the body of PUSH. Its slices are parts of the line, or decoded
// copies where the line has escapes.
type pushRequest struct {
	name       []byte
	queue      []byte
	deadqueue  []byte
	group      []byte
	trace      []byte
	payload    []byte // nil if absent
	retry      uint8
	scheduled  bool
	executeAt  int64 // seconds since 1970
	blockedBy  []int64
	blockersIn int // how many were listed
}

// parsePush decodes the body of PUSH by the rules of the Go decoder: names in any
// case, null leaves the default, unknown members are ignored, of several the
// last counts. The payload is compacted in place: body is overwritten.
func parsePush(body []byte, p *pushRequest) error {
	*p = pushRequest{retry: defaultRetry, blockedBy: p.blockedBy[:0]}
	r := jsonscan.ReadObject(body)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		if len(key) == 0 {
			continue
		}
		good := true
		switch {
		case jsonscan.KeyIs(key, "name"):
			p.name, good = parseString(value, p.name)
		case jsonscan.KeyIs(key, "queue"):
			p.queue, good = parseString(value, p.queue)
		case jsonscan.KeyIs(key, "deadqueue"):
			p.deadqueue, good = parseString(value, p.deadqueue)
		case jsonscan.KeyIs(key, "group"):
			p.group, good = parseString(value, p.group)
			good = good && len(p.group) <= dialect.GroupMax
		case jsonscan.KeyIs(key, "traceparent"):
			p.trace, _ = jsonscan.Unquote(value, nil) // what is none is ignored, as its recommendation wants it
		case jsonscan.KeyIs(key, "payload"):
			p.payload = value
		case jsonscan.KeyIs(key, "retry"):
			good = p.parseRetry(value)
		case jsonscan.KeyIs(key, "execute_at"):
			good = p.parseExecuteAt(value)
		case jsonscan.KeyIs(key, "blocked_by"):
			good = p.parseBlockedBy(value)
		}
		if !good {
			return errPayload
		}
	}
	if r.Err() != nil {
		return errPayload
	}
	if p.payload != nil {
		p.payload = jsonscan.Compact(p.payload[:0], p.payload)
	}
	return nil
}

func isNull(value []byte) bool { return string(value) == "null" }

// parseString decodes a string; null keeps the old value.
func parseString(value, old []byte) ([]byte, bool) {
	if isNull(value) {
		return old, true
	}
	return jsonscan.Unquote(value, nil)
}

func (p *pushRequest) parseRetry(value []byte) bool {
	if isNull(value) {
		return true
	}
	n, ok := jsonscan.ParseUint(value, 8)
	p.retry = uint8(n & 0xff)
	return ok
}

func (p *pushRequest) parseExecuteAt(value []byte) bool {
	if isNull(value) {
		p.scheduled = false
		return true
	}
	if len(value) < 2 || value[0] != '"' {
		return false
	}
	var t time.Time
	if t.UnmarshalText(value[1:len(value)-1]) != nil {
		return false
	}
	p.scheduled, p.executeAt = true, t.Unix()
	return true
}

func (p *pushRequest) parseBlockedBy(value []byte) bool {
	p.blockedBy, p.blockersIn = p.blockedBy[:0], 0
	r := jsonscan.ReadArray(value)
	for _, element, ok := r.Next(); ok; _, element, ok = r.Next() {
		var n int64
		if !isNull(element) {
			if n, ok = jsonscan.ParseInt(element); !ok {
				return false
			}
		}
		p.blockersIn++
		if p.blockersIn <= blockersMax {
			p.blockedBy = append(p.blockedBy, n)
		}
	}
	return r.Err() == nil
}

// fetchRequest is the body of FETCH.
type fetchRequest struct {
	queues  []string
	timeout time.Duration
}

// parseFetch decodes the body of FETCH. The caller has put the defaults into f;
// intern makes strings of queue names.
func parseFetch(body []byte, f *fetchRequest, intern func([]byte) string) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	r := jsonscan.ReadObject(body)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		var err error
		switch {
		case len(key) == 0:
		case jsonscan.KeyIs(key, "queues"):
			err = f.parseQueues(value, intern)
		case jsonscan.KeyIs(key, "timeout"):
			err = f.parseTimeout(value)
		}
		if err != nil {
			return err
		}
	}
	if r.Err() != nil {
		return errPayload
	}
	return nil
}

func (f *fetchRequest) parseQueues(value []byte, intern func([]byte) string) error {
	f.queues = f.queues[:0]
	r := jsonscan.ReadArray(value)
	for _, element, ok := r.Next(); ok; _, element, ok = r.Next() {
		name, good := parseString(element, nil)
		if !good {
			return errPayload
		}
		if len(f.queues) == queuesMax {
			return errQueues
		}
		if len(name) > 0 { // there is no queue without a name
			f.queues = append(f.queues, intern(name))
		}
	}
	if r.Err() != nil {
		return errPayload
	}
	return nil
}

// parseTimeout decodes nanoseconds or a Go duration. Null is no time at all.
func (f *fetchRequest) parseTimeout(value []byte) error {
	if isNull(value) {
		f.timeout = 0
		return nil
	}
	if value[0] != '"' {
		n, ok := jsonscan.ParseInt(value)
		if !ok {
			return errPayload
		}
		f.timeout = time.Duration(n)
		return nil
	}
	text, _ := jsonscan.Unquote(value, nil)
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return errPayload
	}
	f.timeout = d
	return nil
}

// parseID decodes the body of ACK and NACK. Zero means that there is no id.
func parseID(body []byte) (uint32, error) {
	var id uint64
	r := jsonscan.ReadObject(body)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		if len(key) == 0 || !jsonscan.KeyIs(key, "id") || isNull(value) {
			continue
		}
		if id, ok = jsonscan.ParseUint(value, 32); !ok {
			return 0, errPayload
		}
	}
	if r.Err() != nil {
		return 0, r.Err()
	}
	return uint32(id & 0xffffffff), nil
}

// validName reports whether a name has at least one letter, digit, underscore or
// hyphen, which is all that the original asks (protocol section 3).
func validName(name []byte) bool {
	for _, c := range name {
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', c == '_', c == '-':
			return true
		}
	}
	return false
}
