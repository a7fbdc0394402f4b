package faktory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// features are what the members of custom ask of the server (protocol section 13).
// Custom belongs to the producer: a member that is not what the server knows under
// that name is the producer's own and means nothing here.
type features struct {
	uniqueFor time.Duration
	until     job.LockEnd
	expiresAt job.Time
	expiresIn time.Duration
	tracked   bool
	batch     job.BatchID
	group     string
	trace     string
}

// readFeatures looks through a custom object.
func readFeatures(custom []byte) (f features) {
	if custom == nil {
		return f
	}
	r := jsonscan.ReadObject(custom)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		switch string(member(key)) {
		case "unique_for":
			f.uniqueFor = seconds(value)
		case "unique_until":
			f.until = job.LockUntilAck
			if text, ok := parseString(value); ok && string(text) == "start" {
				f.until = job.LockUntilFetch
			}
		case "expires_at":
			f.expiresAt = 0
			if text, ok := parseString(value); ok && len(text) > 0 {
				f.expiresAt, _ = parseTime(text) // another form is the producer's own
			}
		case "expires_in":
			f.expiresIn = seconds(value)
		case "track":
			n, ok := jsonscan.ParseInt(value)
			f.tracked = ok && n != 0 || string(value) == "true"
		case "traceparent":
			f.trace = ""
			if text, ok := parseString(value); ok {
				f.trace = job.ParseTrace(string(text))
			}
		case "bid":
			f.batch = 0
			if text, ok := parseString(value); ok {
				f.batch, _ = parseBatchID(text)
			}
		case "group":
			f.group = ""
			if text, ok := parseString(value); ok && len(text) <= dialect.GroupMax {
				f.group = string(text)
			}
		}
	}
	return f
}

// secondsMax is the longest time that is taken, a hundred years: beyond it nothing
// differs from never.
const secondsMax = 100 * 365 * 24 * 3600

// seconds decodes a number of seconds, whole or not; zero if it is not a positive one.
func seconds(value []byte) time.Duration {
	n, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(n > 0) {
		return 0
	}
	return time.Duration(min(n, secondsMax) * float64(time.Second))
}

// apply asks the engine for the features.
func (f *features) apply(s *job.Spec) {
	s.Tracked, s.Batch, s.Group, s.Trace = f.tracked, f.batch, f.group, f.trace
	if f.uniqueFor > 0 {
		s.Lock, s.LockFor, s.LockUntil = lockName(s), f.uniqueFor, f.until
	}
	if f.expiresAt != 0 || f.expiresIn > 0 {
		s.Policy.ExpireAt, s.TTL, s.Policy.Expiry = f.expiresAt, f.expiresIn, job.ExpireWaiting
	}
}

// lockName is the name of the lock that jobs of the same type, args and queue share.
// Neither a queue's name nor compact JSON has a line end in it.
func lockName(s *job.Spec) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(s.Queue), {'\n'}, canonical(s.Body), {'\n'}, []byte(s.Type)} {
		_, _ = h.Write(part) // it never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// canonicalMax is how many bytes of args are decoded for the name of a lock. Those of more would take much memory.
const canonicalMax = 64 << 10

// canonical spells args in one way. Clients of different languages spell the same args in different ways, and a server
// that jobs were migrated from has spelled them in its own.
func canonical(args []byte) []byte {
	if len(args) > canonicalMax {
		return args
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber() // large integers must not become equal
	var v any
	if d.Decode(&v) != nil {
		return args
	}
	if out, err := json.Marshal(plainNumbers(v)); err == nil {
		return out
	}
	return args
}

// plainNumbers makes floats of the numbers in v that have a fraction or an exponent.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(string(v), ".eE") {
			return f
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = plainNumbers(v[name])
		}
	}
	return v
}
