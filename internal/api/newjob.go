package api

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"time"

	"millrace/internal/job"
)

// NewJob is a job to push. Only what it is about must be said; the rest has defaults that fit a
// job which should run soon and be tried again if it fails.
type NewJob struct {
	Type string `json:"type,omitempty"`
	Key  string `json:"key,omitempty"` // the client's own name for the job
	// Push nothing if a job of the namespace has the key, whatever its state: it is then told as existing. So a push
	// can be repeated.
	Unique bool `json:"unique,omitempty"`
	// Jobs of a group run one at a time, or take turns with other groups in a fair queue.
	Group string `json:"group,omitempty"`
	Payload
	Priority int64      `json:"priority,omitempty" api:"signed"` // higher first
	RunAt    *time.Time `json:"run_at,omitempty"`                // when it is due
	Delay    float64    `json:"delay_seconds,omitempty"`         // instead of run_at
	TTL      float64    `json:"ttl_seconds,omitempty"`           // a job that nobody has taken by then is gone; 0 is no bound
	Lease    float64    `json:"lease_seconds,omitempty"`         // how long a worker holds it, where the fetch does not say
	// How often it is tried again after a failure, with growing delays; then it is dead.
	Retry *int `json:"retry,omitempty" api:"maximum=1000 default=25"`
	Keep  bool `json:"keep,omitempty"` // keep it with its result when it has succeeded, until ttl_seconds
	// Workers get it along with the job, where their protocol has a place for it: custom in Faktory. At most 16 KiB.
	Custom json.RawMessage `json:"custom,omitempty" api:"type=object"`
	// W3C trace context of who pushes it. Left out it is that of custom, or of the request's header.
	Trace string `json:"traceparent,omitempty"`
}

