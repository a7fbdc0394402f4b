package api

import (
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

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
	State     string     `json:"state" api:"is=State"`
	Since     *time.Time `json:"since,omitempty"` // when it entered its state
	Created   *time.Time `json:"created,omitempty"`
	RunAt     *time.Time `json:"run_at,omitempty"` // when it is or was due
	ExpireAt  *time.Time `json:"expire_at,omitempty"`
	Priority  int64      `json:"priority" api:"signed"` // higher first
	Attempts  uint32     `json:"attempts"`
	Fails     uint32     `json:"fails"`
	PushedBy  string     `json:"pushed_by"` // the protocol
	Batch     uint64     `json:"batch,omitempty"`
	BodyKind  string     `json:"body_kind" api:"enum=none|bytes|json|args|msgpack"`
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
	// How long it lasts from now on; not there without an end.
	LeftSeconds *float64 `json:"left_seconds,omitempty"`
	Exclusive   bool     `json:"exclusive"`
	OnEnd       string   `json:"on_end" api:"enum=nothing|release|fail"` // what the end of its holder does
}

// Failure is one failed execution.
type Failure struct {
	At        *time.Time `json:"at,omitempty"`
	Kind      string     `json:"kind" api:"enum=worker|lapse|end|blocker"` // who or what made it fail
	Type      string     `json:"type,omitempty"`
	Message   string     `json:"message,omitempty"`
	Backtrace []string   `json:"backtrace,omitempty"`
}

// Content is a body or a result.
type Content struct {
	Size   int             `json:"size"`
	Base64 []byte          `json:"base64"`
	JSON   json.RawMessage `json:"json,omitempty"` // if it is JSON
	Text   *string         `json:"text,omitempty"` // if it is text, and not JSON
	// MessagePack as text that is like JSON. If it is too long, an ellipsis ends it.
	Decoded   *string `json:"decoded,omitempty"`
	Truncated bool    `json:"truncated"` // only the first MiB is here
}

// Bounds of what is shown of bodies and results, in bytes.
const (
	PreviewMax = 200     // of a body in a list
	ContentMax = 1 << 20 // of a body or result of one job
	decodedMax = 256 << 10
)

// The names of small numbers of the engine.
var (
	BodyKinds = [...]string{
		job.BodyNone: "none", job.BodyBytes: "bytes", job.BodyJSON: "json", job.BodyArgs: "args",
		job.BodyMsgpack: "msgpack",
	}
	FailureKinds = [...]string{
		job.FailedByWorker: "worker", job.FailedByLapse: "lapse", job.FailedByEnd: "end",
		job.FailedByBlocker: "blocker",
	}
	onEnds = [...]string{job.EndKeep: "nothing", job.EndRelease: "release", job.EndFail: "fail"}
)

// IsNotFound reports whether the engine has refused something because there is no such thing.
func IsNotFound(err error) bool {
	refused, ok := errors.AsType[*job.Error](err)
	return ok && refused.Kind == job.NotFound
}

// BatchOf returns the batch of a job; zero if it has none.
func BatchOf(j *job.Job) uint64 {
	if j.Flags.Has(job.FlagTick) {
		return 0 // it is the schedule's number
	}
	return uint64(j.Batch)
}

// View is how jobs are shown.
type View struct {
	// DoorName names the door that a job came or went through.
	DoorName func(job.Door) string
	// Workers are the names of holders; those that are not in it have none.
	Workers map[job.Holder]string
	// Now is what the time that a lease lasts is counted from.
	Now func() job.Time
}

// Row shows a job that was read whole.
func (v *View) Row(j *job.Job) JobRow {
	r := JobRow{
		ID: j.ID, Namespace: j.Namespace, Queue: j.Queue, Key: j.Key, Type: j.Type, Group: j.Group,
		State: j.State.Name(),
		Since: Instant(j.Since), Created: Instant(j.Created), RunAt: Instant(j.RunAt),
		ExpireAt: Instant(j.Policy.ExpireAt),
		Priority: j.Policy.Priority, Attempts: j.Attempts, Fails: j.Fails, PushedBy: v.DoorName(j.Origin),
		Batch:    BatchOf(j),
		BodyKind: NameOf(BodyKinds[:], j.BodyKind), BodySize: len(j.Body), Preview: preview(j),
	}
	if j.State == job.Leased {
		r.Lease = v.lease(&j.Lease)
	}
	if n := len(j.Failures); n > 0 {
		last := FailureOf(&j.Failures[n-1])
		last.Backtrace = nil
		r.LastError = &last
	}
	return r
}

func (v *View) lease(l *job.Lease) *Lease {
	out := &Lease{
		Holder: HolderText(l.Holder), Worker: v.Workers[l.Holder], FetchedBy: v.DoorName(l.Door),
		Until:     Instant(l.Until),
		Exclusive: l.Exclusive, OnEnd: NameOf(onEnds[:], l.OnEnd),
	}
	if l.Until != 0 && l.Until != job.Never {
		left := max(0, l.Until.Sub(v.Now()).Seconds())
		out.LeftSeconds = &left
	}
	return out
}

