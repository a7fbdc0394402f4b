package workq

import (
	"errors"
	"fmt"
	"math"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

var _ dialect.Adopter = (*Dialect)(nil)

// Adopt takes over a job of another server. Its Key is the id that its client gave it, and RunAt the time that it was
// scheduled for, which orders it also after it has come.
func (d *Dialect) Adopt(a *dialect.Arrival) (cmd job.Command, lost string, err error) {
	id, ok := dialect.ParseUUID(a.Key)
	size := max(len(a.Body), len(a.Result))
	switch {
	case !ok || id == (dialect.UUID{}):
		return nil, "", fmt.Errorf("its id %q is no UUID", a.Key)
	case !validName(a.Queue):
		return nil, "", fmt.Errorf("%q is no name of a job", a.Queue)
	case a.TTL == 0:
		return nil, "", errors.New("it was pushed by run: its caller waits for it at the other server")
	case size > d.opts.MaxPayload:
		return nil, "", fmt.Errorf("its payload or result has %d bytes, more than workq.max_payload allows", size)
	case int64(int32(a.Priority)) != a.Priority || max(a.MaxAttempts, a.MaxFails) > math.MaxUint8: //nolint:gosec // asked
		return nil, "", errors.New("its priority, its attempts or its failures are out of range")
	}
	past, err := a.Past()
	if err != nil {
		return nil, "", err
	}
	p := &job.Push{Past: past}
	s := &p.Spec
	s.Namespace, s.Queue = d.opts.Namespace, a.Queue
	s.Key, s.Unique = id.String(), true
	s.Body, s.BodyKind = a.Body, job.BodyBytes
	if s.Body == nil {
		s.Body = []byte{} // an empty one
	}
	s.Origin = dialect.DoorWorkq
	s.Policy = policy(a.Priority, max(a.TTR, time.Millisecond), a.MaxAttempts, a.MaxFails)
	s.Policy.ExpireAt = a.ExpireAt
	s.Extra = appendExtra(nil, a.TTL, uint8(a.MaxFails)) //nolint:gosec // checked above
	s.RunAt, past.At = a.RunAt, a.RunAt
	return p, "", nil
}
