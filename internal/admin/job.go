package admin

import (
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// JobRow is a job as a list shows it.
type JobRow struct {
	ID        job.ID     `json:"id"`
	Namespace string     `json:"namespace"`
	Queue     string     `json:"queue"`
	Key       string     `json:"key,omitempty"`
	Type      string     `json:"type,omitempty"`
	Group     string     `json:"group,omitempty"`
	State     string     `json:"state"`
	Since     *time.Time `json:"since,omitempty"` // when it entered its state
	Created   *time.Time `json:"created,omitempty"`
	RunAt     *time.Time `json:"run_at,omitempty"` // when it is or was due
	ExpireAt  *time.Time `json:"expire_at,omitempty"`
	Priority  int64      `json:"priority"`
	Attempts  uint32     `json:"attempts"`
	Fails     uint32     `json:"fails"`
	PushedBy  string     `json:"pushed_by"` // the protocol
	Batch     uint64     `json:"batch,omitempty"`
	BodyKind  string     `json:"body_kind"`
	BodySize  int        `json:"body_size"`
	Preview   string     `json:"preview,omitempty"` // the beginning of the body, if it is text
	Lease     *Lease     `json:"lease,omitempty"`
	LastError *Failure   `json:"last_error,omitempty"` // without its backtrace
}

// Lease is a job's being held.
type Lease struct {
	Holder    string     `json:"holder"`
	Worker    string     `json:"worker,omitempty"` // the worker process, if it has told its name
	FetchedBy string     `json:"fetched_by"`       // the protocol
	Until     *time.Time `json:"until,omitempty"`  // without one it lasts until its holder ends
	// LeftSeconds is how long it lasts from now on; not there without an end.
	LeftSeconds *float64 `json:"left_seconds,omitempty"`
	Exclusive   bool     `json:"exclusive"`
	OnEnd       string   `json:"on_end"` // what the end of its holder does: nothing, release or fail
}

// Failure is one failed execution.
type Failure struct {
	At        *time.Time `json:"at,omitempty"`
	Kind      string     `json:"kind"` // worker, lapse, end or blocker
	Type      string     `json:"type,omitempty"`
	Message   string     `json:"message,omitempty"`
	Backtrace []string   `json:"backtrace,omitempty"`
}

// Content is a body or a result.
type Content struct {
	Size int `json:"size"`
	// Base64 is always there, JSON if it is JSON, Text if it is text and not JSON.
	Base64 []byte          `json:"base64"`
	JSON   json.RawMessage `json:"json,omitempty"`
	Text   *string         `json:"text,omitempty"`
	// Decoded shows MessagePack as text that is like JSON. If it is too long, an ellipsis ends it.
	Decoded *string `json:"decoded,omitempty"`
	// Truncated tells that only the beginning is here.
	Truncated bool `json:"truncated"`
}

// JobDetail is everything about a job.
type JobDetail struct {
	JobRow
	Serial    *uint64   `json:"serial,omitempty"`
	Number    uint32    `json:"number,omitempty"` // by which it can be named
	Buries    uint32    `json:"buries"`
	Lapses    uint32    `json:"lapses"`
	Releases  uint32    `json:"releases"`
	Kicks     uint32    `json:"kicks"`
	Policy    Policy    `json:"policy"`
	Body      *Content  `json:"body,omitempty"`
	Result    *Content  `json:"result,omitempty"`
	Failures  []Failure `json:"failures"`
	BlockedBy []job.ID  `json:"blocked_by"`
	// Waits are the first of the jobs that it waits for, as far as they are found at once.
	Waits     []JobRow `json:"waits_for,omitempty"`
	Blocks    bool     `json:"blocks"` // other jobs wait for it
	Lock      string   `json:"lock,omitempty"`
	Callback  string   `json:"callback,omitempty"` // complete or success, if it is a callback of its batch
	Ephemeral bool     `json:"ephemeral"`
	Tracked   *Tracked `json:"progress,omitempty"`
}

// Tracked is what a job has told about its progress.
type Tracked struct {
	Percent *int64     `json:"percent,omitempty"`
	Text    string     `json:"text,omitempty"`
	Updated *time.Time `json:"updated,omitempty"`
}

// Policy is what the push fixed about a job's life. Times are in seconds, and zero is no bound.
type Policy struct {
	LeaseSeconds   float64  `json:"lease_seconds"`
	MaxAttempts    uint32   `json:"max_attempts"`
	MaxFails       uint32   `json:"max_fails"`
	Expiry         string   `json:"expiry"`  // always or waiting
	Lapse          string   `json:"lapse"`   // requeue or fail
	Exhaust        string   `json:"exhaust"` // drop, dead, keep or move
	DeadQueue      string   `json:"dead_queue,omitempty"`
	DeadForSeconds float64  `json:"dead_for_seconds"`
	DeadMax        uint32   `json:"dead_max"`
	Keep           bool     `json:"keep"`
	Backoff        *Backoff `json:"backoff,omitempty"`
}

// Backoff is how the delay after a failure grows: n^Power units, plus the base, plus a random
// part, where n is the number of failures less Skip.
type Backoff struct {
	UnitSeconds float64 `json:"unit_seconds"`
	Power       uint8   `json:"power"`
	Skip        uint8   `json:"skip"`
	BaseSeconds float64 `json:"base_seconds"`
	Jitter      uint32  `json:"jitter"`
}

const (
	previewMax = 200     // bytes of a body that a list shows
	contentMax = 1 << 20 // bytes of a body or result that a job shows
	decodedMax = 256 << 10
)

var (
	bodyKinds    = [...]string{job.BodyNone: "none", job.BodyBytes: "bytes", job.BodyJSON: "json", job.BodyArgs: "args", job.BodyMsgpack: "msgpack"}
	failureKinds = [...]string{job.FailedByWorker: "worker", job.FailedByLapse: "lapse", job.FailedByEnd: "end", job.FailedByBlocker: "blocker"}
	onEnds       = [...]string{job.EndKeep: "nothing", job.EndRelease: "release", job.EndFail: "fail"}
	expiries     = [...]string{job.ExpireAlways: "always", job.ExpireWaiting: "waiting"}
	lapses       = [...]string{job.LapseRequeue: "requeue", job.LapseFail: "fail"}
	exhausts     = [...]string{job.ExhaustDrop: "drop", job.ExhaustDead: "dead", job.ExhaustKeep: "keep", job.ExhaustMove: "move"}
)

// nameOf returns the name of a small number; unknown beyond the table.
func nameOf[T ~uint8](names []string, n T) string {
	if int(n) < len(names) {
		return names[n]
	}
	return "unknown"
}

func isNotFound(err error) bool {
	refused, ok := errors.AsType[*job.Error](err)
	return ok && refused.Kind == job.NotFound
}

// Job returns everything about a job. The queue may be empty where it is not known; to name it is
// quicker.
func (s *Service) Job(namespace, queue string, id job.ID) (JobDetail, error) {
	var d JobDetail
	err := s.view(func(v *engine.View) error {
		j, err := v.Get(job.ByID(namespace, queue, id))
		if isNotFound(err) {
			return notFound("job %d is not in namespace %q: it may have been acked, deleted or have expired", id, namespace)
		}
		if err != nil {
			return err
		}
		d = s.detail(&j)
		if j.Flags.Has(job.FlagTracked) && j.Key != "" {
			d.Tracked, err = tracked(v, &j, s.engine.Now())
		}
		if err == nil {
			d.Waits, err = s.waits(v, &j)
		}
		return err
	})
	return d, err
}

// waitsShown is how many of the jobs that a job waits for are shown.
const waitsShown = 20

// waits returns the jobs that a job waits for. Only those are found that have a number: others would be looked for in
// every queue.
func (s *Service) waits(v *engine.View, j *job.Job) (rows []JobRow, err error) {
	for _, id := range j.Blockers[:min(len(j.Blockers), waitsShown)] {
		b, err := v.Get(job.Ref{Kind: job.RefNumber, Namespace: j.Namespace, Number: id.Number(), ID: id})
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, s.row(&b, nil))
	}
	return rows, nil
}

