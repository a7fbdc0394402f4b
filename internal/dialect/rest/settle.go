package rest

import (
	"millrace/internal/api"
	"millrace/internal/job"
)

const (
	failTypeMax  = 255
	failTextMax  = 64 << 10
	failLinesMax = 1000
)

// held returns which job a request names, and who holds it.
func held(c *api.Call, h api.HeldBy, id job.ID) (job.Ref, job.Holder, error) {
	namespace := c.Name("namespace")
	holder, err := api.ParseHolder(h.Holder)
	if err == nil {
		err = api.CheckQueue(namespace, h.Queue)
	}
	return job.ByID(namespace, h.Queue, id), holder, err
}

// settle runs a command on a job that its holder names, and tells where the job stands then.
func (d *Dialect) settle(c *api.Call, ref job.Ref, cmd job.Command) error {
	switch err := d.do(c.R.Context(), cmd).Err; {
	case err != nil && err.Kind == job.NotFound:
		return api.NotFound("job %d is not in queue %q: it may have been acked, deleted, moved or have expired", ref.ID,
			ref.Queue)
	case err != nil:
		return api.Refusal(err)
	}
	out := api.Settled{ID: ref.ID, State: "gone"}
	j, err := d.opts.Engine.Get(ref)
	switch {
	case err == nil:
		out.State, out.Until = j.State.Name(), api.Instant(j.Lease.Until)
		if j.State == job.Retrying || j.State == job.Scheduled {
			out.RunAt = api.Instant(j.RunAt)
		}
	case !api.IsNotFound(err):
		return api.Refusal(err)
	}
	return c.Result(out, nil)
}

// ackJob ends a job with success. The result is kept if the job is.
func (d *Dialect) ackJob(c *api.Call) error {
	var in api.AckRequest
	if err := c.Decode(&in); err != nil {
		return err
	}
	id, err := c.ID()
	if err != nil {
		return err
	}
	p := api.Payload{Body: in.Result, BodyText: in.ResultText, BodyBase64: in.ResultBase64}
	result, _, err := p.Content()
	if err != nil {
		return api.Invalid("result, result_text and result_base64: name one of them")
	}
	ref, by, err := held(c, in.HeldBy, id)
	if err != nil {
		return err
	}
	return d.settle(c, ref, &job.Ack{Ref: ref, By: by, Result: result})
}

// failJob ends a job's execution without success: it is tried again, or is dead if it has been often enough.
func (d *Dialect) failJob(c *api.Call) error {
	var in api.FailRequest
	if err := c.Decode(&in); err != nil {
		return err
	}
	id, err := c.ID()
	if err != nil {
		return err
	}
	ref, by, err := held(c, in.HeldBy, id)
	if err != nil {
		return err
	}
	size := len(in.Message)
	for _, line := range in.Backtrace {
		size += len(line)
	}
	if len(in.Type) > failTypeMax || size > failTextMax || len(in.Backtrace) > failLinesMax {
		return api.Invalid("type, message and backtrace: at most %d bytes, %d bytes and %d lines", failTypeMax,
			failTextMax, failLinesMax)
	}
	failure := job.Failure{Kind: job.FailedByWorker, Type: in.Type, Message: in.Message, Backtrace: in.Backtrace}
	return d.settle(c, ref, &job.Fail{Ref: ref, By: by, Failure: failure})
}

// extendJob lets a lease end so long after now.
func (d *Dialect) extendJob(c *api.Call) error {
	in := api.ExtendRequest{Lease: api.LeaseDefault.Seconds()}
	if err := c.Decode(&in); err != nil {
		return err
	}
	id, err := c.ID()
	if err != nil {
		return err
	}
	lease, err := api.Seconds("lease_seconds", in.Lease)
	if err != nil {
		return err
	}
	ref, by, err := held(c, in.HeldBy, id)
	if err == nil {
		err = checkLease(lease)
	}
	if err != nil {
		return err
	}
	return d.settle(c, ref, &job.Touch{Ref: ref, By: by, Until: d.opts.Engine.Now().Add(lease)})
}

// releaseJob gives a job back without counting a failure: ready at its old place, or after a delay.
func (d *Dialect) releaseJob(c *api.Call) error {
	var in api.ReleaseRequest
	if err := c.Decode(&in); err != nil {
		return err
	}
	id, err := c.ID()
	if err != nil {
		return err
	}
	delay, err := api.Seconds("delay_seconds", in.Delay)
	if err != nil {
		return err
	}
	ref, by, err := held(c, in.HeldBy, id)
	if err != nil {
		return err
	}
	return d.settle(c, ref, &job.Release{Ref: ref, By: by, Place: job.PlaceOld, Delay: delay})
}
