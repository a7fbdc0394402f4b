package sim

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"millrace/internal/job"
)

// View is a whole state as far as it can be observed. Two states that no sequence of
// commands can tell apart have the same text, apart from callers that wait.
type View struct {
	Queues []job.QueueInfo
	// List returns one state of a queue in the order of its list.
	List      func(namespace, queue string, s job.State) []job.Job
	Batches   []job.BatchInfo
	Schedules []job.ScheduleInfo
	Hooks     []job.Hook
	Kept      []job.KeptHolder
	Locks     []Lock
	Outcomes  []Outcome
	Progress  []Progress
	Values    []Value
}

// Lock is a lock, who took it and until when.
type Lock struct {
	Namespace string
	Name      string
	Taker     job.ID
	Until     job.Time
}

// Outcome says until when the outcome of a tracked job is known.
type Outcome struct {
	Namespace string
	Key       string
	How       job.Outcome
	Until     job.Time
}

// Progress is what is known under a key.
type Progress struct {
	job.Progress

	Namespace string
	Key       string
}

// Value is a named value.
type Value struct {
	Space string
	Name  string
	Value []byte
}

// View returns the state of the model.
func (m *Model) View() View {
	v := m.Bonds()
	for name, q := range m.queues {
		info := job.QueueInfo{
			Namespace: name.ns, Name: name.name, Totals: q.totals, Expired: q.expired, Doors: q.doors,
			Paused: q.paused, PausedAt: q.pausedAt, PausedUntil: q.pausedUntil, Configured: q.configured,
			Hidden:   q.hidden,
			Settings: q.settings, Limits: q.limits, Fairness: q.fair, Created: q.created,
		}
		if q.limits.Rate > 0 {
			level := m.tokens(q)
			level.Mul(level, big.NewRat(q.limits.Per.Microseconds(), 1))
			info.Bucket = job.Bucket{Level: level.Num().Int64() / level.Denom().Int64(), At: m.now}
		}
		for _, j := range m.inQueue(name) {
			info.Counts[j.State]++
		}
		if ready := m.list(name, job.Ready); len(ready) > 0 {
			info.OldestReady = ready[0].Since
		}
		v.Queues = append(v.Queues, info)
	}
	v.List = func(ns, name string, s job.State) []job.Job {
		var out []job.Job
		for _, j := range m.list(queueName{ns, name}, s) {
			out = append(out, j.Job)
		}
		return out
	}
	for name, o := range m.outcomes {
		if m.now < o.until {
			v.Outcomes = append(v.Outcomes, Outcome{name.ns, name.key, o.how, o.until})
		}
	}
	for name := range m.keys {
		if p, ok := m.Progress(name.ns, name.key); ok {
			v.Progress = append(v.Progress, Progress{p, name.ns, name.key})
		}
	}
	v.Kept = slices.Collect(maps.Values(m.kept))
	for name, value := range m.values {
		v.Values = append(v.Values, Value{name.space, name.name, value})
	}
	return v
}

// Bonds returns the part of the state that the jobs are tied to.
func (m *Model) Bonds() View {
	v := View{Batches: m.BatchInfos(), Schedules: m.ScheduleInfos(), Hooks: m.HookList()}
	for name, l := range m.locks {
		if m.now < l.until {
			v.Locks = append(v.Locks, Lock{name.ns, name.name, l.taker, l.until})
		}
	}
	return v
}

// Dump returns the state of the model as text.
func (m *Model) Dump() string { return m.View().Dump() }

