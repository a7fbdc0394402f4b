package faktory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// failureText is the failure of a job as a server of the protocol keeps it.
type failureText struct {
	FailedAt  string   `json:"failed_at"`
	Message   string   `json:"message"`
	Type      string   `json:"errtype"`
	Backtrace []string `json:"backtrace"`
	Count     uint32   `json:"retry_count"` // of retries: the first failure is no retry
}

var _ dialect.Adopter = (*Dialect)(nil)

// Adopt takes over a job of another server, which is told as the JSON that it keeps, or a pause.
func (d *Dialect) Adopt(a *dialect.Arrival) (cmd job.Command, lost string, err error) {
	if a.State == dialect.StatePaused {
		if !validQueue([]byte(a.Queue)) || len(a.Queue) > queueNameMax {
			return nil, "", errors.New(queueRefusal([]byte(a.Queue), textQueueName))
		}
		return &job.Pause{Namespace: d.opts.Namespace, Queue: a.Queue, Make: true}, "", nil
	}
	past, err := a.Past()
	if err != nil {
		return nil, "", err
	}
	var j jobText
	extra, reason := j.parse(validUTF8(a.Text), []byte{0})
	if reason != "" {
		return nil, "", errors.New(reason)
	}
	if j.failure != nil {
		if err := adoptFailure(j.failure, past); err != nil {
			return nil, "", err
		}
		j.failure = nil // from here on we tell it
	}
	extra = j.appendExtra(extra, 0)
	p := &job.Push{Past: past}
	s := &p.Spec
	var names dialect.Names
	if text := d.spec(&j, &names, s); text != "" {
		return nil, "", errors.New(text)
	}
	if len(extra) > 1 {
		s.Extra = extra
	}
	if past.Created == 0 && j.createdAt != nil {
		text, _ := parseString(j.createdAt)
		past.Created, _ = parseTime(text) // a text of another form is the producer's own
	}
	adoptLock(s, past, a.State == job.Leased.String())
	s.RunAt = a.RunAt
	if s.TTL > 0 { // it counts from when the job was made
		s.Policy.ExpireAt, s.TTL = max(past.Created, past.Since, s.RunAt).Add(s.TTL), 0
	}
	if hasBatch(j.custom) {
		s.Batch = 0 // a number of ours is another batch
		lost = "its batch: how the other server stores batches is not published, so none of its " +
			"callbacks is called here"
	}
	return p, lost, nil
}

// adoptLock has the job take the lock that it would have if it had been pushed here when it was made. RunAt is what the
// producer asked for.
func adoptLock(s *job.Spec, past *job.Past, held bool) {
	if s.Lock == "" {
		return
	}
	now := job.TimeOf(time.Now())
	made := past.Created
	if made == 0 || made > now { // it is not known, or is that of a clock that is ahead
		made = now
	}
	past.LockedUntil = max(made, s.RunAt).Add(s.LockFor)
	if past.LockedUntil <= now || s.LockUntil == job.LockUntilFetch && (held || past.Attempts > 0) {
		s.Lock, s.LockFor, s.LockUntil, past.LockedUntil = "", 0, 0, 0 // it is over
	}
}

// hasBatch reports whether a custom object names a batch.
func hasBatch(custom []byte) bool {
	r := jsonscan.ReadObject(custom)
	for key, value, ok := r.Next(); ok; key, value, ok = r.Next() {
		if string(member(key)) == "bid" {
			text, _ := parseString(value)
			return bytes.HasPrefix(text, []byte(batchPrefix))
		}
	}
	return false
}

// adoptFailure reads the failure that a job has behind it.
func adoptFailure(text []byte, past *job.Past) error {
	var f failureText
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("its failure cannot be read: %w", err)
	}
	at, _ := parseTime([]byte(f.FailedAt)) // without it, it is not known
	past.Fails = f.Count + 1
	past.Attempts = past.Fails
	past.Failures = []job.Failure{{
		At: at, Kind: job.FailedByWorker, Type: f.Type, Message: f.Message, Backtrace: f.Backtrace,
	}}
	return nil
}
