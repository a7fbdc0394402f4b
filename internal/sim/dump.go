package sim

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"millrace/internal/job"
)

// ListFunc returns one state of a queue in the order of its list.
type ListFunc func(namespace, queue string, s job.State) []job.Job

// Dump returns the whole state as text. Two states that no sequence of commands
// can tell apart have the same text, apart from callers that wait.
func (m *Model) Dump() string {
	infos := make([]job.QueueInfo, 0, len(m.queues))
	for name, q := range m.queues {
		info := job.QueueInfo{
			Namespace: name.ns, Name: name.name, Totals: q.totals, Paused: q.paused, PausedUntil: q.pausedUntil,
			Configured: q.configured, Hidden: q.hidden, Settings: q.settings, Created: q.created,
		}
		for _, j := range m.inQueue(name) {
			info.Counts[j.State]++
		}
		if ready := m.list(name, job.Ready); len(ready) > 0 {
			info.OldestReady = ready[0].Since
		}
		infos = append(infos, info)
	}
	return Dump(infos, func(ns, name string, s job.State) []job.Job {
		var out []job.Job
		for _, j := range m.list(queueName{ns, name}, s) {
			out = append(out, j.Job)
		}
		return out
	})
}

// Dump returns queues and their jobs as text.
func Dump(queues []job.QueueInfo, list ListFunc) string {
	slices.SortFunc(queues, func(a, b job.QueueInfo) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var b strings.Builder
	for _, q := range queues {
		fmt.Fprintf(&b, "queue %s/%s created=%d configured=%t hidden=%t capacity=%d serials=%t attrs=%q oldest=%d\n",
			q.Namespace, q.Name, q.Created, q.Configured, q.Hidden, q.Settings.Capacity, q.Settings.Serials, q.Settings.Attrs, q.OldestReady)
		if q.Paused {
			fmt.Fprintf(&b, "  paused until %d\n", q.PausedUntil)
		}
		for c, n := range q.Totals {
			if n > 0 {
				fmt.Fprintf(&b, "  total %s %d\n", job.Counter(c), n)
			}
		}
		for s := job.Scheduled; int(s) < job.StateCount; s++ {
			jobs := list(q.Namespace, q.Name, s)
			if len(jobs) > 0 || q.Counts[s] > 0 {
				fmt.Fprintf(&b, "  %s %d\n", s, q.Counts[s])
			}
			for i := range jobs {
				fmt.Fprintf(&b, "    %s\n", Describe(&jobs[i]))
			}
		}
	}
	return b.String()
}

// Describe returns one line with everything about a job that can be observed.
// Sequence numbers cannot: they show in the order of lists. A tombstone is but
// its slot.
func Describe(j *job.Job) string {
	if j.Flags.Has(job.FlagTombstone) {
		return fmt.Sprintf("%d tombstone timer=%d", j.ID, j.Timer)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s since=%d run=%d attempts=%d fails=%d buries=%d", Identity(j),
		j.Since, j.RunAt, j.Attempts, j.Fails, j.Buries)
	if j.State == job.Ready || j.State == job.Buried {
		fmt.Fprintf(&b, " order=%d/%d/%d", j.Order.Rank, j.Order.Priority, j.Order.At)
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
	fmt.Fprintf(&b, "%d %s/%s %s key=%q type=%q group=%q body=%d:%q extra=%q origin=%d created=%d", j.ID, j.Namespace, j.Queue, j.State,
		j.Key, j.Type, j.Group, j.BodyKind, j.Body, j.Extra, j.Origin, j.Created)
	for _, f := range []struct {
		flag job.Flags
		name string
	}{{job.FlagNumbered, "numbered"}, {job.FlagEphemeral, "ephemeral"}} {
		if j.Flags.Has(f.flag) {
			b.WriteString(" " + f.name)
		}
	}
	if j.Flags.Has(job.FlagSerial) {
		fmt.Fprintf(&b, " serial=%d", j.Serial)
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

// ids returns the ids of all jobs, ascending.
func (m *Model) ids() []job.ID { return slices.Sorted(maps.Keys(m.jobs)) }
