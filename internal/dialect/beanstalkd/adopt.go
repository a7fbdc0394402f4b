package beanstalkd

import (
	"fmt"
	"math"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/job"
)

var _ dialect.Adopter = (*Dialect)(nil)

// Adopt takes over a job of another server, or a pause. A pause ends at RunAt.
func (d *Dialect) Adopt(a *dialect.Arrival) (cmd job.Command, lost string, err error) {
	if !isTube(a.Queue) {
		return nil, "", fmt.Errorf("%q is no name of a tube", a.Queue)
	}
	if a.State == dialect.StatePaused {
		left := time.Until(a.RunAt.Std())
		return &job.Pause{
			Namespace: d.opts.Namespace, Queue: a.Queue, For: max(left, time.Microsecond),
			Make: true,
		}, "", nil
	}
	if len(a.Body) > d.opts.MaxJob {
		return nil, "", fmt.Errorf("its body has %d bytes, more than beanstalkd.max_job_size allows", len(a.Body))
	}
	past, err := a.Past()
	if err != nil {
		return nil, "", err
	}
	past.BuriedLast = past.State == job.Buried
	past.OldPlace = past.State == job.Scheduled
	p := &job.Push{Past: past}
	s := &p.Spec
	s.Namespace, s.Queue = d.opts.Namespace, a.Queue
	s.Body = a.Body
	if s.Body == nil {
		s.Body = []byte{} // an empty one
	}
	s.RunAt = a.RunAt
	fill(s, uint32(min(max(a.Priority, 0), math.MaxUint32)), a.TTR)
	return p, "", nil
}