// tracked returns what was reported about a job.
func tracked(v *engine.View, j *job.Job, now job.Time) (*Tracked, error) {
	p, ok, err := v.Progress(j.Namespace, j.Key, now)
	if err != nil || !ok || p.Outcome != job.Alive {
		return nil, err
	}
	t := &Tracked{Text: p.Text, Updated: instant(p.Updated)}
	if p.HasPercent {
		t.Percent = &p.Percent
	}
	return t, nil
}

// JobBody returns the body of a job as it was pushed, whatever its size.
func (s *Service) JobBody(namespace, queue string, id job.ID) (body []byte, err error) {
	err = s.view(func(v *engine.View) error {
		j, err := v.Get(job.ByID(namespace, queue, id))
		if isNotFound(err) {
			return notFound("job %d is not in namespace %q", id, namespace)
		}
		body = j.Body
		return err
	})
	return body, err
}

// batchOf returns the batch of a job; zero if it has none.
func batchOf(j *job.Job) uint64 {
	if j.Flags.Has(job.FlagTick) {
		return 0 // it is the schedule's number
	}
	return uint64(j.Batch)
}

// row shows a job that was read whole.
func (s *Service) row(j *job.Job, workers map[job.Holder]string) JobRow {
	r := JobRow{
		ID: j.ID, Namespace: j.Namespace, Queue: j.Queue, Key: j.Key, Type: j.Type, Group: j.Group, State: j.State.Name(),
		Since: instant(j.Since), Created: instant(j.Created), RunAt: instant(j.RunAt), ExpireAt: instant(j.Policy.ExpireAt),
		Priority: j.Policy.Priority, Attempts: j.Attempts, Fails: j.Fails, PushedBy: s.opts.DoorName(j.Origin), Batch: batchOf(j),
		BodyKind: nameOf(bodyKinds[:], j.BodyKind), BodySize: len(j.Body), Preview: preview(j),
	}
	if j.State == job.Leased {
		r.Lease = s.lease(&j.Lease, workers)
	}
	if n := len(j.Failures); n > 0 {
		last := failure(&j.Failures[n-1])
		last.Backtrace = nil
		r.LastError = &last
	}
	return r
}

