package machine_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// actions are the lines of a script that are no commands of the machine.
var actions = map[string]func(s *script, a *args){
	"advance": func(s *script, a *args) {
		d, err := time.ParseDuration(strings.TrimPrefix(a.line, "advance "))
		if err != nil {
			s.fatalf("%v", err)
		}
		s.advance(d)
	},
	"skip": func(s *script, a *args) { // time passes and the machine is not asked
		d, err := time.ParseDuration(strings.TrimPrefix(a.line, "skip "))
		if err != nil {
			s.fatalf("%v", err)
		}
		s.now = s.now.Add(d)
	},
	"tick": func(s *script, a *args) {
		a.end()
		s.tick()
		s.completions("")
	},
	"sweep": func(s *script, a *args) { // until nothing is left to do at once
		a.end()
		for range 1000 {
			more := s.tick()
			s.completions("")
			if !more {
				return
			}
		}
		s.fatalf("the clean-up does not end")
	},
	"restart": func(s *script, a *args) {
		a.end()
		s.restart()
	},
	"drain": func(s *script, a *args) { // answer everybody who waits
		a.end()
		s.core.EndWaits(s.now)
		s.completions("")
	},
	"usage": func(s *script, a *args) { // of the limits of a queue
		u := s.core.Usage(s.now, namespace, a.text("q"))
		a.end()
		s.printf("slots=%d held=%d", u.Slots, u.Held)
	},
	"waiting": func(s *script, a *args) {
		a.end()
		s.printf("%d", s.core.Waiting())
	},
	"job":    showJob,
	"list":   showList,
	"queue":  showQueue,
	"queues": showQueues,
	"totals": showTotals,
	"value":  showValue,
	"values": showValues,

	"readyat": func(s *script, a *args) { // of the job that was answered last
		a.end()
		s.printf("%s", s.at(s.readyAt))
	},
	"records": func(s *script, a *args) { // how many there are in a key space
		space := a.text("space")
		a.end()
		n := 0
		s.core.Storage().Scan([]byte(space), []byte{space[0] + 1}, false, func(_, _ []byte) bool {
			n++
			return true
		})
		s.printf("%d", n)
	},
	"progress": showProgress,
	"batch":    showBatch,
	"batches":  showBatches,
}

var kindNames = [...]string{
	job.Invalid: "Invalid", job.NotFound: "NotFound", job.Duplicate: "Duplicate", job.Exists: "Exists",
	job.NotLeased: "NotLeased", job.NotOwner: "NotOwner", job.Finished: "Finished", job.BadState: "BadState",
	job.Full: "Full", job.Busy: "Busy", job.Waiting: "Waiting", job.Timeout: "Timeout", job.Canceled: "Canceled",
	job.TooLarge: "TooLarge", job.NoSpace: "NoSpace", job.Draining: "Draining", job.Internal: "Internal",
	job.Locked: "Locked", job.ManyQueues: "ManyQueues", job.Overloaded: "Overloaded", job.Lapsing: "Lapsing",
}

// counting are the verbs that answer a count, even of zero.
var counting = []string{
	"kick", "respawn", "cancel", "return-holder", "release-all", "purge", "remove", "flush",
	"return", "drop-value", "report",
}

// show prints an answer.
func (s *script) show(prefix, verb string, r *job.Result) {
	switch {
	case r.Err != nil && verb == "atomic":
		s.printf("%s%s at %d", prefix, kindNames[r.Err.Kind], r.Err.Index)
		return
	case r.Err != nil:
		s.printf("%s%s", prefix, kindNames[r.Err.Kind])
		return
	case r.ID != 0:
		serial := ""
		if r.Serial != 0 {
			serial = fmt.Sprintf(" serial=%d", r.Serial)
		}
		s.printf("%s#%d %v%s", prefix, r.ID, r.State, serial)
	case r.Batch != 0:
		s.printf("%sbatch %d", prefix, r.Batch)
	case len(r.IDs) > 0:
		s.printf("%spushed %v", prefix, r.IDs)
	case slices.Contains(counting, verb):
		s.printf("%scount=%d", prefix, r.Count)
	case len(r.Jobs) == 0:
		s.printf("%sok", prefix)
	}
	for i := range r.Jobs {
		s.readyAt = r.Jobs[i].ReadyAt
		s.printf("%s%s", prefix, s.describe(&r.Jobs[i]))
	}
}

func (s *script) at(t job.Time) string {
	switch t {
	case 0:
		return "0"
	case job.Never:
		return "never"
	}
	return fmt.Sprintf("@%v", t.Sub(start))
}

var (
	failureNames = [...]string{
		job.FailedByWorker: "worker", job.FailedByLapse: "lapse", job.FailedByEnd: "end",
		job.FailedByBlocker: "blocker",
	}
	endNames = [...]string{job.EndKeep: "keep", job.EndRelease: "release", job.EndFail: "fail"}
)