// Payload is the body of a job in one of three forms, or in none.
type Payload struct {
	Body       json.RawMessage `json:"body,omitempty"` // JSON; of the three forms of a body at most one is named
	BodyText   *string         `json:"body_text,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
	// What the bytes are; args is a JSON array of arguments. Left out it is json for body, else bytes.
	BodyKind string `json:"body_kind,omitempty" api:"enum=none|bytes|json|args|msgpack"`
}

// PushRequest are jobs to push.
type PushRequest struct {
	Jobs []*NewJob `json:"jobs" api:"minItems=1 maxItems=1000"`
}

// Pushed is what became of a job to push.
type Pushed struct {
	ID    job.ID `json:"id,omitempty"`
	State string `json:"state,omitempty" api:"is=State"`
	// Nothing was pushed: this job has the key.
	Exists  bool     `json:"exists,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// PushResult is what became of all jobs of a push, in their order.
type PushResult struct {
	Jobs    []Pushed `json:"jobs"` // in the order of the request
	Pushed  int      `json:"pushed"`
	Existed int      `json:"existed"`
	Refused int      `json:"refused"`
}

// RetryDefault is how often a job is tried again that does not say.
const RetryDefault = 25

const (
	retryMax    = 1000
	deadKeptFor = 180 * 24 * time.Hour
	customMax   = 16 << 10 // bytes
	priorityMax = math.MaxInt32
)

// retryBackoff is how the delay between the tries of a job grows: 15 seconds at first, days at last.
var retryBackoff = job.Backoff{Unit: time.Second, Power: 4, Skip: 1, Base: 15 * time.Second, Jitter: 30}

// Spec makes the spec of a job, except for where it goes.
func (n *NewJob) Spec() (job.Spec, error) {
	if n == nil {
		return job.Spec{}, Invalid("the job is null: send an object, {} for a job without a body")
	}
	s := job.Spec{Type: n.Type, Key: n.Key, Unique: n.Unique, Group: n.Group}
	for _, part := range []struct{ what, text string }{{"type", n.Type}, {"key", n.Key}, {"group", n.Group}} {
		if err := CheckName(part.what, part.text); err != nil {
			return s, err
		}
	}
	if n.Unique && n.Key == "" {
		return s, Invalid("unique: it needs a key")
	}
	var err error
	if s.Body, s.BodyKind, err = n.Content(); err != nil {
		return s, err
	}
	if s.Delay, err = Seconds("delay_seconds", n.Delay); err != nil {
		return s, err
	}
	if n.RunAt != nil {
		if n.Delay != 0 {
			return s, Invalid("run_at and delay_seconds: name one of them")
		}
		s.RunAt = job.TimeOf(*n.RunAt)
	}
	if s.TTL, err = Seconds("ttl_seconds", n.TTL); err != nil {
		return s, err
	}
	s.TTLFromRun = true
	if err := n.custom(&s); err != nil {
		return s, err
	}
	s.Policy, err = n.Policy()
	return s, err
}

// custom takes what goes along with the job.
func (n *NewJob) custom(s *job.Spec) error {
	given := n.Trace
	if len(n.Custom) > 0 && string(n.Custom) != "null" {
		var fields map[string]json.RawMessage
		var b bytes.Buffer
		if json.Unmarshal(n.Custom, &fields) != nil || json.Compact(&b, n.Custom) != nil {
			return Invalid("custom: it is for a JSON object")
		}
		if b.Len() > customMax {
			return Invalid("custom: it has more than %d bytes", customMax)
		}
		if len(fields) > 0 {
			s.Extra = b.Bytes()
		}
		if n.Trace == "" {
			_ = json.Unmarshal(fields["traceparent"], &given) // another kind of value is the producer's own
		}
	}
	if s.Trace = job.ParseTrace(given); s.Trace == "" && n.Trace != "" {
		return Invalid("traceparent: %q is none: write for example "+
			"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", n.Trace)
	}
	return nil
}

// Policy is what the push fixes about the life of the job.
func (n *NewJob) Policy() (job.Policy, error) {
	p := job.Policy{
		Priority: n.Priority, MaxFails: RetryDefault + 1, Backoff: retryBackoff, Lapse: job.LapseFail,
		Requeue: job.PlaceTail,
		Due:     job.PlaceTail, Expiry: job.ExpireWaiting, Exhaust: job.ExhaustDead, DeadFor: deadKeptFor,
	}
	if n.Priority < -priorityMax || n.Priority > priorityMax {
		return p, Invalid("priority: choose %d to %d", -priorityMax, priorityMax)
	}
	if n.Retry != nil {
		if *n.Retry < 0 || *n.Retry > retryMax {
			return p, Invalid("retry: choose 0 to %d", retryMax)
		}
		p.MaxFails = uint32(*n.Retry) + 1
	}
	if n.Keep {
		if n.TTL == 0 {
			return p, Invalid("keep: it needs ttl_seconds, or the job would stay for ever")
		}
		p.Keep, p.Expiry = true, job.ExpireAlways
	}
	var err error
	p.Lease, err = Seconds("lease_seconds", n.Lease)
	return p, err
}

// Content returns the bytes of a body and what they are.
func (p *Payload) Content() ([]byte, job.BodyKind, error) {
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
		return nil, 0, Invalid("body, body_text and body_base64: name one of them")
	}
	if p.BodyKind == "" {
		return body, kind, nil
	}
	k := slices.Index(BodyKinds[:], p.BodyKind)
	if k < 0 {
		return nil, 0, Invalid("body_kind: %q is none of none, bytes, json, args and msgpack", p.BodyKind)
	}
	kind = job.BodyKind(k) //nolint:gosec // an index of a short table
	switch {
	case kind == job.BodyNone && given > 0:
		return nil, 0, Invalid("body_kind: it is none, but there is a body")
	case kind == job.BodyArgs && (!IsJSON(body) || !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))):
		return nil, 0, Invalid("body_kind: args is for a JSON array")
	case kind == job.BodyJSON && !IsJSON(body):
		return nil, 0, Invalid("body_kind: json is for one JSON value")
	}
	return body, kind, nil
}

// PayloadOf shows a body in the form that says most and gives back the same bytes.
func PayloadOf(b []byte, kind job.BodyKind) Payload {
	p := Payload{BodyKind: NameOf(BodyKinds[:], kind)}
	switch {
	case kind == job.BodyNone:
	case (kind == job.BodyJSON || kind == job.BodyArgs) && isCompact(b):
		p.Body = b
	case kind != job.BodyMsgpack && Printable(b):
		t := string(b)
		p.BodyText = &t
	default:
		p.BodyBase64 = b
		if b == nil {
			p.BodyBase64 = []byte{}
		}
	}
	return p
}

// isCompact reports whether JSON stays as it is, byte for byte, when it is written as a part of other JSON.
func isCompact(b []byte) bool {
	if !IsJSON(b) {
		return false
	}
	var compact bytes.Buffer
	return json.Compact(&compact, b) == nil && bytes.Equal(compact.Bytes(), b)
}