func (s *Service) lease(l *job.Lease, workers map[job.Holder]string) *Lease {
	out := &Lease{
		Holder: holderText(l.Holder), Worker: workers[l.Holder], FetchedBy: s.opts.DoorName(l.Door), Until: instant(l.Until),
		Exclusive: l.Exclusive, OnEnd: nameOf(onEnds[:], l.OnEnd),
	}
	if l.Until != 0 && l.Until != job.Never {
		left := max(0, l.Until.Sub(s.engine.Now()).Seconds())
		out.LeftSeconds = &left
	}
	return out
}

// preview returns the beginning of a body that is text.
func preview(j *job.Job) string {
	b := j.Body
	if j.BodyKind == job.BodyMsgpack {
		text, cut, ok := unpack(b, previewMax, false)
		switch {
		case !ok:
			return ""
		case cut:
			return text + "…"
		}
		return text
	}
	cut := len(b) > previewMax
	if cut {
		b = b[:previewMax]
		for len(b) > 0 && !utf8.RuneStart(j.Body[len(b)]) {
			b = b[:len(b)-1]
		}
	}
	if !printable(b) {
		return ""
	}
	if cut {
		return string(b) + "…"
	}
	return string(b)
}

// printable reports whether bytes are text that people can read.
func printable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func failure(f *job.Failure) Failure {
	return Failure{At: instant(f.At), Kind: nameOf(failureKinds[:], f.Kind), Type: f.Type, Message: f.Message, Backtrace: f.Backtrace}
}

// detail shows everything about a job but its progress.
func (s *Service) detail(j *job.Job) JobDetail {
	d := JobDetail{
		JobRow: s.row(j, s.holders()), Buries: j.Buries, Lapses: j.Lapses, Releases: j.Releases, Kicks: j.Kicks, Policy: policy(&j.Policy), Failures: []Failure{}, BlockedBy: []job.ID{},
		Blocks: j.Flags.Has(job.FlagDependants), Lock: j.Lock, Ephemeral: j.Flags.Has(job.FlagEphemeral),
	}
	if j.Flags.Has(job.FlagSerial) {
		d.Serial = &j.Serial
	}
	if j.Flags.Has(job.FlagNumbered) {
		d.Number = j.ID.Number()
	}
	switch {
	case j.Flags.Has(job.FlagOnComplete):
		d.Callback = "complete"
	case j.Flags.Has(job.FlagOnSuccess):
		d.Callback = "success"
	}
	d.BlockedBy = append(d.BlockedBy, j.Blockers...)
	for i := range j.Failures {
		d.Failures = append(d.Failures, failure(&j.Failures[i]))
	}
	if j.BodyKind != job.BodyNone {
		d.Body = content(j.Body, j.BodyKind)
	}
	if j.Flags.Has(job.FlagResult) {
		d.Result = content(j.Result, job.BodyBytes)
	}
	return d
}

func policy(p *job.Policy) Policy {
	out := Policy{
		LeaseSeconds: p.Lease.Seconds(), MaxAttempts: p.MaxAttempts, MaxFails: p.MaxFails, Expiry: nameOf(expiries[:], p.Expiry),
		Lapse: nameOf(lapses[:], p.Lapse), Exhaust: nameOf(exhausts[:], p.Exhaust), DeadQueue: p.DeadQueue,
		DeadForSeconds: p.DeadFor.Seconds(), DeadMax: p.DeadMax, Keep: p.Keep,
	}
	if b := p.Backoff; b.Unit > 0 {
		out.Backoff = &Backoff{UnitSeconds: b.Unit.Seconds(), Power: b.Power, Skip: b.Skip, BaseSeconds: b.Base.Seconds(), Jitter: b.Jitter}
	}
	return out
}

// content shows bytes in the forms that fit them.
func content(b []byte, kind job.BodyKind) *Content {
	c := &Content{Size: len(b), Base64: b, Truncated: len(b) > contentMax}
	if c.Base64 == nil {
		c.Base64 = []byte{}
	}
	if c.Truncated {
		c.Base64 = b[:contentMax]
	}
	switch {
	case kind == job.BodyMsgpack:
		if text, cut, ok := unpack(c.Base64, decodedMax, true); ok {
			if cut {
				text += "\n…"
			}
			c.Decoded = &text
		}
	case !c.Truncated && isJSON(b):
		c.JSON = json.RawMessage(b)
	case printable(c.Base64):
		t := string(c.Base64)
		c.Text = &t
	}
	return c
}

// nestingMax bounds the nesting of JSON that is shown as such, for whoever reads it.
const nestingMax = 200

// isJSON reports whether bytes are one JSON value that is not nested too deeply.
func isJSON(b []byte) bool {
	depth, deepest, inText := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest <= nestingMax && json.Valid(b) && utf8.Valid(b)
}
