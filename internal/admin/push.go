package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// NewJob is a job to push. Only what it is about must be said; the rest has defaults that fit a
// job which should run soon and be tried again if it fails.
type NewJob struct {
	Type string `json:"type,omitempty"`
	// Key is the client's own name for the job. With Unique nothing is pushed if a job of the namespace has
	// it, whatever its state: who repeats a push that may have been done does no harm.
	Key    string `json:"key,omitempty"`
	Unique bool   `json:"unique,omitempty"`
	// Jobs of a group run one at a time, or take turns with other groups in a fair queue.
	Group string `json:"group,omitempty"`
	Payload
	Priority int64      `json:"priority,omitempty"` // higher first
	RunAt    *time.Time `json:"run_at,omitempty"`
	Delay    float64    `json:"delay_seconds,omitempty"` // instead of RunAt
	TTL      float64    `json:"ttl_seconds,omitempty"`   // a job that nobody has taken by then is gone
	Lease    float64    `json:"lease_seconds,omitempty"` // how long a worker holds it, where the fetch does not say
	// Retry is how often it is tried again after a failure, with growing delays; then it is dead. Not given
	// it is RetryDefault.
	Retry *int `json:"retry,omitempty"`
	// Keep keeps the job with its result when it has succeeded, until TTL.
	Keep bool `json:"keep,omitempty"`
	// Custom is an object that workers get along with the job, where their protocol has a place for it.
	Custom json.RawMessage `json:"custom,omitempty"`
	// Trace is the W3C traceparent of who pushes it. Not given it is that of Custom, or of the request.
	Trace string `json:"traceparent,omitempty"`
}

