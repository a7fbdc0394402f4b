package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/internal/dialect/jsonscan"
	"millrace/internal/job"
)

// Arrival is a job that another server of a protocol had: one line of JSON of a migration.
// A protocol reads the members that its own servers know.
type Arrival struct {
	// ID names the job among all that its server ever had, so that it arrives once.
	ID        string `json:"id"`
	Namespace string `json:"namespace,omitempty"` // of a protocol whose clients name it
	Pool      string `json:"pool,omitempty"`      // of namespaces, of a protocol that has some
	Queue     string `json:"queue"`
	// State is the one of ours that it was in. A leased job arrives as ready.
	State string `json:"state"`
	// Text is the whole job in JSON, of a protocol whose jobs are JSON.
	Text     json.RawMessage `json:"text,omitempty"`
	Type     string          `json:"type,omitempty"`
	Key      string          `json:"key,omitempty"`   // that its client gave it
	Group    string          `json:"group,omitempty"` // of which one job at a time is worked on
	Body     []byte          `json:"body,omitempty"`
	Priority int64           `json:"priority,omitempty" api:"signed"`
	TTR      time.Duration   `json:"ttr,omitempty"` // in nanoseconds
	Delay    time.Duration   `json:"delay,omitempty"`
	Created  job.Time        `json:"created,omitempty"` // instants in microseconds since 1970
	Since    job.Time        `json:"since,omitempty"`
	RunAt    job.Time        `json:"run_at,omitempty"`
	ExpireAt job.Time        `json:"expire_at,omitempty"`
	Tries    uint32          `json:"tries,omitempty"` // that are left
	Attempts uint32          `json:"attempts,omitempty"`
	Lapses   uint32          `json:"lapses,omitempty"`
	Releases uint32          `json:"releases,omitempty"`
	Buries   uint32          `json:"buries,omitempty"`
	Kicks    uint32          `json:"kicks,omitempty"`
	Fails    uint32          `json:"fails,omitempty"`
	// MaxAttempts and MaxFails bound the tries and the failures; zero is no bound.
	MaxAttempts uint32 `json:"max_attempts,omitempty"`
	MaxFails    uint32 `json:"max_fails,omitempty"`
	DeadQueue   string `json:"dead_queue,omitempty"` // where it goes after the last failure
	TTL         uint64 `json:"ttl,omitempty"`        // as it was given, in milliseconds
	Result      []byte `json:"result,omitempty"`     // of a finished job
}

// The states of arrivals that are no jobs.
const (
	StatePaused = "paused" // its queue was paused
	StateQueue  = "queue"  // its queue was made: Type and Body tell how
	// StateGone tells that the source has no job of the ID any more, and may give it to another.
	StateGone = "gone"
)

// IsJob reports whether a state is that of a job.
func IsJob(state string) bool {
	return state != StatePaused && state != StateQueue && state != StateGone
}

// Adopter takes over what arrives from another server of its protocol.
type Adopter interface {
	// Adopt returns the command that takes it over: a Push of a job, or what makes a queue as
	// it was. It tells what of it stays behind, if something does, or why it cannot be taken.
	Adopt(a *Arrival) (cmd job.Command, lost string, err error)
}

// ReadArrival reads a line of a migration. Most have no other members than the first ones here: those are read without
// the detours of a decoder for anything. What it returns may share memory with the line.
func ReadArrival(line []byte) (a Arrival, err error) {
	members := jsonscan.ReadObject(line)
	plain := true
	for key, value, ok := members.Next(); ok && plain; key, value, ok = members.Next() {
		var text []byte
		switch string(key) {
		case "id":
			text, plain = jsonscan.Unquote(value, nil)
			a.ID = string(text)
		case "queue":
			text, plain = jsonscan.Unquote(value, nil)
			a.Queue = string(text)
		case "state":
			text, plain = jsonscan.Unquote(value, nil)
			a.State = string(text)
		case "text":
			a.Text = value
		default:
			plain = false
		}
	}
	if plain && members.Err() == nil {
		return a, nil
	}
	a = Arrival{}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("it cannot be read: %w", err)
	}
	return a, nil
}

// errArrivalState tells that a state makes no sense for a job that arrives.
var errArrivalState = errors.New("it is in a state that no job can arrive in")

// Past returns how the job begins here.
func (a *Arrival) Past() (*job.Past, error) {
	p := &job.Past{
		Created: a.Created, Since: a.Since, Delay: a.Delay,
		Attempts: a.Attempts, Fails: a.Fails, Lapses: a.Lapses, Releases: a.Releases, Buries: a.Buries, Kicks: a.Kicks,
		Result: a.Result,
	}
	var ok bool
	if p.State, ok = job.ParseState(a.State); !ok || p.State == job.Blocked {
		return nil, errArrivalState
	}
	if p.State == job.Leased {
		p.State, p.Since = job.Ready, 0
	}
	return p, nil
}
