package admin

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"time"

	"millrace/internal/job"
)

// Record is a job as one line of an export. A field that an import does not know is refused, so that
// nothing is lost without a word.
type Record struct {
	ID        job.ID     `json:"id"` // an imported job gets another
	Namespace string     `json:"namespace"`
	Queue     string     `json:"queue"`
	State     string     `json:"state"`
	Key       string     `json:"key,omitempty"`
	Type      string     `json:"type,omitempty"`
	Group     string     `json:"group,omitempty"`
	Created   *time.Time `json:"created,omitempty"` // for people: an import counts from now on
	Since     *time.Time `json:"since,omitempty"`   // as Created
	RunAt     *time.Time `json:"run_at,omitempty"`
	ExpireAt  *time.Time `json:"expire_at,omitempty"`
	Attempts  uint32     `json:"attempts,omitempty"` // as Created
	Fails     uint32     `json:"fails,omitempty"`    // as Created
	Payload
	Extra     []byte       `json:"extra_base64,omitempty"` // what its protocol keeps with it
	PushedBy  string       `json:"pushed_by"`              // the protocol
	Like      string       `json:"like,omitempty"`
	Numbered  bool         `json:"numbered,omitempty"`
	Tracked   bool         `json:"tracked,omitempty"`
	Batch     uint64       `json:"batch,omitempty"` // as Created
	Policy    RecordPolicy `json:"policy"`
	Failures  []Failure    `json:"failures,omitempty"`
	Result    []byte       `json:"result_base64,omitempty"`
	BlockedBy []job.ID     `json:"blocked_by,omitempty"`
}

// RecordPolicy is the whole of a job's policy.
type RecordPolicy struct {
	Policy
	Priority     int64  `json:"priority"`
	Requeue      string `json:"requeue"`
	Due          string `json:"due"`
	DeadSlots    bool   `json:"dead_slots,omitempty"`
	BackoffFloor bool   `json:"backoff_floor,omitempty"`
}

var places = [...]string{
	job.PlaceTail: "tail", job.PlaceOld: "old", job.PlaceHead: "head", job.PlaceBack: "back", job.PlaceDue: "due", job.PlaceSched: "sched",
}

// record makes the line of a job.
func (s *Service) record(j *job.Job) Record {
	r := Record{
		ID: j.ID, Namespace: j.Namespace, Queue: j.Queue, State: j.State.String(), Key: j.Key, Type: j.Type, Group: j.Group,
		Created: instant(j.Created), Since: instant(j.Since), RunAt: instant(j.RunAt), ExpireAt: instant(j.Policy.ExpireAt),
		Attempts: j.Attempts, Fails: j.Fails, Payload: payload(j.Body, j.BodyKind), Extra: j.Extra, PushedBy: s.opts.DoorName(j.Origin),
		Numbered: j.Flags.Has(job.FlagNumbered), Tracked: j.Flags.Has(job.FlagTracked), Batch: uint64(j.Batch),
		Policy: RecordPolicy{
			Policy: policy(&j.Policy), Priority: j.Policy.Priority, Requeue: nameOf(places[:], j.Policy.Requeue), Due: nameOf(places[:], j.Policy.Due),
			DeadSlots: j.Policy.DeadSlots, BackoffFloor: j.Policy.Backoff.Floor,
		},
		BlockedBy: j.Blockers,
	}
	if j.Like != (job.Digest{}) {
		r.Like = hex.EncodeToString(j.Like[:])
	}
	for i := range j.Failures {
		r.Failures = append(r.Failures, failure(&j.Failures[i]))
	}
	if j.Flags.Has(job.FlagResult) {
		r.Result = j.Result
	}
	return r
}

