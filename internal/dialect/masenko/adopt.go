package masenko

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

var _ dialect.Adopter = (*Dialect)(nil)

// Adopt takes over a task of another server. Type is its name and Text its payload. One that is ready and has a RunAt
// has waited until then, which puts it before those that have not.
func (d *Dialect) Adopt(a *dialect.Arrival) (cmd job.Command, lost string, err error) {
	for _, name := range []string{a.Type, a.Queue, cmp.Or(a.DeadQueue, a.Queue)} {
		if !validName([]byte(name)) || len(name) > nameMax || !utf8.ValidString(name) {
			return nil, "", fmt.Errorf("%q is no name of a queue or a task", name)
		}
	}
	switch {
	case len(a.Text) > d.opts.MaxPayload:
		return nil, "", fmt.Errorf("its payload has %d bytes, more than masenko.max_payload allows", len(a.Text))
	case a.MaxFails == 0 || a.MaxFails > math.MaxUint8+1:
		return nil, "", errors.New("how often it may fail is out of range")
	}
	past, err := a.Past()
	if err != nil {
		return nil, "", err
	}
	if past.State == job.Ready && a.RunAt > 0 {
		past.Rank, past.At = -1, a.RunAt // as job.PlaceDue has it
	}
	p := &job.Push{Past: past}
	s := &p.Spec
	s.Namespace, s.Queue, s.Type = d.opts.Namespace, a.Queue, a.Type
	s.Numbered = true
	s.Origin = dialect.DoorMasenko
	if a.Text != nil {
		s.Body, s.BodyKind = a.Text, job.BodyJSON
	}
	s.RunAt = a.RunAt
	s.Policy = policy(a.MaxFails)
	s.Policy.DeadQueue = a.DeadQueue
	return p, "", nil
}
