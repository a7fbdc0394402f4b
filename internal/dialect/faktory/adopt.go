package faktory

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"millrace/internal/dialect"
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
	s.RunAt = a.RunAt
	if past.Created == 0 && j.createdAt != nil {
		text, _ := parseString(j.createdAt)
		past.Created, _ = parseTime(text) // a text of another form is the producer's own
	}
	if s.TTL > 0 { // it counts from when the job was made
		s.Policy.ExpireAt, s.TTL = max(past.Created, past.Since, s.RunAt).Add(s.TTL), 0
	}
	return p, leaveBehind(s), nil
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

// leaveBehind takes away what belongs to the other server, and says so.
func leaveBehind(s *job.Spec) string {
	var lost []string
	if s.Lock != "" {
		s.Lock, s.LockFor = "", 0
		lost = append(lost, "its unique lock: until it has run another job like it can be pushed")
	}
	if s.Batch != 0 {
		s.Batch = 0
		lost = append(lost, "its batch: the other server counts its end")
	}
	return strings.Join(lost, "; ")
}