// Dump returns a state as text.
func (v View) Dump() string {
	var b strings.Builder
	slices.SortFunc(v.Queues, func(a, b job.QueueInfo) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for i := range v.Queues {
		v.dumpQueue(&b, &v.Queues[i])
	}
	var lines []string
	for i := range v.Batches {
		info := v.Batches[i]
		if !v.hasBatch(info.Parent) {
			info.Parent = 0 // forgotten: whether it is still named means nothing
		}
		lines = append(lines, fmt.Sprintf("batch %d %s", info.ID, Text(info)))
	}
	lines = v.dumpHooks(v.dumpSchedules(lines))
	for _, k := range v.Kept {
		lines = append(lines, "holder "+Text(k))
	}
	for _, l := range v.Locks {
		lines = append(lines, "lock "+Text(l))
	}
	for _, o := range v.Outcomes {
		lines = append(lines, "outcome "+Text(o))
	}
	for _, p := range v.Progress {
		lines = append(lines, fmt.Sprintf("progress %s/%s %s", p.Namespace, p.Key, Text(p.Progress)))
	}
	for _, s := range v.Values {
		lines = append(lines, fmt.Sprintf("value %s/%s %q", s.Space, s.Name, s.Value))
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, "\n"))
	return b.String()
}

func (v View) dumpQueue(b *strings.Builder, q *job.QueueInfo) {
	fmt.Fprintf(b, "queue %s/%s created=%d configured=%t hidden=%t capacity=%d serials=%t one-per-group=%t "+
		"attrs=%q oldest=%d\n",
		q.Namespace, q.Name, q.Created, q.Configured, q.Hidden, q.Settings.Capacity, q.Settings.Serials,
		q.Settings.OnePerGroup, q.Settings.Attrs, q.OldestReady)
	if q.Paused {
		fmt.Fprintf(b, "  paused at %d until %d\n", q.PausedAt, q.PausedUntil)
	}
	if !q.Limits.IsZero() {
		fmt.Fprintf(b, "  limits %+v %+v\n", q.Limits, q.Bucket)
	}
	if q.Fairness.On {
		fmt.Fprintf(b, "  fair %v\n", q.Fairness.Weights)
	}
	fmt.Fprintf(b, "  doors %b, expired %v\n", q.Doors, q.Expired)
	for c, n := range q.Totals {
		if n > 0 {
			fmt.Fprintf(b, "  total %s %d\n", job.Counter(c), n)
		}
	}
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		jobs := v.List(q.Namespace, q.Name, s)
		if len(jobs) > 0 || q.Counts[s] > 0 {
			fmt.Fprintf(b, "  %s %d\n", s, q.Counts[s])
		}
		for i := range jobs {
			v.Forget(&jobs[i])
			fmt.Fprintf(b, "    %s\n", Describe(&jobs[i]))
		}
	}
}

// Forget takes from a job the batch that is forgotten and the lock that it has lost:
// whether it still names them means nothing.
func (v View) Forget(j *job.Job) {
	if !v.hasBatch(j.Batch) {
		j.Batch = 0
		j.Flags &^= job.FlagOnComplete | job.FlagOnSuccess | job.FlagTick
	}
	if j.Batch == 0 {
		j.Flags &^= job.FlagTried
	}
	if !slices.ContainsFunc(v.Locks, func(l Lock) bool {
		return l.Taker == j.ID && l.Namespace == j.Namespace && l.Name == j.Lock
	}) {
		j.Lock, j.LockUntil = "", 0
	}
}

func (v View) hasBatch(id job.BatchID) bool {
	return slices.ContainsFunc(v.Batches, func(b job.BatchInfo) bool { return b.ID == id }) ||
		slices.ContainsFunc(v.Schedules, func(s job.ScheduleInfo) bool { return s.ID == id })
}