// preview returns the beginning of a body that is text.
func preview(j *job.Job) string {
	b := j.Body
	if j.BodyKind == job.BodyMsgpack {
		text, cut, ok := unpack(b, PreviewMax, false)
		switch {
		case !ok:
			return ""
		case cut:
			return text + "…"
		}
		return text
	}
	cut := len(b) > PreviewMax
	if cut {
		b = b[:PreviewMax]
		for len(b) > 0 && !utf8.RuneStart(j.Body[len(b)]) {
			b = b[:len(b)-1]
		}
	}
	if !Printable(b) {
		return ""
	}
	if cut {
		return string(b) + "…"
	}
	return string(b)
}

// Printable reports whether bytes are text that people can read.
func Printable(b []byte) bool {
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

// FailureOf shows a failed execution.
func FailureOf(f *job.Failure) Failure {
	return Failure{
		At: Instant(f.At), Kind: NameOf(FailureKinds[:], f.Kind), Type: f.Type, Message: f.Message,
		Backtrace: f.Backtrace,
	}
}

// ContentOf shows bytes in the forms that fit them.
func ContentOf(b []byte, kind job.BodyKind) *Content {
	c := &Content{Size: len(b), Base64: b, Truncated: len(b) > ContentMax}
	if c.Base64 == nil {
		c.Base64 = []byte{}
	}
	if c.Truncated {
		c.Base64 = b[:ContentMax]
	}
	switch {
	case kind == job.BodyMsgpack:
		if text, cut, ok := unpack(c.Base64, decodedMax, true); ok {
			if cut {
				text += "\n…"
			}
			c.Decoded = &text
		}
	case !c.Truncated && IsJSON(b):
		c.JSON = json.RawMessage(b)
	case Printable(c.Base64):
		t := string(c.Base64)
		c.Text = &t
	}
	return c
}

// nestingMax bounds the nesting of JSON that is shown as such, for whoever reads it.
const nestingMax = 200

// IsJSON reports whether bytes are one JSON value that is not nested too deeply.
func IsJSON(b []byte) bool {
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

// NameOf returns the name of a small number; unknown beyond the table.
func NameOf[T ~uint8](names []string, n T) string {
	if int(n) < len(names) {
		return names[n]
	}
	return "unknown"
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
	Failures  []Failure `json:"failures" api:"maxItems=10"`
	BlockedBy []job.ID  `json:"blocked_by"`
	// The first of the jobs that it waits for, as far as they are found at once.
	Waits     []JobRow `json:"waits_for,omitempty" api:"maxItems=20"`
	Blocks    bool     `json:"blocks"` // other jobs wait for it
	Lock      string   `json:"lock,omitempty"`
	Callback  string   `json:"callback,omitempty" api:"enum=complete|success"` // which one of its batch it is, if it is one
	Ephemeral bool     `json:"ephemeral"`
	Tracked   *Tracked `json:"progress,omitempty"`
}

// Tracked is what a job has told about its progress.
type Tracked struct {
	Percent *int64     `json:"percent,omitempty" api:"signed"`
	Text    string     `json:"text,omitempty"`
	Updated *time.Time `json:"updated,omitempty"`
}

// Policy is what the push fixed about a job's life. Times are in seconds, and zero is no bound.
type Policy struct {
	LeaseSeconds   float64  `json:"lease_seconds"`
	MaxAttempts    uint32   `json:"max_attempts"`
	MaxFails       uint32   `json:"max_fails"`
	Expiry         string   `json:"expiry" api:"enum=always|waiting"`
	Lapse          string   `json:"lapse" api:"enum=requeue|fail"`
	Exhaust        string   `json:"exhaust" api:"enum=drop|dead|keep|move"`
	DeadQueue      string   `json:"dead_queue,omitempty"`
	DeadForSeconds float64  `json:"dead_for_seconds"`
	DeadMax        uint32   `json:"dead_max"`
	Keep           bool     `json:"keep"`
	Backoff        *Backoff `json:"backoff,omitempty"`
}

// Backoff is how the delay after a failure grows: n to the power units, plus the base, plus a random part, where n is
// the number of failures less skip.
type Backoff struct {
	UnitSeconds float64 `json:"unit_seconds"`
	Power       uint8   `json:"power"`
	Skip        uint8   `json:"skip"`
	BaseSeconds float64 `json:"base_seconds" api:"signed"`
	Jitter      uint32  `json:"jitter"`
}

// JobPage is a part of the list of jobs.
type JobPage struct {
	Jobs []JobRow `json:"jobs" api:"maxItems=200"`
	// The cursor that continues the list; absent at its end. It may be there although no job was found: the search has
	// stopped early, and goes on with it.
	Next     string   `json:"next,omitempty"`
	Progress Progress `json:"progress"`
}

// Progress tells how far a search is.
type Progress struct {
	Examined uint64 `json:"examined"` // jobs looked at so far, by all requests of this search
	Total    uint64 `json:"total"`    // jobs to look at, as of its first request
	Complete bool   `json:"complete"` // nothing is left
}