// payload shows a body in the form that says most and gives back the same bytes.
func payload(b []byte, kind job.BodyKind) Payload {
	p := Payload{BodyKind: nameOf(bodyKinds[:], kind)}
	switch {
	case kind == job.BodyNone:
	case (kind == job.BodyJSON || kind == job.BodyArgs) && isCompact(b):
		p.Body = b
	case kind != job.BodyMsgpack && printable(b):
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
	if !isJSON(b) {
		return false
	}
	var compact bytes.Buffer
	return json.Compact(&compact, b) == nil && bytes.Equal(compact.Bytes(), b)
}

// spec makes the spec of an imported job.
func (s *Service) importSpec(r *Record) (job.Spec, error) {
	spec := job.Spec{
		Namespace: r.Namespace, Queue: r.Queue, Key: r.Key, Type: r.Type, Group: r.Group, Extra: r.Extra, Numbered: r.Numbered, Tracked: r.Tracked,
		Origin: s.opts.Door,
	}
	if err := checkQueue(r.Namespace, r.Queue); err != nil {
		return spec, err
	}
	for _, part := range []struct{ what, text string }{{"type", r.Type}, {"key", r.Key}, {"group", r.Group}, {"dead_queue", r.Policy.DeadQueue}} {
		if len(part.text) > textMax {
			return spec, invalid("%s is longer than %d bytes", part.what, textMax)
		}
	}
	for d := range 32 {
		if s.opts.DoorName(job.Door(d)) == r.PushedBy && r.PushedBy != s.opts.DoorName(0) {
			spec.Origin = job.Door(d)
			break
		}
	}
	var err error
	if spec.Body, spec.BodyKind, err = r.content(); err != nil {
		return spec, err
	}
	if r.Like != "" {
		b, err := hex.DecodeString(r.Like)
		if err != nil || len(b) != len(spec.Like) {
			return spec, invalid("like: %q is not of ours", r.Like)
		}
		copy(spec.Like[:], b)
	}
	if spec.Policy, err = r.Policy.policy(); err != nil {
		return spec, err
	}
	if r.ExpireAt != nil {
		spec.Policy.ExpireAt = job.TimeOf(*r.ExpireAt)
	}
	if r.RunAt != nil && (r.State == job.Scheduled.String() || r.State == job.Retrying.String()) {
		spec.RunAt = job.TimeOf(*r.RunAt)
	}
	return spec, nil
}

// policy reads a policy back.
func (p *RecordPolicy) policy() (job.Policy, error) {
	out := job.Policy{
		Priority: p.Priority, MaxAttempts: p.MaxAttempts, MaxFails: p.MaxFails, DeadQueue: p.DeadQueue, DeadMax: p.DeadMax, DeadSlots: p.DeadSlots,
		Keep: p.Keep, Lease: duration(p.LeaseSeconds), DeadFor: duration(p.DeadForSeconds),
	}
	var err error
	read := func(what string, names []string, text string) int {
		i := slices.Index(names, text)
		if i < 0 && err == nil {
			err = invalid("policy: %s: %q is not known", what, text)
		}
		return max(i, 0)
	}
	//nolint:gosec // indexes of short tables
	{
		out.Expiry = job.Expiry(read("expiry", expiries[:], p.Expiry))
		out.Lapse = job.Lapse(read("lapse", lapses[:], p.Lapse))
		out.Exhaust = job.Exhaust(read("exhaust", exhausts[:], p.Exhaust))
		out.Requeue = job.Place(read("requeue", places[:], p.Requeue))
		out.Due = job.Place(read("due", places[:], p.Due))
	}
	if out.Lease < 0 || out.DeadFor < 0 {
		return out, invalid("policy: lease_seconds and dead_for_seconds must not be negative")
	}
	if b := p.Backoff; b != nil {
		out.Backoff = job.Backoff{
			Unit: duration(b.UnitSeconds), Power: b.Power, Skip: b.Skip, Base: duration(b.BaseSeconds), Jitter: b.Jitter, Floor: p.BackoffFloor,
		}
	}
	return out, err
}

// duration reads seconds to the microsecond.
func duration(seconds float64) time.Duration {
	us := math.Round(seconds * 1e6)
	if math.IsNaN(us) || math.Abs(us) > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(us) * time.Microsecond
}