// describe shows a job by what is remarkable about it.
func (s *script) describe(j *job.Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s %v", j.ID, j.Queue, j.State)
	add := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	if j.Namespace != namespace {
		add(true, "ns=%s", j.Namespace)
	}
	add(j.Key != "", "key=%s", j.Key)
	add(j.Type != "", "type=%s", j.Type)
	add(j.Group != "", "group=%s", j.Group)
	add(j.Flags.Has(job.FlagSerial), "serial=%d", j.Serial)
	add(len(j.Body) > 0, "body=%s", j.Body)
	add(len(j.Extra) > 0, "extra=%s", j.Extra)
	add(j.Policy.Priority != 0, "pri=%d", j.Policy.Priority)
	add(j.Attempts != 0, "attempts=%d", j.Attempts)
	add(j.Fails != 0, "fails=%d", j.Fails)
	add(j.Buries != 0, "buries=%d", j.Buries)
	add(j.Lapses != 0, "lapses=%d", j.Lapses)
	add(j.Releases != 0, "releases=%d", j.Releases)
	add(j.Kicks != 0, "kicks=%d", j.Kicks)
	add(j.Flags.Has(job.FlagBuriedLast), "last")
	add(j.RunAt != 0, "runat=%s", s.at(j.RunAt))
	add(j.Policy.ExpireAt != 0, "expires=%s", s.at(j.Policy.ExpireAt))
	add(j.Policy.DeadFor != 0, "deadfor=%v", j.Policy.DeadFor)
	add(j.Policy.MaxAttempts != 0, "max=%d", j.Policy.MaxAttempts)
	if j.State == job.Leased {
		add(j.Lease.Until != 0, "until=%s", s.at(j.Lease.Until))
		add(j.Lease.Holder.Num != 0, "holder=h%d", j.Lease.Holder.Num)
		add(j.Lease.Exclusive, "exclusive")
		add(j.Lease.OnEnd != job.EndKeep, "end=%s", endNames[j.Lease.OnEnd])
	}
	add(j.Lock != "", "lock=%s", j.Lock)
	add(j.Batch != 0, "batch=%d", j.Batch)
	add(j.Flags.Has(job.FlagTried), "tried")
	add(j.Flags.Has(job.FlagOnComplete), "on-complete")
	add(j.Flags.Has(job.FlagOnSuccess), "on-success")
	add(j.Flags.Has(job.FlagTracked), "tracked")
	add(len(j.Blockers) > 0, "after=%v", j.Blockers)
	add(j.Timer != 0, "timer=%s", s.at(j.Timer))
	add(j.Fingerprint != job.Digest{}, "like=%s", bytes.TrimRight(j.Fingerprint[:], "\x00"))
	add(len(j.Result) > 0, "result=%s", j.Result)
	for _, f := range j.Failures {
		add(true, "failure=%s%s", failureNames[f.Kind], s.at(f.At))
		add(f.Type != "" || f.Message != "", "(%s:%s)", f.Type, f.Message)
	}
	return b.String()
}

func showJob(s *script, a *args) {
	ref := a.ref()
	order := a.flag("order")
	since := a.flag("since")
	a.end()
	j, err := s.query().Get(ref)
	if err != nil {
		s.printf("%v", err)
		return
	}
	line := s.describe(&j)
	if order {
		o := j.Order
		line += fmt.Sprintf(" rank=%d pri=%d at=%s seq=%d first=%d", o.Rank, o.Priority, s.at(o.At), o.Seq, o.First)
	}
	if since {
		line += " since=" + s.at(j.Since)
	}
	s.printf("%s", line)
}

// showList shows the ids of a list in order; tombstones as crosses.
func showList(s *script, a *args) {
	o := engine.ListOptions{Namespace: a.namespace(), Queue: a.text("q"), State: a.state("state")}
	a.end()
	p, err := s.query().List(o)
	if err != nil {
		s.printf("%v", err)
		return
	}
	ids := make([]string, len(p.Jobs))
	for i := range p.Jobs {
		ids[i] = fmt.Sprintf("#%d", p.Jobs[i].ID)
		if p.Jobs[i].Flags.Has(job.FlagTombstone) {
			ids[i] = "x"
		}
	}
	s.printf("[%s]", strings.Join(ids, " "))
}

func showQueue(s *script, a *args) {
	ns, name := a.namespace(), a.text("q")
	a.end()
	q, ok, err := s.query().Queue(ns, name)
	if err == nil && ok {
		err = s.query().OldestReady(&q)
	}
	if err != nil {
		s.fatalf("queue: %v", err)
	}
	if !ok {
		s.printf("no such queue")
		return
	}
	s.printf("%s", s.describeQueue(&q))
}

func (s *script) describeQueue(q *job.QueueInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s", q.Namespace, q.Name)
	for st := job.Scheduled; int(st) < job.StateCount; st++ {
		if n := q.Counts[st]; n > 0 {
			fmt.Fprintf(&b, " %v=%d", st, n)
		}
	}
	if q.Paused {
		b.WriteString(" paused")
	}
	if q.PausedUntil != 0 {
		b.WriteString(" until=" + s.at(q.PausedUntil))
	}
	if q.Configured {
		b.WriteString(" configured")
	}
	if q.Hidden {
		b.WriteString(" hidden")
	}
	if q.Settings.Capacity > 0 {
		fmt.Fprintf(&b, " capacity=%d", q.Settings.Capacity)
	}
	if q.Settings.Serials {
		b.WriteString(" serials")
	}
	if len(q.Settings.Attrs) > 0 {
		fmt.Fprintf(&b, " attrs=%s", q.Settings.Attrs)
	}
	if q.OldestReady != 0 {
		b.WriteString(" oldest=" + s.at(q.OldestReady))
	}
	return b.String()
}

func showQueues(s *script, a *args) {
	ns := a.namespace()
	a.end()
	qs, err := s.query().Queues(ns, "", 0)
	if err != nil {
		s.fatalf("queues: %v", err)
	}
	names := make([]string, len(qs))
	for i := range qs {
		names[i] = qs[i].Name
	}
	s.printf("[%s]", strings.Join(names, " "))
}

// showTotals shows the lifetime counters that are not zero.
func showTotals(s *script, a *args) {
	ns, name := a.namespace(), a.text("q")
	a.end()
	q, _, err := s.query().Queue(ns, name)
	if err != nil {
		s.fatalf("queue: %v", err)
	}
	var words []string
	for c, n := range q.Totals {
		if n > 0 {
			words = append(words, fmt.Sprintf("%v=%d", job.Counter(c), n))
		}
	}
	s.printf("%s", strings.Join(words, " "))
}
