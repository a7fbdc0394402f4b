package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"millrace/internal/api"
	"millrace/internal/engine"
	"millrace/internal/job"
)

const stateGone = "gone"

func ref(h *api.Held) (job.Ref, job.Holder, error) {
	holder, err := api.ParseHolder(h.Holder)
	if err == nil {
		err = api.CheckQueue(h.Namespace, h.Queue)
	}
	return job.ByID(h.Namespace, h.Queue, h.ID), holder, err
}

// settle runs a command on a job that its holder names, and tells where the job stands then.
func (s *Service) settle(ctx context.Context, at api.Held, cmd job.Command) (api.Settled, error) {
	if _, err := s.do(ctx, cmd); err != nil {
		if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == http.StatusNotFound {
			return api.Settled{}, api.NotFound("job %d is not in queue %q: it may have been acked, deleted, moved or have expired", at.ID, at.Queue)
		}
		return api.Settled{}, err
	}
	out := api.Settled{ID: at.ID, State: stateGone}
	err := s.view(func(v *engine.View) error {
		j, err := v.Get(job.ByID(at.Namespace, at.Queue, at.ID))
		if api.IsNotFound(err) {
			return nil
		}
		out.State, out.Until = j.State.Name(), api.Instant(j.Lease.Until)
		if j.State == job.Retrying || j.State == job.Scheduled {
			out.RunAt = api.Instant(j.RunAt)
		}
		return err
	})
	return out, err
}

// Ack ends a job with success. The result is kept if the job is.
func (s *Service) Ack(ctx context.Context, at api.Held, result []byte) (api.Settled, error) {
	ref, by, err := ref(&at)
	if err != nil {
		return api.Settled{}, err
	}
	return s.settle(ctx, at, &job.Ack{Ref: ref, By: by, Result: result})
}

const (
	failTypeMax  = 255
	failTextMax  = 64 << 10
	failLinesMax = 1000
)

// Fail ends a job's execution without success: it is tried again, or is dead if it has been often enough.
func (s *Service) Fail(ctx context.Context, at api.Held, f api.Failed) (api.Settled, error) {
	ref, by, err := ref(&at)
	if err != nil {
		return api.Settled{}, err
	}
	size := len(f.Message)
	for _, line := range f.Backtrace {
		size += len(line)
	}
	if len(f.Type) > failTypeMax || size > failTextMax || len(f.Backtrace) > failLinesMax {
		return api.Settled{}, api.Invalid("type, message and backtrace: at most %d bytes, %d bytes and %d lines", failTypeMax, failTextMax, failLinesMax)
	}
	failure := job.Failure{Kind: job.FailedByWorker, Type: f.Type, Message: f.Message, Backtrace: f.Backtrace}
	return s.settle(ctx, at, &job.Fail{Ref: ref, By: by, Failure: failure})
}

// Extend lets a lease end so long after now.
func (s *Service) Extend(ctx context.Context, at api.Held, lease time.Duration) (api.Settled, error) {
	ref, by, err := ref(&at)
	if err == nil {
		err = checkLease(lease)
	}
	if err != nil {
		return api.Settled{}, err
	}
	return s.settle(ctx, at, &job.Touch{Ref: ref, By: by, Until: s.engine.Now().Add(lease)})
}

// Release gives a job back without counting a failure: ready at its old place, or after a delay.
func (s *Service) Release(ctx context.Context, at api.Held, delay time.Duration) (api.Settled, error) {
	ref, by, err := ref(&at)
	if err != nil {
		return api.Settled{}, err
	}
	return s.settle(ctx, at, &job.Release{Ref: ref, By: by, Place: job.PlaceOld, Delay: delay})
}

// held is how a request names a job in its hands.
type held struct {
	Queue  string `json:"queue"`
	Holder string `json:"holder"`
}

// of returns which job that is.
func (h held) of(c *call) (api.Held, error) {
	id, err := c.ID()
	return api.Held{Namespace: c.Name("namespace"), Queue: h.Queue, ID: id, Holder: h.Holder}, err
}

func (c *call) ackJob() error {
	var in struct {
		held
		Result       json.RawMessage `json:"result"`
		ResultText   *string         `json:"result_text"`
		ResultBase64 []byte          `json:"result_base64"`
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	at, err := in.of(c)
	if err != nil {
		return err
	}
	p := api.Payload{Body: in.Result, BodyText: in.ResultText, BodyBase64: in.ResultBase64}
	result, _, err := p.Content()
	if err != nil {
		return api.Invalid("result, result_text and result_base64: name one of them")
	}
	return c.Result(c.Ack(c.R.Context(), at, result))
}

func (c *call) failJob() error {
	var in struct {
		held
		api.Failed
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	at, err := in.of(c)
	if err != nil {
		return err
	}
	return c.Result(c.Fail(c.R.Context(), at, in.Failed))
}

func (c *call) extendJob() error {
	in := struct {
		held
		Lease float64 `json:"lease_seconds"`
	}{Lease: api.LeaseDefault.Seconds()}
	if err := c.Decode(&in); err != nil {
		return err
	}
	at, err := in.of(c)
	if err != nil {
		return err
	}
	lease, err := api.Seconds("lease_seconds", in.Lease)
	if err != nil {
		return err
	}
	return c.Result(c.Extend(c.R.Context(), at, lease))
}

func (c *call) releaseJob() error {
	var in struct {
		held
		Delay float64 `json:"delay_seconds"`
	}
	if err := c.Decode(&in); err != nil {
		return err
	}
	at, err := in.of(c)
	if err != nil {
		return err
	}
	delay, err := api.Seconds("delay_seconds", in.Delay)
	if err != nil {
		return err
	}
	return c.Result(c.Release(c.R.Context(), at, delay))
}
