package metrics

import (
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/engine"
	"millrace/internal/job"
)

// jobTotal is a counter of queues and its name.
type jobTotal struct {
	counter job.Counter
	desc    *prometheus.Desc
}

func total(c job.Counter, name, help string) jobTotal {
	help += " Since the start, by the protocol that did it: internal is what the server did by itself, such as " +
		"lapses and expiries."
	return jobTotal{c, desc("jobs_"+name+"_total", help, "protocol", "namespace", "queue")}
}

// jobTotals are the counters of a queue, from when the server was started.
var jobTotals = []jobTotal{
	total(job.CountPushed, "pushed", "Jobs accepted."),
	total(job.CountFetched, "fetched", "Deliveries of jobs."),
	total(job.CountAcked, "acked", "Jobs that succeeded."),
	total(job.CountFailed, "failed", "Failures of jobs, lapses that count as one included."),
	total(job.CountRetried, "retried", "Failures after which the job is to be tried again."),
	total(job.CountDied, "dead", "Jobs that have used up their attempts or were killed."),
	total(job.CountCancelled, "cancelled", "Jobs deleted, purged or withdrawn before they were finished or dead."),
	total(job.CountExpired, "expired", "Jobs that ended unserved by their expiry."),
	total(job.CountLapsed, "lapsed", "Leases that lapsed."),
	total(job.CountReleased, "released", "Jobs given back by their holder."),
	total(job.CountReturned, "returned", "Deliveries that did not reach their caller."),
	total(job.CountEnded, "ended", "Jobs released or failed by the end of their holder."),
	total(job.CountRestarted, "restarted", "Jobs released by a start of the server; they count as ended, too."),
	total(job.CountBuried, "buried", "Jobs set aside."),
	total(job.CountKicked, "kicked", "Buried jobs made ready again."),
	total(job.CountDeleted, "deleted", "Jobs removed by a command, in any state."),
	total(job.CountDue, "due", "Schedules and back-offs that ended."),
	total(job.CountTouched, "touched", "Leases made longer."),
	total(job.CountMoved, "moved", "Jobs moved to another queue."),
}

var (
	descQueueJobs = desc("queue_jobs", "Jobs by state.", "namespace", "queue", "state")
	descOldest    = desc("queue_oldest_ready_seconds", "How long the first ready job has been ready; 0 if none is.",
		"namespace", "queue")
	descPaused = desc("queue_paused", "Whether fetches from the queue are stopped.", "namespace", "queue")
	descSlots  = desc("queue_slots", "Jobs that may run at a time; only of queues that limit it.", "namespace",
		"queue")
	descSlotsUsed = desc("queue_slots_used",
		"Jobs that run and count for the limits of the queue; only of queues that have limits.", "namespace", "queue")
	descHeld = desc("queue_limited_jobs",
		"Ready jobs that wait because of a limit; only of queues that have limits.", "namespace", "queue")
	descQueues = desc("queues", "Queues there are.")
)

// Queues returns the queues that have figures of their own, which are those that were made first, and the sums of all.
func Queues(e *engine.Engine, most int) (own []job.QueueInfo, all job.Sums, err error) {
	err = e.Read(func(v *engine.View) error {
		own, err = v.FirstQueues(most)
		for i := 0; i < len(own) && err == nil; i++ {
			err = v.OldestReady(&own[i])
		}
		return err
	})
	if err == nil {
		all, err = e.Sums("")
	}
	return own, all, err
}

// Latency returns for how many seconds the first ready job of a queue has been ready; 0 if none is.
func Latency(e *engine.Engine, q *job.QueueInfo) float64 {
	if q.OldestReady == 0 {
		return 0
	}
	return max(0, e.Now().Sub(q.OldestReady).Seconds())
}

