package operator

import (
	"encoding/hex"
	"math"
	"slices"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

var places = [...]string{
	job.PlaceTail: "tail", job.PlaceOld: "old", job.PlaceHead: "head", job.PlaceBack: "back", job.PlaceDue: "due",
	job.PlaceSched: "sched",
}

// What a job is to its batch.
const (
	callbackComplete = "complete"
	callbackSuccess  = "success"
)

// record makes the line of a job.
func (s *Service) record(j *job.Job) api.Record {
	r := api.Record{
		ID: j.ID, Namespace: j.Namespace, Queue: j.Queue, State: j.State.Name(), Key: j.Key, Type: j.Type,
		Group:   j.Group,
		Created: api.Instant(j.Created), Since: api.Instant(j.Since), RunAt: api.Instant(j.RunAt),
		Rank: j.Order.Rank, OrderAt: api.Instant(j.Order.At), OldPlace: j.Flags.Has(job.FlagOldPlace),
		Last: j.Flags.Has(job.FlagBuriedLast), ExpireAt: api.Instant(j.Policy.ExpireAt),
		Attempts: j.Attempts, Fails: j.Fails, Buries: j.Buries, Lapses: j.Lapses, Releases: j.Releases, Kicks: j.Kicks,
		Delay:   j.Delay.Seconds(),
		Payload: api.PayloadOf(j.Body, j.BodyKind), Extra: j.Extra, Trace: j.Trace, PushedBy: s.opts.DoorName(j.Origin),
		Numbered: j.Flags.Has(job.FlagNumbered), Tracked: j.Flags.Has(job.FlagTracked), Batch: api.BatchOf(j),
		Policy: api.RecordPolicy{
			Policy: policy(&j.Policy), Priority: j.Policy.Priority, Requeue: api.NameOf(places[:], j.Policy.Requeue),
			Due:       api.NameOf(places[:], j.Policy.Due),
			DeadSlots: j.Policy.DeadSlots, BackoffFloor: j.Policy.Backoff.Floor,
		},
		BlockedBy: j.Blockers, Blocks: j.Flags.Has(job.FlagDependants), Tried: j.Flags.Has(job.FlagTried),
	}
	switch {
	case j.Flags.Has(job.FlagOnComplete):
		r.Callback = callbackComplete
	case j.Flags.Has(job.FlagOnSuccess):
		r.Callback = callbackSuccess
	}
	if j.Fingerprint != (job.Digest{}) {
		r.Like = hex.EncodeToString(j.Fingerprint[:])
	}
	for i := range j.Failures {
		r.Failures = append(r.Failures, api.FailureOf(&j.Failures[i]))
	}
	if j.Flags.Has(job.FlagResult) {
		r.Result = j.Result
	}
	return r
}

// importPush makes the push of an imported job.
func (s *Service) importPush(r *api.Record) (*job.Push, error) {
	past, err := recordPast(r)
	if err != nil {
		return nil, err
	}
	spec, err := s.importSpec(r)
	if past.LockedUntil = moment(r.LockedUntil); past.LockedUntil <= job.TimeOf(time.Now()) {
		spec.Lock = "" // it is over
	}
	if spec.RunAt == 0 && (past.State == job.Scheduled || past.State == job.Retrying) {
		spec.RunAt = job.Never // later than can be written
	}
	return &job.Push{Spec: spec, Past: past}, err
}

// recordPast reads how an imported job begins.
func recordPast(r *api.Record) (*job.Past, error) {
	p := &job.Past{
		Created: moment(r.Created), Since: moment(r.Since), Rank: r.Rank, At: moment(r.OrderAt), OldPlace: r.OldPlace,
		BuriedLast: r.Last, Result: r.Result,
		Attempts: r.Attempts, Fails: r.Fails, Buries: r.Buries, Lapses: r.Lapses, Releases: r.Releases, Kicks: r.Kicks,
		Delay: duration(r.Delay),
	}
	var ok bool
	if p.State, ok = job.ParseState(r.State); !ok {
		return nil, api.Invalid("state: %q is none of %s", r.State, stateNames())
	}
	switch p.State { //nolint:exhaustive // in all others it begins as it was
	case job.Leased:
		p.State, p.Since = job.Ready, 0
	case job.Blocked:
		if len(r.BlockedBy) == 0 {
			return nil, api.Invalid("it waits for other jobs, and blocked_by does not tell which: to import it all " +
				"the same write ready as its state")
		}
	}
	if p.State != job.Blocked && len(r.BlockedBy) > 0 {
		return nil, api.Invalid("only a blocked job has blocked_by")
	}
	switch p.Tried = r.Tried; r.Callback {
	case "":
	case callbackComplete:
		p.Role = job.FlagOnComplete
	case callbackSuccess:
		p.Role = job.FlagOnSuccess
	default:
		return nil, api.Invalid("callback: %q is neither complete nor success", r.Callback)
	}
	for i := range r.Failures {
		f := &r.Failures[i]
		kind := slices.Index(api.FailureKinds[:], f.Kind)
		if kind < 0 {
			return nil, api.Invalid("failures: kind: %q is not known", f.Kind)
		}
		p.Failures = append(p.Failures, job.Failure{
			At: moment(f.At), Kind: job.FailureKind(kind), Type: f.Type, Message: f.Message, Backtrace: f.Backtrace, //nolint:gosec // an index
		})
	}
	return p, nil
}

// moment is the inverse of instant.
func moment(t *time.Time) job.Time {
	if t == nil {
		return 0
	}
	return job.TimeOf(*t)
}

// importSpec makes the spec of an imported job.
func (s *Service) importSpec(r *api.Record) (job.Spec, error) {
	spec := job.Spec{
		Namespace: r.Namespace, Queue: r.Queue, Key: r.Key, Type: r.Type, Group: r.Group, Extra: r.Extra,
		Trace: job.ParseTrace(r.Trace), Numbered: r.Numbered, Tracked: r.Tracked,
		Origin: s.opts.Door,
	}
	if err := api.CheckQueue(r.Namespace, r.Queue); err != nil {
		return spec, err
	}
	for _, part := range []struct{ what, text string }{
		{"type", r.Type},
		{"key", r.Key},
		{"group", r.Group},
		{"dead_queue", r.Policy.DeadQueue},
	} {
		if len(part.text) > textMax {
			return spec, api.Invalid("%s is longer than %d bytes", part.what, textMax)
		}
	}
	for d := range 32 {
		if s.opts.DoorName(job.Door(d)) == r.PushedBy && r.PushedBy != s.opts.DoorName(0) {
			spec.Origin = job.Door(d)
			break
		}
	}
	var err error
	if spec.Body, spec.BodyKind, err = r.Content(); err != nil {
		return spec, err
	}
	if r.Like != "" {
		b, err := hex.DecodeString(r.Like)
		if err != nil || len(b) != len(spec.Fingerprint) {
			return spec, api.Invalid("like: %q is not of ours", r.Like)
		}
		copy(spec.Fingerprint[:], b)
	}
	if spec.Policy, err = recordedPolicy(&r.Policy); err != nil {
		return spec, err
	}
	spec.RunAt, spec.Policy.ExpireAt = moment(r.RunAt), moment(r.ExpireAt)
	if r.Lock != "" {
		i := slices.Index(lockEnds, r.LockEnds)
		if i < 0 || len(r.Lock) > textMax {
			return spec, api.Invalid("lock_ends is one of %v, and a lock has at most %d bytes", lockEnds, textMax)
		}
		spec.Lock, spec.LockUntil = r.Lock, job.LockEnd(i) //nolint:gosec // an index of a short table
	}
	return spec, nil
}

// recordedPolicy reads a policy back.
func recordedPolicy(p *api.RecordPolicy) (job.Policy, error) {
	out := job.Policy{
		Priority: p.Priority, MaxAttempts: p.MaxAttempts, MaxFails: p.MaxFails, DeadQueue: p.DeadQueue,
		DeadMax: p.DeadMax, DeadSlots: p.DeadSlots,
		Keep: p.Keep, Lease: duration(p.LeaseSeconds), DeadFor: duration(p.DeadForSeconds),
	}
	var err error
	read := func(what string, names []string, text string) int {
		i := slices.Index(names, text)
		if i < 0 && err == nil {
			err = api.Invalid("policy: %s: %q is not known", what, text)
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
		return out, api.Invalid("policy: lease_seconds and dead_for_seconds must not be negative")
	}
	if b := p.Backoff; b != nil {
		out.Backoff = job.Backoff{
			Unit: duration(b.UnitSeconds), Power: b.Power, Skip: b.Skip, Base: duration(b.BaseSeconds),
			Jitter: b.Jitter, Floor: p.BackoffFloor,
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