// Payload is the body of a job in one of three forms, or in none.
type Payload struct {
	Body       json.RawMessage `json:"body,omitempty"` // JSON
	BodyText   *string         `json:"body_text,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
	// BodyKind says what the bytes are: none, bytes, json, args (a JSON array of arguments) or msgpack. Not
	// given it is json for Body, else bytes.
	BodyKind string `json:"body_kind,omitempty"`
}

const (
	// RetryDefault is how often a job is tried again that does not say.
	RetryDefault = 25
	retryMax     = 1000

	pushMax      = 1000    // jobs of one request
	pushStep     = 100     // of those, in one unit: it holds up everybody else
	pushBodyMax  = 8 << 20 // bytes of one request
	deadKeptFor  = 180 * 24 * time.Hour
	customMax    = 16 << 10 // bytes
	priorityMax  = math.MaxInt32
	workTimeout  = time.Minute      // to read a large request
	replyTimeout = 30 * time.Second // to write an answer that was long in coming
)

// retryBackoff is how the delay between the tries of a job grows: 15 seconds at first, days at last.
var retryBackoff = job.Backoff{Unit: time.Second, Power: 4, Skip: 1, Base: 15 * time.Second, Jitter: 30}

// Pushed is what became of a job to push.
type Pushed struct {
	ID    job.ID `json:"id,omitempty"`
	State string `json:"state,omitempty"`
	// Exists tells that nothing was pushed, because this job has the key already.
	Exists  bool     `json:"exists,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// PushResult is what became of all jobs of a push, in their order.
type PushResult struct {
	Jobs    []Pushed `json:"jobs"`
	Pushed  int      `json:"pushed"`
	Existed int      `json:"existed"`
	Refused int      `json:"refused"`
}

// Push pushes jobs to a queue, each for itself: some may be refused and others not. If the request
// itself is wrong, or none could be pushed, that is its error.
func (s *Service) Push(ctx context.Context, namespace, queue string, jobs []NewJob) (PushResult, error) {
	if len(jobs) == 0 || len(jobs) > pushMax {
		return PushResult{}, invalid("jobs: push 1 to %d, not %d", pushMax, len(jobs))
	}
	if err := checkQueue(namespace, queue); err != nil {
		return PushResult{}, err
	}
	cmds := make([]job.Command, 0, len(jobs))
	for i := range jobs {
		spec, err := jobs[i].spec()
		if err != nil {
			if p, ok := errors.AsType[*Problem](err); ok && len(jobs) > 1 {
				return PushResult{}, invalid("jobs: number %d: %s", i+1, p.Detail)
			}
			return PushResult{}, err
		}
		spec.Namespace, spec.Queue, spec.Origin = namespace, queue, s.opts.Door
		cmds = append(cmds, &job.Push{Spec: spec})
	}
	return s.pushAll(ctx, cmds)
}

// checkQueue refuses names that no queue can have.
func checkQueue(namespace, queue string) error {
	for _, part := range []struct{ what, name string }{{"namespace", namespace}, {"queue", queue}} {
		if part.name == "" {
			return invalid("%s: it is missing", part.what)
		}
		if err := checkName(part.what, part.name); err != nil {
			return err
		}
	}
	return nil
}

// pushAll submits pushes in units of a bounded size.
func (s *Service) pushAll(ctx context.Context, cmds []job.Command) (PushResult, error) {
	out := PushResult{Jobs: make([]Pushed, 0, len(cmds))}
	caller := s.engine.NewCallerAt(s.opts.Door)
	var first *Problem
	for unit := range slices.Chunk(cmds, pushStep) {
		for i, r := range caller.Do(ctx, unit...) {
			p, err := s.pushed(unit[i], &r)
			if err != nil {
				return out, err
			}
			switch {
			case p.Problem != nil:
				out.Refused++
				if first == nil {
					first = p.Problem
				}
			case p.Exists:
				out.Existed++
			default:
				out.Pushed++
			}
			out.Jobs = append(out.Jobs, p)
		}
	}
	if out.Refused == len(cmds) {
		return PushResult{}, first
	}
	return out, nil
}

// pushed tells what became of one push.
func (s *Service) pushed(cmd job.Command, r *job.Result) (Pushed, error) {
	if r.Err == nil {
		return Pushed{ID: r.ID, State: r.State.Name()}, nil
	}
	push, isPush := cmd.(*job.Push)
	if r.Err.Kind != job.Duplicate || !isPush {
		return Pushed{Problem: kindOf(r.Err.Kind).problem("%s", r.Err.Text)}, nil
	}
	out := Pushed{Exists: true}
	err := s.view(func(v *engine.View) error {
		j, err := v.Get(job.ByKey(push.Spec.Namespace, push.Spec.Key))
		if isNotFound(err) { // it has just gone
			return nil
		}
		out.ID, out.State = j.ID, j.State.Name()
		return err
	})
	return out, err
}

// spec makes the spec of a job but for where it goes.
func (n *NewJob) spec() (job.Spec, error) {
	s := job.Spec{Type: n.Type, Key: n.Key, Unique: n.Unique, Group: n.Group}
	for _, part := range []struct{ what, text string }{{"type", n.Type}, {"key", n.Key}, {"group", n.Group}} {
		if err := checkName(part.what, part.text); err != nil {
			return s, err
		}
	}
	if n.Unique && n.Key == "" {
		return s, invalid("unique: it needs a key")
	}
	var err error
	if s.Body, s.BodyKind, err = n.content(); err != nil {
		return s, err
	}
	if s.Delay, err = seconds("delay_seconds", n.Delay); err != nil {
		return s, err
	}
	if n.RunAt != nil {
		if n.Delay != 0 {
			return s, invalid("run_at and delay_seconds: name one of them")
		}
		s.RunAt = job.TimeOf(*n.RunAt)
	}
	if s.TTL, err = seconds("ttl_seconds", n.TTL); err != nil {
		return s, err
	}
	s.TTLFromRun = true
	if err := n.custom(&s); err != nil {
		return s, err
	}
	s.Policy, err = n.policy()
	return s, err
}

// custom takes what goes along with the job.
func (n *NewJob) custom(s *job.Spec) error {
	given := n.Trace
	if len(n.Custom) > 0 && string(n.Custom) != "null" {
		var fields map[string]json.RawMessage
		var b bytes.Buffer
		if json.Unmarshal(n.Custom, &fields) != nil || json.Compact(&b, n.Custom) != nil {
			return invalid("custom: it is for a JSON object")
		}
		if b.Len() > customMax {
			return invalid("custom: it has more than %d bytes", customMax)
		}
		if len(fields) > 0 {
			s.Extra = b.Bytes()
		}
		if n.Trace == "" {
			_ = json.Unmarshal(fields["traceparent"], &given) // another kind of value is the producer's own
		}
	}
	if s.Trace = job.ParseTrace(given); s.Trace == "" && n.Trace != "" {
		return invalid("traceparent: %q is none: write for example 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", n.Trace)
	}
	return nil
}

func (n *NewJob) policy() (job.Policy, error) {
	p := job.Policy{
		Priority: n.Priority, MaxFails: RetryDefault + 1, Backoff: retryBackoff, Lapse: job.LapseFail, Requeue: job.PlaceTail,
		Due: job.PlaceTail, Expiry: job.ExpireWaiting, Exhaust: job.ExhaustDead, DeadFor: deadKeptFor,
	}
	if n.Priority < -priorityMax || n.Priority > priorityMax {
		return p, invalid("priority: choose %d to %d", -priorityMax, priorityMax)
	}
	if n.Retry != nil {
		if *n.Retry < 0 || *n.Retry > retryMax {
			return p, invalid("retry: choose 0 to %d", retryMax)
		}
		p.MaxFails = uint32(*n.Retry) + 1
	}
	if n.Keep {
		if n.TTL == 0 {
			return p, invalid("keep: it needs ttl_seconds, or the job would stay for ever")
		}
		p.Keep, p.Expiry = true, job.ExpireAlways
	}
	var err error
	p.Lease, err = seconds("lease_seconds", n.Lease)
	return p, err
}

// content returns the bytes of a body and what they are.
func (p *Payload) content() ([]byte, job.BodyKind, error) {
	kind, given := job.BodyNone, 0
	var body []byte
	if p.Body != nil {
		body, kind = p.Body, job.BodyJSON
		given++
	}
	if p.BodyText != nil {
		body, kind = []byte(*p.BodyText), job.BodyBytes
		given++
	}
	if p.BodyBase64 != nil {
		body, kind = p.BodyBase64, job.BodyBytes
		given++
	}
	if given > 1 {
		return nil, 0, invalid("body, body_text and body_base64: name one of them")
	}
	if p.BodyKind == "" {
		return body, kind, nil
	}
	k := slices.Index(bodyKinds[:], p.BodyKind)
	if k < 0 {
		return nil, 0, invalid("body_kind: %q is none of none, bytes, json, args and msgpack", p.BodyKind)
	}
	kind = job.BodyKind(k) //nolint:gosec // an index of a short table
	switch {
	case kind == job.BodyNone && given > 0:
		return nil, 0, invalid("body_kind: it is none, but there is a body")
	case kind == job.BodyArgs && (!isJSON(body) || !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))):
		return nil, 0, invalid("body_kind: args is for a JSON array")
	case kind == job.BodyJSON && !isJSON(body):
		return nil, 0, invalid("body_kind: json is for one JSON value")
	}
	return body, kind, nil
}

func (c *call) pushJobs() error {
	var in struct {
		Jobs []NewJob `json:"jobs"`
	}
	c.allowTime(workTimeout)
	if err := c.decode(&in); err != nil {
		return err
	}
	if trace := job.ParseTrace(c.r.Header.Get("Traceparent")); trace != "" {
		for i := range in.Jobs {
			if n := &in.Jobs[i]; n.Trace == "" && !bytes.Contains(n.Custom, []byte(`"traceparent"`)) {
				n.Trace = trace
			}
		}
	}
	namespace, queue := c.queueName()
	return c.result(c.Push(c.r.Context(), namespace, queue, in.Jobs))
}

// allowTime gives the request and its answer more time than others have. An error means that the connection is
// gone, which whoever reads or writes next finds.
func (c *call) allowTime(d time.Duration) {
	rc, until := http.NewResponseController(c.w), time.Now().Add(d+replyTimeout)
	_ = rc.SetReadDeadline(until) // its end would also end the request's context
	_ = rc.SetWriteDeadline(until)
}
