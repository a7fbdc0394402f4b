package top

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/internal/api"
	"millrace/internal/job"
)

// number shows a count in at most six characters.
func number(n float64) string {
	switch {
	case n < 0.05:
		return "0"
	case n < 9.95 && n != float64(int(n)):
		return strconv.FormatFloat(n, 'f', 1, 64)
	case n < 1e5:
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	for _, u := range []string{"k", "M", "G"} {
		if n /= 1000; n < 1e4 {
			digits := 0
			if n < 1000 {
				digits = 1
			}
			return strconv.FormatFloat(n, 'f', digits, 64) + u
		}
	}
	return strconv.FormatFloat(n/1000, 'f', 0, 64) + "T"
}

// span shows a time in at most six characters.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < 100*time.Second:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 100*time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 2*day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 100*day:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// count returns how many jobs of a queue are in one of some states.
func count(q *api.Queue, states ...job.State) (n uint64) {
	for _, s := range states {
		n += q.Counts[s.Name()]
	}
	return n
}

// counted is a column of jobs in some states, most first.
func counted(title string, states ...job.State) column[api.Queue] {
	return column[api.Queue]{
		title: title, width: 6, right: true,
		cell: func(q *api.Queue, _ time.Time) string { return number(float64(count(q, states...))) },
		less: func(a, b *api.Queue) int { return cmp.Compare(count(b, states...), count(a, states...)) },
	}
}

// rated is a column of what happens in a second, most first.
func rated(title string, width, from int, rate func(*api.Rates) float64) column[api.Queue] {
	return column[api.Queue]{
		title: title, width: width, right: true, from: from,
		cell: func(q *api.Queue, _ time.Time) string { return number(rate(&q.Rates)) },
		less: func(a, b *api.Queue) int { return cmp.Compare(rate(&b.Rates), rate(&a.Rates)) },
	}
}

func oldest(q *api.Queue) float64 {
	if q.OldestReadySeconds == nil {
		return -1
	}
	return *q.OldestReadySeconds
}

// queueTable returns the table of queues. Those whose jobs wait longest come first.
func queueTable() table[api.Queue] {
	t := table[api.Queue]{columns: []column[api.Queue]{
		{
			title: "QUEUE",
			cell: func(q *api.Queue, _ time.Time) string {
				if q.Paused {
					return queueName(q.Namespace, q.Name) + " (paused)"
				}
				return queueName(q.Namespace, q.Name)
			},
			less: func(a, b *api.Queue) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			},
		},
		counted("READY", job.Ready),
		counted("RUN", job.Leased),
		counted("SCHED", job.Scheduled, job.Blocked),
		counted("RETRY", job.Retrying),
		counted("DEAD", job.Dead, job.Failed, job.Buried),
		rated("PUSH/S", 7, 0, func(r *api.Rates) float64 { return r.Pushed }),
		rated("ACK/S", 6, 0, func(r *api.Rates) float64 { return r.Acked }),
		rated("FETCH/S", 8, 100, func(r *api.Rates) float64 { return r.Fetched }),
		rated("FAIL/S", 7, 100, func(r *api.Rates) float64 { return r.Failed }),
		{
			title: "OLDEST", width: 7, right: true,
			cell: func(q *api.Queue, _ time.Time) string {
				if q.OldestReadySeconds == nil {
					return "-"
				}
				return span(seconds(*q.OldestReadySeconds))
			},
			less: func(a, b *api.Queue) int { return cmp.Compare(oldest(b), oldest(a)) },
		},
	}}
	t.by = len(t.columns) - 1
	return t
}

// queueName shows a queue. The namespace that everybody has is left out.
func queueName(namespace, name string) string {
	if namespace == namespaceDefault {
		return name
	}
	return namespace + "/" + name
}

const namespaceDefault = "default"

// ago returns how long ago something was; without a time nothing was.
func ago(t *time.Time, now time.Time) time.Duration {
	if t == nil {
		return 0
	}
	return now.Sub(*t)
}

func earlier(a, b *time.Time) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(boolInt(a == nil), boolInt(b == nil))
	default:
		return a.Compare(*b)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func jobQueue(j *api.JobRow, _ time.Time) string { return queueName(j.Namespace, j.Queue) }

// jobName shows what the client calls the job, if it does.
func jobName(j *api.JobRow, _ time.Time) string {
	if j.Key != "" {
		return j.Key
	}
	return strconv.FormatUint(uint64(j.ID), 10)
}

func lastError(j *api.JobRow, _ time.Time) string {
	e := j.LastError
	switch {
	case e == nil:
		return ""
	case e.Type == "" && e.Message == "":
		return "(" + e.Kind + ")"
	case e.Type == "":
		return e.Message
	default:
		return strings.TrimSuffix(e.Type+": "+e.Message, ": ")
	}
}

func worker(j *api.JobRow, _ time.Time) string {
	if j.Lease == nil {
		return ""
	}
	if j.Lease.Worker != "" {
		return j.Lease.FetchedBy + " " + j.Lease.Worker
	}
	return j.Lease.FetchedBy
}

// text is a column that sorts by what it shows.
func text(title string, width, wide int, cell func(*api.JobRow, time.Time) string) column[api.JobRow] {
	return column[api.JobRow]{
		title: title, width: width, wide: wide, cell: cell,
		less: func(a, b *api.JobRow) int { return cmp.Compare(cell(a, time.Time{}), cell(b, time.Time{})) },
	}
}

// jobTable returns the table of the jobs of a page. Those that are in their state longest come first.
func jobTable(p page) table[api.JobRow] {
	since := column[api.JobRow]{
		title: "SINCE", width: 7, right: true,
		cell: func(j *api.JobRow, now time.Time) string { return span(ago(j.Since, now)) },
		less: func(a, b *api.JobRow) int { return earlier(a.Since, b.Since) },
	}
	fails := column[api.JobRow]{
		title: "FAILS", width: 6, right: true,
		cell: func(j *api.JobRow, _ time.Time) string { return strconv.FormatUint(uint64(j.Fails), 10) },
		less: func(a, b *api.JobRow) int { return cmp.Compare(b.Fails, a.Fails) },
	}
	columns := []column[api.JobRow]{
		text("QUEUE", 14, 20, jobQueue), text("JOB", 12, 26, jobName),
		text("TYPE", 12, 20, func(j *api.JobRow, _ time.Time) string { return j.Type }),
	}
	switch p {
	case pageQueues, pageRunning:
		columns = append(columns, since, column[api.JobRow]{
			title: "LEFT", width: 7, right: true,
			cell: func(j *api.JobRow, _ time.Time) string {
				if j.Lease == nil || j.Lease.LeftSeconds == nil {
					return "-"
				}
				return span(seconds(*j.Lease.LeftSeconds))
			},
			less: func(a, b *api.JobRow) int { return earlier(until(a), until(b)) },
		}, text("WORKER", 0, 0, worker))
	case pageRetrying:
		columns = append(columns, column[api.JobRow]{
			title: "IN", width: 7, right: true,
			cell: func(j *api.JobRow, now time.Time) string { return span(-ago(j.RunAt, now)) },
			less: func(a, b *api.JobRow) int { return earlier(a.RunAt, b.RunAt) },
		}, fails, text("ERROR", 0, 0, lastError))
	case pageDead:
		columns = append(columns, since, fails, text("ERROR", 0, 0, lastError))
	}
	return table[api.JobRow]{columns: columns, by: 3}
}

func until(j *api.JobRow) *time.Time {
	if j.Lease == nil {
		return nil
	}
	return j.Lease.Until
}