// queues tells about the queues that were made first, so that a series does not come and go, and about all others
// together. The engine knows the sums: however many there are, no more than those are read.
func (c *collector) queues(ch chan<- prometheus.Metric) {
	own, all, err := Queues(c.Engine, c.QueuesMax)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descQueues, err)
		return
	}
	ch <- prometheus.MustNewConstMetric(descQueues, prometheus.GaugeValue, float64(all.Queues))
	other := job.QueueInfo{Namespace: Other, Name: Other, Counts: all.Counts}
	for i := range own {
		c.queue(ch, &own[i])
		less(&other, &own[i])
	}
	if len(own) >= c.QueuesMax && all.Queues > uint64(len(own)) {
		c.queue(ch, &other)
	}
	c.jobs(ch, own)
}

// jobs tells what has happened to jobs and how long they took. The engine decides which queues have figures of their
// own: those that were used first since its start, of which there are as many. Known queues to which nothing has
// happened yet have zeros, so that their first increase is seen.
func (c *collector) jobs(ch chan<- prometheus.Metric, known []job.QueueInfo) {
	type place struct {
		namespace, queue string
		door             job.Door
	}
	told := map[place]bool{}
	tell := func(q *engine.QueueFigures) {
		namespace, queue := label(q.Namespace), label(q.Queue)
		if q.Others {
			namespace, queue = Other, Other
		}
		protocol := c.protocol(q.Door)
		for _, t := range jobTotals {
			ch <- prometheus.MustNewConstMetric(t.desc, prometheus.CounterValue, float64(q.Counts[t.counter]), protocol,
				namespace, queue)
		}
		for i := range q.Types {
			t := &q.Types[i]
			typ := label(t.Type)
			if t.Others {
				typ = Other
			}
			ch <- durations(descWait, &t.Wait, jobPowers, namespace, queue, typ, protocol)
			ch <- durations(descRun, &t.Run, jobPowers, namespace, queue, typ, protocol)
		}
	}
	room := c.Engine.EachQueueFigures(func(q *engine.QueueFigures) {
		told[place{q.Namespace, q.Queue, q.Door}] = true
		tell(q)
	})
	for i := range known {
		q := &known[i]
		for door := range job.Door(engine.DoorCount) {
			if room && (door == 0 || q.Doors.Has(door)) && !told[place{q.Namespace, q.Name, door}] {
				tell(&engine.QueueFigures{Namespace: q.Namespace, Queue: q.Name, Door: door})
			}
		}
	}
}

// less takes the counts of a queue from those of all. They are read one after the other: what leaves a queue in
// between must not make others have less than nothing.
func less(from, q *job.QueueInfo) {
	for i, n := range q.Counts {
		from.Counts[i] -= min(n, from.Counts[i])
	}
}

// label makes a label of a name, which may be any bytes: labels are UTF-8.
func label(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.QuoteToASCII(name)
}

// queue tells everything about one queue.
func (c *collector) queue(ch chan<- prometheus.Metric, q *job.QueueInfo) {
	namespace, name := label(q.Namespace), label(q.Name)
	for s := job.Scheduled; int(s) < job.StateCount; s++ {
		ch <- prometheus.MustNewConstMetric(descQueueJobs, prometheus.GaugeValue, float64(q.Counts[s]), namespace, name,
			s.Name())
	}
	if q.Name == Other && q.Namespace == Other {
		return // an age or a pause of several queues means nothing
	}
	ch <- prometheus.MustNewConstMetric(descOldest, prometheus.GaugeValue, Latency(c.Engine, q), namespace, name)
	ch <- prometheus.MustNewConstMetric(descPaused, prometheus.GaugeValue, boolean(q.Paused), namespace, name)
	if !q.Limits.IsZero() {
		c.limits(ch, q)
	}
}

// limits tells how far the limits of a queue are used.
func (c *collector) limits(ch chan<- prometheus.Metric, q *job.QueueInfo) {
	u, err := c.Engine.Usage(q.Namespace, q.Name)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descHeld, err)
		return
	}
	tell := func(d *prometheus.Desc, n uint64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), label(q.Namespace), label(q.Name))
	}
	if q.Limits.Concurrency > 0 {
		tell(descSlots, uint64(q.Limits.Concurrency))
	}
	tell(descSlotsUsed, u.Slots)
	tell(descHeld, u.Held)
}