// Describe returns one line with everything about a job that can be observed.
// Sequence numbers cannot: they show in the order of lists. A tombstone is but
// its slot.
func Describe(j *job.Job) string {
	if j.Flags.Has(job.FlagTombstone) {
		return fmt.Sprintf("%d tombstone timer=%d", j.ID, j.Timer)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s since=%d run=%d delay=%v attempts=%d fails=%d buries=%d lapses=%d releases=%d kicks=%d",
		Identity(j),
		j.Since, j.RunAt, j.Delay, j.Attempts, j.Fails, j.Buries, j.Lapses, j.Releases, j.Kicks)
	if j.State == job.Ready || j.State == job.Buried {
		fmt.Fprintf(&b, " order=%d/%d/%d", j.Order.Rank, j.Order.Priority, j.Order.At)
	}
	if j.Lock != "" {
		fmt.Fprintf(&b, " lock=%s/%d", j.Lock, j.LockUntil)
	}
	if j.Batch != 0 {
		fmt.Fprintf(&b, " batch=%d tried=%t on-complete=%t on-success=%t tick=%t", j.Batch, j.Flags.Has(job.FlagTried),
			j.Flags.Has(job.FlagOnComplete), j.Flags.Has(job.FlagOnSuccess), j.Flags.Has(job.FlagTick))
	}
	if j.State == job.Dead {
		fmt.Fprintf(&b, " timer=%d", j.Timer)
	}
	if len(j.Blockers) > 0 {
		fmt.Fprintf(&b, " blockers=%v", j.Blockers)
	}
	if j.State == job.Leased {
		b.WriteString(" " + Text(j.Lease))
	}
	p := j.Policy
	if p.Backoff.Unit <= 0 {
		p.Backoff = job.Backoff{} // means nothing
	}
	b.WriteString(" " + Text(p))
	return b.String()
}

// Text returns a value with those of its fields that are set.
func Text(v any) string { return text(reflect.ValueOf(v)) }

func text(v reflect.Value) string {
	switch v.Kind() { //nolint:exhaustive // all others print themselves
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return text(v.Elem())
	case reflect.Struct:
		var parts []string
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				parts = append(parts, v.Type().Field(i).Name+":"+text(f))
			}
		}
		return v.Type().Name() + "{" + strings.Join(parts, " ") + "}"
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("%q", v.Bytes())
		}
		var parts []string
		for i := range v.Len() {
			parts = append(parts, text(v.Index(i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	default:
		return fmt.Sprint(v.Interface())
	}
}

// Identity returns what of a job lasts beyond its end.
func Identity(j *job.Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s/%s=%d %s key=%q type=%q group=%q body=%d:%q extra=%q trace=%q origin=%d created=%d", j.ID,
		j.Namespace, j.Queue, j.QueueNum,
		j.State, j.Key, j.Type, j.Group, j.BodyKind, j.Body, j.Extra, j.Trace, j.Origin, j.Created)
	for _, f := range []struct {
		flag job.Flags
		name string
	}{
		{job.FlagNumbered, "numbered"},
		{job.FlagEphemeral, "ephemeral"},
		{job.FlagTracked, "tracked"},
		{job.FlagHook, "hook"},
	} {
		if j.Flags.Has(f.flag) {
			b.WriteString(" " + f.name)
		}
	}
	if j.Flags.Has(job.FlagSerial) {
		fmt.Fprintf(&b, " serial=%d", j.Serial)
	}
	if j.Fingerprint != (job.Digest{}) {
		fmt.Fprintf(&b, " like=%x", j.Fingerprint)
	}
	if len(j.Result) > 0 {
		fmt.Fprintf(&b, " result=%q", j.Result)
	}
	for _, f := range j.Failures {
		fmt.Fprintf(&b, " failed@%d:%d", f.At, f.Kind)
		if f.Kind == job.FailedByWorker {
			fmt.Fprintf(&b, ":%q:%q:%q", f.Type, f.Message, f.Backtrace)
		}
	}
	return b.String()
}

// Waiting returns the tokens of the callers that wait, in order of arrival.
func (m *Model) Waiting() []uint64 {
	var out []uint64
	for _, w := range m.waits {
		out = append(out, w.token)
	}
	return out
}

// namespaces returns the namespaces that have anything.
func (m *Model) namespaces() []string {
	set := map[string]bool{}
	for name := range m.queues {
		set[name.ns] = true
	}
	for _, b := range m.batches {
		set[b.ns] = true
	}
	for name := range m.locks {
		set[name.ns] = true
	}
	for name := range m.outcomes {
		set[name.ns] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// ids returns the ids of all jobs, ascending.
func (m *Model) ids() []job.ID { return slices.Sorted(maps.Keys(m.jobs)) }
