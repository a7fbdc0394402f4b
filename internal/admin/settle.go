package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// Held names a job in a worker's hands.
type Held struct {
	Namespace string
	Queue     string
	ID        job.ID
	Holder    string
}

// Settled is where a job stands that its worker has let go of, or holds on to.
type Settled struct {
	ID    job.ID     `json:"id"`
	State string     `json:"state"` // gone if it is not kept
	RunAt *time.Time `json:"run_at,omitempty"`
	Until *time.Time `json:"until,omitempty"` // the end of its lease
}

const stateGone = "gone"

func (h *Held) ref() (job.Ref, job.Holder, error) {
	holder, err := parseHolder(h.Holder)
	if err == nil {
		err = checkQueue(h.Namespace, h.Queue)
	}
	return job.ByID(h.Namespace, h.Queue, h.ID), holder, err
}

// settle runs a command on a job that its holder names, and tells where the job stands then.
func (s *Service) settle(ctx context.Context, at Held, cmd job.Command) (Settled, error) {
	if _, err := s.do(ctx, cmd); err != nil {
		if p, ok := errors.AsType[*Problem](err); ok && p.Status == http.StatusNotFound {
			return Settled{}, notFound("job %d is not in queue %q: it may have been acked, deleted, moved or have expired", at.ID, at.Queue)
		}
		return Settled{}, err
	}
	out := Settled{ID: at.ID, State: stateGone}
	err := s.view(func(v *engine.View) error {
		j, err := v.Get(job.ByID(at.Namespace, at.Queue, at.ID))
		if isNotFound(err) {
			return nil
		}
		out.State, out.Until = j.State.Name(), instant(j.Lease.Until)
		if j.State == job.Retrying || j.State == job.Scheduled {
			out.RunAt = instant(j.RunAt)
		}
		return err
	})
	return out, err
}

// Ack ends a job with success. The result is kept if the job is.
func (s *Service) Ack(ctx context.Context, at Held, result []byte) (Settled, error) {
	ref, by, err := at.ref()
	if err != nil {
		return Settled{}, err
	}
	return s.settle(ctx, at, &job.Ack{Ref: ref, By: by, Result: result})
}

// Failed is what a worker tells about a failure.
type Failed struct {
	Type      string   `json:"type,omitempty"`
	Message   string   `json:"message,omitempty"`
	Backtrace []string `json:"backtrace,omitempty"`
}

const (
	failTypeMax  = 255
	failTextMax  = 64 << 10
	failLinesMax = 1000
)

// Fail ends a job's execution without success: it is tried again, or is dead if it has been often enough.
func (s *Service) Fail(ctx context.Context, at Held, f Failed) (Settled, error) {
	ref, by, err := at.ref()
	if err != nil {
		return Settled{}, err
	}
	size := len(f.Message)
	for _, line := range f.Backtrace {
		size += len(line)
	}
	if len(f.Type) > failTypeMax || size > failTextMax || len(f.Backtrace) > failLinesMax {
		return Settled{}, invalid("type, message and backtrace: at most %d bytes, %d bytes and %d lines", failTypeMax, failTextMax, failLinesMax)
	}
	failure := job.Failure{Kind: job.FailedByWorker, Type: f.Type, Message: f.Message, Backtrace: f.Backtrace}
	return s.settle(ctx, at, &job.Fail{Ref: ref, By: by, Failure: failure})
}

// Extend lets a lease end so long after now.
func (s *Service) Extend(ctx context.Context, at Held, lease time.Duration) (Settled, error) {
	ref, by, err := at.ref()
	if err == nil {
		err = checkLease(lease)
	}
	if err != nil {
		return Settled{}, err
	}
	return s.settle(ctx, at, &job.Touch{Ref: ref, By: by, Until: s.engine.Now().Add(lease)})
}

// Release gives a job back without counting a failure: ready at its old place, or after a delay.
func (s *Service) Release(ctx context.Context, at Held, delay time.Duration) (Settled, error) {
	ref, by, err := at.ref()
	if err != nil {
		return Settled{}, err
	}
	return s.settle(ctx, at, &job.Release{Ref: ref, By: by, Place: job.PlaceOld, Delay: delay})
}

// held is how a request names a job in its hands.
type held struct {
	Queue  string `json:"queue"`
	Holder string `json:"holder"`
}

// of returns which job that is.
func (h held) of(c *call) (Held, error) {
	id, err := c.id()
	return Held{Namespace: c.name("namespace"), Queue: h.Queue, ID: id, Holder: h.Holder}, err
}

func (c *call) ackJob() error {
	var in struct {
		held
		Result       json.RawMessage `json:"result"`
		ResultText   *string         `json:"result_text"`
		ResultBase64 []byte          `json:"result_base64"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	at, err := in.of(c)
	if err != nil {
		return err
	}
	p := Payload{Body: in.Result, BodyText: in.ResultText, BodyBase64: in.ResultBase64}
	result, _, err := p.content()
	if err != nil {
		return invalid("result, result_text and result_base64: name one of them")
	}
	return c.result(c.Ack(c.r.Context(), at, result))
}

func (c *call) failJob() error {
	var in struct {
		held
		Failed
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	at, err := in.of(c)
	if err != nil {
		return err
	}
	return c.result(c.Fail(c.r.Context(), at, in.Failed))
}

func (c *call) extendJob() error {
	in := struct {
		held
		Lease float64 `json:"lease_seconds"`
	}{Lease: LeaseDefault.Seconds()}
	if err := c.decode(&in); err != nil {
		return err
	}
	at, err := in.of(c)
	if err != nil {
		return err
	}
	lease, err := seconds("lease_seconds", in.Lease)
	if err != nil {
		return err
	}
	return c.result(c.Extend(c.r.Context(), at, lease))
}

func (c *call) releaseJob() error {
	var in struct {
		held
		Delay float64 `json:"delay_seconds"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	at, err := in.of(c)
	if err != nil {
		return err
	}
	delay, err := seconds("delay_seconds", in.Delay)
	if err != nil {
		return err
	}
	return c.result(c.Release(c.r.Context(), at, delay))
}
