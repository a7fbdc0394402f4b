package admin

import (
	"encoding/hex"
	"math"
	"slices"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// Record is a job as one line of an export. A field that an import does not know is refused, so that
// nothing is lost without a word.
type Record struct {
	ID        job.ID     `json:"id,omitempty"` // an imported job gets another
	Namespace string     `json:"namespace"`
	Queue     string     `json:"queue"`
	State     string     `json:"state,omitempty"`
	Key       string     `json:"key,omitempty"`
	Type      string     `json:"type,omitempty"`
	Group     string     `json:"group,omitempty"`
	Created   *time.Time `json:"created,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	RunAt     *time.Time `json:"run_at,omitempty"`
	Rank      int64      `json:"rank,omitempty"`        // with the next, its place among the ready jobs
	OrderAt   *time.Time `json:"order_at,omitempty"`    // as Rank
	OldPlace  bool       `json:"old_place,omitempty"`   // that is where it goes when it is due
	Last      bool       `json:"buried_last,omitempty"` // it is behind those that were buried before it
	ExpireAt  *time.Time `json:"expire_at,omitempty"`
	Attempts  uint32     `json:"attempts,omitempty"`
	Fails     uint32     `json:"fails,omitempty"`
	Buries    uint32     `json:"buries,omitempty"`
	Lapses    uint32     `json:"lapses,omitempty"`
	Releases  uint32     `json:"releases,omitempty"`
	Kicks     uint32     `json:"kicks,omitempty"`
	Delay     float64    `json:"delay_seconds,omitempty"` // how long its push or the last release had it wait
	api.Payload
	Extra    []byte `json:"extra_base64,omitempty"` // what its protocol keeps with it
	Trace    string `json:"traceparent,omitempty"`
	PushedBy string `json:"pushed_by"` // the protocol
	Like     string `json:"like,omitempty"`
	Numbered bool   `json:"numbered,omitempty"`
	Tracked  bool   `json:"tracked,omitempty"`
	Batch    uint64 `json:"batch,omitempty"`
	Tried    bool   `json:"tried,omitempty"` // it counts as failed in its batch
	// What it is to its batch, if it does not count in it: complete or success.
	Callback  string        `json:"callback,omitempty"`
	Schedule  string        `json:"cron,omitempty"` // the entry that has pushed it
	Policy    RecordPolicy  `json:"policy"`
	Failures  []api.Failure `json:"failures,omitempty"`
	Result    []byte        `json:"result_base64,omitempty"`
	BlockedBy []job.ID      `json:"blocked_by,omitempty"`
	Blocks    bool          `json:"blocks,omitempty"` // other jobs wait for it
	Lock      string        `json:"lock,omitempty"`
	// LockedUntil is when its lock ends; LockEnds says what ends it before: ack or fetch.
	LockedUntil *time.Time `json:"locked_until,omitempty"`
	LockEnds    string     `json:"lock_ends,omitempty"`

	// What follows only a job has that is still to be pushed, by a batch or a cron entry.
	Unique     bool    `json:"unique,omitempty"`
	TTL        float64 `json:"ttl_seconds,omitempty"`
	TTLFromRun bool    `json:"ttl_from_run,omitempty"`
	Head       bool    `json:"head,omitempty"`
	LockFor    float64 `json:"lock_for_seconds,omitempty"`
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

// What a job is to its batch.
const (
	callbackComplete = "complete"
	callbackSuccess  = "success"
)

// record makes the line of a job.
func (s *Service) record(j *job.Job) Record {
	r := Record{
		ID: j.ID, Namespace: j.Namespace, Queue: j.Queue, State: j.State.Name(), Key: j.Key, Type: j.Type, Group: j.Group,
		Created: api.Instant(j.Created), Since: api.Instant(j.Since), RunAt: api.Instant(j.RunAt),
		Rank: j.Order.Rank, OrderAt: api.Instant(j.Order.At), OldPlace: j.Flags.Has(job.FlagOldPlace), Last: j.Flags.Has(job.FlagBuriedLast), ExpireAt: api.Instant(j.Policy.ExpireAt),
		Attempts: j.Attempts, Fails: j.Fails, Buries: j.Buries, Lapses: j.Lapses, Releases: j.Releases, Kicks: j.Kicks, Delay: j.Delay.Seconds(),
		Payload: api.PayloadOf(j.Body, j.BodyKind), Extra: j.Extra, Trace: j.Trace, PushedBy: s.opts.DoorName(j.Origin),
		Numbered: j.Flags.Has(job.FlagNumbered), Tracked: j.Flags.Has(job.FlagTracked), Batch: api.BatchOf(j),
		Policy: RecordPolicy{
			Policy: policy(&j.Policy), Priority: j.Policy.Priority, Requeue: api.NameOf(places[:], j.Policy.Requeue), Due: api.NameOf(places[:], j.Policy.Due),
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
	if j.Like != (job.Digest{}) {
		r.Like = hex.EncodeToString(j.Like[:])
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
func (s *Service) importPush(r *Record) (*job.Push, error) {
	past, err := r.past()
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

// past reads how an imported job begins.
func (r *Record) past() (*job.Past, error) {
	p := &job.Past{
		Created: moment(r.Created), Since: moment(r.Since), Rank: r.Rank, At: moment(r.OrderAt), OldPlace: r.OldPlace, BuriedLast: r.Last, Result: r.Result,
		Attempts: r.Attempts, Fails: r.Fails, Buries: r.Buries, Lapses: r.Lapses, Releases: r.Releases, Kicks: r.Kicks, Delay: duration(r.Delay),
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
			return nil, api.Invalid("it waits for other jobs, and blocked_by does not tell which: to import it all the same write ready as its state")
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
func (s *Service) importSpec(r *Record) (job.Spec, error) {
	spec := job.Spec{
		Namespace: r.Namespace, Queue: r.Queue, Key: r.Key, Type: r.Type, Group: r.Group, Extra: r.Extra, Trace: job.ParseTrace(r.Trace), Numbered: r.Numbered, Tracked: r.Tracked,
		Origin: s.opts.Door,
	}
	if err := api.CheckQueue(r.Namespace, r.Queue); err != nil {
		return spec, err
	}
	for _, part := range []struct{ what, text string }{{"type", r.Type}, {"key", r.Key}, {"group", r.Group}, {"dead_queue", r.Policy.DeadQueue}} {
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
		if err != nil || len(b) != len(spec.Like) {
			return spec, api.Invalid("like: %q is not of ours", r.Like)
		}
		copy(spec.Like[:], b)
	}
	if spec.Policy, err = r.Policy.policy(); err != nil {
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
