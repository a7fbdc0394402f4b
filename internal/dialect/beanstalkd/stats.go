package beanstalkd

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"millrace/internal/dialect"
	"millrace/internal/engine"
	"millrace/internal/job"
)

// compatVersion is the version of the original whose behaviour this is. Clients parse it.
const compatVersion = "1.13"

// urgentBelow is from which priority on a job is not urgent any more, urgentLooks how many ready jobs one reply looks
// at to count those that are: their number is not kept.
const (
	urgentBelow = 1024
	urgentLooks = 10_000
)

// runRead runs one of the commands that read.
func (c *conn) runRead() {
	if c.req.verb == verbStats || c.req.verb == verbListTubes {
		defer c.TakeAlone()()
	}
	if err := c.d.opts.Engine.Read(c.readFrom); err != nil {
		c.fail(refusal(c.d.ReadFailed(err)))
	}
}

func (c *conn) readFrom(v *engine.View) error {
	r := &c.req
	switch r.verb { //nolint:exhaustive // command has chosen
	case verbPeek, verbStatsJob:
		j, err := c.d.get(v, r.id)
		if err != nil {
			return err
		}
		if r.verb == verbPeek {
			c.found(&j)
		} else {
			c.data(statsJob(&j, c.d.opts.Engine.Now()))
		}
	case verbPeekReady:
		return c.peek(v, job.Ready)
	case verbPeekDelayed:
		return c.peek(v, job.Scheduled, job.Retrying)
	case verbPeekBuried:
		return c.peek(v, job.Buried)
	case verbStatsTube:
		y, err := c.d.statsTube(v, c.names.String(r.tube))
		if err != nil {
			return err
		}
		c.data(y)
	case verbStats:
		y, err := c.d.stats(v)
		if err != nil {
			return err
		}
		c.data(y)
	case verbListTubes:
		names, err := c.d.list(v)
		if err != nil {
			return err
		}
		c.data(listOf(names))
	case verbListTubesWatched:
		c.data(listOf(c.queues))
	}
	return nil
}

func (c *conn) found(j *job.Job) { c.SetOut(appendJob(append(c.Out(), "FOUND "...), j)) }

func (c *conn) data(y yaml) { c.SetOut(appendData(append(c.Out(), "OK "...), y)) }

func listOf(names []string) yaml {
	y := newYAML()
	for _, name := range names {
		y.item(name)
	}
	return y
}

// get returns a job that clients can see.
func (d *Dialect) get(v *engine.View, id uint64) (job.Job, error) {
	j, err := v.Get(refOf(d.opts.Namespace, id))
	if err == nil && !visible.Allow(j.State) {
		err = job.ErrNotFound
	}
	return j, err
}

// peek answers the first job of the used tube in one of the states; of several the first to be due.
func (c *conn) peek(v *engine.View, states ...job.State) error {
	var first *job.Job
	for _, s := range states {
		p, err := v.List(engine.ListOptions{
			Namespace: c.d.opts.Namespace, Queue: c.used.name, State: s,
			Limit: 1, Bodies: true,
		})
		if err != nil {
			return err
		}
		if len(p.Jobs) > 0 && (first == nil || p.Jobs[0].RunAt < first.RunAt) {
			first = &p.Jobs[0]
		}
	}
	if first == nil {
		return job.ErrNotFound
	}
	c.found(first)
	return nil
}

// stateName is what a state is called.
func stateName(s job.State) string {
	switch s {
	case job.Ready:
		return "ready"
	case job.Leased:
		return "reserved"
	case job.Buried, job.Dead:
		return "buried"
	case job.Scheduled, job.Blocked, job.Retrying, job.Done, job.Failed:
	}
	return "delayed"
}

// shownPriority is the priority of a job that may come from elsewhere.
func shownPriority(p int64) uint64 { return uint64(min(max(-p, 0), 1<<32-1)) }

func statsJob(j *job.Job, now job.Time) yaml {
	var left time.Duration
	switch j.State {
	case job.Leased:
		if j.Lease.Until != 0 {
			left = j.Lease.Until.Sub(now)
		}
	case job.Scheduled, job.Retrying:
		left = j.RunAt.Sub(now)
	case job.Ready, job.Blocked, job.Buried, job.Done, job.Failed, job.Dead:
	}
	y := newYAML()
	y.uint("id", shownID(j))
	y.text("tube", j.Queue)
	y.word("state", stateName(j.State))
	y.uint("pri", shownPriority(j.Policy.Priority))
	y.count("age", whole(now.Sub(j.Created)))
	y.count("delay", whole(j.Delay))
	y.count("ttr", whole(j.Policy.Lease))
	y.count("time-left", whole(left))
	y.uint("file", 0)
	y.uint("reserves", uint64(j.Attempts))
	y.uint("timeouts", uint64(j.Lapses))
	y.uint("releases", uint64(j.Releases))
	y.uint("buries", uint64(j.Buries))
	y.uint("kicks", uint64(j.Kicks))
	return y
}

func whole(d time.Duration) int64 { return int64(d / time.Second) }

// there reports whether a tube is one, going by its queue alone: it has jobs that clients can see, or is paused.
func there(q *job.QueueInfo) bool {
	n := uint64(0)
	for s, count := range q.Counts {
		if s > 0 && visible.Allow(job.State(s)) {
			n += count
		}
	}
	return (n > 0 || q.Paused) && !q.Hidden && isTube(q.Name)
}

