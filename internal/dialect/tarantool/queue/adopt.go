package queue

import (
	"errors"
	"fmt"

	"millrace/internal/dialect"
	"millrace/internal/dialect/tarantool/iproto"
	"millrace/internal/dialect/tarantool/proc"
	"millrace/internal/job"
)

// Adopt takes over a task of another server, whose Body is its data in MessagePack, or a tube, whose Body has the
// options that it was created with. Type is that of the tube. A tube that is here already stays as it is.
func (q *API) Adopt(a *dialect.Arrival) (cmd job.Command, lost string, err error) {
	if !validTubeName([]byte(a.Queue)) {
		return nil, "", fmt.Errorf("%q is no name of a tube", a.Queue)
	}
	if n, err := iproto.Skip(a.Body); err != nil || n != len(a.Body) {
		return nil, "", errors.New("its data is no MessagePack")
	}
	if a.State == dialect.StateQueue {
		return q.adoptTube(a)
	}
	if len(a.Body) > q.maxBody {
		return nil, "", fmt.Errorf("its data has %d bytes, more than tarantool.max_packet allows", len(a.Body))
	}
	past, err := a.Past()
	if err != nil {
		return nil, "", err
	}
	past.OldPlace = past.State == job.Scheduled
	p := &job.Push{Past: past}
	s := &p.Spec
	s.Namespace, s.Queue, s.Group = q.namespace, a.Queue, a.Group
	if kind, _ := parseKind([]byte(a.Type)); kind.grouped() && s.Group == "" {
		s.Group = noName
	}
	s.Body, s.BodyKind = proc.StoredBody(a.Body, 1)
	s.Origin = dialect.DoorTarantool
	s.RunAt = a.RunAt
	s.Policy = job.Policy{
		Priority: -max(a.Priority, 0),
		Lease:    max(a.TTR, 0),
		ExpireAt: a.ExpireAt,
		Requeue:  job.PlaceOld,
		Due:      job.PlaceOld,
	}
	return p, "", nil
}

// adoptTube takes over a tube.
func (q *API) adoptTube(a *dialect.Arrival) (cmd job.Command, lost string, err error) {
	n := creation{tube: tube{name: a.Queue, ttl: proc.Century, ttr: proc.Century}}
	kind, ok := parseKind([]byte(a.Type))
	if !ok {
		return nil, "", fmt.Errorf("there are no tubes of the type %q here", a.Type)
	}
	if text := n.options(a.Body); text != "" {
		return nil, "", errors.New(text)
	}
	n.tube.kind = kind
	if kind != kindLimFIFOTTL {
		n.capacity = 0
	}
	return n.command(q.namespace), "", nil
}