// exists reports whether a tube is there: somebody uses or watches it, or its queue says so.
func (d *Dialect) exists(name string) (bool, error) {
	if _, ok := d.tubes.look(name); ok || name == defaultTube {
		return true, nil
	}
	q, ok, err := d.opts.Engine.Queue(d.opts.Namespace, name)
	return ok && there(&q), err
}

// list returns the names of the tubes, sorted.
func (d *Dialect) list(v *engine.View) ([]string, error) {
	names := append(d.tubes.names(), defaultTube)
	_, _, err := dialect.EachShown(v, d.opts.Namespace, func(q *job.QueueInfo) {
		if there(q) {
			names = append(names, q.Name)
		}
	})
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), dialect.QueuesShown)], err
}

// current appends how many jobs there are.
func (y *yaml) current(urgent uint64, n *[job.StateCount]uint64) {
	y.uint("current-jobs-urgent", urgent)
	y.uint("current-jobs-ready", n[job.Ready])
	y.uint("current-jobs-reserved", n[job.Leased])
	y.uint("current-jobs-delayed", n[job.Scheduled]+n[job.Retrying]+n[job.Blocked])
	y.uint("current-jobs-buried", n[job.Buried]+n[job.Dead])
}

func (d *Dialect) statsTube(v *engine.View, name string) (yaml, error) {
	q, _, err := v.Queue(d.opts.Namespace, name)
	if err != nil {
		return nil, err
	}
	c, ok := d.tubes.look(name)
	if !ok && name != defaultTube && !there(&q) {
		return nil, job.ErrNoQueue
	}
	urgent, _, err := v.ReadyAbove(&q, priority(urgentBelow), urgentLooks)
	if err != nil {
		return nil, err
	}
	y := newYAML()
	y.text("name", name)
	y.current(urgent, &q.Counts)
	y.uint("total-jobs", q.Totals[job.CountPushed])
	y.count("current-using", c.using)
	y.count("current-watching", c.watching)
	y.count("current-waiting", c.waiting)
	y.uint("cmd-delete", q.Totals[job.CountAcked]+q.Totals[job.CountDeleted])
	y.uint("cmd-pause-tube", q.Totals[job.CountPaused])
	pause, left := pauseOf(&q, d.opts.Engine.Now())
	y.count("pause", pause)
	y.count("pause-time-left", left)
	return y, nil
}

// pauseOf returns how long a tube is paused in all and from now on, in seconds. A pause without an end, which only an
// operator makes, is as long as a pause can be.
func pauseOf(q *job.QueueInfo, now job.Time) (all, left int64) {
	const longest = 1<<32 - 1
	switch {
	case !q.Paused:
		return 0, 0
	case q.PausedUntil == 0:
		return longest, longest
	}
	left = whole(q.PausedUntil.Sub(now))
	if q.PausedAt == 0 {
		return left, left
	}
	return whole(q.PausedUntil.Sub(q.PausedAt)), left
}

// statVerbs are the commands that stats counts, in its order.
var statVerbs = []verb{
	verbPut, verbPeek, verbPeekReady, verbPeekDelayed, verbPeekBuried, verbReserve, verbReserveTimeout, verbDelete,
	verbRelease, verbUse,
	verbWatch, verbIgnore, verbBury, verbKick, verbTouch, verbStats, verbStatsJob, verbStatsTube, verbListTubes,
	verbListTubeUsed,
	verbListTubesWatched, verbPauseTube,
}

func (d *Dialect) stats(v *engine.View) (yaml, error) {
	sums, err := d.opts.Engine.Sums(d.opts.Namespace)
	if err != nil {
		return nil, err
	}
	urgent, looks := uint64(0), urgentLooks
	names := append(d.tubes.names(), defaultTube)
	var inner error
	_, _, err = dialect.EachShown(v, d.opts.Namespace, func(q *job.QueueInfo) {
		if there(q) {
			names = append(names, q.Name)
		}
		if inner == nil && looks > 0 {
			var n uint64
			var looked int
			n, looked, inner = v.ReadyAbove(q, priority(urgentBelow), looks)
			urgent, looks = urgent+n, looks-looked
		}
	})
	if err = errors.Join(err, inner); err != nil {
		return nil, err
	}
	slices.Sort(names)
	user, system := usage()
	conns := d.Stats()
	y := newYAML()
	y.current(urgent, &sums.Counts)
	for _, v := range statVerbs {
		y.uint("cmd-"+verbNames[v], d.asked[v].Load())
	}
	y.uint("job-timeouts", sums.Totals[job.CountLapsed])
	y.uint("total-jobs", sums.Totals[job.CountPushed])
	y.count("max-job-size", int64(d.opts.MaxJob))
	y.count("current-tubes", int64(len(slices.Compact(names))))
	y.count("current-connections", conns.Open)
	y.count("current-producers", d.producers.Load())
	y.count("current-workers", d.workers.Load())
	y.count("current-waiting", d.waiting.Load())
	y.count("total-connections", conns.Total)
	y.count("pid", int64(os.Getpid()))
	y.text("version", compatVersion)
	y.word("rusage-utime", user)
	y.word("rusage-stime", system)
	y.count("uptime", whole(time.Since(d.started)))
	for _, name := range []string{"oldest-index", "current-index", "records-migrated", "records-written", "max-size"} {
		y.uint("binlog-"+name, 0) // there is no such log
	}
	y.word("draining", "false") // a server that is stopping answers no stats
	y.word("id", d.id)
	y.text("hostname", d.host)
	y.text("os", runtime.GOOS)
	y.text("platform", runtime.GOARCH)
	return y, nil
}
